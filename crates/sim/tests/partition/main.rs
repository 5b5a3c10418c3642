//! The auditor over traces of `partition`: exact where the trace is predicted, silent where nothing
//! leaks, and loud by the right name where something does.
#![allow(clippy::unwrap_used)] // helpers of tests, too

mod canaries;
mod exact;
mod lives;

use fogbank_sim::scene::partition::PartitionScene;

/// Plays a scene; what the oracle makes of its trace, which it has to follow to its end.
fn predicted(scene: &PartitionScene) -> fogbank_audit::oracle::Summary {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let played = scene.record(&path).unwrap();
    let asked = u64::from(scene.clients) * scene.accesses;
    let seen = (&played.stopped, played.answered, played.wrong);
    assert_eq!(seen, (&None, asked, 0), "{scene:?}");
    let summary = fogbank_audit::oracle::replay(&[&path], &mut []);
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{scene:?}"));
    assert_eq!(summary.events, played.events);
    summary
}
