//! A clock that stands until a test moves it.

use std::pin::Pin;
use std::sync::Arc;

use fogbank_env::{Clock, Nanos};
use tokio::sync::watch;

/// Clones are one clock.
#[derive(Clone)]
pub struct HandClock(Arc<watch::Sender<Nanos>>);

impl Default for HandClock {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl HandClock {
    pub fn advance(&self, nanos: Nanos) {
        self.0.send_modify(|now| *now += nanos);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Nanos {
        *self.0.borrow()
    }

    fn wall_ms(&self) -> u64 {
        self.now() / 1_000_000
    }

    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut time = self.0.subscribe();
        Box::pin(async move {
            let _the_clock_is_gone = time.wait_for(|now| *now >= deadline).await;
        })
    }
}
