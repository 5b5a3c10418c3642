//! What the server knows of one client, and what all clients share.

use super::keyspace::Bounds;
use super::limits::Limits;
use super::reply::Version;
use super::watcher::Watcher;
use fogbank_env::{Clock, Metrics, Mutex};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What all clients of one front end share.
pub struct Server {
    /// Bounds on every client.
    pub limits: Limits,
    /// What programs share.
    pub bounds: Arc<Bounds>,
    /// Where it listens, for those who ask.
    pub address: SocketAddr,
    /// Figures about the proxy.
    pub metrics: Metrics,
    /// Whether `INFO` may print the secret ones.
    pub secret_metrics: bool,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// When this server started, Unix ms.
    pub started_ms: u64,
    /// Bytes of all commands that wait for their epoch.
    pub waiting_bytes: AtomicUsize,
    /// Bytes of requests of all connections that cannot be carried out yet.
    pub unfinished: Arc<AtomicUsize>,
    /// Who looks on, if anybody.
    pub watcher: Option<Arc<dyn Watcher>>,
    password: Option<Vec<u8>>,
    next_id: AtomicU64,
    clients: Mutex<BTreeMap<u64, Listed>>,
}

/// A client as `CLIENT LIST` shows it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Where it comes from.
    pub address: String,
    /// The name it gave itself.
    pub name: String,
    /// When it came, Unix ms.
    pub since_ms: u64,
    /// The version it speaks.
    pub version: Version,
}

impl Server {
    /// A server without clients.
    pub fn new(
        settings: &super::Settings,
        address: SocketAddr,
        bounds: Arc<Bounds>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        Self {
            limits: settings.limits.clone(),
            bounds,
            address,
            metrics,
            secret_metrics: settings.secret_metrics,
            started_ms: clock.wall_ms(),
            clock,
            waiting_bytes: AtomicUsize::new(0),
            unfinished: Arc::default(),
            watcher: None,
            password: settings.password.clone().map(String::into_bytes),
            next_id: AtomicU64::new(1),
            clients: Mutex::default(),
        }
    }

    /// Whether clients must give a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Whether `user` may enter with `password`. Takes as long whatever the password's content.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let known = user == b"default";
        match &self.password {
            None => known,
            Some(expected) => known & equal(password, expected),
        }
    }

    /// The clients, by number.
    pub fn clients(&self) -> BTreeMap<u64, Listed> {
        self.clients.lock().clone()
    }

    fn list(&self, id: u64, listed: Option<Listed>) {
        let mut clients = self.clients.lock();
        match listed {
            Some(listed) => clients.insert(id, listed),
            None => clients.remove(&id),
        };
    }
}

fn equal(given: &[u8], expected: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != expected.len());
    for (index, byte) in given.iter().enumerate() {
        difference |= byte ^ expected.get(index).copied().unwrap_or(0);
    }
    black_box(difference) == 0
}

/// One client.
pub struct Client {
    /// What all share.
    pub server: Arc<Server>,
    /// Its number; never given twice.
    pub id: u64,
    /// How it is listed.
    pub listed: Listed,
    /// Whether it may do anything at all.
    pub authenticated: bool,
}

impl Client {
    /// A client that has just come.
    pub fn new(server: Arc<Server>, address: String) -> Self {
        let since_ms = server.clock.wall_ms();
        let listed = Listed { address, name: String::new(), since_ms, version: Version::default() };
        let id = server.next_id.fetch_add(1, Ordering::Relaxed);
        let authenticated = !server.has_password();
        server.list(id, Some(listed.clone()));
        Self { server, id, listed, authenticated }
    }

    /// Makes what has changed visible to others.
    pub fn relist(&self) {
        self.server.list(self.id, Some(self.listed.clone()));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.server.list(self.id, None);
    }
}
