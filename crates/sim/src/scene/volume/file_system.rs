//! What a real ext4 asked of its disk, as `scripts/record-file-system-loads.sh` took it down.

use std::sync::OnceLock;

use fogbank_env::Nanos;

/// Blocks of the disk, of 4 KiB.
pub const BLOCKS: u32 = 16_384;

/// One block of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// When, from the first on.
    pub at: Nanos,
    pub writes: bool,
    pub block: u32,
}

/// One file of 12 MiB is copied to it.
pub(super) fn one_large_file() -> &'static [Asked] {
    static ASKED: OnceLock<Vec<Asked>> = OnceLock::new();
    ASKED.get_or_init(|| parse(include_str!("file_system/one-large-file.txt")))
}

/// Many files of a few kilobytes are made on it.
pub(super) fn many_small_files() -> &'static [Asked] {
    static ASKED: OnceLock<Vec<Asked>> = OnceLock::new();
    ASKED.get_or_init(|| parse(include_str!("file_system/many-small-files.txt")))
}

/// Lines of: milliseconds, `r` or `w`, first block, blocks. A line that is none counts for nothing.
fn parse(text: &str) -> Vec<Asked> {
    let request = |line: &str| {
        let mut words = line.split(' ');
        let at = words.next()?.parse::<Nanos>().ok()? * 1_000_000;
        let writes = words.next()? == "w";
        let (first, count): (u32, u32) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((first..first + count).map(move |block| Asked { at, writes, block }))
    };
    text.lines().filter_map(request).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_request_within_the_disk() {
        for (text, asked) in [
            (include_str!("file_system/one-large-file.txt"), one_large_file()),
            (include_str!("file_system/many-small-files.txt"), many_small_files()),
        ] {
            let blocks = |line: &str| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap();
            assert_eq!(asked.len(), text.lines().map(blocks).sum::<usize>());
            assert!(asked.len() > 1_000 && asked.iter().all(|one| one.block < BLOCKS));
            assert!(asked.is_sorted_by_key(|one| one.at));
        }
    }
}
