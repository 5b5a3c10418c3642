//! How a site is cut, and how large one can be.

use bytesize::ByteSize;
use fogbank_durable::shared::SiteParameters;

use crate::error::{Error, Result};
use crate::volume::VolumeShape;

/// How a site is made, where its maker says nothing else.
const USUAL: SiteParameters = SiteParameters {
    blocks: 0,
    block_bytes: 0,
    epoch: 256,
    growth: 2,
    draw: 8,
    piece: 0,
    kept_epochs: 64,
    public_ms: 1_000,
    quantum_us: 1_000,
    has_image: false,
};

/// Bytes of the log that a server keeps in memory, at most, with room to spare.
const LOG_BYTES: u64 = 128 << 20;
/// Beside a block, of an entry and of a result.
const PLACE_BYTES: u64 = 700;
/// R, at most and at least: a client that is away for longer has to be started again.
const KEPT_EPOCHS: [u64; 2] = [8, 64];
/// What a client knows of where blocks lie takes 51 bytes a block: 204 MiB for the largest site.
const BLOCKS_MAX: u64 = 1 << 22;
/// A piece has no fewer slots than so many times the root of those that the bottom has at least, or
/// most of what is dealt would be padding.
const PIECE_ROOTS: u64 = 32;
/// Bytes of a table that a builder has before it at once, about.
const PIECE_BYTES: u64 = 128 << 20;
/// And at most: a builder holds one of each level.
const PIECE_BYTES_MAX: u64 = 512 << 20;
/// Blocks above it have shorter epochs, so that the log keeps enough of them.
const LARGE_BLOCK: u64 = 16 << 10;
/// Blocks have at most so many bytes, or the log could not keep enough epochs.
const LARGEST_BLOCK_LOG: u32 = 15;

/// The parameters of a site of such a size and such blocks.
///
/// # Errors
/// [`Error::Usage`] if there is no such site.
pub fn parameters_of(size: u64, block: u64) -> Result<SiteParameters> {
    let VolumeShape { blocks, block_bytes } = VolumeShape::new(size, block)?;
    let epoch = if block > LARGE_BLOCK { USUAL.epoch / 2 } else { USUAL.epoch };
    let [least, most] = KEPT_EPOCHS;
    let kept = LOG_BYTES / (u64::from(epoch) * (2 * block + PLACE_BYTES));
    if kept < least {
        return Err(Error::Usage(format!(
            "--block {block}: every query takes an entry and a result of a block to all clients; \
             blocks of a site have at most 32KiB"
        )));
    }
    if u64::from(blocks) > blocks_max(block) {
        return Err(too_large(size, block));
    }
    let piece = (PIECE_BYTES / block).max(PIECE_ROOTS * (2 * u64::from(blocks)).isqrt());
    Ok(SiteParameters {
        blocks,
        block_bytes: block_bytes as u32,
        epoch,
        piece: piece.next_multiple_of(64) as u32,
        kept_epochs: kept.min(most) as u32,
        ..USUAL
    })
}

/// Blocks of such a size that a site can have: a client knows where each lies, and whoever builds
/// has pieces in memory.
fn blocks_max(block: u64) -> u64 {
    let root = PIECE_BYTES_MAX / (PIECE_ROOTS * block);
    BLOCKS_MAX.min(((root + 1) * (root + 1) - 1) / 2)
}

/// Says how large a site can be, and with which blocks it can be so large.
fn too_large(size: u64, block: u64) -> Error {
    let said = |bytes: u64| ByteSize::b(bytes).display().iec().to_string();
    let usual = || (9..=LARGEST_BLOCK_LOG).map(|log| 1 << log);
    let fits = |block: &u64| size <= block * blocks_max(*block);
    let fitting = usual().filter(fits).map(|block| format!("--block {block}"));
    let way_on = match fitting.collect::<Vec<_>>().join(" or ") {
        none if none.is_empty() => {
            let most = usual().map(|block| block * blocks_max(block)).max().unwrap_or_default();
            format!(
                "no site has more than {}, and a volume may (fogbank volume create)",
                said(most)
            )
        }
        blocks => format!("take {blocks}"),
    };
    Error::Usage(format!(
        "--size {size}: a site with blocks of {} has at most {}, for every client knows where each \
         block lies and builds tables in memory; {way_on}",
        said(block),
        said(block * blocks_max(block))
    ))
}

#[cfg(test)]
mod tests {
    use fogbank_oram::hierarchy::schedule_of;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Whatever is said to be too large, what is proposed in its place is not.
    #[test]
    fn what_is_proposed_for_a_size_that_is_refused_fits() {
        for log in 20..=38 {
            for size in [1 << log, 3 << (log - 1)] {
                for block in [512, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10] {
                    let Err(refused) = parameters_of(size, block) else { continue };
                    let words = refused.to_string();
                    let proposed: Vec<u64> = words
                        .split("take --block ")
                        .nth(1)
                        .into_iter()
                        .flat_map(|blocks| blocks.split(" or --block "))
                        .map(|block| block.parse().unwrap())
                        .collect();
                    assert!(proposed.iter().all(|block| parameters_of(size, *block).is_ok()));
                    let fits = size <= 16 << 30 || block > 32 << 10;
                    assert!(fits != (proposed.is_empty() && block <= 32 << 10), "{size}: {words}");
                }
            }
        }
    }

    #[test]
    fn what_a_log_or_memory_cannot_hold_is_refused() {
        let of = |size, block| parameters_of(size, block).unwrap();
        assert_eq!((of(MIB, 512).kept_epochs, of(MIB, 4096).kept_epochs), (64, 58));
        assert_eq!((of(MIB, 16 << 10).epoch, of(MIB, 32 << 10).epoch), (256, 128));
        assert!(of(MIB, 16 << 10).kept_epochs >= 8 && of(MIB, 32 << 10).kept_epochs >= 8);
        let largest = [(16 << 30, 4), (16 << 30, 8), (8 << 30, 16), (4 << 30, 32)];
        for (size, block) in
            largest.map(|(size, kib)| (size, kib << 10)).into_iter().chain([(MIB, 512)])
        {
            let parameters = of(size, block);
            schedule_of(&parameters).unwrap();
            assert!(u64::from(parameters.piece) * block <= PIECE_BYTES_MAX, "{parameters:?}");
            let more = parameters_of(size + 256 * MIB, block);
            assert!(size == MIB || matches!(more, Err(Error::Usage(_))), "{size} {block}");
        }
        for (size, block) in [(64 * MIB, 64 << 10), (128 << 30, 32 << 10)] {
            assert!(matches!(parameters_of(size, block), Err(Error::Usage(_))));
        }
    }
}
