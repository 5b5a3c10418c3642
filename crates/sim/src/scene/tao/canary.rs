//! Every leak of `tao` that has to be caught by name, with the scene under which it shows and the
//! check that is meant for it.

use std::time::Duration;

use fogbank_oram::immediate::LinkRate;
use fogbank_oram::immediate::canary::{Canary as ShellCanary, Leak as Shell};
use fogbank_oram::tao::TaoEngine;
use fogbank_oram::tao::canary::{Canary as TreeCanary, Leak as Tree};

use super::{Load, TaoScene};

/// What leaks, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// What every engine has that serves accesses as they come.
    Shell(Shell),
    /// What `tao` has behind it.
    Tree(Tree),
}

impl Leak {
    /// From now on the engine leaks.
    pub(super) fn begin(self, engine: &TaoEngine) {
        match self {
            Self::Shell(leak) => engine.set_shell_canary(ShellCanary::new(leak)),
            Self::Tree(leak) => engine.set_canary(TreeCanary::new(leak)),
        }
    }
}

/// What catches a leak that no trace shows: answers are held against a model.
pub const DATA: &str = "answers";

/// The one list: every leak with its name and the check that is meant for it. One that is missing
/// does not compile.
macro_rules! leaks {
    ($($of:ident::$leak:ident: $name:literal, caught by $check:expr;)*) => {
        /// All of them.
        pub const ALL: [Leak; [$($name),*].len()] = [$(Leak::$of($of::$leak)),*];

        /// A stable name, in kebab case.
        pub const fn name(leak: Leak) -> &'static str {
            match leak {
                $(Leak::$of($of::$leak) => $name,)*
            }
        }

        /// The check that is meant for it: a rule of the oracle, a statistic, or [`DATA`].
        pub const fn caught_by(leak: Leak) -> &'static str {
            match leak {
                $(Leak::$of($of::$leak) => $check,)*
            }
        }
    };
}

leaks! {
    Shell::EarlyAnswer: "early-answer", caught by "reply-time";
    Shell::DecoySkipped: "decoy-skipped", caught by "path-per-access";
    Shell::AnswerOffGrid: "answer-off-grid", caught by "on-grid";
    Shell::TakenByContent: "taken-by-content", caught by "write-back-union";
    Shell::RoomIgnored: "room-ignored", caught by "record-parts";
    Shell::TurnSkipped: "turn-skipped", caught by "in-turn";
    Shell::WriteBackLate: "write-back-late", caught by "write-back-due";
    Shell::WriteHurried: "write-hurried", caught by "in-turn";
    Shell::RecordSplit: "record-split", caught by "record-parts";
    Shell::CutPutOff: "cut-put-off", caught by "cut-due";
    Tree::OwnPathTwice: "own-path-twice", caught by "leaves-repeat-in-batch";
    Tree::DroppedEarly: "dropped-early", caught by DATA;
    Tree::LeafKept: "leaf-kept", caught by "leaves-uniform";
    Tree::DecoyNotWritten: "decoy-not-written", caught by "write-back-union";
    Tree::EmptyKept: "empty-kept", caught by "fresh-subtree";
    Tree::DecoyWhole: "decoy-whole", caught by "fresh-subtree";
}

/// The scene under which it shows. The honest engine in it is the same with its `leak` set to
/// `None`.
pub fn scene(leak: Leak, seed: u64) -> TaoScene {
    // Room for all that arrives: a leak that takes none is not to show by that first.
    let roomy = |scene: TaoScene| TaoScene {
        settings: scene.settings.with_shell(|shell| shell.under_way_max = 1_000),
        gap: 3 * scene.gap,
        ..scene
    };
    let usual = roomy(TaoScene::new(Load::OneHotBlock, seed));
    let alone = || TaoScene { clients: 1, accesses: 2_000, gap: 3 * usual.gap, ..usual.clone() };
    let scene = match leak {
        // Every access reads the block's own path.
        Leak::Tree(Tree::LeafKept) => alone(),
        Leak::Shell(Shell::AnswerOffGrid | Shell::TakenByContent) => {
            let quantum = Duration::from_millis(7);
            let settings = usual.settings.with_shell(|shell| shell.quantum = quantum);
            TaoScene { settings, load: Load::Uniform, ..usual }
        }
        // Few paths at a time, so that many buckets go.
        Leak::Tree(Tree::EmptyKept) => TaoScene { load: Load::Uniform, ..alone() },
        // Paths that come faster than they may leave, and write-backs that wait for nothing but
        // their turn.
        Leak::Shell(Shell::TurnSkipped | Shell::WriteBackLate | Shell::WriteHurried) => {
            let pace = LinkRate { up_bytes_per_s: Some(200_000), down_bytes_per_s: Some(300_000) };
            let quantum = Duration::from_millis(2);
            let settings = usual.settings.with_shell(|shell| {
                shell.quantum = quantum;
                shell.pace = pace;
                shell.window_bytes = 1 << 16;
            });
            TaoScene { settings, ..usual }
        }
        // A cloud that takes one message at a time, slower than accesses arrive.
        Leak::Shell(Shell::RoomIgnored) => {
            let scene = TaoScene::new(Load::OneHotBlock, seed);
            let settings = scene.settings.with_shell(|shell| {
                shell.under_way_max = 8;
                shell.windows = 1;
            });
            TaoScene { settings, ..scene }
        }
        _ => usual,
    };
    TaoScene { leak: Some(leak), ..scene }
}
