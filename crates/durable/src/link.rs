//! How an epoch's delta names the one before it: the commit record has room for the last one only,
//! so that its length does not tell (or grow with) how many there are.

use crate::container::{ContainerName, Kind};
use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result, Section};

/// The section in front of every delta.
pub(crate) const LINK_TAG: u16 = u16::MAX;
/// 4 opening | 4 pieces | 32 digest; all zeros behind a full checkpoint.
pub(crate) const LINK_BYTES: usize = 4 + 4 + 32;

/// The link to the delta before.
pub(crate) fn encode(before: Option<ContainerName>) -> Section {
    let before = before.unwrap_or(ContainerName::none(Kind::Delta));
    let mut w = SectionWriter::default();
    w.u32(before.opening).u32(before.pieces).raw(&before.digest);
    Section { tag: LINK_TAG, padded_len: LINK_BYTES, data: w.0 }
}

/// Takes the link off the sections of a delta: names the delta of epoch `number`, if there is one.
pub(crate) fn take(sections: &mut Vec<Section>, number: u64) -> Result<Option<ContainerName>> {
    if sections.first().is_none_or(|section| section.tag != LINK_TAG) {
        return Err(Error::Bug("a delta without its link".into()));
    }
    let link = sections.remove(0);
    let mut r = SectionReader(&link.data);
    let (opening, pieces, digest) = (r.u32()?, r.u32()?, r.digest()?);
    let name = ContainerName { kind: Kind::Delta, opening, number, pieces, digest };
    Ok(name.there())
}
