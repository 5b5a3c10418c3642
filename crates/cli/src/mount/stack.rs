//! What lies between the socket and the mounted file system, each on the one before:
//!
//! 1. `nbdfuse` shows the disk as a file.
//! 2. A loop device makes a block device of the file.
//! 3. The kernel's file system is on that.
//!
//! What was set up is taken down in the opposite order, also if a step failed.
//!
//! The disk of a site others may attach as well, and two kernels on one ext4 destroy it. So there
//! the file system is made with ext4's protection against that (`mmp`): whoever mounts it writes a
//! block every five seconds, and looks first whether another does: it reads that block twice. The
//! loop device keeps nothing of such a disk in memory: that would answer the second read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use fogbank::{Error, Result};
use fogbank_env::Clock;
use fogbank_process::say_error;
use rustix::fs::OFlags;

use super::tools::{LOSETUP, MKFS, MOUNT, NBDFUSE, UMOUNT};

/// Between two looks at what another process does.
const LOOK_NANOS: u64 = 50_000_000;
/// Opens a block device only if nothing is mounted from it.
const EXCLUSIVE: i32 = OFlags::EXCL.bits() as i32;
/// A disk with nothing in so many bytes at both its ends has no file system that we know of.
const ENDS_BYTES: u64 = 1 << 20;

/// The steps that are set up.
pub struct Stack {
    clock: Arc<dyn Clock>,
    /// Whether others may have the disk, too.
    is_shared: bool,
    fuse: Option<(Child, PathBuf)>,
    device: Option<String>,
    mounted: Option<PathBuf>,
}

impl Stack {
    /// Nothing yet, of a disk that others may have, too, or of one that nobody else has.
    pub fn new(clock: Arc<dyn Clock>, is_shared: bool) -> Self {
        Self { clock, is_shared, fuse: None, device: None, mounted: None }
    }

    /// Sets up the file and the loop device, in `folder`.
    ///
    /// # Errors
    /// By blame, see [`Error`].
    pub async fn attach(&mut self, folder: &Path, socket: &Path) -> Result<()> {
        let (place, ready) = (folder.join("fuse"), folder.join("ready"));
        std::fs::create_dir(&place)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", place.display())))?;
        let file = place.join("disk");
        // No "%" or "&" can be in it: we have chosen the folder.
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let arguments =
            ["-P".as_ref(), ready.as_os_str(), file.as_os_str(), uri.as_ref() as &std::ffi::OsStr];
        let mut command = NBDFUSE.command(&arguments)?;
        let child = command.stdout(Stdio::null()).spawn();
        let child = child.map_err(|e| Error::CannotUse(format!("nbdfuse: {e}")))?;
        self.fuse = Some((child, place));
        while !std::fs::metadata(&ready).is_ok_and(|file| file.len() > 0) {
            if self.is_gone()? {
                return Err(Error::CannotUse("nbdfuse ended before it showed the disk".into()));
            }
            self.look_again().await;
        }
        let file = file.into_os_string();
        let arguments = ["--find".as_ref(), "--show".as_ref(), file.as_os_str()];
        let device = LOSETUP.run(&arguments).await?;
        self.device = Some(device.clone());
        if self.is_shared {
            LOSETUP.run(&["--direct-io=on", &device]).await?;
            let says = format!("/sys/block/{}/loop/dio", device.trim_start_matches("/dev/"));
            if std::fs::read_to_string(&says).ok().is_none_or(|says| says.trim() != "1") {
                return Err(Error::CannotUse(format!(
                    "{device} keeps what it reads in memory ({says}), so it would not be seen that \
                     another client has the disk of this site mounted"
                )));
            }
        }
        Ok(())
    }

    /// Makes a file system on a disk that has nothing; one that is there already stays.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is something else on it.
    pub async fn make_ext4(&self) -> Result<()> {
        let found = self.look().await?;
        match (found.has_ext4, found.is_empty) {
            (true, _) => {
                say_error!("there is an ext4 file system on it already, which stays as it is");
                return Ok(());
            }
            (false, true) => {}
            (false, false) => {
                return Err(Error::Usage(
                    "there is something on this volume that is no ext4; mount it without --mkfs, \
                     or make a new one"
                        .into(),
                ));
            }
        }
        // Every block reads as zeros already; to discard them all would be to write them all.
        let features: &[&str] = if self.is_shared { &["-O", "mmp"] } else { &[] };
        let arguments = [&["-q", "-E", "nodiscard"], features, &[self.device()?]].concat();
        MKFS.run(&arguments).await.map(drop)
    }

    /// What is on the disk.
    async fn look(&self) -> Result<Found> {
        let device = self.device()?.to_owned();
        let look = tokio::task::spawn_blocking(move || found_on(&device)).await;
        let found = look.map_err(|e| Error::Bug(e.to_string()))?;
        found.map_err(|e| Error::CannotUse(format!("cannot read the disk: {e}")))
    }

    /// Mounts the file system.
    ///
    /// # Errors
    /// [`Error::Usage`] if nothing is on it yet; [`Error::CannotUse`] with what the kernel said.
    pub async fn mount(&mut self, mount_point: &Path) -> Result<()> {
        let device = self.device()?.to_owned();
        if self.is_shared {
            self.tell_of_others().await?;
        }
        // A read must not become a write because somebody notes when it was.
        let arguments =
            ["-o".as_ref(), "noatime".as_ref(), device.as_ref(), mount_point.as_os_str()];
        if let Err(error) = MOUNT.run(&arguments).await {
            return Err(self.not_mounted(error).await);
        }
        self.mounted = Some(mount_point.to_owned());
        Ok(())
    }

    /// Why it was not mounted, and what to do.
    async fn not_mounted(&self, error: Error) -> Error {
        let found = self.look().await;
        if found.is_ok_and(|found| !found.has_ext4 && found.is_empty) {
            let nothing =
                "nothing is on this disk yet; say --mkfs ext4 to make a file system on it";
            return Error::Usage(nothing.into());
        }
        match error {
            Error::CannotUse(why) if self.is_shared && why.contains("busy") => {
                Error::CannotUse(format!(
                    "does another client of this site have the file system mounted? Unmount it \
                     there ({why})"
                ))
            }
            error => error,
        }
    }

    /// Says what is done so that no two clients mount the disk of a site at once, or that nothing
    /// is.
    async fn tell_of_others(&self) -> Result<()> {
        let found = self.look().await?;
        match (found.has_ext4, found.has_mmp) {
            (true, true) => say_error!(
                "looking whether another client has it mounted: a minute or two, if it was not \
                 unmounted"
            ),
            (true, false) => say_error!(
                "this file system was made without protection against two clients that mount it at \
                 once, which destroys it: see that no other does (docs/site.md)"
            ),
            (false, _) => {}
        }
        Ok(())
    }

    /// Completes when the disk is gone: nothing can be read or written any more.
    ///
    /// # Errors
    /// [`Error::CannotUse`], always.
    pub async fn gone(&mut self) -> Error {
        loop {
            match self.is_gone() {
                Ok(true) => return Error::CannotUse("nbdfuse has ended by itself".into()),
                Ok(false) => self.look_again().await,
                Err(error) => return error,
            }
        }
    }

    /// Unmounts the file system, and looks whether the kernel has let go of it: then it has written
    /// what it held.
    ///
    /// # Errors
    /// [`Error::CannotUse`] while somebody uses it, or has it mounted in a name space of their own.
    pub async fn unmount(&mut self) -> Result<()> {
        if let Some(mounted) = &self.mounted {
            let ended = UMOUNT.run(&[mounted]).await;
            // Whoever has unmounted it by hand was there first.
            if ended.is_err() && self.is_mounted() {
                return ended.map(drop);
            }
            self.mounted = None;
        }
        match self.is_held() {
            true => Err(Error::CannotUse(
                "the file system is unmounted here and still mounted in another mount name space, \
                 by a container or a service that began meanwhile; end that"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    /// Whether anybody has the file system mounted, seen from here or not.
    fn is_held(&self) -> bool {
        let Some(device) = &self.device else { return false };
        let alone = File::options().read(true).custom_flags(EXCLUSIVE).open(device);
        alone.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    /// Whether the kernel says so; also if it says nothing.
    fn is_mounted(&self) -> bool {
        let Some(device) = &self.device else { return false };
        let mounts = std::fs::read_to_string("/proc/self/mounts");
        let is_ours = |line: &str| line.split(' ').next() == Some(device);
        mounts.map_or(true, |mounts| mounts.lines().any(is_ours))
    }

    /// Takes everything down, whoever uses it, and says what could not be.
    pub async fn take_down(&mut self) {
        let mut failed = Vec::new();
        if let Some(mounted) = self.mounted.take() {
            failed.extend(UMOUNT.run(&["--lazy".as_ref(), mounted.as_os_str()]).await.err());
        }
        if let Some(device) = self.device.take() {
            failed.extend(LOSETUP.run(&["--detach", &device]).await.err());
        }
        if let Some((mut child, place)) = self.fuse.take() {
            // It ends when its folder is unmounted, with all that it was asked done.
            if UMOUNT.run(&[&place]).await.is_err() {
                failed.extend(UMOUNT.run(&["--lazy".as_ref(), place.as_os_str()]).await.err());
                child.kill().ok();
            }
            let ended = tokio::task::spawn_blocking(move || child.wait()).await;
            ended.ok();
        }
        failed.iter().for_each(|error| say_error!("fogbank: {error}"));
    }

    fn device(&self) -> Result<&str> {
        self.device.as_deref().ok_or_else(|| Error::Bug("there is no device yet".into()))
    }

    fn is_gone(&mut self) -> Result<bool> {
        let Some((child, _)) = &mut self.fuse else { return Ok(true) };
        let ended = child.try_wait().map_err(|e| Error::Bug(format!("nbdfuse: {e}")))?;
        Ok(ended.is_some())
    }

    async fn look_again(&self) {
        self.clock.sleep_until(self.clock.now() + LOOK_NANOS).await;
    }
}

/// Whether a disk begins and ends with zeros: that is where file systems and tables of partitions
/// are.
fn ends_are_empty(device: &str) -> io::Result<bool> {
    let mut disk = File::open(device)?;
    let size = disk.seek(SeekFrom::End(0))?;
    for start in [0, size.saturating_sub(ENDS_BYTES)] {
        disk.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        (&mut disk).take(ENDS_BYTES).read_to_end(&mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is on a disk.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// It says of itself that it has an ext4: by the number of the superblock, and by extents,
    /// which its forerunners have not.
    has_ext4: bool,
    /// That is protected against several mounts.
    has_mmp: bool,
    /// Nothing, as far as its ends tell.
    is_empty: bool,
}

fn found_on(device: &str) -> io::Result<Found> {
    let mut disk = File::open(device)?;
    disk.seek(SeekFrom::Start(SUPERBLOCK_AT))?;
    let mut superblock = Vec::new();
    disk.take(SUPERBLOCK_BYTES).read_to_end(&mut superblock)?;
    let has = |at: usize, bits: u8| superblock.get(at).is_some_and(|byte| byte & bits == bits);
    let has_ext4 = superblock.get(0x38..0x3A) == Some(&EXT_MAGIC) && has(0x60, EXTENTS);
    Ok(Found { has_ext4, has_mmp: has(0x61, MMP), is_empty: ends_are_empty(device)? })
}

const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: u64 = 1024;
const EXT_MAGIC: [u8; 2] = [0x53, 0xEF];
/// Among the features that whoever mounts it must know.
const EXTENTS: u8 = 0x40;
const MMP: u8 = 0x01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ext4_is_known_by_its_superblock_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        let is_known = |at: &[(usize, u8)]| {
            let mut bytes = vec![0; 4096];
            at.iter().for_each(|&(at, byte)| bytes[1024 + at] = byte);
            std::fs::write(&disk, bytes).unwrap();
            found_on(disk.to_str().unwrap()).unwrap().has_ext4
        };
        assert!(is_known(&[(0x38, 0x53), (0x39, 0xEF), (0x60, 0xC2)]));
        assert!(!is_known(&[(0x38, 0x53), (0x39, 0xEF), (0x60, 0x02)]), "an ext2");
        assert!(!is_known(&[(0x38, 0x53), (0x60, 0x40)]) && !is_known(&[]));
        std::fs::write(&disk, "short").unwrap();
        assert!(!found_on(disk.to_str().unwrap()).unwrap().has_ext4);
    }
}
