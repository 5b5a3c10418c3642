//! Every leak that the auditor has to catch by name, with the scene under which it shows and the
//! check that is meant for it.
//!
//! | made by | which |
//! |---|---|
//! | the engine ([`Leak`]) | what only it can do |
//! | what the engine is told, and the head of the trace is not | when it writes and deletes |
//! | the randomness that the engine is given | one seed for all |
//! | a store between engine and pace ([`super::leaks`]) | a reply before its time, a ciphertext again |
//! | an engine between transactions and engine | the clock moved by aborts, or by what clients do |
//! | the clock of the transaction layer | the catch-up |
//! | the checkpoint on its way to the vault | the unpadded stash |

use std::time::Duration;

use fogbank_oram::ring::canary::{Canary as RingCanary, Leak};
use fogbank_store::{Lie, LieRule, Operation};

use super::{Cast, Hold, Scene, Shape, Workload};

/// The one list of canaries: each with its name and the check that is meant for it, and where it
/// has a field the value of [`Canary::ALL`].
macro_rules! canaries {
    ($(
        $(#[$about:meta])*
        $leak:ident $({ $(#[$about_field:meta])* $field:ident: $type:ty = $usual:expr $(,)? })?:
            $name:literal, caught by $check:literal;
    )*) => {
        /// One known leak.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Canary {
            $($(#[$about])* $leak $({ $(#[$about_field])* $field: $type })?,)*
        }

        impl Canary {
            /// All of them; the rare one leaks in 1 % of accesses.
            pub const ALL: [Self; [$($name),*].len()] = [$($leak $({ $field: $usual })?),*];

            /// A stable name, in kebab case.
            pub const fn name(self) -> &'static str {
                match self {
                    $($leak { .. } => $name,)*
                }
            }

            /// The check that is meant for it: a rule of the oracle, a statistic, or the
            /// classifier.
            pub const fn caught_by(self) -> &'static str {
                match self {
                    $($leak { .. } => $check,)*
                }
            }
        }
    };
}

canaries! {
    /// A block that an eviction left in the stash skips its read.
    ResidueSkipsRead: "residue-skips-read", caught by "leaves-against-last-evicted";
    /// The read that retires a bucket names real slots first.
    RealsFirst: "reals-first", caught by "z-read";
    /// A block that is written keeps the leaf that its last read has shown.
    NoRemapOnWrite: "no-remap-on-write", caught by "leaves-repeat-across-batches";
    /// The same for one write in so many. One in four is a leak in 1 % of accesses where an epoch
    /// has 24 and one of them is the hot key's.
    RareNoRemap {
        /// One in how many.
        every: u32 = 4,
    }: "rare-no-remap", caught by "two-histories";
    /// A bucket serves S + 1 reads.
    OneReadMore: "one-read-more", caught by "reads-per-version";
    /// A bucket is reshuffled after S - 1 reads.
    OneReadLess: "one-read-less", caught by "reshuffle-due";
    /// The order of a bucket's slots does not change with its version.
    ReusedOrder: "reused-order", caught by "slots-across-versions";
    /// Dummies are read by rising slot.
    DummiesInOrder: "dummies-in-order", caught by "slot-ranks";
    /// The slot of a dummy is read again.
    SlotForgotten: "slot-forgotten", caught by "slot-once";
    /// Buckets are written as often as they are rewritten, not once an epoch.
    WrittenThrough: "written-through", caught by "images-written";
    /// What was superseded is not deleted.
    SupersededKept: "superseded-kept", caught by "superseded-deleted";
    /// The engine's randomness is the same in every run.
    ConstantSeed: "constant-seed", caught by "runs-independent-leaves";
    /// Leaves are the low bits of a linear congruential generator.
    CongruentialLeaves: "congruential-leaves", caught by "leaves-lagged";
    /// Leaves are drawn modulo a number that theirs does not divide.
    ModuloLeaves: "modulo-leaves", caught by "leaves-uniform";
    /// An address that holds nothing reads no path.
    AbsentSkipsRead: "absent-skips-read", caught by "full-batch";
    /// The next message leaves while the rest of the batch is outstanding.
    ReplyEarly: "reply-early", caught by "waits-for-all";
    /// A forged dummy goes unnoticed.
    DummiesUnverified: "dummies-unverified", caught by "silence-after-a-lie";
    /// A forged path on which nothing was sought goes unnoticed.
    XorUnchecked: "xor-unchecked", caught by "silence-after-a-lie";
    /// The write batch leaves later the more transactions were aborted.
    ClockMovedByAborts: "clock-moved-by-aborts", caught by "on-grid";
    /// A batch leaves when the work that clients have asked for is done.
    QueueBehindClients: "queue-behind-clients", caught by "on-grid";
    /// After a late reply the calls that were missed are made at once.
    CatchUp: "catch-up", caught by "no-catch-up";
    /// A write batch counts as many accesses as it has writes.
    // An eviction that does not come would read something only later in the life of a store.
    UnpaddedWrites: "unpadded-writes", caught by "images-written";
    /// The stash in a checkpoint is as long as it is full.
    UnpaddedStash: "unpadded-stash", caught by "blob-size";
    /// Two requests for one address in a batch read the same path.
    DuplicatesRead: "duplicates-read", caught by "leaves-repeat-in-batch";
    /// The second request for an address in a batch reads nothing.
    DuplicatesOmitted: "duplicates-omitted", caught by "full-batch";
    /// The first cell of a bucket is written as it was in the version before.
    CiphertextKept: "ciphertext-kept", caught by "ciphertexts-fresh";
}

use Canary::*;

impl Canary {
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
            QueueBehindClients => whole(Workload::LongPrograms),
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
    pub(super) fn in_engine(self) -> RingCanary {
        let leak = match self {
            ResidueSkipsRead => Leak::ResidueSkipsRead,
            RealsFirst => Leak::RealsFirst,
            NoRemapOnWrite => Leak::NoRemapOnWrite,
            RareNoRemap { every } => {
                return RingCanary::rare(Leak::NoRemapOnWrite, every);
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
            | QueueBehindClients | CatchUp | UnpaddedStash | CiphertextKept => {
                return RingCanary::default();
            }
        };
        RingCanary::new(leak)
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
