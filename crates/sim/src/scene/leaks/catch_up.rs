//! A clock that is only as late as whoever reads it has waited for: to a driver that takes the next
//! point of a grid that is not past, no point ever is, so after a late reply it makes the calls
//! that it has missed one right after the other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::{Clock, Nanos};

/// Shows the latest deadline that was waited for.
pub struct Lagging {
    inner: Arc<dyn Clock>,
    reached: Arc<AtomicU64>,
}

impl Lagging {
    pub fn new(inner: Arc<dyn Clock>) -> Self {
        let reached = Arc::new(AtomicU64::new(inner.now()));
        Self { inner, reached }
    }
}

impl Clock for Lagging {
    fn now(&self) -> Nanos {
        self.reached.load(Ordering::Relaxed)
    }

    fn wall_ms(&self) -> u64 {
        self.inner.wall_ms()
    }

    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (sleep, reached) = (self.inner.sleep_until(deadline), self.reached.clone());
        Box::pin(async move {
            sleep.await;
            reached.fetch_max(deadline, Ordering::Relaxed);
        })
    }
}
