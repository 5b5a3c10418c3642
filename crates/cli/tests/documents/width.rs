//! How wide prose is.

use crate::page::Page;

const COLUMNS: usize = 100;

/// The lines that are wider, each with its page; tables and blocks may be.
pub fn wide(page: &Page) -> Vec<String> {
    let mut in_block = false;
    let mut wide = Vec::new();
    for (at, line) in page.text().lines().enumerate() {
        in_block ^= line.trim_start().starts_with("```");
        let is_table = line.trim_start().starts_with('|');
        if !in_block && !is_table && line.chars().count() > COLUMNS {
            wide.push(format!("{}:{}: more than {COLUMNS} columns", page.name(), at + 1));
        }
    }
    wide
}
