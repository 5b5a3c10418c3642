//! One object at a time, in this crate's terms: read, put, list, and deletion of many.
//!
//! *Not there* is a value. What a put's condition did is one of four things: done; not done since
//! the condition does not hold; so it is said of the last of several tries, of which an earlier one
//! may have been done ([`Put::Doubtful`]); or an error, which says that nobody knows (`retry`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fogbank_store::{BlobTag, PutCondition, Result, StoreError};
use futures_util::StreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutResult, UpdateVersion,
};

use crate::error::store_error;
use crate::requests::Expect;
use crate::url::Provider;

/// A provider's objects, and its lists page by page.
pub(crate) trait Bucket: ObjectStore + PaginatedListStore {}

impl<B: ObjectStore + PaginatedListStore> Bucket for B {}

/// The objects of a bucket.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn Bucket>,
    provider: Provider,
}

/// What became of a put.
pub(crate) enum Put {
    Done(BlobTag),
    ConditionFailed,
    /// The condition did not hold at the last try; it may be this put's own work that is in the
    /// way, which whoever reads back sees.
    Doubtful,
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn Bucket>, provider: Provider) -> Self {
        Self { store, provider }
    }

    /// Bytes `range` of an object that has `length`.
    pub(crate) async fn read(
        &self,
        path: &Path,
        range: Range<u64>,
        length: u64,
    ) -> Result<Option<Bytes>> {
        let body_bytes_max = range.end - range.start;
        let asked = Some(GetRange::Bounded(range.clone()));
        let range = Some((range, length));
        let expect = Expect { body_bytes_max, range, ..Expect::default() };
        match self.get(path, asked, expect).await {
            Ok(found) => Ok(Some(found.bytes().await.map_err(|e| store_error(&e))?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error(&error)),
        }
    }

    /// A whole object of at most `bytes_max`, and its tag.
    pub(crate) async fn read_whole(
        &self,
        path: &Path,
        bytes_max: u64,
    ) -> std::result::Result<Option<(Bytes, BlobTag)>, Error> {
        let expect = Expect { body_bytes_max: bytes_max, ..Expect::default() };
        let found = match self.get(path, None, expect).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let tag = self.tag(found.meta.e_tag.clone(), found.meta.version.clone());
        Ok(Some((found.bytes().await?, tag)))
    }

    async fn get(
        &self,
        path: &Path,
        range: Option<GetRange>,
        expect: Expect,
    ) -> std::result::Result<GetResult, Error> {
        let mut options = GetOptions { range, ..GetOptions::default() };
        options.extensions.insert(expect);
        self.store.get_opts(path, options).await
    }

    /// The length of an object, if it is there.
    pub(crate) async fn length(&self, path: &Path) -> Result<Option<u64>> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        match self.store.get_opts(path, options).await {
            Ok(found) => Ok(Some(found.meta.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error(&error)),
        }
    }

    pub(crate) async fn put(
        &self,
        path: &Path,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<Put> {
        let mode = match condition {
            PutCondition::Always => PutMode::Overwrite,
            PutCondition::IfAbsent => PutMode::Create,
            PutCondition::IfUnchanged(tag) => PutMode::Update(self.version(tag)),
        };
        let (always, update) =
            (matches!(mode, PutMode::Overwrite), matches!(mode, PutMode::Update(_)));
        let mut options = PutOptions { mode, ..PutOptions::default() };
        let doubt = Arc::new(AtomicBool::new(false));
        let doubted = (!always).then(|| doubt.clone());
        options.extensions.insert(Expect { doubt: doubted, ..Expect::default() });
        match self.store.put_opts(path, data.into(), options).await {
            Ok(PutResult { e_tag, version, .. }) => Ok(Put::Done(self.tag(e_tag, version))),
            Err(error) => match error {
                Error::AlreadyExists { .. } | Error::Precondition { .. } if !always => {
                    Ok(failed(&doubt))
                }
                Error::NotFound { .. } if update => Ok(failed(&doubt)),
                error => Err(store_error(&error)),
            },
        }
    }

    /// Puts a large object in parts, whatever is there.
    pub(crate) async fn put_in_parts(
        &self,
        path: &Path,
        data: Bytes,
        part_bytes: usize,
        at_once: usize,
    ) -> Result<()> {
        let mut upload = self.store.put_multipart(path).await.map_err(|e| store_error(&e))?;
        let parts = data.len().div_ceil(part_bytes);
        let part = |i: usize| data.slice(i * part_bytes..data.len().min((i + 1) * part_bytes));
        let sent: Vec<_> = (0..parts).map(|i| upload.put_part(part(i).into())).collect();
        let mut sent = futures_util::stream::iter(sent).buffer_unordered(at_once);
        while let Some(part) = sent.next().await {
            part.map_err(|e| store_error(&e))?;
        }
        drop(sent);
        // Whether an end without an answer was the end is for the caller to look at.
        upload.complete().await.map_err(|e| match e {
            Error::NotFound { .. } => StoreError::Absent("an upload in parts was forgotten".into()),
            error => store_error(&error),
        })?;
        Ok(())
    }

    /// Deletes objects, many a request where the provider takes that; fine if they are not there.
    pub(crate) async fn delete(&self, paths: Vec<Path>) -> Result<()> {
        let mut deleted =
            self.store.delete_stream(futures_util::stream::iter(paths).map(Ok).boxed());
        let mut failed = None;
        while let Some(one) = deleted.next().await {
            match one {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => failed = failed.or(Some(store_error(&error))),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// What `parse` knows of the objects in a folder and below, page by page. Ends when there are
    /// no more pages, or when `names_max` or more have come, foreign ones too; nothing but what is
    /// parsed is kept.
    pub(crate) async fn list<T>(
        &self,
        folder: &Path,
        names_max: u64,
        parse: impl Fn(&ObjectMeta) -> Option<T>,
    ) -> Result<Vec<T>> {
        let folder = format!("{folder}/");
        let (mut parsed, mut names, mut empty_pages) = (Vec::new(), 0, 0);
        let mut from: Option<String> = None;
        loop {
            let options = PaginatedListOptions {
                max_keys: Some(PAGE_NAMES),
                page_token: from.clone(),
                ..PaginatedListOptions::default()
            };
            let page = match self.store.list_paginated(Some(&folder), options).await {
                Err(Error::NotFound { .. }) => return Ok(parsed),
                page => page.map_err(|e| store_error(&e))?,
            };
            names += page.result.objects.len() as u64;
            empty_pages = if page.result.objects.is_empty() { empty_pages + 1 } else { 0 };
            parsed.extend(page.result.objects.iter().filter_map(&parse));
            let Some(next) = page.page_token else { return Ok(parsed) };
            if names >= names_max {
                return Ok(parsed);
            }
            // Pages may be short, and with Azure empty; but a list of nothing does not go on for
            // ever.
            let endless = empty_pages > EMPTY_PAGES || from.as_ref() == Some(&next);
            if endless || next.len() > PAGE_TOKEN_BYTES_MAX {
                return Err(StoreError::Misbehaved("a list that does not come on".into()));
            }
            from = Some(next);
        }
    }

    /// What the provider's conditions are about: generations with Google, entity tags elsewhere.
    fn tag(&self, e_tag: Option<String>, version: Option<String>) -> BlobTag {
        let tag = if self.provider == Provider::Google { version } else { e_tag };
        BlobTag(tag.unwrap_or_default().into())
    }

    fn version(&self, tag: BlobTag) -> UpdateVersion {
        let tag = Some(tag.0.into());
        match self.provider {
            Provider::Google => UpdateVersion { e_tag: None, version: tag },
            _ => UpdateVersion { e_tag: tag, version: None },
        }
    }
}

/// A put whose condition did not hold.
fn failed(doubt: &AtomicBool) -> Put {
    if doubt.load(Ordering::Relaxed) { Put::Doubtful } else { Put::ConditionFailed }
}

/// Names of a page: what all providers give at most, or by default.
const PAGE_NAMES: usize = 1000;
/// Pages in a row that may bring no name.
const EMPTY_PAGES: u64 = 1000;
/// What says where the next page begins is sent back in a URL.
const PAGE_TOKEN_BYTES_MAX: usize = 8 << 10;
