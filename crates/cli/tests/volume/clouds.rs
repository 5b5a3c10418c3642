//! Two storage servers that shuffle for each other, each a process of its own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use fogbank_env::Mutex;

use crate::server::Server;

/// Both; killed when dropped.
pub struct Clouds {
    data: [PathBuf; 2],
    ports: [u16; 2],
    urls: [String; 2],
    /// Where each process writes down what comes to it, if any does: a folder a process.
    records: Option<PathBuf>,
    running: Mutex<[Option<Server>; 2]>,
    /// Processes of each so far.
    starts: Mutex<[u32; 2]>,
}

impl Clouds {
    /// Both run, with folders in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self::with(folder, None)
    }

    /// The same, and each writes down what it is sent.
    pub fn recorded(folder: &Path) -> Self {
        Self::with(folder, Some(folder.to_owned()))
    }

    fn with(folder: &Path, records: Option<PathBuf>) -> Self {
        let data = ["first", "second"].map(|name| folder.join(name));
        let taken = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = taken.map(|listener| listener.local_addr().unwrap().port());
        let urls = [0, 1].map(|at| Server::cloud_tenant(&data[at], ports[at]));
        let (running, starts) = (Mutex::default(), Mutex::default());
        let clouds = Self { data, ports, urls, records, running, starts };
        [0, 1].into_iter().for_each(|at| clouds.start(at));
        clouds
    }

    /// Where the first (0) or the second (1) is.
    pub fn url(&self, at: usize) -> &str {
        &self.urls[at]
    }

    pub fn start(&self, at: usize) {
        let other = format!("127.0.0.1:{}", self.ports[1 - at]);
        let mut options = vec!["--mixes-with".to_owned(), other];
        if let Some(folder) = self.record(at, self.starts.lock()[at]) {
            options.extend(["--record".to_owned(), folder.display().to_string()]);
        }
        self.starts.lock()[at] += 1;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let server = Server::cloud_with(&self.data[at], self.ports[at], &options);
        self.running.lock()[at] = Some(server);
    }

    fn record(&self, at: usize, start: u32) -> Option<PathBuf> {
        self.records.as_ref().map(|folder| folder.join(format!("records-{at}-{start}")))
    }

    /// What the processes of a cloud have written down, in their order.
    pub fn traces(&self, at: usize) -> Vec<PathBuf> {
        let folders = (0..self.starts.lock()[at]).filter_map(|start| self.record(at, start));
        folders.map(|folder| folder.join("test.trace")).collect()
    }

    /// Ends both; the second goes to another port, and both start again.
    pub fn move_second(&mut self) {
        [0, 1].into_iter().for_each(|at| self.kill(at));
        let from = format!("127.0.0.1:{}/", self.ports[1]);
        self.ports[1] = crate::server::free_port();
        self.urls[1] = self.urls[1].replace(&from, &format!("127.0.0.1:{}/", self.ports[1]));
        [0, 1].into_iter().for_each(|at| self.start(at));
    }

    /// Both end in good order.
    pub fn end(&self) {
        let servers = std::mem::take(&mut *self.running.lock());
        servers.into_iter().flatten().for_each(|mut server| assert!(server.terminate().success()));
    }

    /// Its process, which somebody else ends.
    pub fn take(&self, at: usize) -> Server {
        self.running.lock()[at].take().unwrap()
    }

    /// Ends it as a power cut would.
    pub fn kill(&self, at: usize) {
        self.running.lock()[at].take().unwrap().kill();
    }
}
