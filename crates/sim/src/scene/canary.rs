//! Every leak that the auditor has to catch by name, with the scene under which it shows and the check
//! that is meant for it.
//!
//! | made by | which |
//! |---|---|
//! | the engine ([`Leak`]) | what only it can do |
//! | what the engine is told, and the head of the trace is not | when it writes and deletes |
//! | the randomness that the engine is given | one seed for all |
//! | a store between engine and pace ([`super::leaks`]) | a reply before its time, a ciphertext again |
//! | an engine between transactions and engine | the clock moved by aborts |
//! | the clock of the transaction layer | the catch-up |
//! | the checkpoint on its way to the vault | the unpadded stash |

use std::time::Duration;

use fogbank_oram::canary::Leak;
use fogbank_store::{Lie, LieRule, Operation};

use super::{Cast, Hold, Scene, Shape, Workload};

/// One known leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// A block that an eviction left in the stash skips its read.
    ResidueSkipsRead,
    /// The read that retires a bucket names real slots first.
    RealsFirst,
    /// A block that is written keeps the leaf that its last read has shown.
    NoRemapOnWrite,
    /// The same for one write in so many. One in four is a leak in 1 % of accesses where an epoch has
    /// 24 and one of them is the hot key's.
    RareNoRemap {
        /// One in how many.
        every: u32,
    },
    /// A bucket serves S + 1 reads.
    OneReadMore,
    /// A bucket is reshuffled after S - 1 reads.
    OneReadLess,
    /// The order of a bucket's slots does not change with its version.
    ReusedOrder,
    /// Dummies are read by rising slot.
    DummiesInOrder,
    /// The slot of a dummy is read again.
    SlotForgotten,
    /// Buckets are written as often as they are rewritten, not once an epoch.
    WrittenThrough,
    /// What was superseded is not deleted.
    SupersededKept,
    /// The engine's randomness is the same in every run.
    ConstantSeed,
    /// Leaves are the low bits of a linear congruential generator.
    CongruentialLeaves,
    /// Leaves are drawn modulo a number that theirs does not divide.
    ModuloLeaves,
    /// An address that holds nothing reads no path.
    AbsentSkipsRead,
    /// The next message leaves while the rest of the batch is outstanding.
    ReplyEarly,
    /// A forged dummy goes unnoticed.
    DummiesUnverified,
    /// A forged path on which nothing was sought goes unnoticed.
    XorUnchecked,
    /// The write batch leaves later the more transactions were aborted.
    ClockMovedByAborts,
    /// After a late reply the calls that were missed are made at once.
    CatchUp,
    /// A write batch counts as many accesses as it has writes.
    UnpaddedWrites,
    /// The stash in a checkpoint is as long as it is full.
    UnpaddedStash,
    /// Two requests for one address in a batch read the same path.
    DuplicatesRead,
    /// The second request for an address in a batch reads nothing.
    DuplicatesOmitted,
    /// The first cell of a bucket is written as it was in the version before.
    CiphertextKept,
}

use Canary::*;

impl Canary {
    /// All of them; the rare one leaks in 1 % of accesses.
    pub const ALL: [Self; 25] = [
        ResidueSkipsRead,
        RealsFirst,
        NoRemapOnWrite,
        RareNoRemap { every: 4 },
        OneReadMore,
        OneReadLess,
        ReusedOrder,
        DummiesInOrder,
        SlotForgotten,
        WrittenThrough,
        SupersededKept,
        ConstantSeed,
        CongruentialLeaves,
        ModuloLeaves,
        AbsentSkipsRead,
        ReplyEarly,
        DummiesUnverified,
        XorUnchecked,
        ClockMovedByAborts,
        CatchUp,
        UnpaddedWrites,
        UnpaddedStash,
        DuplicatesRead,
        DuplicatesOmitted,
        CiphertextKept,
    ];

    /// A stable name, in kebab case.
    pub const fn name(self) -> &'static str {
        match self {
            ResidueSkipsRead => "residue-skips-read",
            RealsFirst => "reals-first",
            NoRemapOnWrite => "no-remap-on-write",
            RareNoRemap { .. } => "rare-no-remap",
            OneReadMore => "one-read-more",
            OneReadLess => "one-read-less",
            ReusedOrder => "reused-order",
            DummiesInOrder => "dummies-in-order",
            SlotForgotten => "slot-forgotten",
            WrittenThrough => "written-through",
            SupersededKept => "superseded-kept",
            ConstantSeed => "constant-seed",
            CongruentialLeaves => "congruential-leaves",
            ModuloLeaves => "modulo-leaves",
            AbsentSkipsRead => "absent-skips-read",
            ReplyEarly => "reply-early",
            DummiesUnverified => "dummies-unverified",
            XorUnchecked => "xor-unchecked",
            ClockMovedByAborts => "clock-moved-by-aborts",
            CatchUp => "catch-up",
            UnpaddedWrites => "unpadded-writes",
            UnpaddedStash => "unpadded-stash",
            DuplicatesRead => "duplicates-read",
            DuplicatesOmitted => "duplicates-omitted",
            CiphertextKept => "ciphertext-kept",
        }
    }

    /// The check that is meant for it: a rule of the oracle, a statistic, or the classifier.
    pub const fn caught_by(self) -> &'static str {
        match self {
            ResidueSkipsRead => "leaves-against-last-evicted",
            RealsFirst => "z-read",
            NoRemapOnWrite => "leaves-repeat-across-batches",
            RareNoRemap { .. } => "two-histories",
            OneReadMore => "reads-per-version",
            OneReadLess => "reshuffle-due",
            ReusedOrder => "slots-across-versions",
            DummiesInOrder => "slot-ranks",
            SlotForgotten => "slot-once",
            WrittenThrough => "images-written",
            SupersededKept => "superseded-deleted",
            ConstantSeed => "runs-independent-leaves",
            CongruentialLeaves => "leaves-lagged",
            ModuloLeaves => "leaves-uniform",
            AbsentSkipsRead | DuplicatesOmitted => "full-batch",
            ReplyEarly => "waits-for-all",
            DummiesUnverified | XorUnchecked => "silence-after-a-lie",
            ClockMovedByAborts => "on-grid",
            CatchUp => "no-catch-up",
            // An eviction that does not come would read something only later in the life of a store.
            UnpaddedWrites => "images-written",
            UnpaddedStash => "blob-size",
            DuplicatesRead => "leaves-repeat-in-batch",
            CiphertextKept => "ciphertexts-fresh",
        }
    }

    /// The scene under which it shows. The honest engine in it is the same with
    /// [`Scene::canary`] set to `None`.
    pub fn scene(self, seed: u64) -> Scene {
        let whole = |workload| Scene::new(workload, seed);
        let engine = |workload, epochs| Scene::of_engine(workload, seed, Shape::stressed(), epochs);
        let scene = match self {
            ResidueSkipsRead => engine(Workload::Uniform, RESIDUE_EPOCHS),
            NoRemapOnWrite => whole(Workload::OneHotKey),
            RareNoRemap { .. } => Scene { epochs: 500, ..whole(Workload::OneHotKey) },
            ConstantSeed | ReusedOrder => whole(Workload::Zipf),
            CongruentialLeaves => {
                // As many reads a batch as there are leaves: every batch is a permutation of them.
                let mut scene = engine(Workload::Idle, 1_000);
                (scene.shape.batch.read_batch, scene.shape.batch.write_batch) = (8, 8);
                scene
            }
            AbsentSkipsRead => engine(Workload::AllAbsent, 100),
            DuplicatesOmitted => engine(Workload::OneHotKey, 100),
            // Sums over all pairs of a batch are tested from 3000 degrees of freedom on.
            DuplicatesRead => engine(Workload::OneHotKey, 500),
            ReplyEarly => late(whole(Workload::Uniform)),
            CatchUp => late(whole(Workload::Idle)),
            DummiesUnverified => lying(whole(Workload::Idle), Operation::ReadCells),
            XorUnchecked => {
                let shape = Shape { xor: true, ..Shape::small() };
                lying(Scene { shape, ..whole(Workload::Idle) }, Operation::ReadXor)
            }
            ClockMovedByAborts => whole(Workload::AbortStorm),
            UnpaddedWrites => whole(Workload::Idle),
            UnpaddedStash => {
                Scene { cast: Cast::Journalled, epochs: 30, ..whole(Workload::Uniform) }
            }
            RealsFirst | OneReadMore | OneReadLess | DummiesInOrder | SlotForgotten
            | WrittenThrough | SupersededKept | ModuloLeaves | CiphertextKept => {
                whole(Workload::Uniform)
            }
        };
        Scene { canary: Some(self), ..scene }
    }

    /// What the engine itself leaks.
    pub(super) fn in_engine(self) -> fogbank_oram::canary::Canary {
        let leak = match self {
            ResidueSkipsRead => Leak::ResidueSkipsRead,
            RealsFirst => Leak::RealsFirst,
            NoRemapOnWrite => Leak::NoRemapOnWrite,
            RareNoRemap { every } => {
                return fogbank_oram::canary::Canary::rare(Leak::NoRemapOnWrite, every);
            }
            OneReadMore => Leak::OneReadMore,
            OneReadLess => Leak::OneReadLess,
            ReusedOrder => Leak::ReusedOrder,
            DummiesInOrder => Leak::DummiesInOrder,
            SlotForgotten => Leak::SlotForgotten,
            CongruentialLeaves => Leak::CongruentialLeaves,
            ModuloLeaves => Leak::ModuloLeaves,
            AbsentSkipsRead => Leak::AbsentSkipsRead,
            DummiesUnverified => Leak::DummiesUnverified,
            XorUnchecked => Leak::XorUnchecked,
            UnpaddedWrites => Leak::UnpaddedWrites,
            DuplicatesRead => Leak::DuplicatesRead,
            DuplicatesOmitted => Leak::DuplicatesOmitted,
            WrittenThrough | SupersededKept | ConstantSeed | ReplyEarly | ClockMovedByAborts
            | CatchUp | UnpaddedStash | CiphertextKept => {
                return fogbank_oram::canary::Canary::default();
            }
        };
        fogbank_oram::canary::Canary::new(leak)
    }
}

/// Epochs of one read batch of 15 and one eviction: about eight standard deviations.
const RESIDUE_EPOCHS: u32 = 40_000;

/// One reply of a path read comes more than two intervals late.
fn late(scene: Scene) -> Scene {
    let by = Duration::from_millis(200);
    Scene { hold: Some(Hold { operation: Operation::ReadCells, nth: 60, by }), ..scene }
}

/// One cell of a path read is forged: the first, which is a dummy while the store is idle.
fn lying(scene: Scene, operation: Operation) -> Scene {
    let lie = LieRule { operation, nth: 60, lie: Lie::FlipBit(5), always: false };
    Scene { lie: Some(lie), ..scene }
}
