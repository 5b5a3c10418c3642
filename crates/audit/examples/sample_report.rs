//! Writes pages about traces that were made up, to look at: one that passed, one that failed, one
//! with too little data.
//!
//! `cargo run -p fogbank-audit --example sample_report -- FOLDER`

use std::path::PathBuf;

use fogbank_audit::Verdict;

#[path = "../tests/report/sample.rs"]
#[allow(dead_code)] // the tests use the rest
mod sample;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    let pages = [
        ("passed", Verdict::Passed, true),
        ("failed", Verdict::Failed, true),
        ("open", Verdict::TooFew, false),
    ];
    for (name, verdict, with_history) in pages {
        let path = folder.join(format!("{name}.html"));
        sample::report(verdict, 400, with_history).write_html(&path)?;
        println!("{}", path.display());
    }
    Ok(())
}
