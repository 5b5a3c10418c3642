//! Two stores as one: blobs whose names begin with a prefix lie in another, all else in the first.
//!
//! For an engine whose journal stays on the trusted disk: nothing of it is sent to a cloud. What
//! the first store's owner sees is every call but those.

use std::sync::Arc;

use crate::{Call, Reply, Result, Store, store_by_calls};

/// See the module.
pub struct BlobsApart<S> {
    inner: S,
    apart: Arc<dyn Store>,
    prefix: &'static str,
}

impl<S: Store> BlobsApart<S> {
    /// `inner`, but for the blobs that `apart` has: those whose names begin with `prefix`.
    pub fn new(inner: S, apart: Arc<dyn Store>, prefix: &'static str) -> Self {
        Self { inner, apart, prefix }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let is_apart = |name: &str| name.starts_with(self.prefix);
        match call {
            Call::BlobGet(name) | Call::BlobPut(name, ..) if is_apart(name) => {
                call.perform(&*self.apart).await
            }
            Call::BlobDelete(names) => {
                let (apart, others): (Vec<&str>, Vec<&str>) =
                    names.iter().partition(|name| is_apart(name));
                if !apart.is_empty() {
                    self.apart.blob_delete(&apart).await?;
                }
                if !others.is_empty() {
                    self.inner.blob_delete(&others).await?;
                }
                Ok(Reply::Done)
            }
            Call::BlobList(prefix) if is_apart(prefix) => call.perform(&*self.apart).await,
            Call::BlobList(prefix) if self.prefix.starts_with(prefix) => {
                let mut names = self.inner.blob_list(prefix).await?;
                names.retain(|name| !is_apart(name));
                names.extend(self.apart.blob_list(self.prefix).await?);
                names.sort_unstable();
                Ok(Reply::BlobNames(names))
            }
            Call::Barrier => {
                self.apart.barrier().await?;
                self.inner.barrier().await?;
                Ok(Reply::Done)
            }
            other => other.perform(&self.inner).await,
        }
    }
}

store_by_calls!(BlobsApart);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, PutCondition, conformance};

    fn apart(prefix: &'static str) -> (BlobsApart<Arc<MemoryStore>>, Arc<MemoryStore>) {
        let apart = Arc::new(MemoryStore::new());
        (BlobsApart::new(Arc::default(), apart.clone(), prefix), apart)
    }

    #[tokio::test]
    async fn conforms_wherever_its_blobs_lie() {
        for prefix in ["", "a", "no name begins so"] {
            conformance::run(&apart(prefix).0).await;
        }
    }

    #[tokio::test]
    async fn what_the_prefix_names_lies_in_the_other_store_alone() {
        let (store, other) = apart("journal/");
        for name in ["commit", "journal/1", "journal/2", "z"] {
            store.blob_put(name, name.to_owned().into(), PutCondition::Always).await.unwrap();
        }
        assert_eq!(store.blob_list("").await.unwrap(), ["commit", "journal/1", "journal/2", "z"]);
        assert_eq!(other.blob_list("").await.unwrap(), ["journal/1", "journal/2"]);
        assert_eq!(store.inner.blob_list("").await.unwrap(), ["commit", "z"]);
        assert_eq!(store.blob_get("journal/2").await.unwrap().unwrap().0, "journal/2");
        store.blob_delete(&["commit", "journal/1"]).await.unwrap();
        assert_eq!(store.blob_list("").await.unwrap(), ["journal/2", "z"]);
    }
}
