//! A clock by which the work that clients ask for takes time, as it does on a machine.
//!
//! The proxy tells it how many units of work each hold of its lock was. Whoever wants what is
//! locked has to wait until that work is done; whoever does not, need not.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::{Clock, Nanos};

/// What a unit of work takes.
const UNIT_NANOS: Nanos = 100_000;

/// See the module.
pub(super) struct Working {
    inner: Arc<dyn Clock>,
    busy_until: AtomicU64,
}

impl Working {
    pub(super) fn new(inner: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { inner, busy_until: AtomicU64::new(0) })
    }

    /// When the work asked for so far is done.
    pub(super) fn busy_until(&self) -> Nanos {
        self.busy_until.load(Ordering::Relaxed)
    }
}

impl Clock for Working {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn wall_ms(&self) -> u64 {
        self.inner.wall_ms()
    }

    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.inner.sleep_until(deadline)
    }

    fn work(&self, units: u64) -> Nanos {
        let cost = units * UNIT_NANOS;
        let until = self.busy_until().max(self.now()) + cost;
        self.busy_until.store(until, Ordering::Relaxed);
        cost
    }
}
