//! Leaks of a client on purpose, see [`crate::canary`].

use crate::canary::canary;

canary! {
    leaks {
        /// The window is the epoch under way alone. Rule: that before it too.
        WindowOneEpoch,
        /// A query that found its address in the window touches nothing. Rule: all tables.
        DuplicateSkips,
        /// The search ends where the block was found. Rule: it touches all tables.
        StopsAtHit,
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
        /// A superblock counts results that are found. Rule: that are there for all.
        ClosesEarly,
        /// Who logs a write does not go on with what another has left. Rule: whoever logs next.
        HeirByKind,
        /// A request of a build takes as much of its lane as it holds blocks. Rule: cells.
        LaneByContent,
        /// What pieces have written is asked for again after one that filled nothing. Rule: it is
        /// kept.
        FillsAskAnew,
        /// A result is sealed by the number of its place. Rule: by a tick that nothing else has.
        NonceByPlace,
        /// A bucket of a build is as long as what it holds. Rule: padded.
        BucketNotPadded,
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
        answers_at_once: AnswersAtOnce,
        closes_early: ClosesEarly,
        passes_writers_over: HeirByKind,
        fills_ask_anew: FillsAskAnew,
        seals_by_place: NonceByPlace,
        pads_no_bucket: BucketNotPadded,
    }
    /// Cells that a request of a build counts for in its lane, of which some hold a block.
    fn lane_cells(&self, cells: usize, blocks: impl FnOnce() -> usize) -> usize {
        cells
    } or {
        if self.is(Leak::LaneByContent) { 64 * blocks() } else { cells }
    }
}
