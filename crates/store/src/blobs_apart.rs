//! Two stores as one: blobs whose names begin with one of some prefixes lie in another, all else in
//! the first.
//!
//! For an engine whose journal and checkpoints stay on the trusted disk: nothing of them is sent to
//! a cloud. What the first store's owner sees is every call but those. That disk is nobody's cloud:
//! if it is full, or does not let this process write, that is told as its own fault
//! ([`StoreError::Near`]).

use std::sync::Arc;

use crate::{Call, Reply, Result, Store, StoreError, store_by_calls};

/// See the module.
pub struct BlobsApart<S> {
    inner: S,
    apart: Arc<dyn Store>,
    prefixes: &'static [&'static str],
}

impl<S: Store> BlobsApart<S> {
    /// `inner`, but for the blobs that `apart` has: those whose names begin with one of `prefixes`,
    /// of which none begins with another.
    pub fn new(inner: S, apart: Arc<dyn Store>, prefixes: &'static [&'static str]) -> Self {
        Self { inner, apart, prefixes }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let is_apart = |name: &str| self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        match call {
            Call::BlobGet(name) | Call::BlobPut(name, ..) if is_apart(name) => {
                call.perform(&*self.apart).await.map_err(near)
            }
            Call::BlobDelete(names) => {
                let (apart, others): (Vec<&str>, Vec<&str>) =
                    names.iter().partition(|name| is_apart(name));
                if !apart.is_empty() {
                    self.apart.blob_delete(&apart).await.map_err(near)?;
                }
                if !others.is_empty() {
                    self.inner.blob_delete(&others).await?;
                }
                Ok(Reply::Done)
            }
            Call::BlobList(prefix) if is_apart(prefix) => {
                call.perform(&*self.apart).await.map_err(near)
            }
            Call::BlobList(prefix) if self.prefixes.iter().any(|of| of.starts_with(prefix)) => {
                let mut names = self.inner.blob_list(prefix).await?;
                names.retain(|name| !is_apart(name));
                for of in self.prefixes.iter().filter(|of| of.starts_with(prefix)) {
                    names.extend(self.apart.blob_list(of).await.map_err(near)?);
                }
                names.sort_unstable();
                Ok(Reply::BlobNames(names))
            }
            Call::Barrier => {
                self.apart.barrier().await.map_err(near)?;
                self.inner.barrier().await?;
                Ok(Reply::Done)
            }
            other => other.perform(&self.inner).await,
        }
    }
}

store_by_calls!(BlobsApart);

/// What keeps the other store from doing what it has to. What it holds is somebody else's to judge.
fn near(error: StoreError) -> StoreError {
    match error {
        StoreError::Absent(why) | StoreError::Refused(why) => StoreError::Near(format!(
            "the trusted disk: {why}; see that there is room and that this user may write there, \
             and start again"
        )),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Faulty, MemoryStore, PutCondition, conformance};

    type Apart = (BlobsApart<Arc<MemoryStore>>, Arc<MemoryStore>);

    fn apart(prefixes: &'static [&'static str]) -> Apart {
        let apart = Arc::new(MemoryStore::new());
        (BlobsApart::new(Arc::default(), apart.clone(), prefixes), apart)
    }

    #[tokio::test]
    async fn conforms_wherever_its_blobs_lie() {
        let of: [&[&str]; 4] = [&[], &[""], &["a", "b"], &["no name begins so"]];
        for prefixes in of {
            conformance::run(&apart(prefixes).0).await;
        }
    }

    /// Whose fault it is says what kind of error it is: that store's, or the other's.
    #[tokio::test]
    async fn what_the_other_store_cannot_do_is_its_own_fault() {
        let stores = || Arc::new(Faulty::new(MemoryStore::new()));
        let (inner, other) = (stores(), stores());
        let store = BlobsApart::new(inner.clone(), other.clone(), &["journal/"]);
        for (fault, is_refused) in [(Fault::Before, false), (Fault::Refused, true)] {
            other.on_call(move |_, _| Some(fault));
            inner.on_call(|_, _| None);
            let puts = |name: &'static str| {
                store.blob_put(name, name.to_owned().into(), PutCondition::Always)
            };
            let told = [
                puts("journal/1").await.err(),
                store.blob_get("journal/1").await.err(),
                store.blob_list("journal/").await.err(),
                store.blob_list("").await.err(),
                store.blob_delete(&["journal/1", "x"]).await.err(),
                store.barrier().await.err(),
            ];
            for told in told {
                let is_told =
                    matches!(&told, Some(StoreError::Near(why)) if why.contains("trusted disk"));
                assert!(is_told, "{told:?}");
            }
            puts("x").await.unwrap();
            inner.on_call(move |_, _| Some(fault));
            let told = puts("x").await.err();
            let is_told = match told {
                Some(StoreError::Absent(_)) => !is_refused,
                Some(StoreError::Refused(_)) => is_refused,
                _ => false,
            };
            assert!(is_told, "{told:?}");
        }
    }

    #[tokio::test]
    async fn what_the_prefixes_name_lies_in_the_other_store_alone() {
        let (store, other) = apart(&["journal/", "checkpoint/"]);
        let all = ["checkpoint/1", "commit", "journal/1", "journal/2", "z"];
        for name in all {
            store.blob_put(name, name.to_owned().into(), PutCondition::Always).await.unwrap();
        }
        assert_eq!(store.blob_list("").await.unwrap(), all);
        assert_eq!(store.blob_list("c").await.unwrap(), ["checkpoint/1", "commit"]);
        assert_eq!(store.blob_list("journal/").await.unwrap(), ["journal/1", "journal/2"]);
        let apart = ["checkpoint/1", "journal/1", "journal/2"];
        assert_eq!(other.blob_list("").await.unwrap(), apart);
        assert_eq!(store.inner.blob_list("").await.unwrap(), ["commit", "z"]);
        assert_eq!(store.blob_get("journal/2").await.unwrap().unwrap().0, "journal/2");
        store.blob_delete(&["commit", "journal/1", "checkpoint/1"]).await.unwrap();
        assert_eq!(store.blob_list("").await.unwrap(), ["journal/2", "z"]);
    }
}
