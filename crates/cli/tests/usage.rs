//! What is typed wrongly, or would destroy what is read, is said and changes nothing.

#[path = "../../process/tests/typed/numbers.rs"]
mod numbers;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use fogbank_env::SystemClock;
use fogbank_store::trace::{TraceOptions, TraceWriter};

fn fogbank(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.current_dir(folder).args(args).output().expect("the binary runs")
}

/// Makes a program. Another process writes it: a child that another test starts meanwhile would
/// inherit our open file, and nobody may run a file that is open for writing.
fn install(from: &Path, program: &Path) {
    let status = Command::new("install").arg("-m755").args([from, program]).status();
    assert!(status.expect("install runs").success(), "{}", program.display());
}

/// What is said with the exit code of wrong usage.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = fogbank(folder, args);
    let words = String::from_utf8(output.stderr).expect("words");
    assert_eq!(output.status.code(), Some(64), "{args:?}: {words}");
    words
}

fn trace(folder: &Path, name: &str, head: &[u8]) {
    let clock = Arc::new(SystemClock::new());
    let writer = TraceWriter::create(folder.join(name), head, clock, TraceOptions::default());
    writer.and_then(|writer| writer.finish().map_err(std::io::Error::other)).expect("a trace");
}

#[test]
fn a_number_out_of_its_limits_is_refused_with_them() {
    let flags = numbers::check(
        env!("CARGO_BIN_EXE_fogbank"),
        &["bench", "tune", "audit", "completions", "man"],
    );
    assert!(flags > 60, "{flags}");
}

#[test]
fn wrong_usage_exits_with_64_and_help_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    refused(folder, &["no-such-command"]);
    let help = fogbank(folder, &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Exit codes"));
    let version = fogbank(folder, &["--version"]);
    let words = String::from_utf8(version.stdout).unwrap();
    // A build for development says so; a release, which commit it is of.
    assert!(words.starts_with(concat!("fogbank ", env!("CARGO_PKG_VERSION"), " (")), "{words}");
}

/// Whoever reads the help of one command has not read that of the others.
#[test]
fn every_help_names_all_schemes() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["serve", "load", "recover", "verify", "backup", "inspect", "rotate-key"] {
        let help = fogbank(folder.path(), &[command, "--help"]);
        let help = String::from_utf8(help.stdout).unwrap();
        for scheme in ["file://", "s3://", "az://", "gs://", "grpc://", "dynamodb://"] {
            assert!(help.contains(scheme), "{scheme} is not in the help of {command}");
        }
    }
}

/// What measures, tunes and audits stands beside the program that holds the key.
#[test]
fn commands_of_the_other_program_are_handed_to_it_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("fogbank");
    install(Path::new(env!("CARGO_BIN_EXE_fogbank")), &ours);
    let run = |args: &[&str]| Command::new(&ours).args(args).output().expect("the binary runs");
    for command in ["bench", "audit", "tune"] {
        let alone = run(&[command, "--help"]);
        let words = String::from_utf8(alone.stderr).unwrap();
        assert_eq!(alone.status.code(), Some(74), "{words}");
        assert!(words.contains("fogbank-lab") && words.contains("not there"), "{words}");
    }
    let lab = folder.path().join("fogbank-lab");
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 3\n").unwrap();
    install(&script, &lab);
    let given = run(&["audit", "--trace", "a=b c", "--help", "--", "-x", ""]);
    assert_eq!(given.status.code(), Some(3));
    let told = String::from_utf8(given.stdout).unwrap();
    assert_eq!(told, "<audit><--trace><a=b c><--help><--><-x><>");
}

/// What would have no effect was meant to have one.
#[test]
fn flags_that_matter_to_another_schedule_only_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [["--linger-s", "5"], ["--time-zone", "UTC"], ["--schedule", "connected"]] {
        let serve = ["serve", "--data", "d", "--listen", "127.0.0.1:0"];
        let words = refused(folder.path(), &[&serve[..], &flags].concat());
        assert!(words.contains("--schedule") && words.contains(flags[0]), "{words}");
        // What has another name now is told with it.
        assert!(flags[0] == "--time-zone" || words.contains("--rest-after 1m"), "{words}");
    }
}

#[cfg(not(feature = "dynamodb"))]
#[test]
fn a_build_that_lacks_a_cloud_says_how_to_make_one_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = |url| ["serve", "--store", url, "--data", "d", "--listen", "127.0.0.1:0"];
    let words = refused(folder.path(), &store("dynamodb://clinic/x"));
    assert!(words.contains("--features dynamodb"), "{words}");
    assert!(refused(folder.path(), &store("dynamodb://x")).contains("dynamodb://TABLE"));
}

/// The address would be refused too, but later: no server is left running if the folder is not.
#[test]
fn what_is_written_for_the_owner_stays_out_of_the_folder_of_the_cloud() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let is_refused = |args: &[&str]| {
        let words = refused(folder, args);
        assert!(words.contains("the folder of the cloud"), "{args:?}: {words}");
        assert!(std::fs::read_dir(folder).unwrap().next().is_none(), "{args:?} left something");
    };
    for flag in ["--record", "--history"] {
        is_refused(&["serve", "--listen", "nowhere", "--data", "d", flag, "d/cloud/new"]);
        let store = ["--store", "file://c", flag, "c/new"];
        is_refused(&[&["serve", "--listen", "nowhere"][..], &store].concat());
    }
}

#[test]
fn a_record_that_exists_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trace(folder, "t", b"{}");
    let args = ["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--record", "t"];
    let words = refused(folder, &args);
    assert!(words.contains("choose a new name") && words.contains("LABEL=old,new"), "{words}");
}

/// As with `fogbank plan | head -n 3`.
#[test]
fn whoever_stops_reading_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.current_dir(folder.path()).arg("plan").stdout(write);
    let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.is_empty(), "{:?}: {told}", output.status);
}

/// The folder of somebody's own files, given by mistake.
#[test]
fn a_folder_with_other_things_in_it_gets_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("letter"), "dear").unwrap();
    std::fs::write(folder.path().join("pairs.csv"), "key,value\na,1\n").unwrap();
    let commands: [&[&str]; 3] = [
        &["serve", "--data", "home", "--listen", "127.0.0.1:0", "--history", "home/history"],
        &["load", "--from", "pairs.csv", "--data", "home", "--capacity", "1000"],
        &["volume", "create", "--size", "1MiB", "--data", "home"],
    ];
    for command in commands {
        let words = refused(folder.path(), command);
        assert!(words.contains("--data home") && words.contains("letter"), "{words}");
        assert!(words.contains("such as home/fogbank-data"), "{words}");
        let left: Vec<_> = std::fs::read_dir(&home).unwrap().map(|e| e.unwrap()).collect();
        assert_eq!(left.len(), 1, "{command:?} wrote something");
    }
}

/// Nobody reads 177 lines to find a port: one line a flag, in groups, on a terminal of 80 columns.
#[test]
fn the_short_help_of_serve_fits_a_screen() {
    let folder = tempfile::tempdir().unwrap();
    let help = |flag| String::from_utf8(fogbank(folder.path(), &["serve", flag]).stdout).unwrap();
    let (short, long) = (help("-h"), help("--help"));
    let lines = short.lines().count();
    assert!(lines <= 60, "{lines} lines\n{short}");
    let wide: Vec<&str> = short.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    for group in ["Where:", "Shape of a new store:", "Clients:", "When:", "To look at:"] {
        assert!(short.contains(&format!("\n{group}\n")), "no {group}\n{short}");
    }
    // What is left out there is said in the long one.
    assert!(long.lines().count() > 2 * lines);
    for said in ["FOGBANK_WRITE_BATCH", "s3://BUCKET/PREFIX", "register-server", "Europe/Berlin"] {
        assert!(long.contains(said) && !short.contains(said), "{said}");
    }
}

/// A setting that is misspelt would not be made, and nobody would know.
#[test]
fn a_variable_that_is_no_setting_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.current_dir(folder.path()).args(args).env(name, "1000");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for args in [&["plan"][..], &["serve", "--data", "d"], &["inspect"]] {
        let (code, words) = run("FOGBANK_CAPACTIY", args);
        assert_eq!(code, Some(64), "{words}");
        assert!(words.contains("FOGBANK_CAPACTIY"), "{words}");
        assert!(words.contains("did you mean FOGBANK_CAPACITY?"), "{words}");
    }
    assert!(!folder.path().join("d").exists());
    let (code, words) = run("FOGBANK_FOO", &["plan"]);
    assert!(code == Some(64) && !words.contains("did you mean"), "{words}");
    for known in ["FOGBANK_CAPACITY", "FOGBANK_SIM_SCALE", "FOGBANK_CLOUD_CREDENTIALS"] {
        assert_eq!(run(known, &["plan"]).0, Some(0), "{known}");
    }
}

#[test]
fn settings_are_checked_without_making_anything() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("shape.toml"), "capacity = 5000\nwrite-batch = 64\n").unwrap();
    std::fs::write(folder.join("wrong.toml"), "capactiy = 5000\n").unwrap();
    std::fs::write(folder.join("zero.toml"), "capacity = 0\n").unwrap();
    let check = ["config", "check", "--data", "d", "--config", "shape.toml", "--batch", "50"];
    let told = fogbank(folder, &check);
    let words = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(0));
    let epochs = "epochs of 2 x 50 reads and 64 writes, one every 480 ms";
    for part in ["5000 records", epochs, "--capacity 5000", "--write-batch 64"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(!folder.join("d").exists());
    let open = folder.join("password");
    std::fs::write(&open, "secret\n").unwrap();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&open, readable).unwrap();
    let tls = ["--tls-cert", "password", "--tls-key", "password"];
    let wrong: &[(&[&str], &str)] = &[
        (&["--config", "wrong.toml"], "capactiy"),
        (&["--config", "zero.toml"], "--capacity 0 is outside 1 to 1073741824"),
        (&["--capacity", "0"], "'--capacity <N>': give 1 to 1073741824"),
        (&["--capacity", "-5"], "'--capacity <N>': give 1 to 1073741824"),
        (&["--write-batch", "0"], "--write-batch 0 is outside 1 to 100000"),
        (&["--in-flight", "9"], "--in-flight 9 is outside 1 to 2"),
        (&["--leaf-level", "0"], "--leaf-level 0 is outside"),
        (&["--capacity", "1073741824", "--evict-every", "1"], "evict less often"),
        (&["--read-batches", "1000", "--batch", "100000"], "more than 1000000 reads an epoch"),
        (&["--read-batches", "1000", "--interval-ms", "60000"], "more than two hours"),
        (&["--max-connections", "0"], "'--max-connections <N>': give 1 to 1000000"),
        (&["--dashboard", "0.0.0.0:0"], "--secrets-anywhere"),
        (&["--dashboard", "nowhere"], "--dashboard nowhere"),
        (&["--metrics", "192.0.2.1:0"], "--metrics 192.0.2.1:0"),
        (&["--secret-metrics-address", "[::]:0"], "--secrets-anywhere"),
        (&["--record", "/nonexistent/x"], "cannot record to /nonexistent/x"),
        (&["--record", "shape.toml"], "choose a new name"),
        (&["--history", "/nonexistent/x"], "cannot write --history /nonexistent/x"),
        (&["--history", "shape.toml"], "cannot write --history shape.toml"),
        (&["--registers", "nothing"], "nothing"),
        (&["--time-zone", "UTC"], "--time-zone"),
        (&["--capacity", "400000000", "--value-size", "64KiB"], "are free"),
        (&["--store", "ftp://x"], "ftp"),
        (&["--store", "file://"], "file://DIR"),
        (&["--store", "s3://"], "s3://BUCKET"),
        (&["--store", "grpc://nowhere"], "grpc://HOST:PORT"),
        (&["--store", "dynamodb://"], "dynamodb://TABLE"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--listen", "192.0.2.1:0"], "cannot listen on 192.0.2.1:0"),
        (&["--schedule", "now and then"], "--schedule"),
        (&["--password-file", "password"], "chmod 600"),
        (&tls, "password"),
    ];
    for (wrong, part) in wrong {
        // Both by the same functions, so in the same words.
        let words = refused(folder, &[&["config", "check"][..], wrong].concat());
        assert!(words.contains(part), "{wrong:?}: {words}");
        let listen: &[&str] =
            if wrong[0] == "--listen" { &[] } else { &["--listen", "127.0.0.1:0"] };
        let served = refused(folder, &[&["serve"][..], wrong, listen].concat());
        assert_eq!(words, served, "{wrong:?}");
    }
    assert!(!folder.join("fogbank-data/proxy/key").exists());
}

/// Of a store that is there, what differs from it is refused as `serve` does, served or not.
#[test]
fn settings_are_checked_against_the_store_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("pairs.csv"), "key,value\na,1\n").unwrap();
    let load = ["load", "--from", "pairs.csv", "--data", "d", "--capacity", "1000"];
    assert!(fogbank(folder, &load).status.success());
    let changed = || {
        let register = std::fs::read(folder.join("d/proxy/register")).unwrap();
        let commit = std::fs::read_dir(folder.join("d/cloud")).unwrap().count();
        (register, commit)
    };
    let (before, check) = (changed(), ["config", "check", "--data", "d"]);
    for (typed, part) in [
        (&["--capacity", "2000"][..], "--capacity 2000 (created with 1000)"),
        (&["--interval-ms", "7"], "--interval-ms 7 (created with 160)"),
        (&["--preset", "busy"], "--preset busy stands for"),
        (&["--capacity", "7", "--batch", "9"], "--batch 9 (created with"),
    ] {
        let words = refused(folder, &[&check, typed].concat());
        assert!(words.contains(part) && words.contains("other settings"), "{words}");
        let serve = ["serve", "--data", "d", "--listen", "127.0.0.1:0"];
        assert_eq!(words, refused(folder, &[&serve[..], typed].concat()));
    }
    assert!(changed() == before);
    for typed in [&[][..], &["--capacity", "1000"]] {
        let told = fogbank(folder, &[&check, typed].concat());
        let words = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.status.code(), Some(0), "{typed:?}");
        assert!(words.contains("those of the store of 1000 records"), "{words}");
    }
    assert!(changed() == before, "it only looks");
}

#[test]
fn what_its_disk_cannot_hold_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let commands: [(&[&str], &str); 2] = [
        (&["volume", "create", "--size", "3TB", "--engine", "partition"], "--sparse"),
        (&["serve", "--capacity", "400000000", "--value-size", "64KiB"], "--capacity"),
    ];
    for (command, remedy) in commands {
        let listen: &[&str] =
            if command[0] == "serve" { &["--listen", "127.0.0.1:0"] } else { &[] };
        let words = refused(folder.path(), &[command, listen, &["--data", "d"]].concat());
        assert!(words.contains("are free") && words.contains(remedy), "{words}");
        let made = folder.path().join("d/proxy/key");
        assert!(!made.exists(), "{command:?} made a key");
    }
}

/// Whoever is in between would read and change everything on the disk.
#[test]
fn a_disk_is_served_to_other_machines_in_clear_only_if_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for serve in [&["volume", "serve"][..], &["site", "serve"]] {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let nbd = ["--data", "d", "--nbd", address];
            let words = refused(folder.path(), &[serve, &nbd].concat());
            assert!(words.contains("in clear") && words.contains("--in-clear"), "{words}");
            // Then it is refused for another reason: there is no disk.
            let said = fogbank(folder.path(), &[serve, &nbd, &["--in-clear"]].concat());
            let words = String::from_utf8(said.stderr).unwrap();
            assert!(!words.contains("--in-clear") && !said.status.success(), "{words}");
        }
    }
}

/// The system's "Address already in use" names neither the flag nor the address.
#[test]
fn a_port_that_is_taken_is_named_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let register_server = ["register-server"];
    let cases: [(&[&str], &str); 4] = [
        (&serve, "--dashboard"),
        (&serve, "--metrics"),
        (&serve, "--secret-metrics-address"),
        (&register_server, "--listen"),
    ];
    for (command, flag) in cases {
        let words = refused(folder.path(), &[command, &["--data", "new", flag, &taken]].concat());
        assert!(words.contains(&format!("{flag} {taken} is taken by another program")), "{words}");
        assert!(words.contains(&format!("choose another port: {flag} 127.0.0.1:")), "{words}");
        assert!(!folder.path().join("new").exists(), "{flag}: it made something");
    }
}

/// It was blamed on a flag that nobody had typed.
#[test]
fn a_wrong_value_of_a_variable_is_told_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flag) in [("FOGBANK_CAPACITY", "--capacity"), ("FOGBANK_CACHE", "--cache")] {
        let told = |typed: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
            command.current_dir(folder.path()).arg("plan").args(typed).env(name, "abc");
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(64));
            String::from_utf8(output.stderr).unwrap()
        };
        let words = told(&[]);
        assert!(words.contains(&format!("that of {name} in the environment")), "{words}");
        for typed in [vec![flag, "wrong"], vec![&format!("{flag}=wrong")[..]]] {
            let words = told(&typed);
            assert!(words.contains(flag) && !words.contains("in the environment"), "{words}");
        }
    }
}
