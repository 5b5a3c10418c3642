//! A new store is made only in a folder that holds nothing else: a mistyped `--data`, such as
//! somebody's home, gets no key and no cells among its files.
//!
//! Files that the same command names, such as a password beside the store, may be there. So may
//! `lost+found`, which every new file system has. A folder in which a store was once begun is ours.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::place::Place;
use crate::side_check::leads_to;

/// What else may be in the folder of a new store.
const NOBODYS: &str = "lost+found";

/// How many names an error tells.
const TOLD_MAX: usize = 3;

impl Place {
    /// Refuses to make a store in a folder that holds anything else than what `named` are: paths
    /// that the command was given. A folder with a store is not looked at. Nothing is written.
    ///
    /// # Errors
    /// [`Error::Usage`], with names of what is there.
    pub fn check_free(&self, named: &[Option<&Path>]) -> Result<()> {
        let begun = self.trusted().join("lock").exists();
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

/// Folders that a command makes for a new store. They go again if it is refused before there is a
/// key: nothing of a store is in them then.
pub(crate) struct NewFolders {
    key: PathBuf,
    /// Those that hold nothing but what the command makes.
    whole: Vec<PathBuf>,
    /// Those around them, from the innermost.
    around: Vec<PathBuf>,
}

impl NewFolders {
    /// Those that are not there yet.
    pub(crate) fn of(place: &Place) -> Self {
        let is_new = |folder: &PathBuf| !folder.exists();
        let whole = [Some(place.trusted()), place.store_folder()];
        let whole = whole.into_iter().flatten().filter(is_new).collect();
        let data = std::path::absolute(&place.data).unwrap_or_else(|_| place.data.clone());
        let around = data.ancestors().map(Path::to_owned).take_while(is_new).collect();
        Self { key: place.trusted().join("key"), whole, around }
    }

    /// They go, as far as that can be.
    pub(crate) fn go(self) {
        if self.key.exists() {
            return;
        }
        for folder in self.whole {
            let _not_made = std::fs::remove_dir_all(folder);
        }
        for folder in self.around {
            let _holds_more = std::fs::remove_dir(folder);
        }
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
