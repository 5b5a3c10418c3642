//! Commands that are printed to be typed next do what they say as they stand, whatever is in the
//! paths and URLs in them.

use std::fs::{Permissions, create_dir, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::{fogbank, said};

/// What a shell has to be kept from.
const STRANGE: &str = "the doctor's & patients; $HOME (1)";

/// What is printed after a word at the beginning of a line.
fn printed<'a>(told: &'a str, what: &str) -> &'a str {
    let lines = told.lines().filter_map(|line| line.trim_start().strip_prefix(what));
    let mut commands = lines.filter_map(|line| line.find("fogbank ").map(|at| &line[at..]));
    commands.next().unwrap_or_else(|| panic!("no {what} in {told}"))
}

/// The words of a line, as a shell takes them.
fn words(line: &str) -> Vec<String> {
    let line = format!("printf '%s\\n' {line}");
    let told = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(told.status.success(), "{line}: {}", said(&told));
    said(&told).lines().map(str::to_owned).collect()
}

/// Types a line as it stands, and `more` after it, in this folder.
fn typed(folder: &Path, line: &str, more: &str) -> Output {
    let programs = Path::new(env!("CARGO_BIN_EXE_fogbank")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{line} {more}")]).current_dir(folder).env("PATH", path);
    shell.output().unwrap()
}

#[test]
fn hints_are_typed_as_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join(STRANGE);
    create_dir(&home).unwrap();
    let at = |name: &str| home.join(name).display().to_string();
    write(at("words"), "five words nobody would guess\n").unwrap();
    set_permissions(at("words"), Permissions::from_mode(0o600)).unwrap();
    let done = |line: &[&str]| {
        let told = fogbank(line);
        assert!(told.status.success(), "{line:?}: {}", said(&told));
        said(&told)
    };
    let store = format!("file://{}", at("cloud"));
    let told = done(&["site", "create", "--data", &at("one"), "--size", "1MiB", "--store", &store]);
    assert_eq!(words(printed(&told, "or")), ["fogbank", "site", "serve", "--data", &at("one")]);
    assert!(words(printed(&told, "next")).contains(&at("one")));
    let by_words = "--passphrase-file words";
    let told = typed(&home, printed(&told, "others join"), by_words);
    assert!(told.status.success(), "{}", said(&told));
    let told = said(&told);
    let joined = typed(&home, printed(&told, "they join"), by_words);
    assert!(joined.status.success(), "{told}: {}", said(&joined));
    let joined = said(&joined);
    let served = words(printed(&joined, "next"));
    assert!(home.join(served.last().unwrap()).join("proxy/key").exists(), "{joined}");
    // Of stores and volumes.
    let (data, store) = (at("volume"), format!("file://{}", at("elsewhere")));
    let told = done(&["volume", "create", "--data", &data, "--size", "1MiB", "--store", &store]);
    for what in ["next", "or"] {
        let words = words(printed(&told, what));
        assert!(words.contains(&data) && words.contains(&store), "{words:?}");
    }
    done(&["backup", "--data", &data, "--store", &store, "--to", &at("backup")]);
    let (anew, key) = (at("anew"), at("volume/proxy/key"));
    let told = done(&["restore", "--from", &at("backup"), "--key", &key, "--data", &anew]);
    assert_eq!(words(printed(&told, "next:")), ["fogbank", "volume", "serve", "--data", &anew]);
    let told = done(&["rotate-key", "--data", &data, "--store", &store, "--to", &at("rotated")]);
    assert_eq!(words(printed(&told, "next:")).last(), Some(&at("rotated")));
    // A way to mend permissions.
    set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let told = said(&fogbank(&["verify", "--data", &data, "--store", &store]));
    let mend = &told[told.find("chmod").unwrap()..];
    assert!(typed(&home, mend, "").status.success(), "{told}");
    done(&["verify", "--data", &data, "--store", &store]);
}
