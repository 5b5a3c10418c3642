//! Counts in words.

use std::fmt::Display;

/// "1 block", and of any other count "2 blocks".
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    let what = if count == N::from(1) { one } else { many };
    format!("{count} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_a_form_of_its_own() {
        let said = |count: u64| counted(count, "batch", "batches");
        assert_eq!([said(0), said(1), said(2)], ["0 batches", "1 batch", "2 batches"]);
    }
}
