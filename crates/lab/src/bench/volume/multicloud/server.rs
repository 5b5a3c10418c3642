//! A `fogbank-cloud` in memory: a process of its own, beside this program's binary, or, where much
//! of what it has is imagined, within this one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fogbank::{Error, Result};
use fogbank_cloud::{Allowance, CloudServer, Keeping, ServerSettings, Tenants, identity};
use fogbank_env::{Clock, Metrics, Nanos};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::sparse::Past;

/// How long a server may take until it listens.
const BEGIN_NANOS_MAX: Nanos = 20_000_000_000;

/// See the module. With its folder; it ends when this is dropped.
pub struct Server {
    runs: Runs,
    folder: TempDir,
}

enum Runs {
    Process(Child),
    Here(JoinHandle<()>),
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.runs {
            Runs::Process(process) => {
                let _gone_already = process.kill();
                let _ended = process.wait();
            }
            Runs::Here(task) => task.abort(),
        }
    }
}

impl Server {
    /// One that listens at `at`, and mixes with whoever is at `beside`.
    pub async fn new(at: SocketAddr, beside: SocketAddr, clock: &dyn Clock) -> Result<Self> {
        let folder = folder()?;
        let program = std::env::current_exe().map_err(|e| cannot("this program", e))?;
        let program = program.with_file_name("fogbank-cloud");
        let process = Command::new(&program)
            .args(["serve", "--memory", "--rate", &RATE.to_string()])
            .args(["--calls", &CALLS.to_string(), "--data"])
            .arg(folder.path())
            .args(["--listen", &at.to_string(), "--mixes-with", &beside.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| cannot(&program.display().to_string(), e))?;
        // From here on it ends whatever goes wrong.
        let server = Self { runs: Runs::Process(process), folder };
        let until = clock.now() + BEGIN_NANOS_MAX;
        while tokio::net::TcpStream::connect(at).await.is_err() {
            if clock.now() > until {
                return Err(Error::CannotUse(format!("{}: it does not listen", program.display())));
            }
            clock.sleep_until(clock.now() + 50_000_000).await;
        }
        Ok(server)
    }

    /// The same within this process, over what is imagined.
    pub async fn within(
        at: SocketAddr,
        beside: SocketAddr,
        clock: &Arc<dyn Clock>,
        past: Arc<Past>,
    ) -> Result<Self> {
        let folder = folder()?;
        let mut settings = ServerSettings::new(folder.path(), Keeping::Memory);
        (settings.share.calls_per_s, settings.share.calls_max) = (RATE, CALLS);
        settings.mixes_with = vec![beside.to_string()];
        settings.overlay = Some(past);
        let bound = CloudServer::bind(settings, at, clock.clone(), &Metrics::default()).await;
        let server = bound.map_err(|e| Error::CannotUse(e.to_string()))?;
        let task = tokio::spawn(server.serve(std::future::pending()));
        Ok(Self { runs: Runs::Here(task), folder })
    }

    /// The URL of its tenant, reached at `place`.
    pub fn url(&self, place: SocketAddr) -> String {
        let file: PathBuf = self.folder.path().join("tenants").join(TENANT).join("credentials");
        format!("grpc://{}/{TENANT}?credentials={}", place, file.display())
    }
}

/// A folder with a tenant.
fn folder() -> Result<TempDir> {
    let folder = tempfile::tempdir().map_err(|e| cannot("no folder for a run", e))?;
    let (_, pin) = identity(folder.path(), None).map_err(|e| Error::CannotUse(e.to_string()))?;
    let allowed = Allowance { bytes: 1 << 42, arrays: 1_000 };
    Tenants::add(folder.path(), TENANT, allowed, pin).map_err(|e| cannot("no tenant", e))?;
    Ok(folder)
}

fn cannot(what: &str, error: std::io::Error) -> Error {
    Error::CannotUse(format!("{what}: {error}"))
}

const TENANT: &str = "bench";
/// Calls a second, and at once: more than there are.
const RATE: u64 = 1_000_000;
const CALLS: usize = 4_096;
