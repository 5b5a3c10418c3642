//! What the user decides about a `multicloud` volume: fixed when it is created.

use std::time::Duration;

use fogbank_durable::{Piecing, VaultSettings};
use fogbank_mix::signed::PublicKey;
use fogbank_mix::{PARTITIONS_MAX, Shape};

use super::journal;
use crate::partition::Layout;
use crate::{Error, ImmediateShape, Result};

/// s: reads of a partition while a list of it is out, at most.
const SPARE: u16 = 16;
/// e: with 8 one access in a thousand finds a level that has borne its reads if a job lasts 0.3 s.
const EXTRA: u16 = 8;
/// R: with 32 the client's link carries some 2.5 blocks an access.
const REFRESH_EVERY: u16 = 32;
/// c0 at least: with fewer levels at the client more moves between the clouds than links carry.
const KEPT_LEVELS_MIN: u8 = 3;
/// And at most: as many as with blocks of 4 KiB send [`JOB_BYTES_MAX`].
const KEPT_LEVELS_MAX: u8 = 5;
/// What a job of the usual settings sends at once, 2^c0 blocks: reads wait for it on a thin link.
const JOB_BYTES_MAX: usize = 128 << 10;
/// Bytes of a top at most: it is one chunk, and `fogbank-cloud` keeps none that is longer.
const TOP_BYTES_MAX: usize = 64 << 20;
/// Blocks that a checkpoint has room for beside what stashes hold: of accesses under way, and of
/// jobs that take long.
const HELD_BACK: usize = 1 << 16;
/// Accesses under way.
const UNDER_WAY_MAX: usize = 1_024;
/// W: records of the journal under way. More of them are shorter, and cost a disk as much each.
pub(super) const RECORDS_AT_ONCE: u32 = 4;
/// About how long a record of the journal may become.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Settings of a volume in two clouds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticloudSettings {
    /// Blocks and their length.
    pub shape: ImmediateShape,
    /// Partitions and levels, as of `partition`.
    pub layout: Layout,
    /// s: dummies of a level for reads while a list of it is out.
    pub spare: u16,
    /// e: dummies of a level below the top beyond those that its evictions ask for.
    pub extra: u16,
    /// R: every so many rebuilds of the top one is a refresh.
    pub refresh_every: u16,
    /// Accesses from their departure to their end at most, those that wait to depart too: fewer of
    /// long blocks ([`MulticloudSettings::at_once`]).
    pub under_way_max: usize,
    /// Accesses from one checkpoint to the next.
    pub checkpoint_every: u64,
    /// By which the first and the second cloud sign, as noted when the volume was made. Usually
    /// nobody's: who opens a volume says them.
    pub signers: [PublicKey; 2],
    /// Whatever leaves does so at multiples of this; zero lets everything leave as soon as it can.
    pub quantum: Duration,
}

impl MulticloudSettings {
    /// The usual settings of a volume of this shape, of whose partitions `kept_levels` levels stay
    /// with the client. There are more partitions than of `partition` where a top would be too
    /// long.
    ///
    /// # Errors
    /// [`Error::Caller`] if there are no blocks, or so many, or such long ones, that no server
    /// takes the tops.
    pub fn new(shape: ImmediateShape, kept_levels: u8) -> Result<Self> {
        let usual = Layout::new(shape.capacity, kept_levels)?;
        let more = (0..).map(|times: u32| usual.partitions << times);
        let most = PARTITIONS_MAX.min(shape.capacity);
        let more = more.take_while(|partitions| *partitions <= most);
        let layouts = more.map(|partitions| Layout::of(shape.capacity, partitions, kept_levels));
        let mut settings = layouts.flatten().map(|layout| Self::of(shape, layout));
        let settings = settings.find(|settings| settings.top_bytes() <= TOP_BYTES_MAX);
        let too_large = || {
            Error::Caller(format!(
                "{} blocks of {} bytes are too many or too long for two clouds: the largest level \
                 of each of {most} partitions would have more than the {TOP_BYTES_MAX} bytes that \
                 a server keeps as one; take a smaller volume, or shorter blocks",
                shape.capacity, shape.value_bytes
            ))
        };
        settings.ok_or_else(too_large)?.with_usual_checkpoints()
    }

    /// The usual settings of a volume of this shape, with as many levels at the client as so many
    /// bytes hold, from three to five.
    ///
    /// # Errors
    /// As [`MulticloudSettings::new`].
    pub fn with_cache(shape: ImmediateShape, cache_bytes: u64) -> Result<Self> {
        let least = Self::new(shape, KEPT_LEVELS_MIN)?;
        let held = least.layout.with_kept_blocks(cache_bytes / shape.value_bytes as u64);
        let at_once = (JOB_BYTES_MAX / shape.value_bytes).max(1).ilog2() as u8;
        let kept_levels = held.kept_levels.min(at_once).min(KEPT_LEVELS_MAX);
        let kept_levels = kept_levels.max(least.layout.kept_levels);
        let layout = Layout { kept_levels, ..least.layout };
        Self { layout, ..least }.with_usual_checkpoints()
    }

    /// The usual ones, but for checkpoints, of a volume of this shape and layout.
    pub fn of(shape: ImmediateShape, layout: Layout) -> Self {
        let (spare, extra, refresh_every) = (SPARE, EXTRA, REFRESH_EVERY);
        Self {
            shape,
            layout,
            spare,
            extra,
            refresh_every,
            under_way_max: UNDER_WAY_MAX,
            checkpoint_every: 1,
            signers: Default::default(),
            quantum: Duration::ZERO,
        }
    }

    /// Bytes of a top; more than there can be of one that cannot be.
    fn top_bytes(&self) -> usize {
        let cells = |of: Shape| of.size(of.top(), of.cycle()) as usize * of.cell_bytes();
        self.public().map_or(usize::MAX, cells)
    }

    /// What the volume's vault is opened with. A record is as long as what is written at once.
    pub fn vault(&self) -> Result<VaultSettings> {
        let record_bytes = journal::entry_bytes_max(&self.public()?);
        Ok(VaultSettings {
            record_bytes: journal::UNIT_BYTES,
            record_parts_max: RECORD_BYTES_MAX.max(record_bytes).div_ceil(journal::UNIT_BYTES),
            records_at_once: RECORDS_AT_ONCE,
            full_every: 1,
            pieces: Piecing::usual(4),
            journal_is_near: true,
        })
    }

    /// Bytes of a record of the journal, at most.
    pub(super) fn record_bytes_max(&self) -> Result<usize> {
        let VaultSettings { record_bytes, record_parts_max, .. } = self.vault()?;
        Ok(record_bytes * record_parts_max)
    }

    /// Accesses under way at most: no more than a shuffler has room for. Of those it would drop the
    /// oldest, for which all others wait.
    ///
    /// # Errors
    /// [`Error::Caller`] if there is no such volume.
    pub fn at_once(&self) -> Result<usize> {
        Ok(self.under_way_max.min(self.public()?.reads_ahead()))
    }

    /// Blocks that a checkpoint has room for: what stashes hold where no job is held back, and
    /// [`HELD_BACK`] more; of few partitions twice as many as they take for their jobs.
    pub(super) fn saved_blocks_max(&self) -> usize {
        let twice = (2 * self.layout.partitions as usize) << self.layout.kept_levels;
        twice.min(self.layout.stash_blocks_max() + HELD_BACK)
    }

    /// What both clouds are told of it. A block is padded to whole blocks of the cipher.
    ///
    /// # Errors
    /// [`Error::Caller`] if there is no such volume.
    pub fn public(&self) -> Result<Shape> {
        let block_bytes = self.shape.value_bytes.next_multiple_of(16);
        let shape = Shape {
            partitions: self.layout.partitions,
            levels: self.layout.levels,
            kept_levels: self.layout.kept_levels,
            top_blocks: self.layout.top_blocks,
            spare: self.spare,
            extra: self.extra,
            refresh_every: self.refresh_every,
            block_bytes: block_bytes
                .try_into()
                .map_err(|_| Error::Caller("a block is too long".into()))?,
        };
        shape.check().map_err(|error| Error::Caller(error.to_string()))?;
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use fogbank_mix::message::{Blinded, ProveRead, Want};
    use fogbank_mix::message::{FromShuffler, ToShuffler};
    use fogbank_mix::signed::UNSIGNED;
    use fogbank_mix::{Cells, Seed, Shuffler, ShufflerSends};

    use super::*;

    /// A cache that holds more levels has them at the client, within bounds. Less moves between the
    /// clouds then, and the client's link carries the same.
    #[test]
    fn a_cache_keeps_levels_at_the_client() {
        for (capacity, cache_mib, kept_levels) in [
            (244_140, 64, 5),
            (244_140, 16, 3),
            (244_140, 0, 3),
            (244_140, 1 << 20, 5),
            (2_000_000, 64, 4),
            (2_000_000, 32, 3),
            (250_000_000, 64, 3),
            (4, 64, 4),
        ] {
            let shape = ImmediateShape { capacity, value_bytes: 4 << 10 };
            let settings = MulticloudSettings::with_cache(shape, cache_mib << 20).unwrap();
            assert_eq!(settings.layout.kept_levels, kept_levels, "{capacity}, {cache_mib} MiB");
            assert!(settings.layout.check().is_ok() && settings.public().is_ok());
        }
        let long = ImmediateShape { capacity: 1_024, value_bytes: 64 << 10 };
        let settings = MulticloudSettings::with_cache(long, 64 << 20).unwrap();
        assert_eq!(settings.layout.kept_levels, 3);
        let between = |cache: u64| {
            let shape = ImmediateShape { capacity: 244_140, value_bytes: 4 << 10 };
            let settings = MulticloudSettings::with_cache(shape, cache).unwrap();
            (settings.cells_between().unwrap(), settings.traffic().unwrap())
        };
        let ((more, usual), (less, cached)) = (between(0), between(64 << 20));
        assert!(less < 0.75 * more, "{less} {more}");
        let bytes = |of: crate::immediate::Traffic| of.up_bytes + of.down_bytes;
        assert!(bytes(cached) <= bytes(usual), "{} {}", bytes(cached), bytes(usual));
    }

    /// Whatever the blocks, a top is no longer than a server keeps, and there are no more
    /// partitions for it than it takes. A terabyte has such tops, in powers of ten and of two.
    #[test]
    fn a_top_is_no_longer_than_a_server_keeps() {
        let mut more = 0;
        for (bytes, value_bytes) in [
            (5e10, 4 << 10),
            (3e11, 4 << 10),
            (3e11, 8 << 10),
            (3e11, 16 << 10),
            (9e11, 4 << 10),
            (1e12, 4 << 10),
            (1.1e12, 4 << 10),
            (1.1e12, 16 << 10),
        ] {
            let capacity = (bytes / value_bytes as f64) as u32;
            let shape = ImmediateShape { capacity, value_bytes };
            let settings = MulticloudSettings::new(shape, 3).unwrap();
            assert!(settings.top_bytes() <= TOP_BYTES_MAX, "{bytes} {value_bytes}");
            let Layout { partitions, .. } = settings.layout;
            if partitions > Layout::new(capacity, 3).unwrap().partitions {
                let fewer = Layout::of(capacity, partitions / 2, 3).unwrap();
                assert!(MulticloudSettings::of(shape, fewer).top_bytes() > TOP_BYTES_MAX);
                more += 1;
            }
        }
        assert_eq!(more, 7);
        for (capacity, value_bytes) in [(1 << 29, 4 << 10), (64, 1 << 20)] {
            let refused = MulticloudSettings::new(ImmediateShape { capacity, value_bytes }, 3);
            let is_told = matches!(&refused, Err(Error::Caller(why)) if why.contains("too long"));
            assert!(is_told, "{refused:?}");
        }
    }

    /// Of as many reads as are under way at once a shuffler answers the oldest, too, and can show
    /// it.
    #[test]
    fn a_shuffler_has_room_for_what_is_under_way() {
        for value_bytes in [512, 4 << 10, 64 << 10, 1 << 20, 16 << 20] {
            let shape = ImmediateShape { capacity: 4_096, value_bytes };
            let layout = Layout::new(shape.capacity, 1).unwrap();
            let settings = MulticloudSettings::of(shape, layout);
            let public = settings.public().unwrap();
            let shuffler = Shuffler::new(public, &Seed::new([1; 32]));
            let partition = 0;
            for read in 0..settings.at_once().unwrap() as u64 {
                shuffler.ask(Want { read, partition, cells: 1, index: 0 }.into()).unwrap();
            }
            let (read, cells) = (0, Cells::zeros(public.cell_bytes(), 1));
            let sent = shuffler.across(Blinded { read, signature: UNSIGNED, cells }.into());
            assert_eq!(sent.unwrap().len(), 1, "{value_bytes}");
            let shown = shuffler.ask(ToShuffler::ProveRead(ProveRead { partition, read })).unwrap();
            let [ShufflerSends::Client(FromShuffler::Proof(proof))] = &shown[..] else { panic!() };
            assert_eq!(proof.cells.len(), 1);
        }
    }
}
