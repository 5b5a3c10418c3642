//! Leaks of the shell on purpose, see [`crate::canary`]. Those of what an engine does behind it
//! stand in the engine's own list.

use super::sequencer::Sequencer;
use crate::canary::canary;

canary! {
    leaks {
        /// An answer leaves when its block is known, though what its access asked for has not come
        /// or others before it wait (CURIOUS). Rule: in the order of arrival, each after its own
        /// reply.
        EarlyAnswer,
        /// An access that finds another waiting for its block asks for nothing. Rule: every access
        /// asks.
        DecoySkipped,
        /// Answers leave when they are known. Rule: at a point.
        AnswerOffGrid,
        /// What has come by one moment is taken in the order of its blocks. Rule: in the order of
        /// the accesses.
        TakenByContent,
        /// Accesses depart however much the cloud has not acknowledged. Rule: only where there is
        /// room.
        RoomIgnored,
        /// The message of an access that finds another waiting leaves before its turn. Rule: at the
        /// link's pace, every message in its turn.
        TurnSkipped,
        /// Write-backs leave a point later than they could. Rule: at once, or in their turn.
        WriteBackLate,
        /// What is written leaves though the link is not free for it. Rule: in its turn.
        WriteHurried,
        /// A record ends before an access to a block that it names already. Rule: all that waits
        /// and finds room.
        RecordSplit,
        /// Records leave while a cut is due and the last checkpoint does not count. Rule: the cut
        /// first.
        CutPutOff,
    }
    state {}
    asks {
        answers_off_grid: AnswerOffGrid,
        takes_by_content: TakenByContent,
        ignores_room: RoomIgnored,
        is_late: WriteBackLate,
        hurries: WriteHurried,
        splits_records: RecordSplit,
        puts_off_cuts: CutPutOff,
    }

    fn skips(&self, is_decoy: bool) -> bool { false } or {
        is_decoy && self.is(Leak::DecoySkipped)
    }

    fn skips_turns(&self, is_decoy: bool) -> bool { false } or {
        is_decoy && self.is(Leak::TurnSkipped)
    }

    fn let_leave(&self, sequencer: &mut Sequencer) {} or {
        if self.is(Leak::EarlyAnswer) {
            sequencer.emit_early();
        }
    }
}
