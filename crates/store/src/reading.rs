//! A store that is only read: whatever would change it is refused before it leaves.

use crate::{Call, Reply, Result, Store, StoreError, store_by_calls};

/// Lets calls through that change nothing; any other is the caller's error.
pub struct Reading<S> {
    inner: S,
}

impl<S: Store> Reading<S> {
    /// Reads only from the store inside.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        if call.operation().writes() {
            return Err(StoreError::Caller("this store is only read".into()));
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Reading);

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{ArrayId, ArrayShape, MemoryStore, PutCondition};

    #[tokio::test]
    async fn what_would_change_it_does_not_leave() {
        let store = MemoryStore::new();
        let shape = ArrayShape { chunks: 2, cells_per_chunk: 1, cell_bytes: 4 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let put = |name| (name, Bytes::from_static(b"x"), PutCondition::Always);
        let (name, data, condition) = put("there");
        store.blob_put(name, data, condition).await.unwrap();
        let reading = Reading::new(store);
        assert!(reading.blob_get("there").await.unwrap().is_some());
        assert_eq!(reading.blob_list("").await.unwrap(), ["there"]);
        assert_eq!(reading.list_chunks(ArrayId(1)).await.unwrap(), []);
        let refused = |result: Result<()>| matches!(result, Err(StoreError::Caller(_)));
        let (name, data, condition) = put("new");
        assert!(refused(reading.blob_put(name, data, condition).await.map(drop)));
        assert!(refused(reading.blob_delete(&["there"]).await));
        assert!(refused(reading.write_chunks(Vec::new()).await));
        assert!(refused(reading.delete_chunks(&[]).await));
        assert!(refused(reading.create_array(ArrayId(2), shape).await));
        assert!(refused(reading.drop_array(ArrayId(1)).await));
        assert!(refused(reading.barrier().await));
        assert!(reading.inner.blob_get("new").await.unwrap().is_none());
    }
}
