//! A reader who does what a page says, in a folder of its own.
//!
//! The folder looks like that of the repository after `make build`: `target/release` has the
//! programs of this build. Cargo builds nothing, and nobody shall wait for a port that another page
//! has: so the ports that pages name are others here, and what stands before the reader's `PATH` is
//! a `cargo` that finds all done, a `redis-cli` that asks at the other port and fails when it is
//! answered by an error, and a `sudo` for who is root already.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use tempfile::TempDir;

use crate::can_mount::can_mount;
use crate::page::{Block, Page};
use crate::server::{free_port, repository, tool};

/// Seconds that a page may take.
const PATIENCE_S: u32 = 300;

/// The ports that pages name. The first is that of Redis, which nobody has to name.
const PORTS: [&str; 12] = [
    "6379", "6380", "6381", "6382", "7381", "7382", "7383", "7443", "7444", "8080", "9000", "9090",
];

/// What is there of the repository beside the programs.
const LINKED: [&str; 4] = ["Makefile", "examples", "scripts", ".tools"];

/// What stands before the commands of a page.
const OPENING: &str = r#"
set -eu -o pipefail
started=()
at='the first line'

tell() {
    code=$?
    [ $code = 0 ] || echo "stopped at $at with $code"
    while [ ${#started[@]} -gt 0 ]; do end_last; done
}
trap tell EXIT

# start NAME COMMANDS: in another terminal, until it serves.
start() {
    setsid bash -eu -o pipefail -c "$2" >"$1" 2>&1 </dev/null &
    local pid=$!
    started+=($pid)
    for _ in $(seq 1200); do
        if grep -qE 'listening on|building for|mounted at|nbdfuse DIR|Ready to accept|using port|Listening' "$1"; then return; fi
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    cat "$1"
    kill -0 $pid 2>/dev/null || echo "$at: it ended, and did not say that it serves"
    exit 1
}

# Ends what was started last, and waits for it.
end_last() {
    local pid=${started[-1]}
    unset 'started[-1]'
    kill -TERM -- -$pid 2>/dev/null || true
    for _ in $(seq 600); do
        kill -0 -- -$pid 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL -- -$pid 2>/dev/null || true
    wait $pid || true
}

stop_last() {
    if [ ${#started[@]} = 0 ]; then echo "$at: nothing is there to be stopped"; exit 1; fi
    end_last
}
"#;

/// Programs of other crates lie beside the one under test. They are made if only that was asked
/// for; those of an earlier build are taken, since what a whole build makes has other features and
/// would be made anew.
fn make(name: &str, programs: &Path) {
    if programs.join(name).exists() {
        return;
    }
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", name, "--bin", name]);
    build.args(programs.ends_with("release").then_some("--release"));
    assert!(build.current_dir(repository()).status().unwrap().success(), "{name} is not built");
}

/// Somebody who has cloned the repository and built it.
pub struct Reader {
    folder: TempDir,
    ports: Vec<(&'static str, String)>,
}

impl Reader {
    /// In a fresh folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<_> = PORTS.iter().map(|port| (*port, free_port().to_string())).collect();
        let root = repository().canonicalize().unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_fogbank")).parent().unwrap();
        static MADE: Once = Once::new();
        MADE.call_once(|| {
            ["fogbank-cloud", "fogbank-lab"].iter().for_each(|name| make(name, programs))
        });
        for name in LINKED {
            symlink(root.join(name), folder.path().join(name)).unwrap();
        }
        std::fs::create_dir(folder.path().join("target")).unwrap();
        symlink(programs, folder.path().join("target/release")).unwrap();
        let reader = Self { folder, ports };
        let cargo = env!("CARGO");
        reader.shim("cargo", &format!("case $1 in build) ;; *) exec '{cargo}' \"$@\" ;; esac"));
        let redis = tool("redis-cli");
        let port = &reader.ports[0].1;
        reader.shim("redis-cli", &format!("exec '{}' -e -p {port} \"$@\"", redis.display()));
        let benchmark = tool("redis-benchmark");
        reader.shim("redis-benchmark", &format!("exec '{}' -p {port} \"$@\"", benchmark.display()));
        reader.shim("sudo", "exec \"$@\"");
        reader
    }

    fn shim(&self, name: &str, commands: &str) {
        let path = self.shims().join(name);
        std::fs::create_dir_all(self.shims()).unwrap();
        let text = self.folder.path().join("target").join(format!("{name}.text"));
        std::fs::write(&text, format!("#!/bin/sh\n{commands}\n")).unwrap();
        // Another process writes what is run: a child that another page starts meanwhile would
        // inherit our open file, and nobody may run a file that is open for writing.
        let installed = Command::new("install").arg("-m755").args([text, path]).status();
        assert!(installed.expect("install runs").success(), "{name}");
    }

    fn shims(&self) -> PathBuf {
        self.folder.path().join("target/shims")
    }

    /// Does what the page says.
    ///
    /// # Errors
    /// Where it does not hold, and what was printed.
    pub fn follow(&self, page: &Page) -> Result<(), String> {
        let mut script = OPENING.to_owned();
        let may_mount = page.blocks().iter().any(|block| block.needs_root) && can_mount();
        let mut not_started = 0; // of those that a later block stops
        for block in page.blocks().iter().filter(|block| block.is_run()) {
            if block.needs_root && !may_mount {
                not_started += usize::from(block.serves);
                continue;
            }
            let stops = block.stops.saturating_sub(not_started);
            not_started -= block.stops - stops;
            self.add(page, block, stops, &mut script);
        }
        let path = self.folder.path().join("target/page.sh");
        std::fs::write(&path, script).unwrap();
        let output = self.shell(&path).output().expect("bash runs");
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("{}: {}\n{}", page.name(), output.status, String::from_utf8_lossy(&said)))
    }

    fn add(&self, page: &Page, block: &Block, stops: usize, script: &mut String) {
        let commands = block.commands.replace("0.0.0.0", "127.0.0.1");
        let commands = with_ports(&commands, &self.ports);
        writeln!(script, "at={}:{}", page.name(), block.line).unwrap();
        script.push_str(&"stop_last\n".repeat(stops));
        if block.serves {
            let quoted = commands.replace('\'', r"'\''");
            writeln!(script, "start target/said-{} '{quoted}'", block.line).unwrap();
        } else if block.ends > 0 {
            let code = block.ends;
            writeln!(script, "set +e; (set -e\n{commands}\n); ended=$?; set -e").unwrap();
            writeln!(
                script,
                "[ $ended = {code} ] || {{ echo \"$at: ended with $ended, not with {code}\"; exit 1; }}"
            )
            .unwrap();
        } else {
            writeln!(script, "{commands}").unwrap();
        }
    }

    fn shell(&self, script: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=20", &PATIENCE_S.to_string(), "bash"]).arg(script);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let is_ours =
                ["FOGBANK_", "AWS_", "MAKE"].iter().any(|prefix| name.starts_with(prefix));
            if is_ours || name == "CARGO" {
                command.env_remove(&*name);
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}:/usr/sbin", self.shims().display()));
        command.env("FOGBANK_LISTEN", format!("127.0.0.1:{}", self.ports[0].1));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }
}

/// The text with other ports. Whole numbers are looked at, and each once: a port of ours may hold
/// the digits of one that is named.
fn with_ports(text: &str, ports: &[(&'static str, String)]) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(is_digit) {
        let (before, number) = rest.split_at(begin);
        let (number, after) =
            number.split_at(number.find(|c| !is_digit(c)).unwrap_or(number.len()));
        let ours = ports.iter().find(|(named, _)| *named == number);
        replaced.push_str(before);
        replaced.push_str(ours.map_or(number, |(_, ours)| ours));
        rest = after;
    }
    replaced + rest
}

#[test]
fn a_port_is_replaced_once_and_as_a_whole() {
    let ports = [("6382", "39000".to_owned()), ("9000", "41234".to_owned())];
    let text = "--listen 127.0.0.1:6382 && nc :9000 16382 90000";
    let ours = "--listen 127.0.0.1:39000 && nc :41234 16382 90000";
    assert_eq!(with_ports(text, &ports), ours);
}
