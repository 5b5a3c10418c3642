//! Leaks of `tao` on purpose, see [`crate::canary`].

use crate::canary::canary;
use crate::immediate::sequencer::Sequencer;

canary! {
    leaks {
        /// An answer leaves when its block is known, though its own path has not come back or others
        /// before it wait (CURIOUS). Rule: in the order of arrival, each after its own path.
        EarlyAnswer,
        /// A request that finds another waiting for its block reads the block's path as well.
        /// Rule: a path drawn at random.
        OwnPathTwice,
        /// A request that finds another waiting reads no path. Rule: one path a request.
        DecoySkipped,
        /// A bucket is dropped when a write-back is acknowledged, whatever happened to it since or is
        /// about to come. Rule: the fresh-subtree invariant.
        DroppedEarly,
        /// A block keeps its leaf. Rule: a fresh one after every access.
        LeafKept,
        /// Decoys are not written back. Rule: every path that was read.
        DecoyNotWritten,
        /// Answers leave when they are known. Rule: at a point.
        AnswerOffGrid,
        /// Paths that are taken at one moment are taken in the order of their blocks. Rule: in the
        /// order of their accesses.
        TakenByContent,
        /// Of the buckets that could be dropped those that hold no block stay, and are not asked for.
        /// Rule: all go that have not changed and that no path goes through.
        EmptyKept,
        /// Departures go on however much has not been acknowledged. Rule: only where there is room.
        RoomIgnored,
        /// The path of a request that finds another waiting leaves before its turn. Rule: at the
        /// link's pace, every path in its turn.
        TurnSkipped,
        /// Write-backs leave a point later than they could. Rule: at once, or in their turn.
        WriteBackLate,
        /// The path of a request that finds another waiting is asked for as a whole. Rule: what is
        /// here is not asked for.
        DecoyWhole,
    }
    state {}
    asks {
        reads_twice: OwnPathTwice,
        skips_decoys: DecoySkipped,
        drops_early: DroppedEarly,
        keeps_empty: EmptyKept,
        keeps_leaf: LeafKept,
        keeps_decoys: DecoyNotWritten,
        answers_off_grid: AnswerOffGrid,
        takes_by_content: TakenByContent,
        ignores_room: RoomIgnored,
        is_late: WriteBackLate,
        asks_for_all: DecoyWhole,
    }

    fn is_set(&self) -> bool { false } or { self.leak.is_some() }

    fn skips_turns(&self, is_decoy: bool) -> bool { false } or {
        is_decoy && self.is(Leak::TurnSkipped)
    }

    fn let_leave(&self, sequencer: &mut Sequencer) {} or {
        if self.is(Leak::EarlyAnswer) {
            sequencer.emit_early();
        }
    }
}
