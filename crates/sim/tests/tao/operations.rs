//! Operations of concurrent clients while replies, and what is written, are held and reordered.

use std::collections::BTreeMap;

use fogbank_audit::{Given, Options, Verdict, audit};
use fogbank_oram::tao::canary::Leak as Tree;
use fogbank_sim::history::register::{self, Seen, Violation};
use fogbank_sim::scene::tao::canary::Leak;
use fogbank_sim::scene::tao::{Load, TaoPlayed, TaoScene};

/// What an order of all that was seen of each block comes to.
fn linearizable(played: &TaoPlayed) -> Result<(), Violation<Vec<u8>>> {
    let mut blocks: BTreeMap<u32, Vec<Seen<Vec<u8>>>> = BTreeMap::new();
    for seen in &played.seen {
        let (wrote, value, times) = (seen.wrote, seen.block.clone(), seen.times);
        blocks.entry(seen.address.0).or_default().push(Seen { wrote, value, times });
    }
    blocks.values().try_for_each(|seen| register::check(seen, &vec![0; seen[0].value.len()]))
}

/// A hundred thousand: every answer is that of the model, in the order of arrival; what clients saw
/// has an order without knowing that one; every record is as predicted, and nothing free leans
/// anywhere.
#[test]
fn a_hundred_thousand() {
    let scene = TaoScene { clients: 10, accesses: 10_000, ..TaoScene::new(Load::Registers, 1) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let played = scene.record(&path).unwrap();
    assert_eq!((&played.stopped, played.answered, played.wrong), (&None, 100_000, 0));
    assert_eq!((played.seen.len(), linearizable(&played)), (100_000, Ok(())));
    let given = Given { label: "a".into(), traces: vec![path], history: None };
    let report = audit(&[given], &Options::default(), |_| {}).unwrap();
    for finding in &report.findings {
        assert_ne!(finding.verdict, Verdict::Failed, "{}: {}", finding.check, finding.words);
    }
    let oracle = report.findings.iter().find(|finding| finding.check == "oracle").unwrap();
    assert_eq!(oracle.verdict, Verdict::Passed, "{}", oracle.words);
}

/// A bucket that is dropped too early comes back old: the model sees it, and so do clients.
#[test]
fn what_is_stale_is_told() {
    let leak = Some(Leak::Tree(Tree::DroppedEarly));
    let scene = TaoScene { leak, ..TaoScene::new(Load::Registers, 2) };
    let folder = tempfile::tempdir().unwrap();
    let played = scene.record(folder.path().join("trace")).unwrap();
    assert!(played.wrong > 0, "{:?}", played.stopped);
    assert_ne!(linearizable(&played), Ok(()));
}
