//! A proxy that stops in the middle of its work: at one of its calls nothing of it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_store::{Call, Reply, Result, Store, StoreError, store_by_calls};
use tokio::sync::Notify;

/// At which call, and how far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// The how-manieth call of this opening, from 1.
    pub call: u64,
    /// What became of it.
    pub how: Fate,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was never sent; the proxy is dead.
    Unsent,
    /// It was sent and not done; the proxy is dead.
    Undone,
    /// It was done, and the proxy is dead when the reply comes.
    Done,
    /// It was not done, and the proxy is told that the store is absent.
    Failed,
    /// It was done, and the proxy is told that the store is absent.
    Lost,
}

impl Fate {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Unsent, Self::Undone, Self::Done, Self::Failed, Self::Lost];

    fn is_before(self) -> bool {
        self == Self::Unsent
    }
}

/// Lets calls through until one is not.
pub(super) struct Dying<S> {
    inner: S,
    death: Option<Death>,
    dead: Arc<Notify>,
    calls: AtomicU64,
}

impl<S: Store> Dying<S> {
    /// In front of the recorder: calls that are never sent.
    pub fn unsent(inner: S, death: Option<Death>, dead: Arc<Notify>) -> Self {
        let death = death.filter(|death| death.how.is_before());
        Self { inner, death, dead, calls: AtomicU64::new(0) }
    }

    /// Behind it: calls that are.
    pub fn sent(inner: S, death: Option<Death>, dead: Arc<Notify>) -> Self {
        let death = death.filter(|death| !death.how.is_before());
        Self { inner, death, dead, calls: AtomicU64::new(0) }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.death.is_some_and(|death| death.how.is_before() && number > death.call) {
            // It would have left in the same moment, behind the one that never did.
            return std::future::pending().await;
        }
        let Some(death) = self.death.filter(|death| death.call == number) else {
            return call.perform(&self.inner).await;
        };
        if matches!(death.how, Fate::Done | Fate::Lost) {
            call.perform(&self.inner).await?;
        }
        if matches!(death.how, Fate::Failed | Fate::Lost) {
            return Err(StoreError::Absent("the scene says so".into()));
        }
        self.dead.notify_one();
        std::future::pending().await
    }
}

store_by_calls!(Dying);
