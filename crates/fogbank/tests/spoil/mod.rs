//! A cloud that changes what it holds.

#![allow(clippy::unwrap_used)] // helpers of tests, too

use std::path::Path;

/// Changes every 64th byte of all cells in a file store; how many bytes that were.
pub fn spoil(store: &Path) -> usize {
    let mut spoiled = 0;
    for array in std::fs::read_dir(store.join("arrays")).unwrap() {
        let cells = array.unwrap().path().join("cells");
        let mut bytes = std::fs::read(&cells).unwrap();
        spoiled += bytes.iter_mut().step_by(64).map(|byte| *byte ^= 1).count();
        std::fs::write(cells, bytes).unwrap();
    }
    spoiled
}
