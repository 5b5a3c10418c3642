//! The system's own tools: are they there, may we use them, what did they say.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fogbank::{Error, Result};

/// Where administrators' tools are, whether the path names it or not.
const ADMINISTRATORS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A program, and the package that Debian and its kin have it in.
#[derive(Debug, Clone, Copy)]
pub struct Tool(&'static str, &'static str);

pub const NBDFUSE: Tool = Tool("nbdfuse", "libnbd-bin (elsewhere: nbdfuse or libnbd)");
pub const LOSETUP: Tool = Tool("losetup", "mount (elsewhere: util-linux)");
pub const MOUNT: Tool = Tool("mount", "mount (elsewhere: util-linux)");
pub const UMOUNT: Tool = Tool("umount", "mount (elsewhere: util-linux)");
pub const MKFS: Tool = Tool("mkfs.ext4", "e2fsprogs");

impl Tool {
    /// Where it is.
    ///
    /// # Errors
    /// [`Error::Usage`] with the package that has it.
    pub fn path(self) -> Result<PathBuf> {
        let Self(name, package) = self;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(ADMINISTRATORS.map(PathBuf::from));
        let mut candidates = folders.map(|folder| folder.join(name));
        candidates.find(|candidate| candidate.is_file()).ok_or_else(|| {
            Error::Usage(format!("{name} is not installed; it is in the package {package}"))
        })
    }

    /// It with `arguments`, deaf to the terminal: Ctrl-C is for us alone, who undo things in order.
    ///
    /// # Errors
    /// As [`Tool::path`].
    pub fn command<A: AsRef<std::ffi::OsStr>>(self, arguments: &[A]) -> Result<Command> {
        let mut command = Command::new(self.path()?);
        // What they say is read here, too.
        command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).process_group(0);
        Ok(command)
    }

    /// What it prints, once it has ended well. It may take long: it reads and writes the disk that
    /// this process serves.
    ///
    /// # Errors
    /// [`Error::CannotUse`] with what it said.
    pub async fn run<A: AsRef<std::ffi::OsStr>>(self, arguments: &[A]) -> Result<String> {
        let mut command = self.command(arguments)?;
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let ended = ended.map_err(|e| Error::Bug(e.to_string()))?;
        let cannot = |why: &str| Error::CannotUse(format!("{}: {}", self.0, why.trim()));
        let output = ended.map_err(|e| cannot(&e.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(cannot(&String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// Whether we may mount at all.
///
/// # Errors
/// [`Error::Usage`] with what is missing and how to come by it.
pub fn check(mount_point: &Path, makes_file_system: bool) -> Result<()> {
    let folder = std::fs::read_dir(mount_point)
        .map_err(|e| Error::Usage(format!("{}: {e}; give an empty folder", mount_point.display())));
    if folder?.next().is_some() {
        return Err(Error::Usage(format!(
            "{} is not empty, or something is mounted there; give an empty folder, or, if a \
             fogbank mount of it was killed, unmount it (docs/disk.md)",
            mount_point.display()
        )));
    }
    for tool in [NBDFUSE, LOSETUP, MOUNT, UMOUNT] {
        tool.path()?;
    }
    if makes_file_system {
        MKFS.path()?;
    }
    if !is_root() {
        return Err(Error::Usage("only root may mount; use sudo".into()));
    }
    for (device, why) in [("/dev/fuse", "modprobe fuse"), ("/dev/loop-control", "modprobe loop")] {
        if !Path::new(device).exists() {
            return Err(Error::Usage(format!("this kernel has no {device}; try {why}")));
        }
    }
    Ok(())
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    effective.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}
