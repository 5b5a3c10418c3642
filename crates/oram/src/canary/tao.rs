//! Leaks of `tao`.

use crate::tao::sequencer::Sequencer;

/// What a `tao` engine leaks. Each names the rule it breaks.
#[cfg(feature = "canaries")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaoLeak {
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
    /// Paths that are taken at one moment are taken in the order of their blocks. Rule: in the order of
    /// their accesses.
    TakenByContent,
    /// Of the buckets that could be dropped those that hold no block stay, and are not asked for. Rule: all
    /// go that have not changed and that no path goes through.
    EmptyKept,
    /// Departures go on however much has not been acknowledged. Rule: only where there is room.
    RoomIgnored,
    /// The path of a request that finds another waiting leaves before its turn. Rule: at the link's pace,
    /// every path in its turn.
    TurnSkipped,
    /// Write-backs leave a point later than they could. Rule: at once, or in their turn.
    WriteBackLate,
    /// The path of a request that finds another waiting is asked for as a whole. Rule: what is here is not
    /// asked for.
    DecoyWhole,
}

/// Which leak, if any.
#[derive(Debug, Default)]
pub struct TaoCanary {
    #[cfg(feature = "canaries")]
    leak: Option<TaoLeak>,
}

#[cfg(feature = "canaries")]
impl TaoCanary {
    /// Leaks wherever it can.
    pub fn new(leak: TaoLeak) -> Self {
        Self { leak: Some(leak) }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.leak.is_some()
    }

    pub(crate) fn reads_twice(&self) -> bool {
        self.leak == Some(TaoLeak::OwnPathTwice)
    }

    pub(crate) fn skips_decoys(&self) -> bool {
        self.leak == Some(TaoLeak::DecoySkipped)
    }

    pub(crate) fn drops_early(&self) -> bool {
        self.leak == Some(TaoLeak::DroppedEarly)
    }

    pub(crate) fn keeps_empty(&self) -> bool {
        self.leak == Some(TaoLeak::EmptyKept)
    }

    pub(crate) fn keeps_leaf(&self) -> bool {
        self.leak == Some(TaoLeak::LeafKept)
    }

    pub(crate) fn keeps_decoys(&self) -> bool {
        self.leak == Some(TaoLeak::DecoyNotWritten)
    }

    pub(crate) fn answers_off_grid(&self) -> bool {
        self.leak == Some(TaoLeak::AnswerOffGrid)
    }

    pub(crate) fn takes_by_content(&self) -> bool {
        self.leak == Some(TaoLeak::TakenByContent)
    }

    pub(crate) fn ignores_room(&self) -> bool {
        self.leak == Some(TaoLeak::RoomIgnored)
    }

    pub(crate) fn is_late(&self) -> bool {
        self.leak == Some(TaoLeak::WriteBackLate)
    }

    pub(crate) fn asks_for_all(&self) -> bool {
        self.leak == Some(TaoLeak::DecoyWhole)
    }

    pub(crate) fn skips_turns(&self, is_decoy: bool) -> bool {
        is_decoy && self.leak == Some(TaoLeak::TurnSkipped)
    }

    pub(crate) fn let_leave(&self, sequencer: &mut Sequencer) {
        if self.leak == Some(TaoLeak::EarlyAnswer) {
            sequencer.emit_early();
        }
    }
}

#[cfg(not(feature = "canaries"))]
#[rustfmt::skip] // one honest value a line
#[allow(clippy::unused_self)] // the same face as the canary that leaks
impl TaoCanary {
    pub(crate) const fn is_set(&self) -> bool { false }
    pub(crate) const fn reads_twice(&self) -> bool { false }
    pub(crate) const fn skips_decoys(&self) -> bool { false }
    pub(crate) const fn drops_early(&self) -> bool { false }
    pub(crate) const fn keeps_empty(&self) -> bool { false }
    pub(crate) const fn keeps_leaf(&self) -> bool { false }
    pub(crate) const fn keeps_decoys(&self) -> bool { false }
    pub(crate) const fn answers_off_grid(&self) -> bool { false }
    pub(crate) const fn takes_by_content(&self) -> bool { false }
    pub(crate) const fn ignores_room(&self) -> bool { false }
    pub(crate) const fn is_late(&self) -> bool { false }
    pub(crate) const fn asks_for_all(&self) -> bool { false }
    pub(crate) const fn skips_turns(&self, _: bool) -> bool { false }
    pub(crate) const fn let_leave(&self, _: &mut Sequencer) {}
}
