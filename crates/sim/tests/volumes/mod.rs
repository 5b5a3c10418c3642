//! What is asked of the scenes of every engine of volumes: that the oracle follows them, what an
//! audit finds, and whether it tells two loads apart.

use std::ops::Range;
use std::path::PathBuf;

use fogbank_audit::oracle::{Summary, replay};
use fogbank_audit::report::Report;
use fogbank_audit::{Given, Options, Verdict, audit, distinguish};
use fogbank_sim::scene::volume::{Load, Played, VolumePlayed, VolumeScene};
use fogbank_sim::scene::{Death, Fate};

/// Plays a scene; what the oracle makes of its trace, which it has to follow to its end.
pub fn predicted<S: Played>(scene: &VolumeScene<S>) -> Summary {
    let (summary, played) = lives(scene, &[None]);
    let asked = u64::from(scene.clients) * scene.accesses;
    let VolumePlayed { answered, wrong, events, .. } = &played[0];
    assert_eq!((*answered, *wrong, *events), (asked, 0, summary.events), "{scene:?}");
    summary
}

/// What the oracle makes of the traces of lives that end so; it has to follow all of them.
pub fn lives<S: Played>(
    scene: &VolumeScene<S>,
    deaths: &[Option<Death>],
) -> (Summary, Vec<VolumePlayed>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = (0..deaths.len()).map(|life| folder.path().join(format!("{life}")));
    let lives: Vec<(PathBuf, _)> = paths.zip(deaths.iter().copied()).collect();
    let played = scene.record_lives(&lives).unwrap();
    let paths: Vec<&PathBuf> = lives.iter().map(|(path, _)| path).collect();
    let summary = replay(&paths, &mut []);
    let stopped: Vec<_> = played.iter().map(|played| &played.stopped).collect();
    let words = || format!("{deaths:?} {stopped:?} {scene:?}");
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{}", words()));
    assert_eq!(played.last().unwrap().stopped, None, "{}", words());
    (summary, played)
}

/// Plays four lives of the scene of every number, two of which die somewhere; how many died.
pub fn die<S: Played>(numbers: Range<u64>, scene: impl Fn(u64) -> VolumeScene<S>) -> u32 {
    let dies = |call, how| Some(Death { call, how });
    let mut died = 0;
    for number in numbers {
        let nth = |part: u64| Fate::ALL[(number / part) as usize % Fate::ALL.len()];
        let deaths =
            [None, dies(1 + number * 3 % 300, nth(1)), dies(1 + number * 7 % 90, nth(5)), None];
        died += u32::from(lives(&scene(number), &deaths).0.crashes > 0);
    }
    died
}

/// Rules that are broken and statistics that failed in lives that end so, the last by itself.
pub fn found<S: Played>(
    scene: &VolumeScene<S>,
    death: Option<Death>,
) -> (Vec<String>, Vec<VolumePlayed>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("0"), folder.path().join("1")];
    let lives = [(&paths[0], death), (&paths[1], None)];
    let lives = &lives[..1 + usize::from(death.is_some())];
    let played = scene.record_lives(lives).unwrap();
    (found_in(paths[..lives.len()].to_vec()), played)
}

/// The same of the traces of one store.
pub fn found_in(traces: Vec<PathBuf>) -> Vec<String> {
    let given = Given { label: "a".into(), traces, history: None };
    let report = audit(&[given], &Options::default(), |_| {}).unwrap();
    let breaches = report.breaches.iter().map(|broken| broken.breach.rule.to_owned());
    breaches.chain(failed(&report, false)).collect()
}

fn failed(report: &Report, in_words: bool) -> Vec<String> {
    let failed = report.findings.iter().filter(|finding| finding.verdict == Verdict::Failed);
    let words = |words: &str| if in_words { format!(": {words}") } else { String::new() };
    failed.map(|found| format!("{}{}", found.check, words(&found.words))).collect()
}

/// What a classifier says of two loads: four runs of each, played in turn, no two with the same
/// seed. Whether it tells them apart, and whatever else failed.
pub fn told<S: Played>(
    (first, second): (Load, Load),
    scene: impl Fn(Load, u64) -> VolumeScene<S>,
) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let given: Vec<Given> = (0..8)
        .map(|run| {
            let (label, load) = if run % 2 == 0 { ("first", first) } else { ("second", second) };
            let path = folder.path().join(format!("{run}"));
            scene(load, run).record(&path).unwrap();
            Given { label: label.into(), traces: vec![path], history: None }
        })
        .collect();
    let distinguish = distinguish::Options {
        scales: vec![1, 10],
        train_rows: 2_000,
        trees: 10,
        confidence: 0.999,
        ..distinguish::Options::default()
    };
    let report = audit(&given, &Options { distinguish }, |_| {}).unwrap();
    let finding = |check| report.findings.iter().find(|finding| finding.check == check).unwrap();
    // Runs of one load have to have been enough to compare.
    assert_eq!(finding("same-history").verdict, Verdict::Passed);
    (finding("two-histories").verdict == Verdict::Failed, failed(&report, true).join("; "))
}
