//! The tenants of a server as its operator sees them: who there is, what each may keep and keeps,
//! and that one goes.
//!
//! A tenant is removed in steps: the folder of the server is locked, which it is while a server
//! runs; the tenant's folder gets a name that no tenant has; then it is deleted. So a server never
//! has a tenant open whose files go, and what a stop leaves is no tenant and goes at the next
//! removal.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use fogbank_env::FolderLock;
use fogbank_objects::ObjectsUrl;

use crate::bucket;
use crate::quota::Allowance;
use crate::tenant::{is_name, read_quota};

/// What there is of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What it may keep; `None` if the file that says so cannot be read.
    pub allowed: Option<Allowance>,
    /// Bytes of its files.
    pub bytes: u64,
    /// The bucket in which it keeps what it keeps, if that is not in those files.
    pub store: Option<ObjectsUrl>,
}

/// All tenants of the server in `data`, by name. Changes nothing; a server may be running.
///
/// # Errors
/// As the system says.
pub fn list(data: &Path) -> io::Result<Vec<Listed>> {
    let entries = match fs::read_dir(data.join("tenants")) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_name(&name) && entry.path().join("token").exists() {
            let allowed = read_quota(&entry.path().join("quota")).ok();
            let (bytes, store) = (bytes_of(&entry.path())?, bucket::noted(&entry.path())?);
            found.push(Listed { name, allowed, bytes, store });
        }
    }
    found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The bucket in which the tenant `name` keeps what it keeps, if that is one.
///
/// # Errors
/// As the system says.
pub fn store_of(data: &Path, name: &str) -> io::Result<Option<ObjectsUrl>> {
    if is_name(name) { bucket::noted(&data.join("tenants").join(name)) } else { Ok(None) }
}

/// The tenants of the server in `data` that keep what they keep in buckets, and which.
///
/// # Errors
/// As the system says.
pub fn in_buckets(data: &Path) -> io::Result<Vec<(String, ObjectsUrl)>> {
    bucket::all(data)
}

/// What the tenant `name` may keep, if it is there.
pub fn allowance(data: &Path, name: &str) -> Option<Allowance> {
    let folder = data.join("tenants").join(name);
    let there = is_name(name) && folder.join("token").exists();
    there.then(|| read_quota(&folder.join("quota")).ok()).flatten()
}

/// Whether a server runs on `data`.
///
/// # Errors
/// As the system says.
pub fn is_served(data: &Path) -> io::Result<bool> {
    Ok(data.exists() && FolderLock::take(data)?.is_none())
}

/// Deletes the tenant `name` with everything that it keeps here. What it has in a bucket stays.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::ResourceBusy`] if a server runs; else as
/// the system says.
pub fn remove(data: &Path, name: &str) -> io::Result<()> {
    let tenants = data.join("tenants");
    let (folder, leaving) = (tenants.join(name), leaving(&tenants, name));
    let known = is_name(name) && (folder.join("token").exists() || leaving.exists());
    if !known {
        return Err(io::Error::new(ErrorKind::NotFound, "there is no such tenant"));
    }
    let Some(_lock) = FolderLock::take(data)? else {
        let why = "a server is running; stop it first, so that nobody is using what is deleted";
        return Err(io::Error::new(ErrorKind::ResourceBusy, why));
    };
    delete(&leaving)?;
    match fs::rename(&folder, &leaving) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed?,
    }
    delete(&leaving)
}

/// The name of a folder on its way out, which no tenant has.
fn leaving(tenants: &Path, name: &str) -> PathBuf {
    tenants.join(format!(".leaving-{name}"))
}

fn delete(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        deleted => deleted,
    }
}

/// Bytes of all files below `folder`; what goes meanwhile counts for nothing.
fn bytes_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => bytes += meta.len(),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use fogbank_tls::Pin;

    use super::*;
    use crate::Tenants;

    #[test]
    fn tenants_are_listed_and_go_with_what_they_keep_unless_a_server_runs() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        assert_eq!(list(data).unwrap(), []);
        let allowed = |bytes| Allowance { bytes, arrays: 3 };
        for (name, bytes) in [("b", 20), ("a", 10)] {
            Tenants::add(data, name, allowed(bytes), Pin([0; 32])).unwrap();
        }
        fs::create_dir_all(data.join("tenants/a/store/arrays")).unwrap();
        fs::write(data.join("tenants/a/store/arrays/cells"), [0; 5000]).unwrap();
        let found = list(data).unwrap();
        let names: Vec<_> = found.iter().map(|listed| listed.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(found[0].allowed, Some(allowed(10)));
        assert!(found[0].bytes > 5000 && found[1].bytes < 1000, "{found:?}");
        assert_eq!((allowance(data, "b"), allowance(data, "c")), (Some(allowed(20)), None));

        for nobody in ["c", "..", "", ".leaving-a"] {
            assert_eq!(remove(data, nobody).unwrap_err().kind(), ErrorKind::NotFound, "{nobody}");
        }
        let server = FolderLock::take(data).unwrap().unwrap();
        assert!(is_served(data).unwrap());
        assert_eq!(remove(data, "a").unwrap_err().kind(), ErrorKind::ResourceBusy);
        assert_eq!(list(data).unwrap().len(), 2);
        drop(server);
        assert!(!is_served(data).unwrap());
        remove(data, "a").unwrap();
        let left: Vec<_> = fs::read_dir(data.join("tenants")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        // What a stop between the steps leaves is no tenant, and goes.
        fs::rename(data.join("tenants/b"), data.join("tenants/.leaving-b")).unwrap();
        assert_eq!(list(data).unwrap(), []);
        remove(data, "b").unwrap();
        assert!(!data.join("tenants/.leaving-b").exists());
    }
}
