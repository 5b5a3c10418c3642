//! A store at a distance: time as it would pass on a link and in a service.
//!
//! A call costs: its request through the up link, half a round trip with jitter, the service's own
//! time, its reply through the down link, half a round trip. Each direction of the link is one
//! queue that every call of this wrapper shares, so a large batch delays those behind it. All
//! deadlines are absolute, so that the model does not drift by what its own work takes.
//!
//! A query log may lie at the far end, too (`FarLog`): its calls and events share the queues.
//!
//! Which call is slow depends on its size, on the clock and on the randomness passed in: all
//! public.

mod log;

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos, Stream};
use rand_core::Rng;

pub use self::log::FarLog;
use crate::store_by_calls;
use crate::{Call, Log, Reply, Result, Store};

/// The link to a store and the store's own pace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The time of a round trip without load.
    pub round_trip: Duration,
    /// Up to so much is added to a round trip, evenly distributed.
    pub jitter: Duration,
    /// What the service takes for a call that only asks.
    pub read: Duration,
    /// What it takes for a call that changes something.
    pub write: Duration,
    /// Bytes a second towards the store; `None` for a link that never fills.
    pub up_bytes_per_s: Option<u64>,
    /// Bytes a second from the store.
    pub down_bytes_per_s: Option<u64>,
    /// How many calls of a million lose a packet.
    pub losses_per_million: u32,
    /// So much longer these take.
    pub resend: Duration,
}

impl Link {
    /// What a lost packet costs: the shortest wait of a usual TCP before it sends again.
    pub const RESEND: Duration = Duration::from_millis(200);

    /// A link that costs nothing: change what matters.
    pub fn instant() -> Self {
        Self {
            round_trip: Duration::ZERO,
            jitter: Duration::ZERO,
            read: Duration::ZERO,
            write: Duration::ZERO,
            up_bytes_per_s: None,
            down_bytes_per_s: None,
            losses_per_million: 0,
            resend: Self::RESEND,
        }
    }
}

/// Delays all that passes to the store inside.
pub struct Delay<S> {
    inner: S,
    way: Way,
}

/// The link, as all share it who use it.
#[derive(Clone)]
struct Way {
    clock: Arc<dyn Clock>,
    lanes: Arc<Mutex<Lanes>>,
}

/// What calls share.
struct Lanes {
    link: Link,
    randomness: Stream,
    up_free_at: Nanos,
    down_free_at: Nanos,
}

impl<S: Store> Delay<S> {
    /// Puts `inner` at the far end of `link`.
    pub fn new(inner: S, clock: Arc<dyn Clock>, link: Link, randomness: Stream) -> Self {
        let lanes = Mutex::new(Lanes { link, randomness, up_free_at: 0, down_free_at: 0 });
        Self { inner, way: Way { clock, lanes: Arc::new(lanes) } }
    }

    /// Moves the store to the far end of another link, for calls from now on.
    pub fn set_link(&self, link: Link) {
        self.way.lanes.lock().link = link;
    }

    /// A log at the far end of the same link.
    pub fn far_log(&self, log: Arc<dyn Log>) -> FarLog {
        FarLog::new(log, self.way.clone())
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let (bytes, writes) = (call.bytes_up(), call.operation().writes());
        let way_back = self.way.go(bytes, writes).await;
        let reply = call.perform(&self.inner).await;
        let bytes = reply.as_ref().map_or(0, Reply::bytes_down);
        self.way.clock.come_near(self.way.arrive(bytes) + way_back).await;
        reply
    }
}

impl Way {
    /// Brings a request there and has it served; how long the way back will be.
    async fn go(&self, bytes: u64, writes: bool) -> Nanos {
        let (there, way_back) = self.depart(bytes, writes);
        self.clock.come_near(there).await;
        way_back
    }

    /// When a request sent now has been served, and how long the way back will be.
    fn depart(&self, bytes: u64, writes: bool) -> (Nanos, Nanos) {
        let lanes = &mut *self.lanes.lock();
        let (link, now) = (lanes.link, self.clock.now());
        let sent = occupy(&mut lanes.up_free_at, now, bytes, link.up_bytes_per_s);
        let service = nanos(if writes { link.write } else { link.read });
        let jitter = match nanos(link.jitter) {
            0 => 0,
            most => lanes.randomness.next_u64() % (most + 1),
        };
        let lost = link.losses_per_million > 0
            && lanes.randomness.next_u64() % 1_000_000 < u64::from(link.losses_per_million);
        let resend = if lost { nanos(link.resend) } else { 0 };
        let half = nanos(link.round_trip) / 2;
        (sent + half + resend + service, nanos(link.round_trip) - half + jitter)
    }

    /// When a reply that the store sends now has left its link.
    fn arrive(&self, bytes: u64) -> Nanos {
        let lanes = &mut *self.lanes.lock();
        let rate = lanes.link.down_bytes_per_s;
        occupy(&mut lanes.down_free_at, self.clock.now(), bytes, rate)
    }

    /// When what is sent from there now, unasked, is here.
    fn pushed(&self, bytes: u64) -> Nanos {
        let round_trip = nanos(self.lanes.lock().link.round_trip);
        self.arrive(bytes) + round_trip / 2
    }
}

store_by_calls!(Delay);

/// Takes a direction of the link for `bytes`, after those who came before; returns when they are
/// through.
fn occupy(free_at: &mut Nanos, now: Nanos, bytes: u64, bytes_per_s: Option<u64>) -> Nanos {
    let Some(rate) = bytes_per_s else { return now };
    let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    *free_at = now.max(*free_at).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
    *free_at
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness, SystemClock};

    use super::*;
    use crate::{ArrayId, ArrayShape, CellReads, ChunkName, ChunkWrite, MemoryStore, conformance};

    fn delayed(link: Link) -> (Delay<MemoryStore>, Arc<dyn Clock>) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let randomness = Randomness::repeatable(1).stream(Purpose::Workload);
        (Delay::new(MemoryStore::new(), clock.clone(), link, randomness), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn conforms() {
        let ms = Duration::from_millis;
        let (up, down) = (Some(1_000_000), Some(10_000_000));
        let link = Link {
            round_trip: ms(10),
            jitter: ms(3),
            read: ms(1),
            write: ms(2),
            ..{ Link { up_bytes_per_s: up, down_bytes_per_s: down, ..Link::instant() } }
        };
        conformance::run(&delayed(link).0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_takes_what_the_link_says() {
        let ms = Duration::from_millis;
        let link = Link {
            round_trip: ms(100),
            write: ms(5),
            up_bytes_per_s: Some(1_000_000),
            ..Link::instant()
        };
        let (store, clock) = delayed(link);
        let shape = ArrayShape { chunks: 2, cells_per_chunk: 1, cell_bytes: 1_000_000 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let start = clock.now();
        let write = |chunk| {
            let chunk = ChunkName { array: ArrayId(1), chunk, version: 0 };
            vec![ChunkWrite { chunk, data: vec![0; 1_000_000].into() }]
        };
        let both = tokio::join!(store.write_chunks(write(0)), store.write_chunks(write(1)));
        assert!(both.0.is_ok() && both.1.is_ok());
        let took_ms = (clock.now() - start) / 1_000_000;
        assert!((2105..2110).contains(&took_ms), "the second waits for the first: {took_ms}");
        let start = clock.now();
        store.read_cells(&CellReads::default()).await.unwrap();
        assert!((100..102).contains(&((clock.now() - start) / 1_000_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_lost_a_packet_waits_for_it() {
        let resend = Duration::from_secs(1);
        let (store, clock) =
            delayed(Link { losses_per_million: 1_000_000, resend, ..Link::instant() });
        let start = clock.now();
        store.read_cells(&CellReads::default()).await.unwrap();
        assert!((1_000..1_002).contains(&((clock.now() - start) / 1_000_000)));
    }
}
