//! A real `fogbank-cloud` process, in memory, beside this program's binary.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use fogbank::{Error, Result};
use fogbank_cloud::{Allowance, Tenants, identity};
use fogbank_env::{Clock, Nanos};
use tempfile::TempDir;

use super::relay::Relay;

/// How long a server may take until it listens.
const BEGIN_NANOS_MAX: Nanos = 20_000_000_000;

/// See the module. With its folder; it ends when this is dropped.
pub struct Server {
    process: Child,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Server {
    /// One that listens at `at` and mixes with whoever is at `beside`.
    pub async fn new(at: SocketAddr, beside: SocketAddr, clock: &dyn Clock) -> Result<Self> {
        let cannot = |what: &str, e: std::io::Error| Error::CannotUse(format!("{what}: {e}"));
        let folder = tempfile::tempdir().map_err(|e| cannot("no folder for a run", e))?;
        let (_, pin) =
            identity(folder.path(), None).map_err(|e| Error::CannotUse(e.to_string()))?;
        let allowed = Allowance { bytes: 1 << 42, arrays: 1_000 };
        Tenants::add(folder.path(), TENANT, allowed, pin).map_err(|e| cannot("no tenant", e))?;
        let program = std::env::current_exe().map_err(|e| cannot("this program", e))?;
        let program = program.with_file_name("fogbank-cloud");
        let process = Command::new(&program)
            .args(["serve", "--memory", "--rate", "1000000", "--calls", "4096", "--data"])
            .arg(folder.path())
            .args(["--listen", &at.to_string(), "--mixes-with", &beside.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| cannot(&program.display().to_string(), e))?;
        let server = Self { process, folder }; // from here on it ends whatever goes wrong
        let until = clock.now() + BEGIN_NANOS_MAX;
        while tokio::net::TcpStream::connect(at).await.is_err() {
            if clock.now() > until {
                return Err(Error::CannotUse(format!("{}: it does not listen", program.display())));
            }
            clock.sleep_until(clock.now() + 50_000_000).await;
        }
        Ok(server)
    }

    /// The URL of its tenant, by way of `relay`.
    pub fn url(&self, relay: &Relay) -> String {
        let file: PathBuf = self.folder.path().join("tenants").join(TENANT).join("credentials");
        format!("grpc://{}/{TENANT}?credentials={}", relay.place, file.display())
    }
}

const TENANT: &str = "bench";
