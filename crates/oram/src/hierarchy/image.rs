//! The image of a site that is made of what another held: a bottom with all blocks, which is there
//! from the first query on.
//!
//! 1. What an attempt before has left is removed, unless it is whole.
//! 2. All that the other held is gone through for some pieces of its slots at a time, which are
//!    written, in their order. So nothing but these is in memory.
//! 3. The manifest says that it is whole; then the site is finished: superblock 1 names the
//!    manifest, and every later one as long as the image is touched.
//!
//! # Invariant
//! Its order follows from the header of the site, which has a salt: no site has another's.
//!
//! # What the cloud sees
//! An array that is written whole, in the order of slots. It follows from the parameters alone; how
//! long whoever goes through the blocks takes says how many there are at most.
//!
//! Sections 1 and 9 of the protocol (module).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::shared::{Object, Site};
use fogbank_env::compute;
use fogbank_seal::Sealer;
use fogbank_store::{DepartureGrid, GridStore};

use super::cells::{Cells, Run, Way};
use super::engine::schedule_of;
use super::follower::mark;
use super::pieces::{Piece, Pieces};
use super::table::{Body, Holds, Index};
use crate::{Error, Result, Unverified};

/// Takes blocks: address and content. Of one that comes twice the last counts.
pub type Take<'a> = dyn FnMut(u32, Bytes) -> Result<()> + Send + 'a;

/// Pieces that are written after the blocks were gone through once: those in them are as much as
/// whoever builds has in memory, since a third of an image's slots hold one, or fewer.
const PIECES_AT_ONCE: usize = 4;

/// Writes the image of a site that was begun, whose parameters say that it has one, and finishes
/// the site. `blocks` goes through all that it is to hold, as often as it is asked to; what does
/// not come is zeros. `progress` is told how many slots of how many are written.
///
/// # Errors
/// [`Error::Caller`] for a block that the site does not have; those of `blocks`; by blame.
pub async fn finish_with(
    site: Site,
    grid: &DepartureGrid,
    mut blocks: impl FnMut(&mut Take<'_>) -> Result<()>,
    mut progress: impl FnMut(u32, u32),
) -> Result<()> {
    let paced = Arc::new(GridStore::new(site.store().clone(), grid.clone()));
    let site = Arc::new(site.by_way_of(paced));
    let schedule = schedule_of(&site.parameters())?;
    let (table, start) = (schedule.image(), mark(&site.header()));
    let manifest = Object::Manifest(table.level, table.index);
    let cells = Cells::new(site.clone(), site.store().clone(), schedule, grid);
    // It may be of another backup, or of what the site before held then.
    if cells.versions(manifest, &start).await?.is_some() {
        let why =
            "an image is whole here already, and its site was not begun: choose another place";
        return Err(Error::Caller(why.into()));
    }
    cells.clear(table.level).await?;
    let all = Holds::These((0..schedule.blocks).collect());
    let index = Index::new(&schedule, site.keys(), table, &start, all);
    let pieces = Pieces::new(&schedule, table);
    let fills = pieces.all().filter_map(|piece| match piece {
        Piece::Fill(slots) => Some(slots),
        _ => None,
    });
    let fills: Vec<(u32, Range<u32>)> = (0..).zip(fills).collect();
    let (run, mut versions) = (Run { table, is_dealt: false, start }, Vec::new());
    let request = cells.request(table.level);
    for some in fills.chunks(PIECES_AT_ONCE) {
        let slots = some[0].1.start..some[some.len() - 1].1.end;
        let bodies = compute(|| taken(&index, &slots, &site, &mut blocks))?;
        for (number, piece) in some {
            let sealer = cells.claim(table, *number, piece.len() as u64).await?;
            for at in piece.clone().step_by(request as usize) {
                let end = at.saturating_add(request).min(piece.end);
                let bodies = &bodies[(at - slots.start) as usize..(end - slots.start) as usize];
                let turn = cells.turn(Way::Writes, (table.level, bodies.len())).await?;
                let tick = sealer.tick + u64::from(at - piece.start);
                versions.extend(cells.write(&run, at, bodies, Sealer { tick, ..sealer }).await?);
                turn.has_come();
                progress(end, index.slots());
            }
        }
    }
    cells.are_durable().await?;
    // What was sealed here is what superblock 1 names, whatever is there: nobody can be shown
    // another.
    let stored = cells.put_versions(manifest, &start, &versions).await?;
    let was_another = || Unverified::Reply("an image that was not there".into());
    let stored = stored.ok_or_else(|| Error::CloudLied(was_another()))?;
    Ok(site.finish(vec![stored]).await?)
}

/// The content of some slots.
fn taken(
    index: &Index,
    slots: &Range<u32>,
    site: &Site,
    blocks: &mut impl FnMut(&mut Take<'_>) -> Result<()>,
) -> Result<Vec<Body>> {
    let zeros = Bytes::from(vec![0; site.parameters().block_bytes as usize]);
    let mut bodies: Vec<Body> = vec![None; slots.len()];
    for (address, slot) in index.held().filter(|(_, slot)| slots.contains(slot)) {
        bodies[(slot - slots.start) as usize] = Some((address, zeros.clone()));
    }
    blocks(&mut |address, value| {
        let slot = index.slot_of(address).filter(|_| value.len() == zeros.len());
        let none = || Error::Caller(format!("the site has no block {address} of that length"));
        let slot = slot.ok_or_else(none)?;
        if slots.contains(&slot) {
            bodies[(slot - slots.start) as usize] = Some((address, value));
        }
        Ok(())
    })?;
    Ok(bodies)
}
