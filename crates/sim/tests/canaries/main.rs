//! Every canary leaks what it says, to the naked eye, and the honest engine in the same scene does
//! not.
//!
//! Nothing of the auditor is used here: that it finds them is another test's.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod content;
mod leaves;
mod slots;
mod timing;
mod view;

use fogbank_sim::scene::{Canary, Scene, record};

use crate::view::View;

/// What the cloud saw of the canary and of the honest engine in the same scene.
fn leaky_and_honest(canary: Canary, seed: u64) -> (View, View) {
    let scene = canary.scene(seed);
    let honest = Scene { canary: None, ..scene.clone() };
    (play(&scene), play(&honest))
}

fn play(scene: &Scene) -> View {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let played = record(scene, &path).unwrap();
    View::read(&path, played)
}

#[test]
fn names_are_distinct_and_checks_are_named() {
    let names: std::collections::BTreeSet<_> = Canary::ALL.iter().map(|c| c.name()).collect();
    assert_eq!(names.len(), Canary::ALL.len());
    assert!(Canary::ALL.iter().all(|canary| !canary.caught_by().is_empty()));
}
