//! Every rule of the specification, and of what it stands on, is broken by something and found by
//! its name: a rule that is deleted, or never looked at, turns the test red that breaks it. Some
//! rules are looked at in several places; this does not say that each of these is reached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fogbank_sim::scene::partition::canary;

use crate::spoiled;

/// Rules of stores with epochs, which `partition` has none of; the tests of `ring` break them.
const OF_EPOCHS: [&str; 2] = ["delta-size", "epoch-completed-after-crash"];

/// What looks like the name of a rule and is none.
const NO_RULE: [&str; 1] = ["reads-nothing"];

fn sources() -> Vec<PathBuf> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audit/src/oracle");
    let folders = ["partition", "immediate", "chain"].map(|folder| oracle.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = files.map(|file| file.unwrap().path());
    files.chain(["blob.rs", "replies.rs", "joint.rs"].map(|file| oracle.join(file))).collect()
}

/// The names in a source: words in quotes, of small letters and hyphens.
fn names(source: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        let parts = word.split('-');
        word.contains('-')
            && parts
                .clone()
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase()))
    };
    source.lines().flat_map(|line| line.split('"')).filter(is_name)
}

#[test]
fn every_rule_is_broken_by_something() {
    let sources: Vec<String> =
        sources().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let named: BTreeSet<&str> = sources.iter().flat_map(|source| names(source)).collect();
    let caught = canary::ALL.into_iter().map(canary::caught_by);
    let caught = caught.chain(canary::SHELL.map(|(_, check)| check)).chain(spoiled::rules());
    let caught: BTreeSet<&str> = caught.chain(OF_EPOCHS).chain(NO_RULE).collect();
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<_> = named.difference(&caught).collect();
    assert!(missing.is_empty(), "nothing breaks {missing:?}");
}
