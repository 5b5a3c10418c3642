//! A store of which one reply comes late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_env::{Clock, Nanos};
use fogbank_store::{Call, Operation, Reply, Result, Store, store_by_calls};

/// Which reply is late, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Of which calls.
    pub operation: Operation,
    /// Of the how-manieth of them, from 1.
    pub nth: u64,
    /// By how much.
    pub by: Duration,
}

/// Holds one reply back.
pub(super) struct Holding<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    hold: Option<Hold>,
    counted: AtomicU64,
}

impl<S: Store> Holding<S> {
    pub fn new(inner: S, clock: Arc<dyn Clock>, hold: Option<Hold>) -> Self {
        Self { inner, clock, hold, counted: AtomicU64::new(0) }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let held = self.hold.filter(|hold| {
            hold.operation == call.operation()
                && self.counted.fetch_add(1, Ordering::Relaxed) + 1 == hold.nth
        });
        let reply = call.perform(&self.inner).await;
        if let Some(hold) = held {
            self.clock.sleep_until(self.clock.now() + hold.by.as_nanos() as Nanos).await;
        }
        reply
    }
}

store_by_calls!(Holding);
