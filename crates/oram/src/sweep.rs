//! What a stop has left behind in the cloud.

use fogbank_store::ChunkName;

use crate::geometry::opening_of;

/// Of the chunk versions `stored` those of openings before `opening` that are not `current`, in
/// order: what a proxy that died was about to delete, or has written and never committed. Versions
/// of later openings are those of a proxy that has overtaken this one, which does not know it yet.
pub(crate) fn left_behind(
    mut stored: Vec<ChunkName>,
    opening: u32,
    current: impl Fn(&ChunkName) -> bool,
) -> Vec<ChunkName> {
    stored.retain(|name| !current(name) && opening_of(name) < opening);
    stored.sort_unstable();
    stored
}
