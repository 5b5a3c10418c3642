//! Whether a server can hold a store at all: everything that one stands on is tried before the
//! first array is made, with a small blob that is gone afterwards.
//!
//! Conditions are tried both ways. A server that takes no notice of those that do not hold lets two
//! proxies write one store; one that refuses those that hold (Ceph's did, of a tag in the quotes in
//! which it gave it) serves until the first commit, which looks then as if somebody had taken the
//! record away.
//!
//! What the cloud sees: the same requests at every making of a store, and that it is suitable.

use std::future::Future;

use bytes::Bytes;
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Result, Store, StoreError};

/// Tries `store`, and after that what `further` does.
///
/// # Errors
/// [`StoreError::Refused`] if it lacks a guarantee, with the name of that.
pub(crate) async fn try_out<F: Future<Output = Result<()>>>(
    store: &impl Store,
    further: impl FnOnce() -> F,
) -> Result<()> {
    let tried = async {
        conditions(store).await?;
        further().await?;
        list_and_deletion(store).await
    };
    match tried.await {
        Err(StoreError::Misbehaved(what)) => Err(lacking(&what)),
        tried => tried,
    }
}

/// The name of the blob with which a store is tried.
pub(crate) const NAME: &str = "trial";
/// What it holds last.
pub(crate) const LAST: &[u8] = b"third content of a trial";

async fn conditions(store: &impl Store) -> Result<()> {
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"the second"));
    let put = |data: &Bytes, condition| store.blob_put(NAME, data.clone(), condition);
    is_deleted(store).await?; // what is left of a trial that was cut short
    let Some(_) = done(put(&first, PutCondition::IfAbsent).await?) else {
        return Err(lacking("a put that is to find nothing (If-None-Match) finds something there"));
    };
    if done(put(&second, PutCondition::IfAbsent).await?).is_some() {
        return Err(lacking(
            "it takes no notice of conditional puts (If-None-Match), which keep two proxies from \
             writing one store",
        ));
    }
    let found = store.blob_get(NAME).await?;
    let Some((_, read)) = found.filter(|(there, _)| *there == first) else {
        return Err(lacking("what was put is not there"));
    };
    let Some(told) = done(put(&second, PutCondition::IfUnchanged(read.clone())).await?) else {
        return Err(lacking(
            "it refuses a put by the very tag that it gave with the object (If-Match)",
        ));
    };
    if done(put(&first, PutCondition::IfUnchanged(read)).await?).is_some() {
        return Err(lacking(
            "it takes no notice of the tag of a put (If-Match), which keeps two proxies from \
             writing one store",
        ));
    }
    let third = Bytes::from_static(LAST);
    let Some(_) = done(put(&third, PutCondition::IfUnchanged(told)).await?) else {
        return Err(lacking(
            "it refuses a put by the very tag that it gave for the one before (If-Match)",
        ));
    };
    match store.blob_get(NAME).await? {
        Some((there, _)) if there == third => Ok(()),
        _ => Err(lacking("an object that was put again is not read as it was put last")),
    }
}

async fn list_and_deletion(store: &impl Store) -> Result<()> {
    if store.blob_list(NAME).await? != [NAME] {
        return Err(lacking("a list does not show what is there"));
    }
    is_deleted(store).await
}

async fn is_deleted(store: &impl Store) -> Result<()> {
    store.blob_delete(&[NAME]).await?;
    match store.blob_get(NAME).await? {
        None => Ok(()),
        Some(_) => Err(lacking("what was deleted is still there")),
    }
}

fn done(outcome: PutOutcome) -> Option<BlobTag> {
    match outcome {
        PutOutcome::Done(tag) => Some(tag),
        PutOutcome::ConditionFailed => None,
    }
}

/// That a server is none that can hold a store, and why.
pub(crate) fn lacking(what: &str) -> StoreError {
    StoreError::Refused(format!(
        "this server is unsuitable, it lacks what a store stands on: {what}; use another server, \
         or a version of it that has this. Nothing was stored"
    ))
}
