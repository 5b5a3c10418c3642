//! Clients that run a workload against a database, and what is measured of them.
//!
//! 1. *Closed loop*: each client performs one transaction after the other. *Open loop*:
//!    transactions arrive at random moments (a Poisson process), whether those before them have
//!    ended or not; one that has to wait for its turn has waited since it arrived, so a stall shows
//!    in every latency that it caused.
//! 2. A ramp before and after the span that is measured does not count. Throughput is what ended
//!    within the span; latencies are of what arrived within it, however late it ended, so that none
//!    is left out because it was slow.
//! 3. All transactions that have committed, also those of the ramps, are entered in the ledger,
//!    against which the workload is checked.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos, Purpose, Randomness};
use hdrhistogram::Histogram;
use rand::RngExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::database::{Database, Error, Result};
use crate::workload::{Ledger, Workload};

/// When transactions come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// So many clients, each of which waits for its answer.
    Closed {
        /// How many.
        clients: usize,
    },
    /// So many a second on average, answered or not.
    Open {
        /// Transactions a second.
        per_s: f64,
        /// How many may be under way; those above wait.
        under_way_max: usize,
    },
}

/// How long things are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Before the measured part, and again after it.
    pub ramp: Duration,
    /// The measured part.
    pub measured: Duration,
}

/// What transactions of one kind came to within the span.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Transactions that committed within the span.
    pub ended: u64,
    /// Microseconds from arrival to answer of those that arrived within the span and have
    /// committed.
    pub latency_us: Histogram<u64>,
    /// Runs of the procedures of these, those that lost included.
    pub attempts: u64,
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Measured {
    /// By kind.
    pub kinds: Vec<Tally>,
    /// Seconds of the measured part.
    pub seconds: f64,
    /// Everything that has committed, also in the ramps.
    pub ledger: Ledger,
    /// Transactions that were given up because they had lost too often, in the whole run.
    pub given_up: u64,
}

impl Measured {
    /// Transactions that ended within the span, of all kinds.
    pub fn all(&self) -> Tally {
        let mut all = Tally::new();
        self.kinds.iter().for_each(|tally| all.add(tally));
        all
    }

    /// Transactions a second.
    pub fn per_s(&self) -> f64 {
        self.all().ended as f64 / self.seconds
    }
}

impl Tally {
    /// Of nothing.
    pub fn new() -> Self {
        Self { ended: 0, latency_us: latencies(), attempts: 0 }
    }

    /// What another came to, too.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so this cannot fail.
        let _ = self.latency_us.add(&other.latency_us);
        self.ended += other.ended;
        self.attempts += other.attempts;
    }

    /// The mean in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.latency_us.mean() / 1e3
    }

    /// A percentile in milliseconds.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.latency_us.value_at_percentile(percent) as f64 / 1e3
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

/// Up to an hour, to three digits.
fn latencies() -> Histogram<u64> {
    match Histogram::new_with_max(3_600_000_000, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("these bounds are allowed"),
    }
}

/// Runs a workload against a database whose records are loaded.
///
/// # Errors
/// The first of any transaction, but for those that have lost too often.
pub async fn run(
    database: Arc<dyn Database>,
    workload: Arc<dyn Workload>,
    (load, span): (Load, Span),
    clock: Arc<dyn Clock>,
    random: &Randomness,
) -> Result<Measured> {
    let begun = clock.now();
    let ramp = span.ramp.as_nanos() as Nanos;
    let from = begun + ramp;
    let to = from + span.measured.as_nanos() as Nanos;
    let notes = Mutex::new(Notes::of(&*workload));
    let ground = Arc::new(Ground { database, workload, clock, from, to, end: to + ramp, notes });
    let mut tasks = JoinSet::new();
    match load {
        Load::Closed { clients } => {
            for client in 0..clients {
                let stream = random.split(client as u64);
                tasks.spawn(closed(ground.clone(), stream));
            }
        }
        Load::Open { per_s, under_way_max } => {
            let random = random.clone();
            tasks.spawn(open(ground.clone(), (per_s, under_way_max), random));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        joined(ended)?;
    }
    let seconds = (ground.to - ground.from) as f64 / 1e9;
    let notes = &mut *ground.notes.lock();
    let Notes { kinds, ledger, given_up } = std::mem::replace(notes, Notes::of(&*ground.workload));
    Ok(Measured { kinds, seconds, ledger, given_up })
}

/// What clients share.
struct Ground {
    database: Arc<dyn Database>,
    workload: Arc<dyn Workload>,
    clock: Arc<dyn Clock>,
    from: Nanos,
    to: Nanos,
    end: Nanos,
    /// One for all: histograms are large, and clients are many.
    notes: Mutex<Notes>,
}

/// What clients have seen.
struct Notes {
    kinds: Vec<Tally>,
    ledger: Ledger,
    given_up: u64,
}

impl Notes {
    fn of(workload: &dyn Workload) -> Self {
        let kinds = workload.kinds().len();
        Self { kinds: vec![Tally::new(); kinds], ledger: Ledger::new(kinds), given_up: 0 }
    }
}

impl Ground {
    /// Performs one transaction that arrived at `arrived`.
    async fn perform(&self, procedure: &dyn crate::Procedure, arrived: Nanos) -> Result<()> {
        let performed = match self.database.perform(procedure).await {
            Ok(performed) => performed,
            Err(Error::Lost) => {
                self.notes.lock().given_up += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let now = self.clock.now();
        let notes = &mut *self.notes.lock();
        notes.ledger.enter(procedure.kind(), performed.effect);
        let Some(tally) = notes.kinds.get_mut(procedure.kind()) else { return Ok(()) };
        let span = self.from..self.to;
        tally.ended += u64::from(span.contains(&now));
        if span.contains(&arrived) {
            tally.latency_us.saturating_record((now - arrived) / 1_000);
            tally.attempts += u64::from(performed.attempts);
        }
        Ok(())
    }
}

async fn closed(ground: Arc<Ground>, random: Randomness) -> Result<()> {
    let mut stream = random.stream(Purpose::Workload);
    while ground.clock.now() < ground.end {
        let procedure = ground.workload.draw(&mut stream);
        ground.perform(&*procedure, ground.clock.now()).await?;
    }
    Ok(())
}

async fn open(
    ground: Arc<Ground>,
    (per_s, under_way_max): (f64, usize),
    random: Randomness,
) -> Result<()> {
    let mut stream = random.stream(Purpose::Workload);
    let room = Arc::new(Semaphore::new(under_way_max));
    let mut tasks = JoinSet::new();
    let mut arrival = ground.clock.now();
    loop {
        // Exponential gaps: arrivals that know nothing of each other.
        let gap_s = -(1.0 - stream.random_range(0.0..1.0_f64)).ln() / per_s.max(1e-9);
        arrival = arrival.saturating_add((gap_s * 1e9) as Nanos);
        if arrival >= ground.end {
            break;
        }
        ground.clock.come_near(arrival).await;
        let procedure = ground.workload.draw(&mut stream);
        let (ground, room) = (ground.clone(), room.clone());
        tasks.spawn(async move {
            let _room = room.acquire_owned().await;
            ground.perform(&*procedure, arrival).await
        });
        while let Some(ended) = tasks.try_join_next() {
            joined(ended)?;
        }
    }
    while let Some(ended) = tasks.join_next().await {
        joined(ended)?;
    }
    Ok(())
}

fn joined(ended: std::result::Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    ended.map_err(|_| Error::Failed("a client has panicked".into()))?
}

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;
    use crate::database::{Effect, Performed, Procedure};
    use crate::smallbank::SmallBank;

    /// Takes long for those that come in a certain second.
    struct Stalls(Arc<dyn Clock>);

    #[async_trait::async_trait]
    impl Database for Stalls {
        async fn perform(&self, _: &dyn Procedure) -> Result<Performed> {
            let now = self.0.now();
            let stall = (2_000_000_000..3_000_000_000).contains(&now);
            let until = if stall { 9_000_000_000 } else { now + 10_000_000 };
            self.0.sleep_until(until).await;
            Ok(Performed { effect: Effect::DONE, attempts: 1 })
        }

        async fn snapshot(&self, _: &[fogbank_txn::Key]) -> Result<Vec<Option<bytes::Bytes>>> {
            Ok(Vec::new())
        }

        fn snapshot_max(&self) -> usize {
            1
        }
    }

    /// A stall that outlasts the span was in no latency, for what had not ended within it was left
    /// out.
    #[tokio::test(start_paused = true)]
    async fn a_stall_shows_in_the_latencies_of_all_that_it_met() {
        let s = Duration::from_secs;
        let span = Span { ramp: s(1), measured: s(3) };
        for load in
            [Load::Open { per_s: 100.0, under_way_max: 10_000 }, Load::Closed { clients: 10 }]
        {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let (database, bank) = (Stalls(clock.clone()), SmallBank::uniform(9));
            let random = Randomness::repeatable(1);
            let done = run(Arc::new(database), Arc::new(bank), (load, span), clock, &random);
            let all = done.await.unwrap().all();
            assert!(all.percentile_ms(100.0) > 5_900.0, "{load:?}: {}", all.percentile_ms(100.0));
            let late = all.latency_us.len() - all.latency_us.count_between(0, 5_000_000);
            let open = matches!(load, Load::Open { .. });
            let expected = if open { 70..140 } else { 10..11 };
            assert!(expected.contains(&late), "{load:?}: {late}");
            assert!(all.ended + late == all.latency_us.len() || !open, "{load:?}");
        }
    }
}
