//! Object stores that tests start on a free port of loopback, each in a folder of its own, gone
//! with the test.

#![allow(dead_code, clippy::unwrap_used)] // a test; each program of tests uses its part

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fogbank_objects::Environment;
use tempfile::TempDir;

/// A running server.
pub struct Server {
    kind: Kind,
    port: u16,
    folder: TempDir,
    process: Child,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    GoFakeS3,
    Versity,
    Azurite,
    Google,
    /// On disk, or in memory, which is much quicker.
    Dynamo {
        on_disk: bool,
    },
}

impl Server {
    /// S3 in memory; takes any signature.
    pub fn gofakes3() -> Self {
        Self::start(Kind::GoFakeS3)
    }

    /// S3 on disk; checks signatures.
    pub fn versitygw() -> Self {
        Self::start(Kind::Versity)
    }

    /// Azure's own emulator.
    pub fn azurite() -> Self {
        Self::start(Kind::Azurite)
    }

    /// What of Google's protocol is asked for, by a program of ours: see there.
    pub fn google() -> Self {
        Self::start(Kind::Google)
    }

    /// Amazon's own DynamoDB for one machine, in memory. It listens on all interfaces, so it is
    /// started only where there is none but loopback: see `make test-dynamodb`.
    pub fn dynamodb() -> Self {
        Self::start_alone(Kind::Dynamo { on_disk: false })
    }

    /// The same on disk, so that it can die and come back.
    pub fn dynamodb_on_disk() -> Self {
        Self::start_alone(Kind::Dynamo { on_disk: true })
    }

    fn start_alone(kind: Kind) -> Self {
        let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
        let others = devices.lines().skip(2).filter(|line| !line.trim().starts_with("lo:")).count();
        assert_eq!(others, 0, "there is a network here: run this by make test-dynamodb");
        Self::start(kind)
    }

    /// The URL of a store in it.
    pub fn url(&self, prefix: &str) -> String {
        let scheme = match self.kind {
            Kind::GoFakeS3 | Kind::Versity => "s3",
            Kind::Azurite => "az",
            Kind::Google => "gs",
            Kind::Dynamo { .. } => "dynamodb",
        };
        format!("{scheme}://{BUCKET}/{prefix}")
    }

    /// What a user would have in his environment.
    pub fn environment(&self) -> Environment {
        self.variables(self.port).into_iter().collect()
    }

    /// The same, with something on another port before the server.
    pub fn variables(&self, port: u16) -> Vec<(&'static str, String)> {
        let endpoint = format!("http://127.0.0.1:{port}");
        match self.kind {
            Kind::GoFakeS3 | Kind::Versity => vec![
                ("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()),
                ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.into()),
                ("AWS_ENDPOINT_URL", endpoint),
                ("AWS_REGION", "us-east-1".into()),
                ("AWS_ALLOW_HTTP", "true".into()),
            ],
            Kind::Azurite => {
                let connection = format!(
                    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;\
                     AccountKey={AZURITE_KEY};BlobEndpoint={endpoint}/devstoreaccount1;"
                );
                vec![
                    ("AZURE_STORAGE_CONNECTION_STRING", connection),
                    ("AZURE_ALLOW_HTTP", "true".into()),
                ]
            }
            Kind::Google => vec![("STORAGE_EMULATOR_HOST", endpoint)],
            Kind::Dynamo { .. } => vec![
                ("AWS_ACCESS_KEY_ID", TABLE_KEY.into()),
                ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.into()),
                ("AWS_ENDPOINT_URL", endpoint),
                ("AWS_REGION", "us-east-1".into()),
                ("AWS_ALLOW_HTTP", "true".into()),
            ],
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The file to write a certificate to, and its key, before a restart with TLS.
    pub fn certificate(&self) -> [PathBuf; 2] {
        ["cert.pem", "key.pem"].map(|name| self.folder.path().join(name))
    }

    /// Starts it again on the same port, with what it has on disk.
    pub fn restart(&mut self) {
        self.process = spawn(self.kind, self.port, self.folder.path());
        self.wait();
    }

    fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        std::fs::create_dir_all(folder.path().join("data").join(BUCKET)).unwrap();
        let process = spawn(kind, port, folder.path());
        let mut server = Self { kind, port, folder, process };
        server.wait();
        let url = format!("http://127.0.0.1:{port}");
        match kind {
            Kind::Azurite => {
                make("container.py", &[&format!("{url}/devstoreaccount1/{BUCKET}"), AZURITE_KEY]);
            }
            Kind::Dynamo { .. } => make("table.py", &[&url, BUCKET]),
            _ => {}
        }
        server
    }

    /// Until somebody listens.
    fn wait(&mut self) {
        for _ in 0..1200 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!(
                    "the server ended at once: {status}; its log is in {:?}",
                    self.folder.path()
                );
            }
            pause();
        }
        panic!("the server does not listen");
    }
}

/// There is no container and no table until somebody makes one, and what is under test makes none.
fn make(name: &str, arguments: &[&str]) {
    let done = Command::new("python3").arg(script(name)).args(arguments).status().unwrap();
    assert!(done.success());
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(kind: Kind, port: u16, folder: &Path) -> Child {
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    let (certificate, private) = (folder.join("cert.pem"), folder.join("key.pem"));
    let at = |host: &str| format!("{host}:{port}");
    let mut command = match kind {
        Kind::GoFakeS3 => {
            let mut command = Command::new(tool("bin/gofakes3"));
            command.args(["-backend", "mem", "-host", &at("127.0.0.1"), "-initialbucket", BUCKET]);
            command
        }
        Kind::Versity => {
            let mut command = Command::new(tool("bin/versitygw"));
            command.env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY);
            command.args(["--port", &at("127.0.0.1"), "--quiet"]);
            if let (Ok(cert), Ok(key)) = (certificate.canonicalize(), private.canonicalize()) {
                command.arg("--cert").arg(cert).arg("--key").arg(key);
            }
            command.args(["posix", data]);
            command
        }
        Kind::Azurite => {
            let mut command = Command::new("node");
            command.arg(tool("azurite/node_modules/azurite/dist/src/blob/main.js"));
            command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
            command.args(["--location", data, "--silent", "--disableTelemetry"]);
            command.arg("--skipApiVersionCheck");
            command
        }
        Kind::Google => {
            let mut command = Command::new("python3");
            command.arg(script("google.py")).args([&port.to_string(), BUCKET]);
            command
        }
        Kind::Dynamo { on_disk } => {
            let library = tool("dynamodb-local/lib");
            let mut native = std::ffi::OsString::from("-Djava.library.path=");
            native.push(&library);
            let mut command = Command::new("java");
            command.args(["-Xmx512m", "-XX:TieredStopAtLevel=1"]).arg(native);
            command.arg("-cp").arg(library.join("*"));
            command.arg("com.amazonaws.services.dynamodbv2.local.main.ServerRunner");
            command.args(["-port", &port.to_string(), "-sharedDb", "-disableTelemetry"]);
            match on_disk {
                true => command.args(["-dbPath", data]),
                false => command.arg("-inMemory"),
            };
            command
        }
    };
    let log = |name: &str| std::fs::File::create(folder.join(name)).unwrap();
    command.stdin(Stdio::null()).stdout(log("out")).stderr(log("err")).spawn().unwrap()
}

/// A program beside this file.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../objects/tests/server").join(name)
}

/// A program that `scripts/setup-tests.sh` puts under `.tools`.
fn tool(path: &str) -> PathBuf {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools").join(path);
    assert!(tool.exists(), "{} is missing: run ./scripts/setup-tests.sh", tool.display());
    tool
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

#[allow(clippy::disallowed_methods)] // waits for another process, outside of any clock
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// In every server.
pub const BUCKET: &str = "cloud";
pub const ACCESS_KEY: &str = "fogbank-test";
/// Letters and digits alone, as that server wants it.
pub const TABLE_KEY: &str = "fogbanktest";
pub const SECRET_KEY: &str = "fogbank-test-secret";
/// Azurite's account, and this key, are the same everywhere and published with it.
const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
