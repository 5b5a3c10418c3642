//! The lane of requests of builds, beside queries: one for those that read, one for those that
//! write.
//!
//! 1. A request leaves so long after the one before it that together they take half of a link of
//!    125 MB/s: a query there has one of them before it, and not a burst.
//! 2. Some are under way at once. One more after as many in a row have come about as fast as the
//!    fastest; one fewer after one that has not: on a slow link they queue, and queries behind
//!    them.
//! 3. When many in a row have not, with as few under way as there may be, the way has become
//!    longer: from then on the fastest of these counts.
//!
//! What the cloud sees: times that follow from the log's and from those at which it has answered.

use fogbank_env::{Mutex, Nanos};
use fogbank_store::DepartureGrid;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Error, Result};

/// Requests under way at once, at most: what half of such a link carries in 65 ms.
pub const AT_ONCE: usize = 16;
/// And at least: on a link whose round trips scatter, none is as fast as the fastest.
const AT_LEAST: usize = 4;
/// Slow ones in a row after which the way has become longer.
const SLOW_MAX: usize = 64;
/// From one request to the next, for each of its bytes.
const NANOS_A_BYTE: Nanos = 16;

/// See the module.
pub struct Lane {
    grid: DepartureGrid,
    room: Semaphore,
    state: Mutex<State>,
}

struct State {
    /// When the next one may leave.
    free_at: Nanos,
    /// How many may be under way.
    room: usize,
    /// How many in a row were fast.
    fast: usize,
    /// What the fastest took.
    fastest: Nanos,
    /// How many in a row were not, with as few under way as there may be, and what the fastest of
    /// them took.
    slow: usize,
    fastest_slow: Nanos,
}

/// A request's turn: until it has come back.
pub struct Turn<'a> {
    lane: &'a Lane,
    room: SemaphorePermit<'a>,
    left: Nanos,
}

impl Lane {
    /// A lane of which nothing is known.
    pub fn new(grid: &DepartureGrid) -> Self {
        let (fastest, fastest_slow) = (Nanos::MAX, Nanos::MAX);
        let state = State { free_at: 0, room: AT_LEAST, fast: 0, fastest, slow: 0, fastest_slow };
        Self { grid: grid.clone(), room: Semaphore::new(AT_LEAST), state: Mutex::new(state) }
    }

    /// Waits for the turn of a request that moves so many bytes.
    ///
    /// # Errors
    /// None while there are builds.
    pub async fn turn(&self, bytes: usize) -> Result<Turn<'_>> {
        let room = self.room.acquire().await.map_err(|e| Error::Bug(e.to_string()))?;
        let at = {
            let mut state = self.state.lock();
            let at = state.free_at.max(self.grid.now());
            state.free_at = at + NANOS_A_BYTE * bytes as Nanos;
            at
        };
        self.grid.come_near(at).await;
        Ok(Turn { lane: self, room, left: self.grid.now() })
    }
}

impl Turn<'_> {
    /// It has come back: from how long that took follows how many may be under way.
    pub fn has_come(self) {
        let took = self.lane.grid.now() - self.left;
        let mut state = self.lane.state.lock();
        state.fastest = state.fastest.min(took);
        if took > state.fastest + state.fastest / 2 {
            state.fast = 0;
            if state.room > AT_LEAST {
                state.room -= 1;
                self.room.forget();
            } else {
                state.slow += 1;
                state.fastest_slow = state.fastest_slow.min(took);
                if state.slow == SLOW_MAX {
                    (state.fastest, state.slow) = (state.fastest_slow, 0);
                    state.fastest_slow = Nanos::MAX;
                }
            }
        } else {
            (state.slow, state.fastest_slow) = (0, Nanos::MAX);
            state.fast += 1;
            if state.fast >= state.room && state.room < AT_ONCE {
                (state.room, state.fast) = (state.room + 1, 0);
                self.lane.room.add_permits(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fogbank_env::{Clock, SystemClock};
    use futures_util::future::join_all;

    use super::*;

    const CHUNK: usize = 256 << 10;
    const ROUND_TRIP: Nanos = 50_000_000;

    /// How long so many requests take on a link that takes `chunk` nanoseconds for each, and for
    /// all but the first `near` of them a round trip; and how long the last of them waited behind
    /// others on the link, at most.
    async fn take(requests: u64, chunk: Nanos, near: u64) -> (Nanos, Nanos) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let lane = Lane::new(&DepartureGrid::new(clock.clone(), Duration::from_millis(1)));
        let (begun, free_at, behind) = (clock.now(), Mutex::new(0), Mutex::new(0));
        let requests = (0..requests).map(|number| {
            let (clock, lane, free_at, behind) = (&clock, &lane, &free_at, &behind);
            async move {
                let turn = lane.turn(CHUNK).await.unwrap();
                let come = {
                    let (now, mut free_at) = (clock.now(), free_at.lock());
                    let waits = (*free_at).max(now) - now;
                    if 2 * number > requests {
                        let mut behind = behind.lock();
                        *behind = waits.max(*behind);
                    }
                    *free_at = now + waits + chunk;
                    *free_at
                };
                let trip = if number < near { ROUND_TRIP / 50 } else { ROUND_TRIP };
                clock.sleep_until(come + trip).await;
                turn.has_come();
            }
        });
        join_all(requests).await;
        (clock.now() - begun, *behind.lock())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wide_link_is_used_and_a_narrow_one_has_no_long_queue() {
        // 125 MB/s: half of that, and nobody waits for another.
        let (took, behind) = take(400, 2_100_000, 0).await;
        assert!((1_600_000_000..2_400_000_000).contains(&took), "{took}");
        assert_eq!(behind, 0);
        // 12.5 MB/s: all of it, with no more than some chunks in a queue.
        let (took, behind) = take(400, 21_000_000, 0).await;
        assert!(took < 9_500_000_000, "{took}");
        assert!(behind < 100_000_000, "{behind}");
    }

    /// Of a laptop that is carried home.
    #[tokio::test(start_paused = true)]
    async fn a_way_that_becomes_longer_is_used_as_well() {
        let (took, behind) = take(400, 2_100_000, 20).await;
        assert!(took < 3_500_000_000, "{took}");
        assert_eq!(behind, 0);
    }
}
