//! Volumes as users have them: made, served, mounted and killed, by the program itself.

#![allow(clippy::disallowed_methods)] // real processes in real time
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod can_mount;
mod client;
mod commands;
mod file_system;
mod kill;
mod mounted;
mod postgres;
#[allow(dead_code)] // `server` needs its type only
#[path = "../clients/resp.rs"]
mod resp;
#[path = "../clients/server.rs"]
mod server;
mod site;
mod source_tree;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use server::Server;

/// A volume of epochs, small and quick ones.
const RING: [&str; 8] =
    ["--engine", "ring", "--interval-ms", "20", "--batch", "64", "--write-batch", "64"];

/// A volume of partitions, with checkpoints so often that deaths meet them.
const PARTITION: [&str; 4] = ["--engine", "partition", "--checkpoint-every", "500"];

/// A folder with a new volume in it, and where its socket will be.
struct Volume {
    folder: tempfile::TempDir,
}

impl Volume {
    fn new(size: &str) -> Self {
        Self::of(size, &[])
    }

    fn of(size: &str, shape: &[&str]) -> Self {
        let volume = Self { folder: tempfile::tempdir().unwrap() };
        let data = volume.data();
        let at = ["--size", size, "--data", data.to_str().unwrap()];
        let told = fogbank(&[&["volume", "create"], &at[..], shape].concat());
        assert!(told.status.success(), "{}", said(&told));
        volume
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
        let started = Server::try_volume(&self.data(), &self.socket(), flags);
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
