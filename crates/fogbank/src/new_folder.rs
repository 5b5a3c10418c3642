//! A new store is made only in a folder that holds nothing else: a mistyped `--data`, such as
//! somebody's home, gets no key and no cells among its files.
//!
//! Files that the same command names, such as a password beside the store, may be there. So may
//! `lost+found`, which every new file system has. A folder in which a store was once begun is ours.
//!
//! If nothing comes of it, nothing is left ([`NewFolders`]).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fogbank_durable::Vault;
use fogbank_env::{FolderLock, Purpose};
use fogbank_store::Store;

use crate::error::{Error, Result};
use crate::open::OpenOptions;
use crate::place::Place;
use crate::registers::RegisterPlace;
use crate::side_check::leads_to;

/// What else may be in the folder of a new store.
const NOBODYS: &str = "lost+found";

/// Names on the trusted side.
const KEY: &str = "key";
const LOCK: &str = "lock";

/// How many names an error tells.
const TOLD_MAX: usize = 3;

impl Place {
    /// Refuses to make a store in a folder that holds anything else than what `named` are: paths
    /// that the command was given. A folder with a store is not looked at. Nothing is written.
    ///
    /// # Errors
    /// [`Error::Usage`], with names of what is there.
    pub fn check_free(&self, named: &[Option<&Path>]) -> Result<()> {
        if self.in_memory() {
            return Ok(()); // nothing is made there
        }
        let begun = self.trusted().join(LOCK).exists();
        if begun || self.knows_a_store() {
            return Ok(());
        }
        let mut ours = vec![leads_to(&self.trusted()), leads_to(&self.data.join("cloud"))];
        ours.extend(self.registers.as_deref().map(leads_to));
        ours.extend(self.store_folder().as_deref().map(leads_to));
        ours.extend(named.iter().copied().flatten().map(leads_to));
        let strangers = strangers(&self.data, &ours);
        if strangers.is_empty() {
            return Ok(());
        }
        let data = self.data.display();
        Err(Error::Usage(format!(
            "there is no store in --data {data}, and it holds other things ({}); choose a folder \
             that is empty or not there yet, such as {} (nothing was changed)",
            told(&strangers),
            self.data.join("fogbank-data").display()
        )))
    }
}

/// What a command makes for something new: its trusted side, and folders. It goes again if the
/// command is refused before there is anything, so that the same command, put right, is not refused
/// for what the first one left. What was there before stays, and so does all beside a key that may
/// be the key of something.
pub(crate) struct NewFolders {
    trusted: PathBuf,
    /// Names of what was on the trusted side before.
    before: BTreeSet<OsString>,
    /// The trusted side, if it holds nothing but what the command makes.
    whole: Option<PathBuf>,
    /// The cloud side in a folder, if it was not there.
    store: Option<PathBuf>,
    /// Those around them, from the innermost.
    around: Vec<PathBuf>,
}

impl NewFolders {
    /// Those that are not there yet.
    pub(crate) fn of(place: &Place) -> Self {
        Self::at(&place.data, place.store_folder())
    }

    /// The same of a trusted side in `data`, and of a cloud side in a folder, if it is in one.
    pub(crate) fn at(data: &Path, store: Option<PathBuf>) -> Self {
        let is_new = |folder: &PathBuf| !folder.exists();
        let trusted = data.join("proxy");
        let before = names(&trusted);
        let (whole, store) = (Some(trusted.clone()).filter(is_new), store.filter(is_new));
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        let around = data.ancestors().map(Path::to_owned).take_while(is_new).collect();
        Self { trusted, before, whole, store, around }
    }

    /// What `making` a store, or opening one, comes to; if it is refused, its `folders` go. It
    /// tells by `asked` which cloud side it has got as far as.
    pub(crate) async fn kept_if_made<T>(
        folders: Option<Self>,
        making: impl Future<Output = Result<T>>,
        options: &OpenOptions,
        asked: &OnceLock<Arc<dyn Store>>,
    ) -> Result<T> {
        let (error, folders) = match (making.await, folders) {
            (Err(error), Some(folders)) => (error, folders),
            (made, _) => return made,
        };
        let is_of_nothing = match asked.get() {
            // Nobody knows what is there, and the same command goes on.
            _ if matches!(error, Error::Absent(_)) || !folders.has_new_key() => false,
            Some(asked) => options.is_of_nothing(&**asked).await.unwrap_or(false),
            None => false,
        };
        folders.go(is_of_nothing);
        Err(error)
    }

    fn has_new_key(&self) -> bool {
        !self.before.contains(OsStr::new(KEY)) && self.trusted.join(KEY).exists()
    }

    /// They go, as far as that can be. If a key was made meanwhile, only if it `is_of_nothing`:
    /// nothing that could be opened by it was ever finished.
    pub(crate) fn go(self, is_of_nothing: bool) {
        if self.trusted.join(KEY).exists() && !(self.has_new_key() && is_of_nothing) {
            return;
        }
        if self.trusted.exists() {
            // Whoever else is at it makes something of its own here.
            let Ok(Some(_lock)) = FolderLock::take(&self.trusted) else { return };
            self.remove();
        } else {
            self.remove();
        }
    }

    fn remove(&self) {
        let mut made: Vec<_> = names(&self.trusted).difference(&self.before).cloned().collect();
        made.sort_by_key(|name| name == KEY); // last: what is left without it could not be named
        for path in made.into_iter().filter(|name| name != LOCK).map(|name| self.trusted.join(name))
        {
            let gone = match path.is_dir() {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
            if gone.is_err() {
                return;
            }
        }
        if let Some(folder) = &self.whole {
            let _not_made = std::fs::remove_dir_all(folder);
        }
        // Another command may have made its store there meanwhile.
        if let Some(store) = self.store.as_deref().filter(|store| is_bare(store)) {
            let _not_made = std::fs::remove_dir_all(store);
        }
        for folder in &self.around {
            let _holds_more = std::fs::remove_dir(folder);
        }
    }
}

/// Whether a folder has no files but those that a store in a folder has from its beginning.
fn is_bare(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.all(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => is_bare(&entry.path()),
        _ => ["format", "lock"].iter().any(|name| entry.file_name() == *name),
    })
}

fn names(folder: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

impl OpenOptions {
    /// Whether nothing was ever committed by the key that is here: the register, which the cloud
    /// cannot change, knows no more than that a store was to be made, and the cloud shows none.
    async fn is_of_nothing(&self, asked: &dyn Store) -> Result<bool> {
        if Vault::claimed_config(asked).await?.is_some() {
            return Ok(false);
        }
        let (clock, randomness) = (self.own_clock(), self.randomness()?);
        let mut unused = randomness.stream(Purpose::MasterKey);
        let key = self.place().trusted().join(KEY);
        let master = fogbank_seal::load_or_create(&key, &mut unused, false)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let register = RegisterPlace::of(self.place())?.register(&master, &randomness, &clock)?;
        Ok(register.read().await?.is_none_or(|known| known.sequence == 0))
    }
}

/// What is in `folder` and does not lead to any of `ours`, by name. A folder that is not there has
/// nothing, and one that cannot be read is refused by whoever makes the store.
fn strangers(folder: &Path, ours: &[PathBuf]) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let strange = entries.filter(|entry| {
        let here = leads_to(&entry.path());
        entry.file_name() != NOBODYS && !ours.iter().any(|path| path.starts_with(&here))
    });
    let mut names: Vec<String> =
        strange.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn told(names: &[String]) -> String {
    let first = names.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(TOLD_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(data: &Path) -> Place {
        Place::local(data)
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_and_one_that_is_free_or_ours_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let data = at("home");
        assert!(place(&data).check_free(&[]).is_ok(), "there is no such folder");
        std::fs::create_dir_all(data.join(NOBODYS)).unwrap();
        assert!(place(&data).check_free(&[]).is_ok(), "there is nothing of anybody");
        std::fs::create_dir_all(data.join("secrets")).unwrap();
        let password = data.join("secrets/password");
        std::fs::write(&password, "x").unwrap();
        assert!(place(&data).check_free(&[None, Some(&password)]).is_ok(), "the command names it");
        let beside = at("secrets");
        let refused = place(&data).check_free(&[Some(&beside)]).unwrap_err().to_string();
        assert!(refused.contains("(secrets); choose a folder that is empty"), "{refused}");
        for name in ["a", "b", "c", "d"] {
            std::fs::write(data.join(name), "x").unwrap();
        }
        let refused = place(&data).check_free(&[]).unwrap_err();
        assert!(matches!(refused, Error::Usage(_)));
        assert!(refused.to_string().contains("(a, b, c and 2 more)"), "{refused}");
        std::fs::create_dir_all(data.join("proxy")).unwrap();
        assert!(place(&data).check_free(&[]).is_err(), "a folder of that name is not a store's");
        for ours in ["lock", "key", "register"] {
            let file = data.join("proxy").join(ours);
            std::fs::write(&file, "").unwrap();
            assert!(place(&data).check_free(&[]).is_ok(), "a store was begun here: {ours}");
            std::fs::remove_file(&file).unwrap();
        }
    }

    #[test]
    fn a_store_that_another_command_made_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (data, store) = (folder.path().join("data"), folder.path().join("store"));
        let refused = || NewFolders::at(&data, Some(store.clone()));
        for made in ["format", "blobs/commit"] {
            let folders = refused();
            std::fs::create_dir_all(store.join("blobs")).unwrap();
            std::fs::create_dir_all(data.join("proxy")).unwrap();
            std::fs::write(store.join(made), "x").unwrap();
            folders.go(true);
            assert_eq!((data.exists(), store.exists()), (false, made != "format"), "{made}");
        }
    }

    #[test]
    fn a_cloud_side_or_a_list_of_registers_inside_the_folder_is_no_stranger() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("there")).unwrap();
        std::fs::write(at("registers"), "x").unwrap();
        let mut place = place(folder.path());
        assert!(place.check_free(&[]).is_err());
        place.registers = Some(at("registers"));
        assert!(place.check_free(&[]).is_err());
        place.store = Some(format!("file://{}", at("there").display()));
        assert!(place.check_free(&[]).is_ok());
    }
}
