//! Time as a value: a monotone nanosecond count and absolute deadlines.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the clock was made.
pub type Nanos = u64;

/// A source of time. Deadlines are absolute, so a slow step never shifts the ones after it.
pub trait Clock: Send + Sync {
    /// Nanoseconds since this clock was made; never goes backwards.
    fn now(&self) -> Nanos;

    /// Milliseconds since the Unix epoch, for what users call time (expiry, `TIME`).
    fn wall_ms(&self) -> u64;

    /// Completes once [`Clock::now`] has reached `deadline`; at once if it already has.
    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's clock by way of the async runtime: under a runtime whose time is paused it is
/// virtual time, and the same code runs in both.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: tokio::time::Instant,
    wall_origin_ms: u64,
}

impl SystemClock {
    /// A clock whose zero is now. Must be called inside a runtime when time is paused.
    #[allow(clippy::disallowed_methods)] // the one place where the machine's clock is read
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { origin: tokio::time::Instant::now(), wall_origin_ms: wall.as_millis() as u64 }
    }

    /// A clock whose wall time starts at `wall_origin_ms`, so that a run repeats to the last bit.
    #[allow(clippy::disallowed_methods)]
    pub fn starting_at(wall_origin_ms: u64) -> Self {
        Self { origin: tokio::time::Instant::now(), wall_origin_ms }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Nanos {
        tokio::time::Instant::now().duration_since(self.origin).as_nanos() as u64
    }

    fn wall_ms(&self) -> u64 {
        self.wall_origin_ms + self.now() / 1_000_000
    }

    #[allow(clippy::disallowed_methods)]
    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(self.origin + Duration::from_nanos(deadline)))
    }
}
