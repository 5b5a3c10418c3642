//! A front end over an engine in memory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_env::{Clock, SystemClock};
use fogbank_front::nbd::{Listener, Place, Settings, TlsFiles};
use fogbank_oram::immediate::plain::PlainEngine;
use fogbank_oram::{ImmediateEngine, ImmediateShape};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Blocks of an awkward length.
pub const SHAPE: ImmediateShape = ImmediateShape { capacity: 301, value_bytes: 100 };
/// Bytes of the disk.
pub const SIZE: u64 = 30_100;

/// A running front end.
pub struct Server {
    pub place: Place,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
    folder: Option<TempDir>,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        Self::over(Arc::new(PlainEngine::new(SHAPE)), settings).await
    }

    /// On a free port.
    pub async fn over(engine: Arc<dyn ImmediateEngine>, settings: Settings) -> Self {
        let place = Place::Tcp(([127, 0, 0, 1], 0).into());
        Self::listening(engine, Settings { place, ..settings }, None).await
    }

    /// On a socket in a folder of its own.
    pub async fn on_socket(engine: Arc<dyn ImmediateEngine>, settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::Unix(folder.path().join("socket"));
        Self::listening(engine, Settings { place, ..settings }, Some(folder)).await
    }

    async fn listening(
        engine: Arc<dyn ImmediateEngine>,
        settings: Settings,
        folder: Option<TempDir>,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let listener = Listener::bind(settings).await.expect("the place is free");
        let place = listener.place();
        let (stop, stopped) = oneshot::channel();
        let serving = listener.serve(engine, clock, async {
            let _ = stopped.await;
        });
        Self { place, stop, served: tokio::spawn(serving), folder }
    }

    pub fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Tcp(address) => *address,
            Place::Unix(path) => panic!("{} is no address", path.display()),
        }
    }

    /// As tools want to be told.
    pub fn uri(&self) -> String {
        match &self.place {
            Place::Tcp(address) => format!("nbd://{address}"),
            Place::Unix(path) => format!("nbd+unix:///?socket={}", path.display()),
        }
    }

    /// Says that it is to stop, and gives what completes when it has.
    pub fn stopping(self) -> JoinHandle<()> {
        let _ = self.stop.send(());
        self.served
    }

    pub async fn stop(self) {
        let folder = self.folder;
        let _ = self.stop.send(());
        self.served.await.expect("the front end does not panic");
        drop(folder);
    }
}

/// A certificate for `localhost` and its key, in a folder, where tools that speak TLS find them.
pub fn certificate() -> (TempDir, TlsFiles) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, pem: String| {
        let path = folder.path().join(name);
        fogbank_env::write_secret(&path, pem.as_bytes()).expect("written");
        path
    };
    let certificate = file("ca-cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    (folder, TlsFiles { certificate, key })
}

/// A program of the test set-up.
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = Path::new("/usr/bin").to_path_buf();
    let found = std::iter::once(system)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed: run scripts/setup-tests.sh"))
}
