//! What is typed wrongly is said.

#[path = "../../../process/tests/typed/numbers.rs"]
mod numbers;

use std::path::Path;
use std::process::Command;

/// The end of a command in a folder, with a variable set, and all that it said.
fn run(folder: &Path, name: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-cloud"));
    let output = command.current_dir(folder).args(args).env(name, "d").output().expect("it runs");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    (output.status.code(), said.concat())
}

#[test]
fn a_number_out_of_its_limits_is_refused_with_them() {
    let flags = numbers::check(env!("CARGO_BIN_EXE_fogbank-cloud"), &[]);
    assert!(flags > 10, "{flags}");
}

/// A setting that is misspelt, or that there is none of, would not be made, and nobody would know.
#[test]
fn a_variable_that_is_no_setting_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (code, words) = run(folder, "FOGBANK_DTAA", &["tenant", "list"]);
    assert_eq!(code, Some(64), "{words}");
    let guess = "fogbank-cloud: the environment sets FOGBANK_DTAA, which is no setting; did you \
                 mean FOGBANK_DATA?";
    assert!(words.contains(guess), "{words}");
    let (code, words) = run(folder, "FOGBANK_FOO", &["tenant", "add", "clinic"]);
    assert!(code == Some(64) && !words.contains("did you mean"), "{words}");
    assert!(std::fs::read_dir(folder).unwrap().next().is_none(), "it made something");
    // What is the other program's is no mistake.
    assert_eq!(run(folder, "FOGBANK_STORE", &["tenant", "add", "clinic"]).0, Some(0));
}

/// A tenant is for whatever needs one.
#[test]
fn a_new_tenant_is_told_with_all_that_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let (code, words) = run(folder.path(), "FOGBANK_TEST_", &["tenant", "add", "clinic"]);
    assert_eq!(code, Some(0), "{words}");
    for command in [
        "serve",
        "volume create --size SIZE",
        "volume create --engine multicloud --size SIZE",
        "site create --size SIZE",
    ] {
        let url = "'grpc://HOST:PORT/clinic?credentials=FILE'";
        assert!(words.contains(&format!("fogbank {command} --store {url}")), "{command}: {words}");
    }
}

/// A folder of traces is no place for other traces.
#[test]
fn what_was_recorded_is_not_recorded_over() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("traces")).unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--record", "traces"];
    let (code, words) = run(folder.path(), "FOGBANK_TEST_", &args);
    assert_eq!(code, Some(64), "{words}");
    assert!(words.contains("choose a new folder for --record"), "{words}");
}

/// The system's "Address already in use" names neither the flag nor the address.
#[test]
fn a_port_that_is_taken_is_named_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--metrics", "--register-listen"] {
        let mut args = vec!["serve", "--data", "new", flag, &taken];
        if flag != "--listen" {
            args.extend(["--listen", "127.0.0.1:0"]);
        }
        let (code, words) = run(folder.path(), "FOGBANK_TEST_", &args);
        assert_eq!(code, Some(64), "{words}");
        assert!(words.contains(&format!("{flag} {taken} is taken by another program")), "{words}");
        assert!(words.contains(&format!("choose another port: {flag} 127.0.0.1:")), "{words}");
        assert!(!folder.path().join("new").exists(), "{flag}: it made something");
    }
}

#[test]
fn where_a_tenant_keeps_its_store_is_said_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let said = |args: &[&str]| run(folder.path(), "FOGBANK_TEST_", args);
    for wrong in ["file:///srv/x", "/srv/x", "s3://", "s3://user:hush@bucket", "s3://b/a//b"] {
        let (code, words) = said(&["tenant", "add", "clinic", "--store", wrong]);
        assert!(code == Some(64) && words.contains("give s3://BUCKET/PREFIX"), "{words}");
        assert!(!words.contains("hush"), "{words}");
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "it made something");
    }
    let (code, words) = said(&["tenant", "add", "clinic", "--store", "s3://bucket/clinic"]);
    assert!(code == Some(0) && words.contains("store        s3://bucket/clinic"), "{words}");
    let (code, words) = said(&["tenant", "add", "clinic", "--store", "s3://bucket/other"]);
    assert!(code == Some(64) && words.contains("s3://bucket/clinic and stays"), "{words}");
    let (code, words) = said(&["tenant", "add", "other", "--store", "s3://bucket/clinic/x"]);
    assert!(code == Some(64) && words.contains("such as s3://bucket/other"), "{words}");
    let (_, words) = said(&["tenant", "list"]);
    assert!(words.contains("at s3://bucket/clinic") && !words.contains("other"), "{words}");
    let (code, words) = said(&["serve", "--memory", "--listen", "127.0.0.1:0"]);
    assert!(code == Some(64) && words.contains("leave --memory out"), "{words}");
    let (code, words) = said(&["tenant", "remove", "clinic"]);
    assert!(code == Some(64) && words.contains("its objects at s3://bucket/clinic"), "{words}");
    let (code, words) = said(&["tenant", "remove", "clinic", "--delete-its-data"]);
    assert!(code == Some(0) && words.contains("stay at s3://bucket/clinic"), "{words}");
}
