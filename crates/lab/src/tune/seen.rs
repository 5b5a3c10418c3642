//! What was seen of transactions: sums and counts of their footprints, in memory that does not grow
//! with their number. Secret, as footprints are.

use std::collections::BTreeMap;
use std::sync::Arc;

use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_txn::{Footprint, Observer};

/// Values are counted by multiples of this; a block of a store has more bytes and is one, too.
const VALUE_STEP_BYTES: u32 = 64;
const SECOND: Nanos = 1_000_000_000;

/// Sums of a figure and of its squares, and the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    sum: f64,
    squares: f64,
    /// The largest.
    pub max: u32,
}

impl Moments {
    fn add(&mut self, figure: u32, times: u64) {
        let (figure_f, times) = (f64::from(figure), times as f64);
        self.sum += figure_f * times;
        self.squares += figure_f * figure_f * times;
        self.max = self.max.max(figure);
    }
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Transactions that fetched or wrote something.
    pub transactions: u64,
    /// Those that did not.
    pub silent: u64,
    /// How many had so many rounds.
    rounds: BTreeMap<u32, u64>,
    /// Records of each round; of a transaction that has fewer, none.
    by_round: Vec<Moments>,
    /// Distinct records read.
    pub read: Moments,
    /// Records written.
    pub written: Moments,
    /// How many values had so many steps of 64 bytes.
    values: BTreeMap<u32, u64>,
    /// How many ended in which second.
    seconds: BTreeMap<u64, u64>,
    /// When the first and the last ended.
    span: Option<(Nanos, Nanos)>,
}

impl Seen {
    /// So many transactions of this footprint.
    pub fn add(&mut self, footprint: &Footprint, times: u64) {
        if footprint.is_empty() {
            self.silent += times;
            return;
        }
        self.transactions += times;
        *self.rounds.entry(footprint.rounds.len() as u32).or_default() += times;
        let deepest = self.by_round.len().max(footprint.rounds.len());
        self.by_round.resize(deepest, Moments::default());
        for (moments, records) in self.by_round.iter_mut().zip(&footprint.rounds) {
            moments.add(*records, times);
        }
        self.read.add(footprint.read(), times);
        self.written.add(footprint.written, times);
        for bytes in &footprint.value_bytes {
            *self.values.entry(bytes.div_ceil(VALUE_STEP_BYTES).max(1)).or_default() += times;
        }
    }

    fn add_at(&mut self, footprint: &Footprint, now: Nanos) {
        self.add(footprint, 1);
        if !footprint.is_empty() {
            *self.seconds.entry(now / SECOND).or_default() += 1;
            let (first, _) = self.span.unwrap_or((now, now));
            self.span = Some((first, now));
        }
    }

    /// Rounds that so many of a hundred do not exceed.
    pub fn rounds_percentile(&self, percent: f64) -> u32 {
        percentile(&self.rounds, percent)
    }

    /// Which share of transactions needs more rounds than that.
    pub fn share_deeper_than(&self, rounds: usize) -> f64 {
        let deeper = self.rounds.iter().filter(|(depth, _)| **depth as usize > rounds);
        let deeper: u64 = deeper.map(|(_, count)| count).sum();
        deeper as f64 / self.transactions.max(1) as f64
    }

    /// Bytes that so many of a hundred values do not exceed, to the next 64.
    pub fn value_percentile(&self, percent: f64) -> u64 {
        u64::from(percentile(&self.values, percent)) * u64::from(VALUE_STEP_BYTES)
    }

    /// Blocks of so many bytes that a value takes on average, and at the most.
    pub fn blocks(&self, block_bytes: u64) -> (f64, u64) {
        let blocks =
            |steps: u32| (u64::from(steps) * u64::from(VALUE_STEP_BYTES)).div_ceil(block_bytes);
        let values: u64 = self.values.values().sum();
        let all: u64 = self.values.iter().map(|(steps, count)| blocks(*steps) * count).sum();
        let most = self.values.keys().last().map_or(1, |steps| blocks(*steps));
        (all as f64 / values.max(1) as f64, most.max(1))
    }

    /// The most records of one round.
    pub fn widest(&self) -> u32 {
        self.by_round.iter().map(|moments| moments.max).max().unwrap_or_default()
    }

    /// The mean of a figure of transactions.
    pub fn mean(&self, of: Moments) -> f64 {
        of.sum / self.transactions.max(1) as f64
    }

    /// What a figure adds up to in an epoch of so many transactions on average, with room for
    /// chance: the mean of a sum of Poisson many and `sigmas` of its deviations.
    pub fn in_epoch(&self, of: Moments, transactions: f64, sigmas: f64) -> f64 {
        let each = transactions / self.transactions.max(1) as f64;
        each * of.sum + sigmas * (each * of.squares).sqrt()
    }

    /// The same of the round that adds up to the most.
    pub fn in_fullest_round(&self, transactions: f64, sigmas: f64) -> f64 {
        let rounds = self.by_round.iter().map(|of| self.in_epoch(*of, transactions, sigmas));
        rounds.fold(0.0, f64::max)
    }

    /// Transactions a second, on average from the first to the last, and in the busiest second.
    pub fn per_s(&self) -> (f64, f64) {
        let busiest = self.seconds.values().max().map_or(0.0, |count| *count as f64);
        let Some((first, last)) = self.span else { return (0.0, 0.0) };
        let seconds = ((last - first) as f64 / SECOND as f64).max(1.0);
        let mean = self.seconds.values().sum::<u64>() as f64 / seconds;
        (mean, busiest.max(mean))
    }
}

fn percentile(counts: &BTreeMap<u32, u64>, percent: f64) -> u32 {
    let all: u64 = counts.values().sum();
    let rank = (all as f64 * percent / 100.0).ceil() as u64;
    let mut below = 0;
    for (figure, count) in counts {
        below += count;
        if below >= rank {
            return *figure;
        }
    }
    0
}

/// Sees transactions as they end.
pub struct Watching {
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

impl Watching {
    /// Nothing was seen yet.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, seen: Mutex::default() })
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

impl Observer for Watching {
    fn ended(&self, footprint: &Footprint) {
        let now = self.clock.now();
        self.seen.lock().add_at(footprint, now);
    }
}
