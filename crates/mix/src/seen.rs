//! How far the journal of a client had gone when it sent what is here. This cloud says so at every
//! opening, so that an old copy of a journal is told from the newest.
//!
//! 1. A session hears a place before the messages that stand on it ([`Seen::hears`]).
//! 2. Before anything leaves that comes of them the place is durable ([`Seen::settle`]): what was
//!    ever answered is told, by a server that was started again as well. Those who wait together
//!    are written together.
//! 3. The blob names the volume: the word of a cloud is about one store.
//!
//! Whoever overtakes this server on the same store changes the blob, and this one notices.

use std::sync::Arc;

use fogbank_env::Mutex;
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Store};

use crate::message::Reached;
use crate::server::of_store;
use crate::session::SessionError;
use crate::wire::{Field, Reader};

/// See the module.
pub struct Seen {
    store: Arc<dyn Store>,
    volume: u64,
    /// The last that was heard.
    heard: Mutex<Reached>,
    /// The blob as it was last seen or put.
    kept: tokio::sync::Mutex<Kept>,
    /// What is durable, for those who need not wait.
    durable: Mutex<Reached>,
}

#[derive(Default)]
struct Kept {
    tag: Option<BlobTag>,
    /// What a put that did not come to its end was to say: it may have been done.
    tried: Option<Reached>,
}

/// The blob that says it: the volume, and the place.
const SEEN: &str = "mix-seen";

impl Seen {
    /// What is known of `volume` in `store`.
    ///
    /// # Errors
    /// [`SessionError::Refused`] if another volume is here; those of the store.
    pub async fn open(store: Arc<dyn Store>, volume: u64) -> Result<Self, SessionError> {
        let (reached, tag) = read(&*store, volume).await?;
        let (heard, durable) = (Mutex::new(reached), Mutex::new(reached));
        let kept = tokio::sync::Mutex::new(Kept { tag, tried: None });
        Ok(Self { store, volume, heard, kept, durable })
    }

    /// Reads it once more: another server may have written it since.
    ///
    /// # Errors
    /// As [`Seen::open`].
    pub async fn look_again(&self) -> Result<(), SessionError> {
        let mut kept = self.kept.lock().await;
        let (reached, tag) = read(&*self.store, self.volume).await?;
        *kept = Kept { tag, tried: None };
        *self.durable.lock() = reached;
        self.hears(reached);
        Ok(())
    }

    /// What a client says of its journal: whatever comes behind this stands on it.
    pub fn hears(&self, reached: Reached) {
        let mut heard = self.heard.lock();
        *heard = (*heard).max(reached);
    }

    /// The last that was told, all of it durable.
    pub fn reached(&self) -> Reached {
        *self.durable.lock()
    }

    /// Returns when all that was heard by now is durable.
    ///
    /// # Errors
    /// [`SessionError::Fenced`] if another server writes it; those of the store.
    pub async fn settle(&self) -> Result<(), SessionError> {
        let awaited = *self.heard.lock();
        if self.reached() >= awaited {
            return Ok(());
        }
        let mut kept = self.kept.lock().await;
        if self.reached() >= awaited {
            return Ok(()); // whoever was before us has written it
        }
        if let Some(tried) = kept.tried {
            let (reached, tag) = read(&*self.store, self.volume).await?;
            if reached != tried && reached != self.reached() {
                return Err(SessionError::Fenced);
            }
            *kept = Kept { tag, tried: None };
            *self.durable.lock() = reached;
            if reached >= awaited {
                return Ok(());
            }
        }
        let heard = *self.heard.lock();
        let condition = kept.tag.clone().map_or(PutCondition::IfAbsent, PutCondition::IfUnchanged);
        kept.tried = Some(heard); // until it has come to its end
        let mut bytes = Vec::new();
        self.volume.put(&mut bytes);
        heard.put(&mut bytes);
        match self.store.blob_put(SEEN, bytes.into(), condition).await.map_err(of_store)? {
            PutOutcome::Done(tag) => *kept = Kept { tag: Some(tag), tried: None },
            PutOutcome::ConditionFailed => return Err(SessionError::Fenced),
        }
        *self.durable.lock() = heard;
        Ok(())
    }
}

/// What `store` says of `volume`.
///
/// # Errors
/// As [`Seen::open`].
pub async fn read(
    store: &dyn Store,
    volume: u64,
) -> Result<(Reached, Option<BlobTag>), SessionError> {
    let Some((bytes, tag)) = store.blob_get(SEEN).await.map_err(of_store)? else {
        return Ok((Reached::default(), None));
    };
    let strange = |_| SessionError::Misbehaved(format!("{SEEN} is none of ours"));
    let mut reader = Reader::new(&bytes, 1);
    let of = u64::take(&mut reader).map_err(strange)?;
    let reached = Reached::take(&mut reader).map_err(strange)?;
    if of != volume {
        return Err(SessionError::Refused("another volume is here".into()));
    }
    Ok((reached, Some(tag)))
}

#[cfg(test)]
mod tests {
    use fogbank_store::{Call, Fault, Faulty, MemoryStore};

    use super::*;

    /// A put fails, whether it was done or not: the next is no other server's. One by another is.
    #[tokio::test]
    async fn a_put_of_unknown_end_is_looked_at() {
        for fault in [Fault::Before, Fault::After] {
            let cloud = Arc::new(MemoryStore::new());
            let store = Arc::new(Faulty::new(cloud.clone()));
            let seen = Seen::open(store.clone(), 1).await.unwrap();
            for place in 1..4 {
                store.on_call(move |call, _| matches!(call, Call::BlobPut(..)).then_some(fault));
                seen.hears(Reached { epoch: 0, place: 2 * place });
                assert!(matches!(seen.settle().await, Err(SessionError::Absent(_))), "{fault:?}");
                store.on_call(|_, _| None);
                seen.hears(Reached { epoch: 0, place: 2 * place + 1 });
                seen.settle().await.unwrap();
                let last = Reached { epoch: 0, place: 2 * place + 1 };
                assert_eq!(read(&*cloud, 1).await.unwrap().0, last);
            }
            store.on_call(move |call, _| matches!(call, Call::BlobPut(..)).then_some(fault));
            seen.hears(Reached { epoch: 0, place: 20 });
            assert!(seen.settle().await.is_err());
            store.on_call(|_, _| None);
            let other = Seen::open(cloud, 1).await.unwrap();
            other.hears(Reached { epoch: 0, place: 30 });
            other.settle().await.unwrap();
            assert_eq!(seen.settle().await, Err(SessionError::Fenced), "{fault:?}");
        }
    }
}
