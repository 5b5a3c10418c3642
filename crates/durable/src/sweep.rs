//! What a stop left behind: objects that no commit record will ever name again.
//!
//! Between stops everything superseded is deleted by name. After one, the opening proxy lists once.
//! It deletes only what stays useless whatever happens meanwhile: batch records that the last
//! commit superseded (all before them are gone), and containers of older openings that its own
//! commit record does not name. So a proxy that is overtaken in the middle of its sweep takes
//! nothing from the one that overtook it. A list ends somewhere whatever a cloud says; containers
//! that it left out the next sweep finds. Batch records that it left out stay, of no use and in
//! nobody's way: a cloud that shows more of one epoch than a proxy can have written has made them
//! itself.

use fogbank_store::Store;

use crate::Result;
use crate::commit::CommitRecord;
use crate::container::{ContainerName, Kind};
use crate::journal;

/// Deletes what is left over, as seen by the opening that put `record`; `kept` are the containers
/// that count.
pub(crate) async fn sweep(
    store: &dyn Store,
    record: &CommitRecord,
    kept: &[ContainerName],
) -> Result<()> {
    let mut names = Vec::new();
    let (epoch, places) = record.superseded();
    let mut journalled = store.blob_list(&journal::epoch_prefix(epoch)).await?;
    let is_in = |name: &String| journal::place_of(epoch, name).is_some_and(|p| places.contains(&p));
    journalled.retain(is_in);
    for name in journalled {
        let there = store.blob_get(&name).await?;
        if there.is_some_and(|(sealed, _)| journal::claims_batch(&sealed)) {
            names.push(name);
        }
    }
    for kind in [Kind::Full, Kind::Delta] {
        let mut pieces = store.blob_list(kind.prefix()).await?;
        pieces.retain(|name| is_left_over(kind, name, record.opening(), kept));
        names.append(&mut pieces);
    }
    delete(store, &names).await
}

fn is_left_over(kind: Kind, name: &str, opening: u32, kept: &[ContainerName]) -> bool {
    let Some(found) = ContainerName::parse(kind, name) else { return false };
    let counts = |c: &ContainerName| c.kind == kind && (c.opening, c.number) == found;
    found.0 < opening && !kept.iter().any(counts)
}

/// Deletes blobs by name, in one call; none if there are none.
pub(crate) async fn delete(store: &dyn Store, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(store.blob_delete(&names).await?)
}
