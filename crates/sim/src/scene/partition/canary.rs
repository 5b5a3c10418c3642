//! Every leak of `partition` that has to be caught by name, with the scene under which it shows and the
//! check that is meant for it.

use std::time::Duration;

use fogbank_oram::immediate::canary::{Canary as ShellCanary, Leak as Shell};
use fogbank_oram::partition::PartitionEngine;
use fogbank_oram::partition::canary::{Canary as PyramidCanary, Leak as Pyramid};
use fogbank_store::Link;

use super::{Load, PartitionScene, Schedule, Settings};

/// What leaks, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// What every engine has that serves accesses as they come.
    Shell(Shell),
    /// What `partition` has behind it.
    Pyramid(Pyramid),
}

impl Leak {
    /// From now on the engine leaks.
    pub(super) fn begin(self, engine: &PartitionEngine) {
        match self {
            Self::Shell(leak) => engine.set_shell_canary(ShellCanary::new(leak)),
            Self::Pyramid(leak) => engine.set_canary(PyramidCanary::new(leak)),
        }
    }
}

/// The one list: every leak with its name and the check that is meant for it. One that is missing does
/// not compile.
macro_rules! leaks {
    ($($leak:ident: $name:literal, caught by $check:expr;)*) => {
        /// All leaks of the pyramids.
        pub const ALL: [Pyramid; [$($name),*].len()] = [$(Pyramid::$leak),*];

        /// A stable name, in kebab case.
        pub const fn name(leak: Pyramid) -> &'static str {
            match leak {
                $(Pyramid::$leak => $name,)*
            }
        }

        /// The check that is meant for it: a rule of the oracle, or a statistic.
        pub const fn caught_by(leak: Pyramid) -> &'static str {
            match leak {
                $(Pyramid::$leak => $check,)*
            }
        }
    };
}

leaks! {
    HitSendsNothing: "hit-sends-nothing", caught by "cell-per-level";
    QuotaOfReals: "quota-of-reals", caught by "job-quota";
    DummyReadTwice: "dummy-read-twice", caught by "cell-once";
    JobUnawaited: "job-unawaited", caught by "end-after-job";
    OrderBeforeDurable: "order-before-durable", caught by "job-by-durable-orders";
    EarlyUnawaited: "early-cell-unawaited", caught by "early-cell";
    LateMark: "late-mark", caught by "job-quota";
    EmptySkipped: "empty-skipped", caught by "level-whole";
    BarrierSkipped: "commit-before-barrier", caught by "commit-after-barrier";
    BudgetByReals: "budget-by-reals", caught by "budget-cells";
    DroppedEarly: "dropped-early", caught by "superseded-deleted";
    OwnPartitionTwice: "own-partition-twice", caught by "leaves-repeat-in-batch";
    ReplayFreshDummies: "replay-fresh-dummies", caught by "replay-identical";
}

/// Leaks that no scene shows yet by the check that is meant for them.
pub const OPEN: [Pyramid; 3] = [Pyramid::JobUnawaited, Pyramid::LateMark, Pyramid::DroppedEarly];

/// Leaks of the shell that show in a trace of this engine, with their checks.
pub const SHELL: [(Shell, &str); 1] = [(Shell::RoomIgnored, "budget-orders")];

/// The scene under which it shows. The honest engine in it is the same with its `leak` set to `None`.
pub fn scene(leak: Leak, seed: u64) -> PartitionScene {
    let usual = PartitionScene::new(Load::OneHotBlock, seed);
    let with = |budgets| Settings { budgets: Some(budgets), ..usual.settings.clone() };
    let scene = match leak {
        Leak::Pyramid(Pyramid::BudgetByReals) => {
            PartitionScene { settings: with((2_500, 60)), ..usual }
        }
        Leak::Pyramid(Pyramid::EarlyUnawaited | Pyramid::JobUnawaited) => {
            let schedule = Schedule { every: 3, most: Duration::from_millis(80) };
            PartitionScene { schedule, load: Load::Uniform, ..usual }
        }
        Leak::Shell(Shell::RoomIgnored) => {
            PartitionScene { settings: with((12, 1 << 20)), ..usual }
        }
        // A checkpoint takes long, so that jobs are committed beside it.
        Leak::Pyramid(Pyramid::DroppedEarly) => {
            let link = Link { write: Duration::from_millis(60), ..usual.link };
            PartitionScene { link, ..usual }
        }
        _ => usual,
    };
    PartitionScene { leak: Some(leak), ..scene }
}
