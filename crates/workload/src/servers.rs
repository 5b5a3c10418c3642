//! Servers that people run today, for the time of a run.
//!
//! 1. A program is looked for among those installed; who has to install what is said if it is not.
//! 2. It is started in a folder that the caller gives, and listens on a socket in there alone.
//! 3. Starting waits until the server says that it takes connections, and does so in place: it is
//!    for the beginning of a run, not for its midst.
//! 4. It is in a process group of its own: Ctrl-C is for whoever started it, who then drops it.
//! 5. It ends when dropped, in no good order: what it has kept is of no use to anybody.
//!
//! PostgreSQL refuses to be root. If we are, it runs as the user that its package brings, who is
//! given the folder; all folders above it have to let that user pass.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::database::{Error, Result};

/// Longest wait for a server to say anything while it starts.
const PATIENCE: Duration = Duration::from_secs(60);
/// What either server says, Redis with a capital.
const READY: &str = "ready to accept connections";
/// Who runs PostgreSQL if we are root, and who connects to it.
const POSTGRES: &str = "postgres";
/// Locks of reads by row instead of by page or table; no log of transactions that lose; room in the
/// log for a run without a checkpoint every few seconds.
const SETTINGS: [&str; 8] = [
    "listen_addresses=",
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "max_pred_locks_per_transaction=1024",
    "max_pred_locks_per_page=64",
    "log_min_messages=log",
    "log_min_error_statement=panic",
    "log_checkpoints=off",
];

/// What a Redis keeps on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// Every write before it answers.
    EveryWrite,
}

/// A Redis that runs until this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    socket: PathBuf,
}

impl RedisServer {
    /// Whether its program is installed.
    pub fn installed() -> bool {
        Self::found().is_ok()
    }

    /// Looks for its program.
    ///
    /// # Errors
    /// [`Error::Failed`] with what has to be installed.
    pub fn found() -> Result<()> {
        on_path("redis-server").map(drop)
    }

    /// Starts one in an empty folder.
    ///
    /// # Errors
    /// [`Error::Failed`] with what it said, or what has to be installed.
    pub fn start(folder: &Path, keeps: Keeps) -> Result<Self> {
        let program = on_path("redis-server")?;
        let folder = whole(folder)?;
        let socket = folder.join("redis.sock");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(&folder);
        command.args(match keeps {
            Keeps::Nothing => &["--appendonly", "no"][..],
            Keeps::EveryWrite => &["--appendonly", "yes", "--appendfsync", "always"],
        });
        Ok(Self { child: launch(command)?, socket })
    }

    /// Where it listens.
    pub fn address(&self) -> redis::ConnectionAddr {
        redis::ConnectionAddr::Unix(self.socket.clone())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A PostgreSQL that runs until this is dropped, and keeps every commit before it answers.
#[derive(Debug)]
pub struct PostgresServer {
    child: Child,
    folder: PathBuf,
}

impl PostgresServer {
    /// Whether its programs are installed.
    pub fn installed() -> bool {
        Self::found().is_ok()
    }

    /// Looks for its programs.
    ///
    /// # Errors
    /// [`Error::Failed`] with what has to be installed.
    pub fn found() -> Result<()> {
        postgres_programs().map(drop)
    }

    /// Makes a new cluster in an empty folder and starts it, for so many connections.
    ///
    /// # Errors
    /// [`Error::Failed`] with what it said, or what has to be installed.
    pub fn start(folder: &Path, connections: usize) -> Result<Self> {
        let (programs, user) = (postgres_programs()?, postgres_user()?);
        let folder = whole(folder)?;
        if let Some((user, group)) = user {
            let is_closed =
                |above: &&Path| above.metadata().is_ok_and(|above| above.mode() & 1 == 0);
            if let Some(closed) = folder.ancestors().skip(1).find(is_closed) {
                let reason = format!(
                    "{POSTGRES}, whom it runs as, may not enter; set TMPDIR to a folder that all \
                     may"
                );
                return Err(failed(closed, &reason));
            }
            chown(&folder, Some(user), Some(group)).map_err(|error| failed(&folder, &error))?;
        }
        let data = folder.join("data");
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.arg("-D").arg(&data).current_dir("/");
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let mut initdb = command("initdb");
        initdb.args([
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
            "--no-sync",
            "-U",
            POSTGRES,
        ]);
        run(initdb)?;
        let mut postgres = command("postgres");
        postgres.arg("-k").arg(&folder).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        // Some are for superusers only, and one makes the table.
        postgres.arg("-c").arg(format!("max_connections={}", connections.saturating_add(10)));
        Ok(Self { child: launch(postgres)?, folder })
    }

    /// How to connect to it.
    pub fn config(&self) -> String {
        let host = self.folder.to_string_lossy().replace('\\', r"\\").replace('\'', r"\'");
        format!("host='{host}' user={POSTGRES} dbname={POSTGRES}")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // At once, but so that it takes its processes and its shared memory along.
        let asked = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|asked| asked.success()) {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

/// Starts a server and waits until it takes connections.
fn launch(mut command: Command) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let program = PathBuf::from(command.get_program());
    let mut child = command.spawn().map_err(|error| failed(&program, &error))?;
    let (lines, heard) = mpsc::channel();
    listen(child.stdout.take(), lines.clone());
    listen(child.stderr.take(), lines);
    let mut said = String::new();
    while let Ok(line) = heard.recv_timeout(PATIENCE) {
        if line.to_ascii_lowercase().contains(READY) {
            return Ok(child);
        }
        said += &line;
        said.push('\n');
    }
    child.kill().ok();
    child.wait().ok();
    Err(failed(&program, &format!("did not start: {said}")))
}

/// Passes lines on, and goes on reading when nobody listens any more: a full pipe would stop the
/// server.
fn listen(from: Option<impl Read + Send + 'static>, to: mpsc::Sender<String>) {
    let Some(from) = from else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(std::io::Result::ok) {
            to.send(line).ok();
        }
    });
}

/// Runs a program to its end.
fn run(mut command: Command) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(|error| failed(&program, &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&program, &String::from_utf8_lossy(&output.stderr)))
}

fn on_path(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program));
    let mut found = found.filter(|candidate| candidate.is_file());
    let package = if program == "initdb" { "postgresql" } else { program };
    found.next().ok_or_else(|| missing(program, package))
}

/// The folder of PostgreSQL's programs: the newest that the distribution has, or where `initdb` is.
fn postgres_programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|version| {
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .filter(|(_, programs)| programs.join("initdb").is_file())
        .max();
    if let Some((_, programs)) = newest {
        return Ok(programs);
    }
    let initdb = on_path("initdb")?;
    let initdb = initdb.canonicalize().map_err(|error| failed(&initdb, &error))?;
    Ok(initdb.parent().unwrap_or(Path::new("/")).to_owned())
}

/// The user and group that PostgreSQL has to run as, if we are root.
fn postgres_user() -> Result<Option<(u32, u32)>> {
    if !std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let numbers = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let user = fields.next().filter(|name| *name == POSTGRES).and(fields.nth(1))?;
        Some((user.parse().ok()?, fields.next()?.parse().ok()?))
    });
    numbers.map(Some).ok_or_else(|| missing("the user postgres", "postgresql"))
}

/// The folder, from the root on: servers do not stay where they were started.
fn whole(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().map_err(|error| failed(folder, &error))
}

fn missing(what: &str, package: &str) -> Error {
    Error::Failed(format!("{what} is not there: install the package {package}"))
}

fn failed(what: &Path, said: &dyn std::fmt::Display) -> Error {
    Error::Failed(format!("{}: {said}", what.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let said = on_path("no-such-server").unwrap_err().to_string();
        assert!(said.contains("install the package no-such-server"), "{said}");
        let said = launch(Command::new("/no/such/server")).unwrap_err().to_string();
        assert!(said.contains("/no/such/server"), "{said}");
        let mut silent = Command::new("sh");
        silent.args(["-c", "echo it is not its day >&2"]);
        let said = launch(silent).unwrap_err().to_string();
        assert!(said.contains("it is not its day"), "{said}");
    }
}
