//! A store whose proxy is held at one of its calls, as a machine that sleeps holds it, and goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fogbank_store::{Call, Reply, Result, Store, store_by_calls};
use tokio::sync::Notify;

/// Where a proxy is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// At which call since [`Pausing::arm`], from 1.
    pub call: u64,
    /// Before it was sent, or when the reply was on its way.
    pub before: bool,
}

/// Lets calls through until the one where the proxy is held; from then on none moves until it is
/// let go, neither to the cloud nor back.
pub(super) struct Pausing<S> {
    inner: S,
    hold: Hold,
    armed: AtomicBool,
    held: AtomicBool,
    calls: AtomicU64,
    reached: Notify,
    go: Notify,
}

impl<S: Store> Pausing<S> {
    pub fn new(inner: S, hold: Hold) -> Self {
        Self {
            inner,
            hold,
            armed: AtomicBool::new(false),
            held: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            reached: Notify::new(),
            go: Notify::new(),
        }
    }

    /// Counts from the next call on.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }

    /// Completes when the proxy is held.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets the proxy go on.
    pub fn go(&self) {
        self.held.store(false, Ordering::Relaxed);
        self.go.notify_waiters();
    }

    /// Calls sent so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        self.wait().await;
        let number = self.calls.load(Ordering::Relaxed) + 1;
        let here = self.armed.load(Ordering::Relaxed) && number == self.hold.call;
        if here && self.hold.before {
            self.hold().await;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let reply = call.perform(&self.inner).await;
        if here && !self.hold.before {
            self.hold().await;
        }
        self.wait().await;
        reply
    }

    async fn hold(&self) {
        self.armed.store(false, Ordering::Relaxed);
        self.held.store(true, Ordering::Relaxed);
        self.reached.notify_one();
        self.wait().await;
    }

    async fn wait(&self) {
        while self.held.load(Ordering::Relaxed) {
            self.go.notified().await;
        }
    }
}

store_by_calls!(Pausing);
