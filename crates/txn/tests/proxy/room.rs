//! A cloud that answers a moment before a point of the grid: the point that is taken next must not
//! tell how long the proxy worked on what came. Time moves by the work alone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos, SystemClock};
use fogbank_oram::{Address, BatchEngine, BatchShape, Result, Section, Sections};
use fogbank_store::{Faulty, MemoryStore, OrderedGridStore, Store};

use crate::support::{Setup, Shared};

const INTERVAL_NS: Nanos = 80_000_000;
const QUANTUM: Duration = Duration::from_millis(20);

/// An engine that makes one call for a batch and works on the reply for some time.
struct Working {
    shape: BatchShape,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    work_ns: Nanos,
}

#[async_trait]
impl BatchEngine for Working {
    fn shape(&self) -> BatchShape {
        self.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        self.store.barrier().await.unwrap();
        self.clock.sleep_until(self.clock.now() + self.work_ns).await;
        Ok(vec![None; addresses.len()])
    }

    async fn write_batch(&mut self, _: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        Ok(())
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        Ok(Vec::new())
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        Ok(Box::new(std::iter::empty()))
    }
}

/// When the first batches leave, in milliseconds: each is answered `before_ms` before a point, and
/// what came takes `work_ms`.
async fn departures(quantum: Duration, before_ms: u64, work_ms: u64) -> Vec<u64> {
    let setup = Setup::default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let far = Faulty::new(Answering { clock: clock.clone(), before_ms, inner: MemoryStore::new() });
    let (watch, at) = (seen.clone(), clock.clone());
    far.on_call(move |_, _| {
        watch.lock().push(at.now() / 1_000_000);
        None
    });
    let shape = BatchShape { capacity: 256, value_bytes: 16, read_batch: 8, write_batch: 16 };
    let store = Arc::new(OrderedGridStore::new(far, clock.clone(), quantum));
    let work_ns = work_ms * 1_000_000;
    let engine = Working { shape, store, clock: clock.clone(), work_ns };
    let settings = fogbank_txn::Settings {
        interval: Duration::from_nanos(INTERVAL_NS),
        ..setup.settings.clone()
    };
    let setup = Setup { settings, ..setup };
    let world = setup.start_over(Box::new(engine), Shared::default(), clock, None).await.unwrap();
    world.sleep_ms(3_000).await;
    seen.lock().clone()
}

/// Answers a little before the next point of the grid.
struct Answering<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    before_ms: u64,
}

impl<S: Store> Answering<S> {
    async fn call(
        &self,
        call: fogbank_store::Call<'_>,
    ) -> fogbank_store::Result<fogbank_store::Reply> {
        let point = (self.clock.now() + 1).next_multiple_of(INTERVAL_NS);
        self.clock.sleep_until(point - self.before_ms * 1_000_000).await;
        call.perform(&self.inner).await
    }
}

fogbank_store::store_by_calls!(Answering);

#[tokio::test(start_paused = true)]
async fn a_reply_before_a_point_tells_nothing_of_the_work() {
    for before_ms in [1, 3, 9, 11, 19] {
        let idle = departures(QUANTUM, before_ms, 0).await;
        assert!(idle.len() > 10, "{idle:?}");
        for work_ms in [2, 5, 9] {
            assert_eq!(
                departures(QUANTUM, before_ms, work_ms).await,
                idle,
                "{before_ms} {work_ms}"
            );
        }
    }
    // The canary: handed over as they come, replies tell.
    let bare = Duration::ZERO;
    assert_ne!(departures(bare, 3, 0).await, departures(bare, 3, 5).await);
}
