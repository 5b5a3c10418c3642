//! A site's key on its way to another machine, under a passphrase.

use std::fs::{read_to_string, set_permissions, write};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::{fogbank, said};

#[test]
fn a_client_joins_by_a_key_under_a_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let secret = |name: &str, text: &str| {
        write(at(name), text).unwrap();
        set_permissions(at(name), PermissionsExt::from_mode(0o600)).unwrap();
    };
    let ends = |code: i32, words: &[&str]| {
        let told = fogbank(&[&["site"], words].concat());
        let text = said(&told);
        assert_eq!(told.status.code(), Some(code), "{words:?}: {text}");
        text
    };
    let store = format!("file://{}", at("cloud"));
    ends(0, &["create", "--data", &at("one"), "--size", "1MiB", "--store", &store]);
    let key = read_to_string(at("one/proxy/key")).unwrap();
    secret("words", "five words nobody would guess\n");
    secret("others", "five words nobody could guess\n");
    secret("empty", "\n");
    secret("short", "four words\n");
    let told_id = ends(0, &["status", "--data", &at("one")]);
    let id = told_id.lines().find_map(|line| line.strip_prefix("site ")).unwrap();

    let (one, invited) = (at("one"), at("invited"));
    let invite = |file: &str| {
        ["invite", "--data", &one, "--to", &invited, "--passphrase-file", file].map(str::to_owned)
    };
    let invite = |code, file: &str| {
        let words = invite(file);
        ends(code, &words.each_ref().map(String::as_str))
    };
    assert!(invite(64, &at("empty")).contains("is empty"));
    assert!(invite(64, &at("short")).contains("has 10 characters"));
    assert!(invite(64, &at("none")).contains("cannot read the passphrase file"));
    set_permissions(at("words"), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(invite(74, &at("words")).contains("chmod 600"));
    set_permissions(at("words"), PermissionsExt::from_mode(0o600)).unwrap();
    let unasked = ends(64, &["invite", "--data", &one, "--to", &invited]);
    assert!(unasked.contains("--passphrase-file"), "{unasked}");
    assert!(!std::path::Path::new(&invited).exists());
    let done = invite(0, &at("words"));
    assert!(done.contains(id) && !done.contains("nobody"), "{done}");
    assert!(invite(64, &at("words")).contains("already"));
    let wrapped = read_to_string(&invited).unwrap();
    assert!(!wrapped.contains(key.trim().rsplit(' ').next().unwrap()));

    let mut clients = 0;
    let mut join = |code: i32, file: &str, words: &[&str]| {
        clients += 1;
        let data = at(&format!("joining-{clients}"));
        let line = ["join", "--data", &data, "--store", &store, "--id", id, "--key", file];
        let told = ends(code, &[&line[..], words].concat());
        let kept = read_to_string(format!("{data}/proxy/key"));
        assert_eq!(kept.ok(), (code == 0).then(|| key.clone()), "{told}");
        told
    };
    let (words, others) = (at("words"), at("others"));
    join(0, &invited, &["--passphrase-file", &words]);
    let wrong = join(64, &invited, &["--passphrase-file", &others]);
    assert!(wrong.contains("is another one"), "{wrong}");
    assert!(join(64, &invited, &["--passphrase-file", &at("short")]).contains("10 characters"));
    assert!(join(64, &invited, &[]).contains("--passphrase-file"));
    let plain = join(64, &at("one/proxy/key"), &["--passphrase-file", &words]);
    assert!(plain.contains("under no passphrase"), "{plain}");
    secret("cut", &wrapped[..wrapped.len() - 9]);
    secret("flipped", &wrapped.replacen(" 262144 ", " 262145 ", 1));
    for damaged in ["cut", "flipped"] {
        let told = join(74, &at(damaged), &["--passphrase-file", &words]);
        assert!(told.contains("damaged or cut short"), "{told}");
    }
    set_permissions(&invited, PermissionsExt::from_mode(0o640)).unwrap();
    assert!(join(74, &invited, &["--passphrase-file", &words]).contains("chmod 600"));
    set_permissions(&invited, PermissionsExt::from_mode(0o600)).unwrap();
    // Where a client has its own key a sealed one is none.
    secret("one/proxy/key", &wrapped);
    let told = ends(74, &["status", "--data", &at("one")]);
    assert!(told.contains("sealed under a passphrase"), "{told}");
    secret("one/proxy/key", &key);
    // A backup opens by it, too.
    ends(0, &["backup", "--data", &at("one"), "--to", &at("backup")]);
    let anew = format!("file://{}", at("other-cloud"));
    let from = ["restore", "--data", &at("restored"), "--from", &at("backup"), "--store", &anew];
    let by = ["--key", &invited, "--passphrase-file", &words];
    ends(0, &[&from[..], &by].concat());
}

/// What the program says at a terminal, at which this is typed.
fn typing(arguments: &[&str], typed: &str) -> (Option<i32>, String) {
    let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("{} site {}", env!("CARGO_BIN_EXE_fogbank"), quoted.join(" "));
    let typed: Vec<String> = typed.lines().map(|line| format!("{line}\n")).collect();
    let typed: Vec<&[u8]> = typed.iter().map(String::as_bytes).collect();
    at_a_terminal(&line, &typed, || {})
}

/// What a shell's line comes to at a terminal, at which an answer is typed to each question; and
/// this is done after the last one.
fn at_a_terminal(line: &str, answers: &[&[u8]], then: impl FnOnce()) -> (Option<i32>, String) {
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = script.stdin.take().unwrap();
    let mut shown = std::io::BufReader::new(script.stdout.take().unwrap());
    let mut told = Vec::new();
    // Each when it has been asked for: the terminal is silent from then on.
    for answer in answers {
        let before = told.len();
        while !told[before..].windows(2).any(|end| end == b":\r") {
            let mut byte = [0];
            if std::io::Read::read(&mut shown, &mut byte).unwrap() == 0 {
                break;
            }
            told.push(byte[0]);
        }
        keys.write_all(answer).unwrap();
    }
    then();
    std::io::Read::read_to_end(&mut shown, &mut told).unwrap();
    let told = String::from_utf8_lossy(&told).into_owned();
    (script.wait().unwrap().code(), told)
}

#[test]
fn a_passphrase_is_typed_where_nobody_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let store = format!("file://{}", at("cloud"));
    let (one, two, file) = (at("one"), at("two"), at("invited"));
    let made = ["site", "create", "--data", &one, "--size", "1MiB", "--store", &store];
    assert!(fogbank(&made).status.success());
    let told_id = said(&fogbank(&["site", "status", "--data", &one]));
    let id = told_id.lines().find_map(|line| line.strip_prefix("site ")).unwrap();
    let invite = ["invite", "--data", &one, "--to", &file];
    let (code, told) = typing(&invite, "five words nobody guesses\nfive words nobody guessed\n");
    assert!(code == Some(64) && told.contains("differ"), "{told}");
    let (code, told) = typing(&invite, "five words nobody guesses\nfive words nobody guesses\n");
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("guesses"), "{told}");
    let join = ["join", "--data", &two, "--store", &store, "--id", id, "--key", &file];
    let (code, told) = typing(&join, "five words that are others\n");
    assert!(code == Some(64) && !told.contains("others"), "{told}");
    let (code, told) = typing(&join, "five words nobody guesses\n");
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("guesses"), "{told}");
    let keys = [&one, &two].map(|data| read_to_string(format!("{data}/proxy/key")).unwrap());
    assert_eq!(keys[0], keys[1]);
}

/// Ctrl-C and other signals at a question: the terminal shows again what is typed, and the code is
/// that of an interruption.
#[test]
fn a_signal_at_the_question_gives_the_terminal_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let store = format!("file://{}", at("cloud"));
    let (one, file) = (at("one"), at("invited"));
    let made = ["site", "create", "--data", &one, "--size", "1MiB", "--store", &store];
    assert!(fogbank(&made).status.success());
    let program = env!("CARGO_BIN_EXE_fogbank");
    let pid = at("pid");
    let ask = format!("{program} site invite --data {one} --to {file}");
    let line =
        format!("trap : INT; sh -c 'echo $$ > {pid}; exec {ask}'; echo ended by $?; stty -a");
    let terminate = || {
        let pid = read_to_string(&pid).unwrap();
        assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    };
    let first = &b"five words nobody guesses\n"[..];
    for told in [
        at_a_terminal(&line, &[b"\x03"], || {}),
        at_a_terminal(&line, &[b"half of it\x03"], || {}),
        at_a_terminal(&line, &[first, b"five\x03"], || {}),
        at_a_terminal(&line, &[b""], terminate),
    ] {
        let (_, told) = told;
        assert!(told.contains("ended by 130"), "{told}");
        assert!(told.contains(" echo ") && !told.contains("-echo "), "{told}");
        assert!(!std::path::Path::new(&file).exists());
    }
}
