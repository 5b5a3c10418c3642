//! Leaks that need nothing of the engine's inside.

mod catch_up;
mod hasty;
mod keeping;
mod queueing;
mod undoing;

pub(super) use catch_up::Lagging;
pub(super) use hasty::Hasty;
pub(super) use keeping::Keeping;
pub(super) use queueing::Queueing;
pub(super) use undoing::Undoing;

use fogbank_durable::{Section, Sections};

/// Takes the padding off every section: but for the stash it is none.
pub(super) fn unpadded(sections: Sections<'_>) -> Sections<'_> {
    Box::new(sections.map(|section| {
        section.map(|section| Section { padded_len: section.data.len(), ..section })
    }))
}
