//! The commands that are not run, and why.

use std::collections::BTreeMap;

use crate::page::Page;

/// Why a block is not run here.
pub const REASONS: [(&str, &str); 4] = [
    ("builds", "it makes or installs programs; the pages are run with those of this build"),
    ("needs-cloud", "it needs an account that somebody pays for"),
    ("takes-long", "it is all tests or all benchmarks"),
    (
        "by-hand",
        "it needs a kernel's module, or mends or makes what other tests do to a whole machine",
    ),
];

/// How many blocks of each page are not run.
const NOT_RUN: &[(&str, &str, usize)] = &[
    ("README.md", "takes-long", 1),
    ("docs/benchmarks.md", "takes-long", 1),
    ("docs/clouds.md", "builds", 1),
    ("docs/clouds.md", "needs-cloud", 4),
    ("docs/disk.md", "by-hand", 7),
    ("docs/own-server.md", "builds", 1),
    ("docs/own-server.md", "needs-cloud", 2),
];

/// No block is left out that is not in the list, and the list has none that is run.
pub fn check(pages: &[Page]) {
    let mut found = BTreeMap::new();
    for page in pages {
        for reason in page.blocks().iter().filter_map(|block| block.reason) {
            *found.entry((page.name(), reason)).or_insert(0) += 1;
        }
    }
    let listed = NOT_RUN.iter().map(|(page, reason, count)| ((*page, *reason), *count)).collect();
    assert_eq!(found, listed, "found, and listed");
}
