//! What each check looks for, in words for people who do not know oblivious RAM.

/// What stands beside a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// What it looks for.
    pub looks_for: &'static str,
    /// What the cloud would learn if it failed.
    pub if_it_fails: &'static str,
}

/// The explanation of the first stem that `check` contains; checks of other names speak for
/// themselves.
pub fn explain(check: &str) -> Option<Explanation> {
    let known = KNOWN.iter().find(|(stems, _, _)| stems.iter().any(|stem| check.contains(stem)));
    known.map(|(_, looks_for, if_it_fails)| Explanation { looks_for, if_it_fails })
}

/// The name of a check as a title: `leaves-uniform` is `Leaves uniform`.
pub fn title(check: &str) -> String {
    let spaced = check.replace('-', " ");
    let mut letters = spaced.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// By stem of the name, the more particular first.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (
        &["oracle", "predict", "breach"],
        "Replays the public rules of the engine beside the trace: every message, its place, its \
         size and its order must be the one that follows from the configuration, the clock and \
         what was already shown. One difference is enough to fail.",
        "Some message depends on something that is not public.",
    ),
    (
        &["runs-independent"],
        "Compares runs with each other: no two may choose the same paths or cells, or seal to the \
         same bytes, more often than chance would.",
        "Runs share their randomness: what one of them shows tells about the other.",
    ),
    (
        &["between-runs"],
        "Compares how late messages leave in one run with how late they leave in another. A leak \
         only if the runs differ in nothing but what was asked.",
        "The cloud can tell by its clock which of the two it looks at.",
    ),
    (
        &["across-versions"],
        "Compares the cells that are read in one version of a bucket with those of the next: each \
         version has a fresh order.",
        "The cloud can guess which cells hold data from those of the version before.",
    ),
    (
        &["same", "control", "null"],
        "Asks the classifier to tell apart runs of the same workload. It must not be able to, or \
         its verdict on different workloads would mean nothing.",
        "The classifier knows a run by its accidents: record more runs, interleaved.",
    ),
    (
        &["histor", "advantage", "distinguish", "guess"],
        "Trains a classifier on windows of some runs and lets it guess, on runs it never saw, \
         which of two workloads it looks at. An advantage of 0 is a coin toss, 1 is always right.",
        "The cloud can tell these two workloads apart by watching.",
    ),
    (
        &["lag", "pairs", "independen", "serial", "repeat"],
        "Compares each path with those shortly before it: an access must say nothing about the \
         next ones.",
        "The cloud can tell when the same record is touched again.",
    ),
    (
        &["evicted"],
        "Compares the paths read with the half of the tree that was rewritten last, where a \
         record that was just used would be likelier to lie.",
        "The cloud can tell recently used records from others.",
    ),
    (
        &["subset", "retire", "z-"],
        "Looks at which cells are read when a bucket is rewritten: any set of the unread ones \
         must be as likely as any other.",
        "The cloud can tell which cells of a bucket held data.",
    ),
    (
        &["rank", "cell", "slot"],
        "Looks at which of a bucket's unread cells is read: each must be as likely as any other.",
        "The cloud can tell cells that hold data from padding.",
    ),
    (
        &["leaf", "leaves", "path"],
        "Counts which paths of the tree are read: each must be as likely as any other.",
        "Some records show by the path they lie on.",
    ),
    (
        &["fresh", "ciphertext", "fingerprint"],
        "Looks for sealed bytes that were ever sent twice: what is rewritten must be sealed anew.",
        "The cloud can follow a record from place to place.",
    ),
    (
        &["size", "length"],
        "Compares the sizes of all messages of one kind: there must be one.",
        "The amount of data shows.",
    ),
    (
        &["gap", "tim", "depart", "delay", "late"],
        "Compares the time of each message with the public cause before it: the wait must not \
         depend on what clients do.",
        "The cloud can tell by its clock how busy the proxy is, or the machine had another load in \
         the meantime: repeat on a quiet machine; if it persists it is the proxy.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_explained_by_their_own_kind() {
        let words = |check: &str| explain(check).map(|e| e.looks_for).unwrap_or_default();
        assert!(words("leaves-uniform").contains("paths of the tree"));
        assert!(words("leaves-lagged").contains("shortly before"));
        assert!(words("leaves-against-last-evicted").contains("rewritten last"));
        assert!(words("ciphertexts-fresh").contains("sent twice"));
        assert!(words("two-histories").contains("coin toss"));
        assert!(words("same-history").contains("same workload"));
        assert!(words("runs-independent-leaves").contains("with each other"));
        assert!(words("slots-across-versions").contains("fresh order"));
        assert!(words("departures-between-runs").contains("how late"));
        assert_eq!(explain("something-else"), None);
        assert_eq!(title("leaves-uniform"), "Leaves uniform");
        assert_eq!(title(""), "");
    }
}
