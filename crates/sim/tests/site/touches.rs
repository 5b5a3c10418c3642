//! What all clients of a site touch, as its server sees it, held against two rules:
//!
//! - `tables-of-the-epoch`: a touch names one slot of every table of one epoch, newest first. Once
//!   there is a bottom, all touches end with it.
//! - `slot-once`: two touches have no slot in common, unless they are the same in all: those of one
//!   place, by its owner and by who has taken it over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fogbank_env::Mutex;
use fogbank_oram::hierarchy::Schedule;
use fogbank_store::{CellReads, ChunkName};

type Slot = (ChunkName, u16);

/// See the module.
#[derive(Default)]
pub struct Touches(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// Levels of the tables of an epoch, of all epochs there may be.
    epochs: BTreeSet<Vec<u8>>,
    /// By slot: the touch that named it.
    named: BTreeMap<Slot, Arc<Vec<Slot>>>,
    /// Touches that were made again by another.
    again: usize,
    /// Touches that end with the bottom.
    bottoms: usize,
    breaches: Vec<String>,
}

/// Touches of some epochs: those before are over.
const SOME_EPOCHS: usize = 30;
/// Epochs that a test may come to.
const EPOCHS: u64 = 4_000;

impl Touches {
    /// Those of a site of this schedule.
    pub fn of(&self, schedule: &Schedule) {
        let levels = |epoch| schedule.tables(epoch).iter().map(|table| table.level).collect();
        self.0.lock().epochs = (0..EPOCHS).map(levels).collect();
    }

    /// How many slots were touched, and how many touches were made again.
    ///
    /// # Errors
    /// What broke a rule, by its name.
    pub fn count(&self) -> Result<(usize, usize), Vec<String>> {
        let Seen { named, again, breaches, .. } = &*self.0.lock();
        if breaches.is_empty() { Ok((named.len(), *again)) } else { Err(breaches.clone()) }
    }

    /// A client touches.
    pub fn enter(&self, reads: &CellReads) {
        let Seen { epochs, named, again, bottoms, breaches } = &mut *self.0.lock();
        let slots: Vec<Slot> = reads
            .iter()
            .flat_map(|read| read.cells.iter().map(move |cell| (read.chunk, *cell)))
            .collect();
        let levels: Vec<u8> = slots.iter().map(|(chunk, _)| chunk.array.0 as u8).collect();
        let bottom = epochs.iter().filter_map(|levels| levels.last()).max();
        let ends = levels.last() == bottom;
        *bottoms += usize::from(ends);
        if !epochs.contains(&levels) || (!ends && *bottoms > SOME_EPOCHS) {
            breaches.push(format!("tables-of-the-epoch: levels {levels:?}"));
        }
        let slots = Arc::new(slots);
        let mut is_again = false;
        for slot in &*slots {
            let before = named.entry(*slot).or_insert_with(|| slots.clone());
            is_again |= !Arc::ptr_eq(before, &slots);
            if *before != slots {
                breaches.push(format!("slot-once: {slot:?} in two touches"));
                return;
            }
        }
        *again += usize::from(is_again);
    }
}
