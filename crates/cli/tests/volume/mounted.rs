//! A volume that is mounted with the system's own tools, and taken down whatever happens.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::server::tool;

/// Longest wait for another process: a database recovers for a minute on a busy machine.
const PATIENCE: u32 = 300_000;

/// Waits until `done` is true.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..PATIENCE / 20 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain: {what}");
}

/// A block device over a served volume; gone when dropped, with what is mounted on it.
pub struct Attached {
    nbdfuse: Child,
    fuse: PathBuf,
    mounted: PathBuf,
    pub device: String,
}

impl Attached {
    /// With its folders in `folder`.
    pub fn new(folder: &Path, uri: &str) -> Self {
        let [fuse, mounted, ready] = ["fuse", "mounted", "ready"].map(|name| folder.join(name));
        std::fs::create_dir_all(&fuse).unwrap();
        std::fs::create_dir_all(&mounted).unwrap();
        std::fs::remove_file(&ready).ok();
        let mut command = Command::new(tool("nbdfuse"));
        command.arg("-P").arg(&ready).arg(fuse.join("disk")).arg(uri);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let nbdfuse = command.spawn().unwrap();
        let mut attached = Self { nbdfuse, fuse, mounted, device: String::new() };
        wait_for("nbdfuse", || std::fs::metadata(&ready).is_ok_and(|file| file.len() > 0));
        let file = attached.fuse.join("disk");
        attached.device =
            crate::run("/usr/sbin/losetup", &["--find", "--show", file.to_str().unwrap()]);
        attached.device.truncate(attached.device.trim_end().len());
        attached
    }

    /// Makes a file system that does not discard: that would write zeros.
    pub fn format(&self) {
        crate::run("/usr/sbin/mkfs.ext4", &["-q", "-E", "nodiscard", &self.device]);
    }

    /// Mounts it; where it is then.
    pub fn mount(&self) -> &Path {
        crate::run("mount", &["-o", "noatime", &self.device, self.mounted.to_str().unwrap()]);
        &self.mounted
    }

    pub fn unmount(&self) {
        crate::run("umount", &[self.mounted.to_str().unwrap()]);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let silently = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        silently("umount", &["--lazy", self.mounted.to_str().unwrap()]);
        silently("losetup", &["--detach", &self.device]);
        if !silently("umount", &[self.fuse.to_str().unwrap()]) {
            silently("umount", &["--lazy", self.fuse.to_str().unwrap()]);
        }
        self.nbdfuse.kill().ok();
        self.nbdfuse.wait().ok();
    }
}
