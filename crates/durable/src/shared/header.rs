//! The header of a site: its public parameters, fixed when it is made.
//!
//! The server shows it to whoever joins, so it is sealed; what a client computes stands on it, so
//! the history begins with its digest.

use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

/// What everybody at a site has in common. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteParameters {
    /// N: blocks, at addresses below it.
    pub blocks: u32,
    /// B: bytes of a block.
    pub block_bytes: u32,
    /// T: places of an epoch.
    pub epoch: u32,
    /// G: tables of a level that make one of the next.
    pub growth: u32,
    /// M: places whose fakes are drawn together.
    pub draw: u32,
    /// Slots of a table that whoever builds it has before it at once.
    pub piece: u32,
    /// R: for how many epochs the log and its results are kept.
    pub kept_epochs: u32,
    /// After how long without a result another does a query's steps, in milliseconds.
    pub public_ms: u32,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    pub quantum_us: u32,
    /// Whether it was made of what another held: then all blocks are in a table that is there from
    /// the first query on.
    pub has_image: bool,
}

/// Of the sealed objects that this program writes.
const FORMAT: u16 = 6;
/// Of sites that are read, too, unless they have an image: their superblocks name none.
const WITHOUT_IMAGE: u16 = 5;

impl SiteParameters {
    /// The header as it is sealed.
    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { blocks, block_bytes, epoch, growth, draw, piece, .. } = *self;
        let Self { kept_epochs, public_ms, quantum_us, has_image, .. } = *self;
        let mut w = SectionWriter::default();
        w.u16(FORMAT);
        let first = [blocks, block_bytes, epoch, growth, draw, piece];
        for field in first.into_iter().chain([kept_epochs, public_ms, quantum_us]) {
            w.u32(field);
        }
        w.u32(has_image.into());
        w.0
    }

    /// What [`SiteParameters::encode`] made.
    ///
    /// # Errors
    /// [`Error::Format`] for a site of another version of this program.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = SectionReader(bytes);
        let found = r.u16()?;
        if found != FORMAT && found != WITHOUT_IMAGE {
            return Err(Error::Format { found, known: FORMAT });
        }
        let parameters = Self {
            blocks: r.u32()?,
            block_bytes: r.u32()?,
            epoch: r.u32()?,
            growth: r.u32()?,
            draw: r.u32()?,
            piece: r.u32()?,
            kept_epochs: r.u32()?,
            public_ms: r.u32()?,
            quantum_us: r.u32()?,
            has_image: r.u32()? != 0,
        };
        if found == WITHOUT_IMAGE && parameters.has_image {
            return Err(Error::Format { found, known: FORMAT });
        }
        if r.is_empty() { Ok(parameters) } else { Err(Error::Bug("a header is too long".into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_of_the_format_before_is_read_unless_it_has_an_image() {
        let site = SiteParameters {
            blocks: 1,
            block_bytes: 2,
            epoch: 3,
            growth: 4,
            draw: 5,
            piece: 6,
            kept_epochs: 7,
            public_ms: 8,
            quantum_us: 9,
            has_image: false,
        };
        for (has_image, format, is_read) in [
            (false, FORMAT, true),
            (true, FORMAT, true),
            (false, WITHOUT_IMAGE, true),
            (true, WITHOUT_IMAGE, false),
            (false, WITHOUT_IMAGE - 1, false),
            (false, FORMAT + 1, false),
        ] {
            let site = SiteParameters { has_image, ..site };
            let mut header = site.encode();
            header[..2].copy_from_slice(&format.to_le_bytes());
            let decoded = SiteParameters::decode(&header);
            match is_read {
                true => assert_eq!(decoded.unwrap(), site),
                false => {
                    assert!(matches!(decoded, Err(Error::Format { found, .. }) if found == format))
                }
            }
        }
    }
}
