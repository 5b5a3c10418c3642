//! A second place for what only the trusted disk has of a volume in two clouds: a folder on another
//! disk.
//!
//! ```text
//! DIR/proxy/second-journal    where it is: noted when it was said, read by whoever opens later
//! FOLDER/journal              the same blobs as DIR/proxy/journal: journal and checkpoints
//! FOLDER/register             the freshness register, which is bumped with each record
//! FOLDER/second-store, cloud-keys, registers, second-journal   as in DIR/proxy
//! FOLDER/lock                 one process at a time
//! ```
//!
//! 1. What is written to the journal or the register is in both places before anything that stands
//!    on it leaves, or is answered. If either fails the volume stops, and says which.
//! 2. Only the first place is read. The second is made the same once the first has been held
//!    against the register and both clouds: an old copy of DIR/proxy is refused, and takes nothing
//!    newer in the second place with it ([`BlobsTwice`]).
//! 3. Who has lost the trusted disk puts the key and all of FOLDER into a new DIR/proxy. The key is
//!    not in FOLDER: it never changes, so that any copy of it does.
//!
//! # Invariants
//!
//! - FOLDER is of one volume: another one's register in it is refused before anything is changed.
//! - A folder that is noted and holds no journal is not begun anew unless somebody says so: its
//!   disk may only not be mounted.
//!
//! Clouds see nothing of it, but for the moment that a second disk takes. Who has FOLDER has what
//! the trusted disk holds but for the key: sealed records, which tell how many there were. An old
//! copy of it is refused as one of the first place is.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fogbank_durable::{FileRegister, Register, RegisterValue};
use fogbank_env::{Clock, FolderLock, Nanos, quoted};
use fogbank_store::{BlobsTwice, FileStore, Store};

use crate::error::{Error, Result};
use crate::place::{CLOUD_KEYS, Place, SECOND_STORE, absolute, lock_trusted_side};

/// In the folder of the trusted side: where the second place is.
pub(crate) const SECOND_JOURNAL: &str = "second-journal";
/// With which commands say it.
pub(crate) const SECOND_JOURNAL_FLAG: &str = "--second-journal";
/// In either place.
const REGISTER: &str = "register";
const REGISTERS: &str = "registers";
/// Whoever dropped a volume without closing it still ends what it began.
const LOCK_PATIENCE_NANOS: Nanos = 5_000_000_000;
const LOCK_LOOK_NANOS: Nanos = 20_000_000;

/// Both places of a journal.
pub(crate) type Journal = BlobsTwice<Arc<dyn Store>>;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct SecondJournal {
    folder: PathBuf,
    lock: Arc<FolderLock>,
    /// Whether it was beside the first place in the volume's last life.
    was_there: bool,
}

impl SecondJournal {
    /// The second place, if one is given or noted; its lock is taken. In both, the blobs are in a
    /// folder that is called `journal`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a folder that cannot be one, [`Error::CannotUse`] if it is not there or
    /// holds what the first place has lost.
    pub async fn of(place: &Place, journal: &str, clock: &Arc<dyn Clock>) -> Result<Option<Self>> {
        let trusted = place.trusted();
        let noted = noted(&trusted)?;
        let given = place.second_journal.as_deref().map(absolute);
        let Some(folder) = given.or_else(|| noted.clone()) else {
            return Ok(None);
        };
        let was_there = noted.as_ref() == Some(&folder);
        let first = absolute(&trusted);
        if folder.starts_with(&first) || first.starts_with(&folder) {
            return Err(Error::Usage(format!(
                "{SECOND_JOURNAL_FLAG} {}: who loses {} loses that, too; give a folder on another \
                 disk",
                folder.display(),
                first.display()
            )));
        }
        let has = |place: &Path, file: &str| place.join(file).exists();
        if place.second_journal.is_none() && !has(&folder.join(journal), "format") {
            return Err(Error::CannotUse(format!(
                "{} is the second place of this volume's journal, and holds none: mount its disk; \
                 if it is lost, begin another with {SECOND_JOURNAL_FLAG} DIR, or remove {} to go \
                 on without one",
                folder.display(),
                trusted.join(SECOND_JOURNAL).display()
            )));
        }
        let is_lost = ![REGISTER, REGISTERS].iter().any(|file| has(&trusted, file));
        if is_lost && has(&trusted, "key") && has(&folder, REGISTER) {
            let trusted = trusted.display();
            return Err(Error::CannotUse(format!(
                "{trusted} has no register, and {} has: {}",
                folder.display(),
                put_back(&folder, &first)
            )));
        }
        let lock = Arc::new(lock(&folder, clock).await?);
        let disk = |folder: &Path| std::fs::metadata(folder).map(|found| found.dev()).ok();
        if place.second_journal.is_some() && disk(&folder) == disk(&trusted) {
            let (folder, first) = (folder.display(), first.display());
            tracing::warn!("{folder} is on the same disk as {first}: what loses one loses both");
        }
        Ok(Some(Self { folder, lock, was_there }))
    }

    /// The blobs of the journal in both places.
    pub fn journal(&self, first: Arc<dyn Store>, journal: &str) -> Result<Arc<Journal>> {
        let folder = self.folder.join(journal);
        let second = fogbank_env::compute(|| FileStore::open(&folder));
        let second = second.map_err(|e| self.cannot_use(e))?;
        let told = format!("the second place of the journal, {}", self.folder.display());
        let both = BlobsTwice::new(first, Arc::new(second), told);
        Ok(Arc::new(if self.was_there { both } else { both.after_a_while() }))
    }

    /// The register in both places.
    pub fn register(&self, first: Arc<dyn Register>, journal: Arc<Journal>) -> Arc<dyn Register> {
        let second = Arc::new(FileRegister::new(&self.folder.join(REGISTER)));
        Arc::new(RegisterTwice { first, second, journal, _lock: self.lock.clone() })
    }

    /// Notes where it is: whoever opens a new volume next must know, however its making ended.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if it could not be written.
    pub fn note_where(&self, trusted: &Path) -> Result<()> {
        write(&trusted.join(SECOND_JOURNAL), self.folder.as_os_str().as_encoded_bytes())
    }

    /// The same, and copies what else a trusted side needs.
    ///
    /// # Errors
    /// [`Error::CannotUse`] with the file that could not be written.
    pub fn note(&self, trusted: &Path) -> Result<()> {
        self.note_where(trusted)?;
        for name in [SECOND_STORE, CLOUD_KEYS, REGISTERS, SECOND_JOURNAL] {
            let (from, to) = (trusted.join(name), self.folder.join(name));
            match std::fs::read(&from) {
                Ok(bytes) => write(&to, &bytes)?,
                Err(e) if e.kind() == ErrorKind::NotFound => match std::fs::remove_file(&to) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(unusable(&to, &e)),
                    _ => {}
                },
                Err(e) => return Err(unusable(&from, &e)),
            }
        }
        Ok(())
    }

    /// An error of a trusted side that is lost, damaged or old: the second place may have the
    /// newest.
    pub fn advised(&self, error: Error, trusted: &Path) -> Error {
        match error {
            Error::CannotUse(why) if why.contains("trusted side") => Error::CannotUse(format!(
                "{why}. The second place may have it: {}",
                put_back(&self.folder, &absolute(trusted))
            )),
            error => error,
        }
    }

    fn cannot_use(&self, why: impl std::fmt::Display) -> Error {
        Error::CannotUse(format!("the second place of the journal: {why}"))
    }
}

/// Where the second place of a volume is noted to be, if it has one.
///
/// # Errors
/// [`Error::CannotUse`] if that cannot be read.
pub(crate) fn noted(trusted: &Path) -> Result<Option<PathBuf>> {
    let file = trusted.join(SECOND_JOURNAL);
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text.trim_end_matches('\n').into())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unusable(&file, &e)),
    }
}

/// What to do when the first place is lost.
fn put_back(folder: &Path, trusted: &Path) -> String {
    let away = quoted(trusted.with_extension("lost"));
    let (from, to) = (quoted(folder), quoted(trusted));
    format!(
        "move what is left away and put back what is there, and your copy of the key: mv {to} \
         {away}; cp -a {from} {to}; cp -p KEY {to}/key"
    )
}

async fn lock(folder: &Path, clock: &Arc<dyn Clock>) -> Result<FolderLock> {
    let until = clock.now() + LOCK_PATIENCE_NANOS;
    loop {
        match lock_trusted_side(folder) {
            Err(Error::CannotUse(_)) if clock.now() < until => {
                clock.sleep_until(clock.now() + LOCK_LOOK_NANOS).await;
            }
            taken => return taken,
        }
    }
}

/// Writes a small file unless it says so already.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fogbank_env::write_secret(file, bytes).map_err(|e| unusable(file, &e))
}

fn unusable(file: &Path, why: &std::io::Error) -> Error {
    Error::CannotUse(format!("{}: {why}", file.display()))
}

/// A register that is kept twice. The first decides, and is the one that is read.
struct RegisterTwice {
    first: Arc<dyn Register>,
    second: Arc<FileRegister>,
    journal: Arc<Journal>,
    /// For as long as anybody may write.
    _lock: Arc<FolderLock>,
}

#[async_trait]
impl Register for RegisterTwice {
    async fn read(&self) -> fogbank_durable::Result<Option<RegisterValue>> {
        self.first.read().await
    }

    /// What else stands in the second place is another volume's; what was only begun is nobody's.
    async fn take(&self) -> fogbank_durable::Result<Option<RegisterValue>> {
        let known = self.first.take().await?;
        let there = self.second.read().await?.filter(|there| there.sequence > 0);
        match there {
            Some(there) if known.is_none_or(|known| known.store != there.store) => {
                Err(fogbank_durable::Error::Register {
                    place: self.second.place(),
                    reason: format!(
                        "it is of another volume; give an empty folder with {SECOND_JOURNAL_FLAG}"
                    ),
                })
            }
            _ => Ok(known),
        }
    }

    async fn write(
        &self,
        from: Option<RegisterValue>,
        to: RegisterValue,
    ) -> fogbank_durable::Result<()> {
        // A register that is ahead of the journal beside it would make that useless.
        self.journal.level().await?;
        let second = self.second.clone();
        // Whatever a stop has left there: it may be a step behind the first, or ahead of it.
        let beside = tokio::spawn(async move { second.write(second.read().await?, to).await });
        let first = self.first.write(from, to).await;
        let second = beside.await;
        first?;
        second.unwrap_or_else(|e| Err(fogbank_durable::Error::Bug(e.to_string())))
    }

    fn place(&self) -> String {
        self.first.place()
    }
}

#[cfg(test)]
mod tests {
    use fogbank_durable::MemoryRegister;
    use fogbank_seal::StoreId;
    use fogbank_store::MemoryStore;

    use super::*;

    fn value(store: u8, place: u64) -> RegisterValue {
        let (commit, journal) = ([1; 32], [2; 32]);
        let store = StoreId([store; 16]);
        RegisterValue { store, opening: 1, sequence: 1, commit, epoch: 0, place, journal }
    }

    async fn registers(folder: &Path) -> (Arc<MemoryRegister>, Arc<dyn Register>) {
        let first = Arc::new(MemoryRegister::default());
        let lock = Arc::new(FolderLock::take(folder).unwrap().unwrap());
        let second = SecondJournal { folder: folder.to_owned(), lock, was_there: true };
        let journal = second.journal(Arc::new(MemoryStore::new()), "journal").unwrap();
        (first.clone(), second.register(first, journal))
    }

    /// After a stop between two writes of the register the second is a step ahead, or behind.
    #[tokio::test]
    async fn a_second_register_follows_the_first_wherever_it_was_left() {
        for left in [1, 2, 3] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(REGISTER);
            FileRegister::new(&file).write(None, value(7, left)).await.unwrap();
            let (first, twice) = registers(folder.path()).await;
            first.write(None, value(7, 2)).await.unwrap();
            assert_eq!(twice.take().await.unwrap(), Some(value(7, 2)));
            twice.write(Some(value(7, 2)), value(7, 4)).await.unwrap();
            let both = [first.read().await, FileRegister::new(&file).read().await];
            assert_eq!(both.map(|held| held.unwrap()), [Some(value(7, 4)); 2]);
        }
    }

    #[tokio::test]
    async fn the_register_of_another_volume_is_refused_before_anything_is_written() {
        for known in [None, Some(value(7, 1))] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(REGISTER);
            FileRegister::new(&file).write(None, value(8, 1)).await.unwrap();
            let (first, twice) = registers(folder.path()).await;
            if let Some(known) = known {
                first.write(None, known).await.unwrap();
            }
            let told = twice.take().await.unwrap_err().to_string();
            assert!(
                told.contains("another volume") && told.contains(SECOND_JOURNAL_FLAG),
                "{told}"
            );
            assert_eq!(FileRegister::new(&file).read().await.unwrap(), Some(value(8, 1)));
        }
    }
}
