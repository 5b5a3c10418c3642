//! A site with two clients, `one` and `two`, on a storage server of its own.

use std::path::PathBuf;

use crate::server::{Server, free_port};
use crate::{fogbank, said};

pub struct TwoClients {
    folder: tempfile::TempDir,
    /// Where they meet.
    pub store: String,
    _cloud: Server,
}

impl TwoClients {
    /// A disk of so many bytes.
    pub fn new(size: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let data = folder.path().join("cloud");
        let store = Server::cloud_tenant(&data, port);
        let site = Self { folder, store, _cloud: Server::cloud(&data, port) };
        let one = site.shown("one");
        done(&["site", "create", "--data", &one, "--size", size, "--store", &site.store]);
        let told = done(&["site", "status", "--data", &one]);
        let id = told.lines().find_map(|line| line.strip_prefix("site ")).unwrap();
        let (two, key) = (site.shown("two"), site.shown("one/proxy/key"));
        let join = ["--data", &two, "--id", id, "--key", &key, "--store", &site.store];
        done(&[&["site", "join"][..], &join].concat());
        site
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn shown(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }
}

/// What a command says that ends well.
pub fn done(words: &[&str]) -> String {
    let told = fogbank(words);
    assert!(told.status.success(), "{words:?}: {}", said(&told));
    said(&told)
}
