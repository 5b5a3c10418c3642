//! A server with tenants, and clients of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use fogbank_cloud::{
    Address, Allowance, CloudServer, CloudStore, Credentials, Keeping, Pool, ServerSettings,
    Tenants, identity,
};
use fogbank_env::{Clock, Metrics, SystemClock, Visibility};
use fogbank_objects::Environment;
use fogbank_store::{ArrayId, ArrayShape, ChunkName, ChunkWrite, Result};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Server {
    pub folder: TempDir,
    pub address: SocketAddr,
    pub metrics: Metrics,
    pub memory: Arc<Pool>,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<JoinHandle<()>>,
    environment: Environment,
}

impl Server {
    /// With the tenants `a` and `b`, of which each may keep a GiB.
    pub async fn start(keeping: Keeping) -> Self {
        Self::with(keeping, 1 << 30, Arc::new(SystemClock::new()), |_| {}).await
    }

    pub async fn with(
        keeping: Keeping,
        bytes: u64,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        Self::at(|_| None, keeping, bytes, clock, change).await
    }

    /// The same, with the store of each tenant at a URL.
    pub async fn at(
        url: impl Fn(&str) -> Option<String>,
        keeping: Keeping,
        bytes: u64,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (_, pin) = identity(folder.path(), None).unwrap();
        for name in ["a", "b"] {
            let (allowed, url) = (Allowance { bytes, arrays: 100 }, url(name));
            let url = url.map(|url| url.parse().unwrap());
            Tenants::add_at(folder.path(), name, allowed, pin, url.as_ref()).unwrap();
        }
        let mut settings = ServerSettings::new(folder.path(), keeping);
        change(&mut settings);
        let environment = settings.environment.clone();
        let metrics = Metrics::default();
        let listen = ([127, 0, 0, 1], 0).into();
        let server = CloudServer::bind(settings, listen, clock, &metrics).await.unwrap();
        let (address, memory) = (server.address(), server.memory());
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(server.serve(async { drop(stopped.await) }));
        let (stop, ended) = (Some(stop), Some(ended));
        Self { folder, address, metrics, memory, stop, ended, environment }
    }

    pub fn credentials_file(&self, tenant: &str) -> PathBuf {
        self.folder.path().join("tenants").join(tenant).join("credentials")
    }

    pub fn credentials(&self, tenant: &str) -> Credentials {
        Credentials::load(&self.credentials_file(tenant)).unwrap()
    }

    pub fn url(&self, tenant: &str) -> String {
        let file = self.credentials_file(tenant);
        format!("grpc://{}/{tenant}?credentials={}", self.address, file.display())
    }

    pub async fn client(&self, tenant: &str) -> CloudStore {
        self.try_client(tenant, &self.credentials(tenant)).await.unwrap()
    }

    pub async fn try_client(&self, tenant: &str, shown: &Credentials) -> Result<CloudStore> {
        let address =
            Address { place: self.address.to_string(), tenant: tenant.into(), credentials: None };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        CloudStore::connect(address, shown, 2, &clock).await
    }

    pub fn figure(&self, name: &str) -> u64 {
        let figures = self.metrics.snapshot(Visibility::Public);
        figures.iter().find(|(known, _)| *known == name).unwrap().1
    }

    pub fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Ends it where it stands, and starts it again at the same place.
    pub async fn kill_and_restart(&mut self, keeping: Keeping, clock: Arc<dyn Clock>) {
        let ended = self.ended.take().unwrap();
        ended.abort();
        let _killed = ended.await;
        let mut settings = ServerSettings::new(self.folder.path(), keeping);
        settings.environment = self.environment.clone();
        let again = CloudServer::bind(settings, self.address, clock, &self.metrics).await.unwrap();
        self.memory = again.memory();
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        self.ended = Some(tokio::spawn(again.serve(async { drop(stopped.await) })));
    }

    pub async fn ended(&mut self) {
        self.ended.take().unwrap().await.unwrap();
    }
}

pub const SHAPE: ArrayShape = ArrayShape { chunks: 4096, cells_per_chunk: 4, cell_bytes: 1024 };

pub fn name(chunk: u32, version: u64) -> ChunkName {
    ChunkName { array: ArrayId(1), chunk, version }
}

pub fn write(chunk: u32, version: u64) -> ChunkWrite {
    ChunkWrite { chunk: name(chunk, version), data: vec![chunk as u8; SHAPE.chunk_bytes()].into() }
}
