//! The auditor over traces of `tao`: exact where the trace is predicted, silent where nothing leaks, and
//! loud by the right name where something does.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod canaries;
mod directions;
mod exact;
mod histories;
mod lives;
mod operations;

use fogbank_sim::scene::tao::TaoScene;

/// Plays a scene; what the oracle makes of its trace, which it has to follow to its end.
fn predicted(scene: &TaoScene) -> fogbank_audit::oracle::Summary {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let played = scene.record(&path).unwrap();
    let asked = u64::from(scene.clients) * scene.accesses;
    assert_eq!((played.stopped, played.answered, played.wrong), (None, asked, 0), "{scene:?}");
    let summary = fogbank_audit::oracle::replay(&[&path], &mut []);
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{scene:?}"));
    assert_eq!(summary.events, played.events);
    summary
}
