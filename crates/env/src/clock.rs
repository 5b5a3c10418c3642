//! Time as a value: a monotone nanosecond count and absolute deadlines.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::compute;
use crate::timer::Timer;

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

    /// As [`Clock::sleep_until`], and as little later as the machine can manage: for what must
    /// leave at its point whatever else there is to do.
    fn arrive_at(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.sleep_until(deadline)
    }

    /// How long `units` of clients' work keep the proxy busy. None on the machine's clock, where
    /// work takes its time by itself; a clock of virtual time may say otherwise, to show what work
    /// delays.
    fn work(&self, units: u64) -> Nanos {
        let _ = units;
        0
    }

    /// As [`Clock::arrive_at`], for many at once, such as messages of a link that is played: keeps
    /// neither a core nor the task, whose other messages go on meanwhile.
    fn come_near(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.sleep_until(deadline)
    }
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

    /// The runtime's timers wait for their next millisecond even if the deadline has passed.
    #[allow(clippy::disallowed_methods)]
    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if deadline <= self.now() {
            return Box::pin(std::future::ready(()));
        }
        Box::pin(tokio::time::sleep_until(self.origin + Duration::from_nanos(deadline)))
    }

    /// The runtime's timers count milliseconds and wait for a free worker: by up to a millisecond
    /// or two, and by more the more there is to do. So this sleeps to shortly before the deadline,
    /// then keeps its thread, and the last moment its core. A virtual clock is exact by itself:
    /// only runtimes of one thread have one.
    fn arrive_at(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            if !has_workers() {
                return clock.sleep_until(deadline).await;
            }
            clock.sleep_until(deadline.saturating_sub(APPROACH_NANOS)).await;
            compute(|| clock.hold_until(deadline));
        })
    }

    fn come_near(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            if !has_workers() {
                return clock.sleep_until(deadline).await;
            }
            match Timer::shared() {
                Some(timer) => timer.passed(clock.origin + Duration::from_nanos(deadline)).await,
                None => clock.sleep_until(deadline).await,
            }
        })
    }
}

impl SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place where a thread is held on purpose
    fn hold_until(&self, deadline: Nanos) {
        loop {
            let left = deadline.saturating_sub(self.now());
            match left {
                0 => return,
                left if left <= SPIN_NANOS => std::hint::spin_loop(),
                left => std::thread::sleep(Duration::from_nanos(left - SPIN_NANOS)),
            }
        }
    }
}

/// Whether this is a runtime of several threads.
fn has_workers() -> bool {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    matches!(flavor, Ok(RuntimeFlavor::MultiThread))
}

/// How long before its deadline [`SystemClock::arrive_at`] takes a thread: what the runtime's timer
/// may be late by.
const APPROACH_NANOS: Nanos = 2_500_000;
/// How long before its deadline it stops sleeping: what the system's timer may be late by.
const SPIN_NANOS: Nanos = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn arrives_at_its_deadline_and_not_before() {
        let clock = SystemClock::new();
        for after in [0, 100_000, 1_000_000, 7_000_000] {
            let deadline = clock.now() + after;
            clock.arrive_at(deadline).await;
            assert!(clock.now() >= deadline);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_come_near_their_deadlines_and_never_before() {
        let clock = SystemClock::new();
        let begun = clock.now();
        let waits = (0..500_u64).map(|n| {
            let (clock, deadline) = (clock.clone(), begun + n * 7919 % 500 * 20_000);
            tokio::spawn(async move {
                clock.come_near(deadline).await;
                (clock.now(), deadline)
            })
        });
        for wait in waits.collect::<Vec<_>>() {
            let (woken, deadline) = wait.await.unwrap();
            assert!(woken >= deadline);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_is_exact() {
        let clock = SystemClock::new();
        clock.arrive_at(7_000_000).await;
        assert_eq!(clock.now(), 7_000_000);
    }
}
