//! Leaks of a client on purpose, see [`crate::canary`].

use std::ops::Range;

use super::client::Effect;
use super::entry::Entry;
use super::follower::Follower;
use super::schedule::{Schedule, Table};
use super::table::Recipe;
use crate::canary::canary;

canary! {
    leaks {
        /// The window is the epoch under way alone. Rule: that before it too.
        WindowOneEpoch,
        /// A query that found its address in the window touches nothing. Rule: all tables.
        DuplicateSkips,
        /// The search ends where the block was found. Rule: it touches all tables.
        StopsAtHit,
        /// A query touches before its entry stands in the log. Rule: behind it.
        TouchBeforeAppend,
        /// A query touches a table of the next epoch, too, once it is there. Rule: those of its
        /// own.
        TablePickedUp,
        /// A place leaves its fake to the next. Rule: none is owned twice.
        FakeLeft,
        /// A void entry has its effect. Rule: none.
        VoidHasEffect,
        /// An entry of kind none makes address 0 seen. Rule: it has no address.
        NoneIsSeen,
        /// Values of the epoch before are dropped at the boundary. Rule: they are carried.
        NoCarry,
        /// A takeover reads other fakes. Rule: the very same cells.
        TakeoverFreshFakes,
        /// An answer waits only for its own touch. Rule: for all results before it.
        AnswersAtOnce,
        /// A read that is the first of its address waits only for its own touch, which has the
        /// right block. Rule: as any other.
        ReadAnswersFirst,
        /// A superblock counts results that are found. Rule: that are there for all.
        ClosesEarly,
        /// Who logs a write does not go on with what another has left. Rule: whoever logs next.
        HeirByKind,
        /// A request of a build takes as much of its lane as it holds blocks. Rule: cells.
        LaneByContent,
        /// A piece is done as soon as it has begun. Rule: at the pace of the log.
        PieceAtOnce,
        /// What pieces have written is asked for again after one that filled nothing. Rule: it is
        /// kept.
        FillsAskAnew,
        /// A result is sealed by the number of its place. Rule: by a tick that nothing else has.
        NonceByPlace,
        /// A bucket of a build is as long as what it holds. Rule: padded.
        BucketNotPadded,
        /// A build passes over what was touched since: a newer source has it. Rule: all is read.
        BuildSkipsTouched,
        /// An entry counts though one before it was hidden. Rule: its turn and what its sealer has
        /// seen go on with this history.
        HiddenAccepted,
    }
    state {}
    asks {
        has_short_window: WindowOneEpoch,
        skips_duplicates: DuplicateSkips,
        stops_at_hit: StopsAtHit,
        leaves_fakes: FakeLeft,
        obeys_void: VoidHasEffect,
        sees_none: NoneIsSeen,
        drops_carry: NoCarry,
        takes_over_afresh: TakeoverFreshFakes,
        closes_early: ClosesEarly,
        passes_writers_over: HeirByKind,
        does_not_wait: PieceAtOnce,
        fills_ask_anew: FillsAskAnew,
        seals_by_place: NonceByPlace,
        pads_no_bucket: BucketNotPadded,
        accepts_hidden: HiddenAccepted,
    }
    /// What a query touches before it is logged: as if nobody logged anything before it.
    fn touch_ahead(&self, follower: &Follower, entry: &Entry, superblock: u64) -> Option<Effect> {
        None
    } or {
        let place = follower.length();
        if !self.is(Leak::TouchBeforeAppend) || follower.schedule.epoch_of(place) > superblock {
            return None;
        }
        let mut ahead = follower.clone();
        ahead.entry(entry, &[0; 32]).ok()?;
        let touches = ahead.touches(place).ok()??;
        Some(Effect::Touch(place, touches.slots.clone()))
    }
    /// Slots of tables that a place touches before those of its epoch.
    fn picked_up(&self, schedule: &Schedule, place: u64, superblock: u64) -> Vec<(Table, u32)> {
        Vec::new()
    } or {
        let next = schedule.epoch_of(place) + 1;
        let is_there = self.is(Leak::TablePickedUp) && next <= superblock;
        let is_new = |table: &Table| is_there && schedule.installed(*table) == next;
        let new = schedule.tables(next).into_iter().filter(is_new);
        new.map(|table| (table, (place % u64::from(schedule.slots(table))) as u32)).collect()
    }
    /// Whether a build reads slots of the source of this number.
    fn is_read(&self, recipe: &Recipe, source: usize, slots: &Range<u32>) -> bool {
        true
    } or {
        let newer = &recipe.sources[..source];
        let mut held = recipe.sources[source].held().filter(|(_, slot)| slots.contains(slot));
        let is_newest = |of: (u32, u32)| newer.iter().all(|newer| newer.slot_of(of.0).is_none());
        !self.is(Leak::BuildSkipsTouched) || held.any(is_newest)
    }
    /// Whether a place is answered when its touch has come: that of a read which is the first of
    /// its address, or another.
    fn answers_early(&self, is_first_read: bool) -> bool {
        false
    } or {
        let reads_first = self.is(Leak::ReadAnswersFirst) && is_first_read;
        self.is(Leak::AnswersAtOnce) || reads_first
    }
    /// Cells that a request of a build counts for in its lane, of which some hold a block.
    fn lane_cells(&self, cells: usize, blocks: impl FnOnce() -> usize) -> usize {
        cells
    } or {
        if self.is(Leak::LaneByContent) { 64 * blocks() } else { cells }
    }
}
