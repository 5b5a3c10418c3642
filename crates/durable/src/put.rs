//! Puts whose outcome is known when they return.
//!
//! A put may be done and its answer lost. Then the blob is read: our own bytes are success (nobody
//! else writes them, they are sealed by the keys of this opening), other bytes mean that somebody
//! was there first, and what was there before means that the store never heard of it.

use bytes::Bytes;
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Store, StoreError};

use crate::Result;

/// What became of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Put {
    /// Our bytes are there, under this tag.
    Ours(BlobTag),
    /// The condition did not hold: others' bytes are there, or nothing any more.
    Theirs(Option<Bytes>),
}

/// Puts `data` if `condition` holds, and finds out what became of it.
///
/// # Errors
/// [`crate::Error::Absent`] if the store did not do it, or cannot be asked whether it did.
pub(crate) async fn put(
    store: &dyn Store,
    name: &str,
    data: Bytes,
    condition: PutCondition,
) -> Result<Put> {
    match ended(store.blob_put(name, data.clone(), condition.clone()).await)? {
        Ended::Done(tag) => Ok(Put::Ours(tag)),
        Ended::Doubtful(doubt) => find_out(store, name, data, condition, doubt).await,
    }
}

/// How a put ended.
pub(crate) enum Ended {
    /// It is done.
    Done(BlobTag),
    /// It may be done all the same: [`find_out`] tells.
    Doubtful(Doubt),
}

/// Why nobody knows what became of a put: what the store failed with, or that its condition did not
/// hold.
#[derive(Debug)]
pub(crate) struct Doubt(Option<StoreError>);

/// What the end of a put says of it.
///
/// # Errors
/// Whatever is neither done nor in doubt.
pub(crate) fn ended(outcome: fogbank_store::Result<PutOutcome>) -> Result<Ended> {
    match outcome {
        Ok(PutOutcome::Done(tag)) => Ok(Ended::Done(tag)),
        Ok(PutOutcome::ConditionFailed) => Ok(Ended::Doubtful(Doubt(None))),
        Err(error @ StoreError::Absent(_)) => Ok(Ended::Doubtful(Doubt(Some(error)))),
        Err(error) => Err(error.into()),
    }
}

/// Finds out what became of a put of `data` under `condition`.
///
/// # Errors
/// As for [`put`].
pub(crate) async fn find_out(
    store: &dyn Store,
    name: &str,
    data: Bytes,
    condition: PutCondition,
    Doubt(failure): Doubt,
) -> Result<Put> {
    let there = store.blob_get(name).await?;
    let untouched = match (&there, &condition) {
        (Some((_, tag)), PutCondition::IfUnchanged(seen)) => tag == seen,
        (None, PutCondition::IfUnchanged(_)) => false, // what was seen is gone
        (there, _) => there.is_none(),
    };
    match (there, failure) {
        (Some((bytes, tag)), _) if bytes == data => {
            // A put is durable when it returns; one that did not return may not be yet.
            store.barrier().await?;
            Ok(Put::Ours(tag))
        }
        (_, Some(failure)) if untouched || condition == PutCondition::Always => Err(failure.into()),
        (there, _) => Ok(Put::Theirs(there.map(|(bytes, _)| bytes))),
    }
}
