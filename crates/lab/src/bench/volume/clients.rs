//! The clients: each draws a block, reads or writes it, holds what comes back against what it has
//! to be, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fogbank::{Error, Result};
use fogbank_env::{Clock, Mutex, Nanos, Purpose, Randomness, Stream};
use fogbank_oram::{Access, Address, ImmediateEngine};
use fogbank_store::PlaceMap;
use fogbank_terminal::show;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use rand_core::Rng;
use tokio::task::{JoinError, JoinSet};

const BLOCK_HEAD_BYTES: usize = 16;
/// The longest answer that is told apart: an hour.
const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;
/// From one look at the time to the next, while a bar is shown.
const LOOK: Nanos = 200_000_000;

/// What the clients share.
pub struct Field<E> {
    /// Serves them.
    pub engine: E,
    clock: Arc<dyn Clock>,
    written: Arc<Written>,
    value_bytes: usize,
    /// Its clients ask for blocks whose number leaves this rest, of so many.
    share: (u32, u32),
}

/// By block that was written: how often, over all openings of the store. Held while an access is
/// submitted, so that the order of these counts is the order of arrival.
pub type Written = Mutex<PlaceMap<u32, u64>>;

/// What one access came to.
#[derive(Debug, Clone, Copy)]
struct Sample {
    ended: Nanos,
    took: Nanos,
}

/// How long answers took in a span of time.
pub struct Answers {
    /// By nanoseconds.
    pub latencies: Histogram<u64>,
    /// The span.
    pub seconds: f64,
}

/// When a point is measured: what ends before and after is left out.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub from: Nanos,
    pub to: Nanos,
}

impl Span {
    /// After a warm-up of a fifth, until clients no longer move together.
    pub fn of(clock: &dyn Clock, seconds: f64) -> Self {
        let from = clock.now() + (seconds / 5.0 * 1e9) as Nanos;
        Self { from, to: from + (seconds * 1e9) as Nanos }
    }

    fn seconds(self) -> f64 {
        (self.to - self.from) as f64 / 1e9
    }
}

impl<E: ImmediateEngine + 'static> Field<E> {
    /// Over an engine whose blocks were written as `written` says.
    pub fn new(engine: E, clock: Arc<dyn Clock>, written: Arc<Written>) -> Arc<Self> {
        Self::of_many(engine, clock, written, (0, 1))
    }

    /// The same over one engine of many that serve the same blocks, by its number and how many they
    /// are: no two of them ask for one block, so each knows what it has to find there.
    pub fn of_many(
        engine: E,
        clock: Arc<dyn Clock>,
        written: Arc<Written>,
        share: (u32, u32),
    ) -> Arc<Self> {
        let value_bytes = engine.shape().value_bytes;
        Arc::new(Self { engine, clock, written, value_bytes, share })
    }

    /// Writes every block once, then as many as a quarter of them, so that the tree is in its
    /// steady state and every bucket is stored; so many are under way.
    pub async fn load(
        self: &Arc<Self>,
        stream: &mut Stream,
        under_way: usize,
        bar: &ProgressBar,
    ) -> Result<()> {
        let capacity = self.engine.shape().capacity;
        let random = (0..capacity / 4).map(|_| stream.next_u32() % capacity);
        let blocks = (0..capacity).chain(random);
        self.fill(blocks, capacity + capacity / 4, under_way, bar).await
    }

    /// Writes these blocks, of which there are so many; so many are under way.
    pub async fn fill(
        self: &Arc<Self>,
        blocks: impl Iterator<Item = u32>,
        of: u32,
        under_way: usize,
        bar: &ProgressBar,
    ) -> Result<()> {
        let mut tasks = JoinSet::new();
        for (done, block) in (0..).zip(blocks) {
            while tasks.len() >= under_way {
                ended(tasks.join_next().await)?;
            }
            let field = self.clone();
            tasks.spawn(async move { field.access(block, true).await.map(drop) });
            show(bar, done, of);
        }
        while !tasks.is_empty() {
            ended(tasks.join_next().await)?;
        }
        Ok(())
    }

    /// Lets clients run until they are told to end.
    pub fn start(self: &Arc<Self>, clients: usize, random: &Randomness) -> Running {
        Running::of(&vec![self.clone(); clients], self.clock.clone(), random)
    }

    /// One access, checked.
    async fn access(&self, block: u32, writes: bool) -> Result<Sample> {
        let started = self.clock.now();
        let (ticket, count) = {
            let mut written = self.written.lock();
            let count = written.get(&block).copied().unwrap_or(0) + u64::from(writes);
            let access = match writes {
                true => Access::Write { offset: 0, bytes: self.value(block, count).into() },
                false => Access::Read,
            };
            if writes {
                written.insert(block, count);
            }
            (self.engine.submit(Address(block), access), count)
        };
        let answer = ticket.await?;
        let expected =
            if count == 0 { vec![0; self.value_bytes] } else { self.value(block, count) };
        if answer != expected {
            return Err(Error::CheckFailed(format!("block {block} holds something else")));
        }
        let ended = self.clock.now();
        Ok(Sample { ended, took: ended - started })
    }

    fn value(&self, block: u32, count: u64) -> Vec<u8> {
        let mut value = vec![block as u8; self.value_bytes.max(BLOCK_HEAD_BYTES)];
        value[..8].copy_from_slice(&u64::from(block).to_le_bytes());
        value[8..BLOCK_HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
        value.truncate(self.value_bytes);
        value
    }
}

/// Clients that go on until they are told to end.
pub struct Running {
    tasks: JoinSet<Result<Vec<Sample>>>,
    ends: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl Running {
    /// Lets one client of each of these run; one that is named twice has two.
    pub fn of<E: ImmediateEngine + 'static>(
        fields: &[Arc<Field<E>>],
        clock: Arc<dyn Clock>,
        random: &Randomness,
    ) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for (client, field) in (0..).zip(fields) {
            let (field, ends) = (field.clone(), ends.clone());
            let mut stream = random.split(client).stream(Purpose::Workload);
            tasks.spawn(async move {
                let (rest, of) = field.share;
                let of_share = (field.engine.shape().capacity - rest).div_ceil(of);
                let mut samples = Vec::new();
                while !ends.load(Ordering::Relaxed) {
                    let block = rest + stream.next_u32() % of_share * of;
                    let writes = stream.next_u32().is_multiple_of(2);
                    samples.push(field.access(block, writes).await?);
                }
                Ok(samples)
            });
        }
        Self { tasks, ends, clock }
    }

    /// Waits until `until`, or until a client has failed.
    pub async fn go_on(&mut self, until: Nanos, bar: &ProgressBar) -> Result<()> {
        let started = self.clock.now();
        let tenths = |nanos: Nanos| (nanos / 100_000_000) as u32;
        let clock = self.clock.clone();
        let left = || until.saturating_sub(clock.now());
        self.go_on_while(|| {
            show(bar, tenths(clock.now() - started), tenths(until.saturating_sub(started)));
            left()
        })
        .await
    }

    /// Waits as long as it is told that something is left, in nanoseconds at least, or until a
    /// client has failed.
    pub async fn go_on_while(&mut self, mut left: impl FnMut() -> Nanos) -> Result<()> {
        loop {
            let wait = left().min(LOOK);
            if wait == 0 {
                return Ok(());
            }
            self.clock.sleep_until(self.clock.now() + wait).await;
            if let Some(gone) = self.tasks.try_join_next() {
                self.ends.store(true, Ordering::Relaxed);
                gone.map_err(|e| Error::Bug(e.to_string()))??;
            }
        }
    }

    /// Ends them; what they noted in `span`.
    pub async fn end(self, span: Span) -> Result<Answers> {
        let mut answers = self.end_in(&[span]).await?;
        answers.pop().ok_or_else(|| Error::Bug("a span has its answers".into()))
    }

    /// Ends them; what they noted in each of these.
    pub async fn end_in(mut self, spans: &[Span]) -> Result<Vec<Answers>> {
        self.ends.store(true, Ordering::Relaxed);
        let none = |span: &Span| {
            let latencies = Histogram::new_with_max(LATENCY_NANOS_MAX, 3)
                .map_err(|e| Error::Bug(format!("three figures within an hour: {e}")))?;
            Ok(Answers { latencies, seconds: span.seconds() })
        };
        let mut answers = spans.iter().map(none).collect::<Result<Vec<_>>>()?;
        while let Some(ended) = self.tasks.join_next().await {
            let samples = ended.map_err(|e| Error::Bug(e.to_string()))??;
            for Sample { ended, took } in samples {
                let within = |(span, _): &(&Span, _)| (span.from..span.to).contains(&ended);
                for (_, answers) in spans.iter().zip(&mut answers).filter(within) {
                    answers.latencies.saturating_record(took);
                }
            }
        }
        Ok(answers)
    }
}

fn ended(ended: Option<std::result::Result<Result<()>, JoinError>>) -> Result<()> {
    ended.map_or(Ok(()), |ended| ended.map_err(|e| Error::Bug(e.to_string()))?)
}
