//! Says which commit a release is built from, where there is one: an unpacked archive is of none,
//! and a build for development would be made anew at every commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = match std::env::var("PROFILE").as_deref() {
        Ok("release") => commit().map(|commit| format!(" ({commit})")).unwrap_or_default(),
        _ => " (for development)".into(),
    };
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=FOGBANK_VERSION={version}{of}");
}

/// The commit that is checked out, if this file is part of it.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for moved in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", moved])?;
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
