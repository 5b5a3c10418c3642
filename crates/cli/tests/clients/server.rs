//! Starting the servers under test: a real Redis, and the binary of this workspace.

#![allow(dead_code)] // each program of tests uses its part

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use fogbank_env::Mutex;
use tempfile::TempDir;

use crate::resp::Connection;

/// Longest wait for a server to say that it listens, and for it to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The shape that tests of clients run with: small, and as fast as the machine allows.
const SHAPE: &str = "--capacity 20000 --value-size 256 --read-batches 4 --batch 500 \
    --write-batch 1000 --interval-ms 2";

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// The port of this machine that it listens on.
    pub port: u16,
    heard: mpsc::Receiver<String>,
    greeting: String,
    _folder: Option<TempDir>,
}

impl Server {
    /// A real Redis that keeps nothing.
    pub fn redis() -> Self {
        let port = free_port();
        Self::redis_with(port, &["--port", &port.to_string()])
    }

    /// A real Redis with append-only files, whose base is a dump or commands.
    pub fn redis_with_append_only_files(base_is_dump: bool) -> Self {
        let port = free_port();
        let preamble = if base_is_dump { "yes" } else { "no" };
        // A busy disk makes Redis put writes off, unless it promises each.
        let files = ["--appendonly", "yes", "--appendfsync", "always"];
        let files = [&files[..], &["--aof-use-rdb-preamble", preamble]].concat();
        Self::redis_with(port, &[&["--port", &port.to_string()], &files[..]].concat())
    }

    fn redis_with(port: u16, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(tool("redis-server"));
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(folder.path()).args(options);
        let mut server = Self::launch(command, port, "Ready to accept connections")
            .unwrap_or_else(|said| panic!("redis-server did not start: {said}"));
        server._folder = Some(folder);
        server
    }

    /// The server under test with an empty store. `FOGBANK_TEST_SUBJECT=redis` puts a real Redis
    /// in its place, to tell a fault of the test from one of the server.
    pub fn subject() -> Self {
        if subject_is_redis() {
            return Self::redis();
        }
        Self::fogbank_for_once(&[])
    }

    /// The same behind TLS and a password.
    pub fn subject_with_tls(certificate: &str, key: &str, password: &Path) -> Self {
        if !subject_is_redis() {
            let password = password.to_string_lossy();
            let tls = ["--tls-cert", certificate, "--tls-key", key, "--password-file", &password];
            return Self::fogbank_for_once(&tls);
        }
        let port = free_port();
        let text = std::fs::read_to_string(password).expect("the password");
        let mut options = vec!["--port", "0", "--tls-auth-clients", "no"];
        let number = port.to_string();
        options.extend(["--tls-port", &number, "--requirepass", text.trim_end()]);
        options.extend(["--tls-cert-file", certificate, "--tls-key-file", key]);
        Self::redis_with(port, &options)
    }

    /// In memory: what clients see is the same, and no disk is waited for.
    fn fogbank_for_once(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = [&["--store", "memory:"], options].concat();
        let mut server = Self::fogbank(folder.path(), &options);
        server._folder = Some(folder);
        server
    }

    /// `fogbank serve` on `data`, with further options.
    pub fn fogbank(data: &Path, options: &[&str]) -> Self {
        let started = Self::try_fogbank(data, free_port(), options);
        started.unwrap_or_else(|said| panic!("fogbank did not start: {said}"))
    }

    /// The same on a given port; on failure, what it printed.
    pub fn try_fogbank(data: &Path, port: u16, options: &[&str]) -> Result<Self, String> {
        let command = serve(SHAPE, data, port, options);
        Self::launch(command, port, &format!("listening on 127.0.0.1:{port}"))
    }

    /// `fogbank serve` of another shape; on failure, what it printed.
    pub fn try_fogbank_of(shape: &str, data: &Path, options: &[&str]) -> Result<Self, String> {
        let port = free_port();
        let command = serve(shape, data, port, options);
        Self::launch(command, port, &format!("listening on 127.0.0.1:{port}"))
    }

    /// The same with its cloud side at `url`, reached by what `environment` says.
    pub fn fogbank_on(
        url: &str,
        environment: &[(&'static str, String)],
        shape: &str,
        data: &Path,
    ) -> Self {
        let port = free_port();
        let mut command = serve(shape, data, port, &["--store", url]);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let started = Self::launch(command, port, &format!("listening on 127.0.0.1:{port}"));
        started.unwrap_or_else(|said| panic!("fogbank did not start: {said}"))
    }

    /// The same, killed so long after its process began, wherever it is then.
    pub fn fogbank_killed(shape: &str, data: &Path, options: &[&str], after: Duration) {
        let mut command = serve(shape, data, free_port(), options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("fogbank is started");
        std::thread::sleep(after);
        child.kill().ok();
        child.wait().ok();
    }

    /// `fogbank register-server` on `data` and a port of this machine.
    pub fn register_server(data: &Path, port: u16) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.arg("register-server").arg("--data").arg(data);
        command.arg("--listen").arg(format!("127.0.0.1:{port}"));
        Self::launch(command, port, &format!("listening on 127.0.0.1:{port}"))
            .unwrap_or_else(|said| panic!("the register server did not start: {said}"))
    }

    /// `fogbank-cloud serve` on `data` and a port of this machine.
    pub fn cloud(data: &Path, port: u16) -> Self {
        Self::cloud_with(data, port, &[])
    }

    /// The same with further options.
    pub fn cloud_with(data: &Path, port: u16, options: &[&str]) -> Self {
        let mut command = Command::new(cloud_program());
        command.arg("serve").arg("--data").arg(data).args(options);
        command.arg("--listen").arg(format!("127.0.0.1:{port}"));
        Self::launch(command, port, &format!("listening on 127.0.0.1:{port}"))
            .unwrap_or_else(|said| panic!("the storage server did not start: {said}"))
    }

    /// The same on any port, with registers of its tenants on this one.
    pub fn cloud_with_registers(data: &Path, port: u16) -> Self {
        let mut command = Command::new(cloud_program());
        command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
        command.arg("--register-listen").arg(format!("127.0.0.1:{port}"));
        Self::launch(command, port, "listening on 127.0.0.1:")
            .unwrap_or_else(|said| panic!("the storage server did not start: {said}"))
    }

    /// The URL of a new tenant of the storage server in `data` that listens on `port`.
    pub fn cloud_tenant(data: &Path, port: u16) -> String {
        let mut command = Command::new(cloud_program());
        command.args(["tenant", "add", "test", "--data"]).arg(data).stdout(Stdio::null());
        assert!(command.status().expect("it runs").success());
        let file = data.join("tenants/test/credentials");
        format!("grpc://127.0.0.1:{port}/test?credentials={}", file.display())
    }

    /// `fogbank volume serve` on `data` and the socket at `socket`; on failure, what it printed.
    pub fn try_volume(data: &Path, socket: &Path, options: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.args(["volume", "serve", "--data"]).arg(data);
        command.arg("--nbd").arg(format!("unix:{}", socket.display())).args(options);
        Self::launch(command, 0, "nbdfuse DIR/disk")
    }

    /// `fogbank site serve` of the client in `data` on the socket at `socket`; on failure, what it
    /// printed.
    pub fn try_site(data: &Path, socket: &Path, options: &[&str]) -> Result<Self, String> {
        Self::try_site_by(&[], data, socket, options)
    }

    /// The same of a site that is reached by what `environment` says.
    pub fn try_site_by(
        environment: &[(&'static str, String)],
        data: &Path,
        socket: &Path,
        options: &[&str],
    ) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.args(["site", "serve", "--data"]).arg(data);
        command.arg("--nbd").arg(format!("unix:{}", socket.display())).args(options);
        Self::launch(command, 0, "nbdfuse DIR/disk")
    }

    /// `fogbank site build` of the client in `data`; on failure, what it printed.
    pub fn try_builder(data: &Path, options: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.args(["site", "build", "--data"]).arg(data).args(options);
        Self::launch(command, 0, "the clients go on")
    }

    /// What it has in memory, in MB; none that has ended has any.
    pub fn memory_mb(&self) -> u64 {
        let file = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kb.unwrap_or_default() / 1024
    }

    /// `fogbank mount` of the volume in `data`; on failure, what it printed.
    pub fn try_mount(data: &Path, mount_point: &Path, options: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.arg("mount").arg(data).arg(mount_point).args(options);
        Self::launch(command, 0, "mounted at")
    }

    fn launch(mut command: Command, port: u16, ready: &str) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (lines, heard) = mpsc::channel();
        listen(child.stdout.take(), lines.clone());
        listen(child.stderr.take(), lines);
        let mut output = String::new();
        while let Ok(line) = heard.recv_timeout(PATIENCE) {
            output += &line;
            output.push('\n');
            if line.contains(ready) {
                return Ok(Self { child, port, heard, greeting: output, _folder: None });
            }
        }
        child.kill().ok();
        child.wait().ok();
        Err(output)
    }

    /// What it printed until it served.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    /// A connection to it.
    pub fn connect(&self) -> Connection {
        Connection::open(self.port).expect("the server accepts connections")
    }

    /// Asks it to end, as a supervisor would, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        self.ask_to_end();
        self.wait()
    }

    /// Asks it to end, as a supervisor would.
    pub fn ask_to_end(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success(), "the server had ended before it was asked to");
    }

    /// Waits until it has printed this; the line.
    pub fn hears(&mut self, words: &str) -> String {
        loop {
            let line = self.heard.recv_timeout(PATIENCE).expect(words);
            if line.contains(words) {
                return line;
            }
        }
    }

    /// What it has printed since it began to serve, once it has ended.
    pub fn last_words(&mut self) -> String {
        self.wait();
        self.heard.iter().map(|line| line + "\n").collect()
    }

    /// Ends it as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("the child can be waited for");
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        for _ in 0..PATIENCE.as_millis() / 20 {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server did not end within {PATIENCE:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn serve(shape: &str, data: &Path, port: u16, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.arg("serve").arg("--data").arg(data);
    command.arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.args(shape.split_whitespace()).args(options);
    command
}

fn cloud_program() -> PathBuf {
    beside("fogbank-cloud")
}

/// Another program of the workspace lies beside the one under test: whatever builds the workspace
/// makes it. If there is none it is made. One of an earlier build is taken, since what this would
/// make has other features, down to the libraries: another whole build, in the midst of the tests.
pub fn beside(name: &str) -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let ours = Path::new(env!("CARGO_BIN_EXE_fogbank"));
    let program = ours.with_file_name(name);
    let one_at_a_time = MAKING.lock();
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "-p", name, "--bin", name]);
        build.args(ours.to_string_lossy().contains("/release/").then_some("--release"));
        let built = build.current_dir(repository()).status().expect("cargo runs");
        assert!(built.success(), "{name} is not built");
    }
    drop(one_at_a_time);
    program
}

fn subject_is_redis() -> bool {
    std::env::var("FOGBANK_TEST_SUBJECT").is_ok_and(|subject| subject == "redis")
}

/// Passes lines on, and goes on reading when nobody listens any more: a full pipe would stop the
/// server.
fn listen(from: Option<impl Read + Send + 'static>, to: mpsc::Sender<String>) {
    let Some(from) = from else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            to.send(line).ok();
        }
    });
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program of the test set-up.
pub fn tool(name: &str) -> PathBuf {
    let own = repository().join(".tools/venv/bin").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(own)
        .chain(std::env::split_paths(&path).map(|folder| folder.join(name)))
        .find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed: run scripts/setup-tests.sh"))
}
