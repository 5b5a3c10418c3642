//! The store of a tenant in a bucket: which one, so that no two tenants meet there, and how it is
//! opened.
//!
//! ```text
//! DATA/tenants/NAME/store-url    the bucket and the prefix in it     when the tenant is made
//! ```
//! A tenant with that file has its store there and nothing but secrets, quota and registers in its
//! folder. The credentials are those of the server's environment.
//!
//! Invariants
//! - No two tenants of a server have stores that would have objects of the same names.
//! - A tenant that is there never changes its place: what it keeps would be found no more.
//!
//! What goes wrong in a bucket is the operator's to put right, never the client's: settings that
//! are wrong are told as refused, and all of it is logged.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use fogbank_env::{Clock, Mutex, Nanos, write_secret};
use fogbank_objects::{Environment, Found, ObjectsStore, ObjectsUrl};
use fogbank_store::{Call, Reply, Result, Store, StoreError, store_by_calls};

use crate::tenant::is_name;
use crate::wire::SERVED_CHUNK_BYTES_MAX;

/// The place that was noted in the folder of a tenant; `None` for one whose store is in the folder.
///
/// # Errors
/// As the system says; [`ErrorKind::InvalidData`] if the file says no URL.
pub fn noted(folder: &Path) -> io::Result<Option<ObjectsUrl>> {
    let text = match std::fs::read_to_string(folder.join(FILE)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let wrong = |e: StoreError| {
        let why = format!("{FILE} says no place of a store: {e}");
        io::Error::new(ErrorKind::InvalidData, why)
    };
    text.trim_end().parse().map(Some).map_err(wrong)
}

/// The tenants of the server in `data` that have their stores in buckets.
///
/// # Errors
/// As [`noted`].
pub fn all(data: &Path) -> io::Result<Vec<(String, ObjectsUrl)>> {
    let entries = match std::fs::read_dir(data.join("tenants")) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_name(&name) && entry.path().join("token").try_exists()? {
            found.extend(noted(&entry.path())?.map(|url| (name, url)));
        }
    }
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Notes that the tenant `name` of the server in `data` has its store at `wanted`, in its
/// folder, which is made.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it has another place, or would meet another tenant; else as the
/// system says.
pub fn settle(data: &Path, name: &str, wanted: &ObjectsUrl) -> io::Result<()> {
    let folder = data.join("tenants").join(name);
    let refused = |why: String| Err(io::Error::new(ErrorKind::InvalidInput, why));
    if folder.join("token").try_exists()? {
        let place = match noted(&folder)? {
            Some(url) if url.is_same_place(wanted) => None,
            Some(url) => Some(format!("at {url}")),
            None => Some("in the server's own folder".to_owned()),
        };
        if let Some(place) = place {
            return refused(format!(
                "its store is {place} and stays there: at {wanted} nothing of it would be found. \
                 Make a tenant of another name with that --store, and move what is kept by fogbank \
                 backup and restore"
            ));
        }
    }
    for (other, url) in all(data)? {
        if other != name && url.overlaps(wanted) {
            return refused(format!(
                "the store of tenant {other} is at {url}, and two stores of which one lies in the \
                 other destroy each other; give each a prefix of its own, such as {}",
                apart(&url, name)
            ));
        }
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    write_secret(&folder.join(FILE), format!("{wanted}\n").as_bytes())
}

/// A place beside `url`.
fn apart(url: &ObjectsUrl, name: &str) -> String {
    let beside = url.prefix.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
    let prefix = format!("{}{name}", beside.unwrap_or_default());
    let bucket = if url.prefix.is_empty() { "ANOTHER-BUCKET" } else { &url.bucket };
    ObjectsUrl { prefix, bucket: bucket.to_owned(), ..url.clone() }.to_string()
}

/// Opens the store of `tenant` at `url`, and finds what lies there.
///
/// # Errors
/// By blame, as the tenant's client is to be told it.
pub async fn open(
    tenant: &str,
    url: &ObjectsUrl,
    environment: &Environment,
    clock: &Arc<dyn Clock>,
) -> Result<(Box<dyn Store>, Found)> {
    let opened = async {
        let options = url.options();
        let store = ObjectsStore::open(url, environment, options, clock.clone()).await?;
        store.make().await?;
        let found = store.found(SERVED_CHUNK_BYTES_MAX).await?;
        Ok((store, found))
    };
    let (store, found) = opened.await.map_err(|error| of_operator(url, error))?;
    let (tenant, clock) = (tenant.to_owned(), clock.clone());
    let told = Told { inner: store, tenant, url: url.to_string(), clock, last: Mutex::default() };
    Ok((Box::new(told), found))
}

fn of_operator(url: &ObjectsUrl, error: StoreError) -> StoreError {
    let at = |why: &str| format!("the tenant's store is at {url}: {why}");
    match error {
        StoreError::Caller(why) | StoreError::Refused(why) => {
            StoreError::Refused(format!("{}; the operator of the server can mend it", at(&why)))
        }
        StoreError::Absent(why) => StoreError::Absent(at(&why)),
        StoreError::Misbehaved(why) => StoreError::Misbehaved(at(&why)),
        error @ (StoreError::NoArray(_) | StoreError::Near(_)) => error,
    }
}

/// A store whose failures the operator is told, now and then.
struct Told<S> {
    inner: S,
    tenant: String,
    url: String,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<Nanos>>,
}

impl<S: Store> Told<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let done = call.perform(&self.inner).await;
        match &done {
            // What the client asked wrongly is between them.
            Ok(_) | Err(StoreError::Caller(_) | StoreError::NoArray(_)) => {}
            Err(error) => self.tell(error),
        }
        done
    }

    fn tell(&self, error: &StoreError) {
        let now = self.clock.now();
        let mut last = self.last.lock();
        if last.is_none_or(|last| now.saturating_sub(last) >= QUIET_NANOS) {
            *last = Some(now);
            let Self { tenant, url, .. } = self;
            tracing::warn!(tenant, url, %error, "a tenant's object store failed");
        }
    }
}

store_by_calls!(Told);

const FILE: &str = "store-url";
/// Between two lines about one tenant.
const QUIET_NANOS: Nanos = 10_000_000_000;

#[cfg(test)]
mod tests {
    use fogbank_tls::Pin;

    use super::*;
    use crate::{Allowance, Tenants};

    #[test]
    fn tenants_keep_their_places_and_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let add = |name: &str, url: Option<&str>| {
            let allowed = Allowance { bytes: 1, arrays: 1 };
            let url: Option<ObjectsUrl> = url.map(|url| url.parse().unwrap());
            let added = Tenants::add_at(data, name, allowed, Pin([0; 32]), url.as_ref());
            added.map(drop).map_err(|e| (e.kind(), e.to_string()))
        };
        let refused = |name: &str, url: &str, why: &str| {
            let before = all(data).unwrap();
            let (kind, words) = add(name, Some(url)).unwrap_err();
            assert!(kind == ErrorKind::InvalidInput && words.contains(why), "{words}");
            assert_eq!(all(data).unwrap(), before);
            assert!(!data.join("tenants/c").exists());
        };
        add("a", Some("s3://bucket/of/a")).unwrap();
        add("b", Some("s3://bucket/of/b?requests=8")).unwrap();
        add("d", None).unwrap();
        refused("c", "s3://bucket/of/a", "such as s3://bucket/of/c");
        refused("c", "s3://bucket", "tenant a");
        refused("c", "s3://bucket/of/b/deep", "tenant b");
        refused("a", "s3://bucket/of/c", "stays there");
        refused("d", "s3://bucket/of/c", "in the server's own folder");
        // The same again, with nothing said or other settings.
        add("a", Some("s3://bucket/of/a?requests=9")).unwrap();
        add("b", None).unwrap();
        let found = all(data).unwrap();
        let told: Vec<_> = found.iter().map(|(name, url)| format!("{name} {url}")).collect();
        assert_eq!(told, ["a s3://bucket/of/a?requests=9", "b s3://bucket/of/b?requests=8"]);
        std::fs::write(data.join("tenants/b/store-url"), "nowhere").unwrap();
        assert_eq!(noted(&data.join("tenants/b")).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_wrong_with_a_bucket_is_no_mistake_of_a_client() {
        let url: ObjectsUrl = "s3://bucket/p".parse().unwrap();
        for error in [StoreError::Caller("no bucket".into()), StoreError::Refused("no".into())] {
            let told = of_operator(&url, error);
            assert!(matches!(&told, StoreError::Refused(why) if why.contains("s3://bucket/p")));
            assert!(told.to_string().contains("operator"), "{told}");
        }
        let away = of_operator(&url, StoreError::Absent("nobody".into()));
        assert!(matches!(away, StoreError::Absent(_)));
    }
}
