//! Every leak of `tao` that has to be caught by name, with the scene under which it shows and the check
//! that is meant for it.

use std::time::Duration;

use fogbank_oram::immediate::LinkRate;
use fogbank_oram::tao::canary::Leak;

use super::{Load, TaoScene};

/// What catches a leak that no trace shows: answers are held against a model.
pub const DATA: &str = "answers";

/// The one list: every leak with its name and the check that is meant for it. One that is missing does
/// not compile.
macro_rules! leaks {
    ($($leak:ident: $name:literal, caught by $check:expr;)*) => {
        /// All of them.
        pub const ALL: [Leak; [$($name),*].len()] = [$(Leak::$leak),*];

        /// A stable name, in kebab case.
        pub const fn name(leak: Leak) -> &'static str {
            match leak {
                $(Leak::$leak => $name,)*
            }
        }

        /// The check that is meant for it: a rule of the oracle, a statistic, or [`DATA`].
        pub const fn caught_by(leak: Leak) -> &'static str {
            match leak {
                $(Leak::$leak => $check,)*
            }
        }
    };
}

leaks! {
    EarlyAnswer: "early-answer", caught by "reply-time";
    OwnPathTwice: "own-path-twice", caught by "leaves-repeat-in-batch";
    DecoySkipped: "decoy-skipped", caught by "path-per-access";
    DroppedEarly: "dropped-early", caught by DATA;
    LeafKept: "leaf-kept", caught by "leaves-uniform";
    DecoyNotWritten: "decoy-not-written", caught by "write-back-union";
    AnswerOffGrid: "answer-off-grid", caught by "on-grid";
    TakenByContent: "taken-by-content", caught by "write-back-union";
    EmptyKept: "empty-kept", caught by "fresh-subtree";
    RoomIgnored: "room-ignored", caught by "record-parts";
    TurnSkipped: "turn-skipped", caught by "in-turn";
    WriteBackLate: "write-back-late", caught by "write-back-due";
    DecoyWhole: "decoy-whole", caught by "fresh-subtree";
}

/// The scene under which it shows. The honest engine in it is the same with [`TaoScene::leak`] set to
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
        Leak::LeafKept => alone(),
        Leak::AnswerOffGrid | Leak::TakenByContent => {
            let quantum = Duration::from_millis(7);
            let settings = usual.settings.with_shell(|shell| shell.quantum = quantum);
            TaoScene { settings, load: Load::Uniform, ..usual }
        }
        // Few paths at a time, so that many buckets go.
        Leak::EmptyKept => TaoScene { load: Load::Uniform, ..alone() },
        // Paths that come faster than they may leave, and write-backs that wait for nothing but their turn.
        Leak::TurnSkipped | Leak::WriteBackLate => {
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
        Leak::RoomIgnored => {
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
