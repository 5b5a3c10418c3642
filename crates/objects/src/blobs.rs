//! Blobs: one object each, put conditionally if asked.
//!
//! If a put's condition does not hold after a try of which nobody knows what became, the blob is
//! read: its own bytes say that it was done. A blob without a tag could never be put conditionally,
//! and how long one is the provider does not decide.

use bytes::Bytes;
use fogbank_store::shape::{BLOBS_LISTED_MAX, check_blob_name, tag};
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Result};
use object_store::ObjectMeta;

use crate::error::store_error;
use crate::names::Names;
use crate::objects::{Objects, Put};

/// The blob objects of a store.
pub(crate) struct Blobs<'a> {
    pub objects: &'a Objects,
    pub names: &'a Names,
}

impl Blobs<'_> {
    pub(crate) async fn get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        let found = self.objects.read_whole(&self.names.blob(name)?, BLOB_BYTES_MAX).await;
        let found = found.map_err(|e| store_error(&e))?;
        found.map(|(data, said)| Ok((data, tag(said.0)?))).transpose()
    }

    pub(crate) async fn put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        check_blob_name(name)?;
        let path = self.names.blob(name)?;
        match self.objects.put(&path, data.clone(), condition.clone()).await? {
            Put::Done(said) => Ok(PutOutcome::Done(tag(said.0)?)),
            Put::ConditionFailed => Ok(PutOutcome::ConditionFailed),
            Put::Doubtful => Ok(condition.settled(self.get(name).await?, &data)),
        }
    }

    pub(crate) async fn delete(&self, names: &[&str]) -> Result<()> {
        let paths: Result<Vec<_>> = names.iter().map(|name| self.names.blob(name)).collect();
        self.objects.delete(paths?).await
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let sized = self.list_sized(prefix).await?;
        Ok(sized.into_iter().map(|(name, _)| name).collect())
    }

    /// The same with the bytes of each.
    pub(crate) async fn list_sized(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let parse = |found: &ObjectMeta| {
            let name = self.names.parse_blob(&found.location);
            Some((name.filter(|name| name.starts_with(prefix))?, found.size))
        };
        let folder = self.names.blob_folder(prefix)?;
        let mut found = self.objects.list(&folder, BLOBS_LISTED_MAX, parse).await?;
        found.sort_unstable();
        Ok(found)
    }
}

/// The largest are pieces of checkpoints, of 1 MiB, and commit records; a reply is held in memory.
const BLOB_BYTES_MAX: u64 = 64 << 20;
