//! Volumes as users have them: made, served, mounted and killed, by the program itself.

#![allow(clippy::disallowed_methods)] // real processes in real time
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod absence;
#[path = "../../../objects/tests/server/mod.rs"]
mod bucket;
mod can_mount;
mod client;
mod clouds;
mod commands;
mod file_system;
mod invitation;
mod kill;
mod mounted;
mod moved;
mod pasted;
mod postgres;
mod put_back;
mod recorded;
mod refused;
#[allow(dead_code)] // `server` needs its type only
#[path = "../clients/resp.rs"]
mod resp;
#[path = "../clients/server.rs"]
mod server;
mod site;
mod site_in_a_bucket;
mod source_tree;
mod two_clients;
mod two_clouds;
mod two_mounts;
mod witness;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clouds::Clouds;
use server::Server;

/// A volume of epochs, small and quick ones.
const RING: [&str; 8] =
    ["--engine", "ring", "--interval-ms", "20", "--batch", "64", "--write-batch", "64"];

/// A volume of partitions, with checkpoints so often that deaths meet them.
const PARTITION: [&str; 4] = ["--engine", "partition", "--checkpoint-every", "500"];

/// A volume in two clouds, with checkpoints as often.
const MULTICLOUD: [&str; 4] = ["--engine", "multicloud", "--checkpoint-every", "500"];

/// A folder with a new volume in it, and where its socket will be.
struct Volume {
    folder: tempfile::TempDir,
    /// Where its blocks are, if not in the folder.
    clouds: Option<Clouds>,
    /// What was said when it was made.
    made: String,
}

impl Volume {
    fn new(size: &str) -> Self {
        Self::of(size, &[])
    }

    fn of(size: &str, shape: &[&str]) -> Self {
        Self::with(size, shape, Clouds::new)
    }

    /// The same; two clouds, if it needs any, are such.
    fn with(size: &str, shape: &[&str], clouds: fn(&Path) -> Clouds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clouds = shape.contains(&"multicloud").then(|| clouds(folder.path()));
        let mut volume = Self { folder, clouds, made: String::new() };
        let data = volume.data();
        let at = ["--size", size, "--data", data.to_str().unwrap()];
        let second = volume.clouds.iter().flat_map(|clouds| ["--second-store", clouds.url(1)]);
        let second: Vec<&str> = volume.store().into_iter().chain(second).collect();
        let told = fogbank(&[&["volume", "create"], &at[..], shape, &second].concat());
        volume.made = said(&told);
        assert!(told.status.success(), "{}", volume.made);
        volume
    }

    /// How a command is told where the store is.
    fn store(&self) -> Vec<&str> {
        self.clouds.iter().flat_map(|clouds| ["--store", clouds.url(0)]).collect()
    }

    /// Ends whoever serves it as a power cut would, and whoever holds it for him; those start
    /// again.
    fn pull_plug(&self, server: Server) {
        server.kill();
        if let Some(clouds) = &self.clouds {
            [0, 1].into_iter().for_each(|at| clouds.kill(at));
            [0, 1].into_iter().for_each(|at| clouds.start(at));
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    fn serve_with(&self, flags: &[&str]) -> Server {
        let flags = [flags, &self.store()].concat();
        let started = Server::try_volume(&self.data(), &self.socket(), &flags);
        started.unwrap_or_else(|said| panic!("it did not start: {said}"))
    }
}

/// The program, to its end.
fn fogbank(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fogbank")).args(arguments).output().unwrap()
}

/// What a program printed.
fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// Runs a tool of the test set-up; it has to succeed.
fn run(tool: impl AsRef<Path>, arguments: &[&str]) -> String {
    let output = Command::new(server::tool(tool.as_ref().to_str().unwrap()))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{:?} {arguments:?}: {}", tool.as_ref(), said(&output));
    said(&output)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}
