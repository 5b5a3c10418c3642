//! Every leak of `partition` that has to be caught by name, with the scene under which it shows and
//! the check that is meant for it.

use std::time::Duration;

use fogbank_oram::immediate::canary::{Canary as ShellCanary, Leak as Shell};
use fogbank_oram::partition::PartitionEngine;
use fogbank_oram::partition::canary::{Canary as PyramidCanary, Leak as Pyramid};

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

/// The one list: every leak with its name and the check that is meant for it. One that is missing
/// does not compile.
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
    DuplicateOmitted: "duplicate-omitted", caught by "access-per-request";
    HitAnswered: "hit-answered", caught by "reply-time";
    JobDelayed: "job-delayed", caught by "job-due";
    SourceRead: "source-read", caught by "job-fixed";
    CommitAtCut: "commit-at-cut", caught by "commit-before-read";
    CellsInOrder: "cells-in-order", caught by "slot-ranks";
    FrontDummies: "front-dummies", caught by "slot-ranks";
}

/// Leaks of the shell that show in a trace of this engine, with their checks. The others change
/// nothing that it does: its answers come in order from the plane, no access is asked for after
/// another, and what is read has no pace.
pub const SHELL: [(Shell, &str); 7] = [
    (Shell::AnswerOffGrid, "on-grid"),
    (Shell::TakenByContent, "level-whole"),
    (Shell::RoomIgnored, "budget-orders"),
    (Shell::WriteBackLate, "level-whole"),
    (Shell::WriteHurried, "in-turn"),
    (Shell::RecordSplit, "record-parts"),
    (Shell::CutPutOff, "cut-due"),
];

/// The scene under which it shows. The honest engine in it is the same with its `leak` set to
/// `None`.
pub fn scene(leak: Leak, seed: u64) -> PartitionScene {
    let ms = Duration::from_millis;
    let usual = PartitionScene::new(Load::OneHotBlock, seed);
    let with = |budgets| Settings { budgets: Some(budgets), ..usual.settings.clone() };
    let on_grid = |quantum: Duration, pace| {
        let engine = usual.settings.engine.clone().with_shell(|shell| {
            (shell.quantum, shell.pace.up_bytes_per_s) = (quantum, pace);
        });
        let settings = Settings { engine, budgets: None };
        PartitionScene { settings, load: Load::Uniform, ..usual.clone() }
    };
    let scene = match leak {
        Leak::Pyramid(Pyramid::BudgetByReals) => {
            PartitionScene { settings: with((2_500, 60)), ..usual }
        }
        // So few ask that seldom anything has been written and waits for its barrier.
        Leak::Pyramid(Pyramid::OrderBeforeDurable) => PartitionScene { clients: 2, ..usual },
        // Levels that are due wait long for their jobs.
        Leak::Pyramid(Pyramid::LateMark) => {
            PartitionScene { settings: with((2_500, 60)), load: Load::Uniform, ..usual }
        }
        // So long that their quotas are read.
        Leak::Pyramid(Pyramid::SourceRead) => PartitionScene {
            settings: with((2_500, 1)),
            load: Load::Uniform,
            accesses: 400,
            ..usual
        },
        Leak::Pyramid(Pyramid::EarlyUnawaited) => {
            let schedule = Schedule { every: 3, most: ms(80) };
            PartitionScene { schedule, load: Load::Uniform, ..usual }
        }
        // On a grid answers leave before the records that others cut then.
        Leak::Pyramid(Pyramid::JobUnawaited) => {
            let schedule = Schedule { every: 3, most: ms(80) };
            PartitionScene { schedule, ..on_grid(ms(2), None) }
        }
        // Messages are held so long that a partition is asked before its commit counts, and that
        // jobs are committed beside a checkpoint.
        Leak::Pyramid(Pyramid::CommitAtCut | Pyramid::DroppedEarly) => {
            let schedule = Schedule { every: 4, most: ms(400) };
            PartitionScene { schedule, ..usual }
        }
        Leak::Shell(Shell::AnswerOffGrid | Shell::TakenByContent) => on_grid(ms(7), None),
        Leak::Shell(Shell::WriteBackLate | Shell::WriteHurried) => on_grid(ms(2), Some(200_000)),
        // Checkpoints take longer than from one to the next.
        Leak::Shell(Shell::CutPutOff) => {
            let schedule = Schedule { every: 4, most: ms(400) };
            PartitionScene { clients: 20, schedule, ..usual }
        }
        Leak::Shell(Shell::RoomIgnored) => {
            PartitionScene { settings: with((12, 1 << 20)), ..usual }
        }
        _ => usual,
    };
    PartitionScene { leak: Some(leak), ..scene }
}
