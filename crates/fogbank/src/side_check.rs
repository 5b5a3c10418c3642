//! What the proxy writes for its owner stays out of the cloud's folder: there it would be the
//! cloud's to read, and in the way of the store's own files.
//!
//! A path is told by where it leads, through links and `..`, whether or not it is there yet.

use std::io;
use std::path::{Component, Path, PathBuf};

use fogbank_store::url::StoreUrl;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Refuses `path`, given as `flag`, if it lies in the folder of the store at `store_url`.
///
/// # Errors
/// [`Error::Usage`].
pub fn check_apart(flag: &str, path: Option<&Path>, store_url: &str) -> Result<()> {
    let (Some(path), Ok(StoreUrl::File(cloud))) = (path, store_url.parse()) else {
        // No folder of this machine; a URL that names nothing is refused where it is opened.
        return Ok(());
    };
    if !leads_to(path).starts_with(leads_to(&cloud)) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{flag} {}: that is inside {}, the folder of the cloud, which may read all that is in it; \
         choose a place outside",
        path.display(),
        cloud.display()
    )))
}

/// Whether a new file can be made at `path`, as far as that can be told without making it.
///
/// # Errors
/// What the system would say.
pub(crate) fn check_new_file(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Errno::EXIST.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.metadata()?.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Where `path` leads: links are followed as far as there is something, the rest is taken as it
/// stands.
pub(crate) fn leads_to(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut settled = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                settled.pop();
            }
            other => settled.push(other),
        }
        if let Ok(real) = settled.canonicalize() {
            settled = real;
        }
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_folder_of_the_cloud_is_refused_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("cloud/array")).unwrap();
        std::fs::create_dir_all(at("proxy")).unwrap();
        std::os::unix::fs::symlink(at("cloud"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("cloud/array"), at("proxy/deep")).unwrap();
        let inside = [
            "cloud/trace",
            "cloud/new/trace",
            "proxy/../cloud/trace",
            "nowhere/../cloud/trace",
            "link/trace",
            "proxy/deep/trace",
            "proxy/deep/../trace",
            "cloud",
        ];
        let outside = ["trace", "clouds/trace", "cloud/../trace", "link/../trace", "proxy/cloud"];
        for cloud in ["cloud", "link", "proxy/../cloud"] {
            let url = format!("file://{}", at(cloud).display());
            for path in inside {
                let refused = check_apart("--record", Some(&at(path)), &url);
                let Err(Error::Usage(words)) = refused else { panic!("{path} in {url}") };
                assert!(words.contains("--record") && words.contains("folder of the cloud"));
            }
            for path in outside {
                assert!(check_apart("--record", Some(&at(path)), &url).is_ok(), "{path} in {url}");
            }
        }
        let new = format!("file://{}", at("new/cloud").display());
        assert!(check_apart("--history", Some(&at("new/cloud/h")), &new).is_err());
        assert!(check_apart("--history", Some(&at("new/h")), &new).is_ok());
        for elsewhere in ["memory:", "s3://cloud/h", "az://cloud/h", "gs://cloud/h"] {
            assert!(check_apart("--history", Some(&at("cloud/h")), elsewhere).is_ok());
        }
        assert!(check_apart("--history", None, &new).is_ok());
    }
}
