//! The stores of this crate by URL; whoever has others asks for these last.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use fogbank_env::Clock;

use crate::{FileStore, MemoryStore, Result, Store, StoreError};

/// Which store a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory:`, gone with the process; each opening is a new store.
    Memory,
    /// `file://DIR`, the path taken as it stands: `file:///srv/cloud`, `file://data/cloud`.
    File(PathBuf),
}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<Self> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        match url.strip_prefix("file://") {
            Some("") => Err(StoreError::Caller("file:// needs a folder: file://DIR".into())),
            Some(folder) => Ok(Self::File(folder.into())),
            None => Err(StoreError::Caller(format!(
                "the store URL {:?} is none of those that this build knows: memory:, file://DIR \
                 (with three slashes for a path such as file:///srv/cloud), \
                 grpc://HOST:PORT/TENANT (a fogbank-cloud)",
                without_secrets(url)
            ))),
        }
    }
}

/// Opens the store that `url` names. Stores across a network take the clock for their waits.
pub async fn open(url: &str, _clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    Ok(match url.parse()? {
        StoreUrl::Memory => Arc::new(MemoryStore::new()),
        StoreUrl::File(folder) => Arc::new(fogbank_env::compute(|| FileStore::open(folder))?),
    })
}

/// A URL fit for a message: whatever stands before an `@` may be a password.
fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://...@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;

    #[tokio::test]
    async fn opens_what_it_knows_and_names_it_otherwise() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().join("cloud").display());
        open(&url, &clock).await.unwrap().barrier().await.unwrap();
        assert!(folder.path().join("cloud/format").exists());
        open("memory:", &clock).await.unwrap().barrier().await.unwrap();
        for wrong in ["", "memory", "file:", "file://", "ftp://user:secret@host/x", "s3://bucket"] {
            let error = open(wrong, &clock).await.err().unwrap().to_string();
            assert!(error.contains("file://DIR") && !error.contains("secret"), "{error}");
        }
        assert_eq!("file://a/b".parse::<StoreUrl>().unwrap(), StoreUrl::File("a/b".into()));
    }
}
