//! From what was seen to a configuration: what an epoch takes depends on how long it is, and how
//! long it is on what it takes.
//!
//! 1. Of clients that wait an epoch has as many transactions as there are clients. Of arrivals it
//!    has as many as come while it lasts: begin with a short epoch, see what it needs ([`Need`]),
//!    reckon how long that takes on this link and machine (`fogbank plan`), and again, until
//!    nothing changes. Needs only grow meanwhile, so it ends, or it is too much for the link.
//! 2. The interval leaves a read batch a quarter more time than is reckoned, and the slack.
//!    Intervals are 1, 2, 5 ms and so on. Of those that are long enough, also for messages that
//!    leave at parts of an interval, it is the one with the shortest epoch: a commit that takes a
//!    little longer than an interval takes two of them.

use std::sync::Arc;

use crate::args::ShapeArgs;
use bytesize::ByteSize;
use fogbank::config::StoreConfig;
use fogbank::limits;
use fogbank::link::LinkArgs;
use fogbank::plan::machine;
use fogbank::plan::time::{Epoch, Machine};
use fogbank::traffic::Traffic;
use fogbank::{Error, Result};
use fogbank_env::Clock;

use super::need::{Arrivals, Need, capacity, coarse};
use super::seen::Seen;

const HEAD_ROOM: f64 = 1.25;
/// Below it the system's timers are what is measured.
const INTERVAL_MS_MIN: f64 = 5.0;
const STEPS_TRIED: usize = 4;
const BATCH_MAX: usize = *limits::BATCH.end();
const TRIES_MAX: usize = 50;
/// An epoch to begin with, in seconds.
const FIRST_EPOCH_S: f64 = 0.05;

/// A configuration, and what is expected of it.
pub struct Proposal {
    /// The public configuration.
    pub config: StoreConfig,
    /// How long its epochs take.
    pub epoch: Epoch,
    /// Transactions that an epoch is to take, on average.
    pub transactions: f64,
    /// Bytes that an epoch moves, both ways.
    bytes: f64,
    together: bool,
    flags: Vec<String>,
}

impl Proposal {
    /// For transactions as they were `seen`, which come as `arrivals`, on a store of `records`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the link does not carry what arrives.
    pub fn of(
        seen: &Seen,
        (arrivals, records): (Arrivals, u64),
        link: &LinkArgs,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let together = matches!(arrivals, Arrivals::Clients(_));
        let in_epoch = |epoch_s: f64| match arrivals {
            Arrivals::Clients(clients) => clients as f64,
            Arrivals::PerS(per_s) => per_s * epoch_s,
        };
        let mut transactions = in_epoch(FIRST_EPOCH_S);
        let mut need = Need::of(seen, transactions, together);
        let fits = |need: &Need| {
            let most = BATCH_MAX.min(limits::EPOCH_READS_MAX / need.read_batches.max(1));
            match need.batch.max(need.write_batch) {
                blocks if blocks > most => Err(too_many(arrivals, (blocks, most), link)),
                _ => Ok(()),
            }
        };
        fits(&need)?;
        let records = capacity(seen, records, need.value_bytes);
        let machine = machine::tried(clock, &config(&need, records, 0, link)?);
        for _ in 0..TRIES_MAX {
            let timed = Self::timed((&need, records), link, &machine, transactions)?;
            let Some(proposal) = timed else { return Err(too_slow(&need, link)) };
            transactions = in_epoch(proposal.epoch.total_s);
            let next = need.max(Need::of(seen, transactions, together));
            if next == need {
                let flags = flags(&proposal.config, !link.is_instant())?;
                return Ok(Self { transactions, together, flags, ..proposal });
            }
            fits(&next)?;
            need = next;
        }
        Err(too_many(arrivals, (need.batch.max(need.write_batch), BATCH_MAX), link))
    }

    /// With the interval that makes the shortest epoch; none if none that may be is long enough.
    fn timed(
        (need, records): (&Need, u32),
        link: &LinkArgs,
        machine: &Machine,
        transactions: f64,
    ) -> Result<Option<Self>> {
        let free = config(need, records, 0, link)?;
        let least_s = Epoch::of(&free, &Traffic::of(&free)?, link, machine).read_batch_s;
        let slack_s = free.proxy_settings().slack.as_secs_f64();
        let mut interval_ms = (HEAD_ROOM * (least_s + slack_s) * 1e3).max(INTERVAL_MS_MIN);
        let batches = need.read_batches as u64 + 1;
        let longest_ms = (limits::EPOCH_MS_MAX / batches).min(*limits::INTERVAL_MS.end()) as f64;
        let mut best: Option<Self> = None;
        for _ in 0..STEPS_TRIED {
            interval_ms = coarse(interval_ms);
            if interval_ms > longest_ms {
                break;
            }
            let config = config(need, records, interval_ms as u64, link)?;
            let traffic = Traffic::of(&config)?;
            let epoch = Epoch::of(&config, &traffic, link, machine);
            let bytes = traffic.bytes_read(&config) + traffic.bytes_written(&config);
            let fits = epoch.read_batch_s + slack_s <= interval_ms / 1e3;
            if fits && best.as_ref().is_none_or(|best| epoch.total_s < best.epoch.total_s) {
                let (together, flags) = (false, Vec::new());
                best = Some(Self { config, epoch, transactions, bytes, together, flags });
            }
            interval_ms += 1.0;
        }
        Ok(best)
    }

    /// Bytes a second on the link, both ways.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes / self.epoch.total_s
    }

    /// Milliseconds from a transaction to its answer: the mean, and the longest of those that need
    /// one attempt. Clients that wait come back when an epoch was answered and need one more;
    /// others come at a moment of an epoch and are answered at its end, or at that of the next one.
    pub fn latency_ms(&self) -> (f64, f64) {
        let epochs = if self.together { 1.0 } else { 1.5 };
        (epochs * 1e3 * self.epoch.total_s, 2e3 * self.epoch.total_s)
    }

    /// What to type to make such a store.
    pub fn flags(&self) -> &[String] {
        &self.flags
    }
}

/// What was chosen, and of the rest what a new store `across` a link, or on the local disk, would
/// have otherwise.
///
/// # Errors
/// [`Error::Usage`] for a shape out of its limits.
pub fn flags(config: &StoreConfig, across: bool) -> Result<Vec<String>> {
    let all = config.shape();
    let chosen = ShapeArgs {
        capacity: all.capacity,
        value_size: all.value_size,
        read_batches: all.read_batches,
        batch: all.batch,
        write_batch: all.write_batch,
        interval_ms: all.interval_ms,
        ..ShapeArgs::default()
    };
    let usual = StoreConfig::derive_at(&chosen, across, across)?.shape();
    let typed = ShapeArgs {
        in_flight: unless(all.in_flight, usual.in_flight),
        windows: unless(all.windows, usual.windows),
        cache: unless(all.cache, usual.cache),
        bucket_reals: unless(all.bucket_reals, usual.bucket_reals),
        bucket_dummies: unless(all.bucket_dummies, usual.bucket_dummies),
        evict_every: unless(all.evict_every, usual.evict_every),
        leaf_level: unless(all.leaf_level, usual.leaf_level),
        xor: unless(all.xor, usual.xor),
        ..chosen
    };
    Ok(typed.flags())
}

fn unless<T: PartialEq>(ours: Option<T>, usual: Option<T>) -> Option<T> {
    if ours == usual { None } else { ours }
}

/// What arrives does not fit epochs, of which it would need batches of so many blocks.
fn too_many(arrivals: Arrivals, (blocks, most): (usize, usize), link: &LinkArgs) -> Error {
    Error::Usage(match arrivals {
        Arrivals::PerS(per_s) => format!(
            "{per_s:.0} transactions a second are more than one proxy serves over this link ({}): \
             they need batches of {blocks} or more, where {most} is the most; lower the rate \
             (--rate), or take a nearer store (--rtt-ms, --up-mb-s, --down-mb-s)",
            link.words()
        ),
        Arrivals::Clients(clients) => format!(
            "{clients} clients at once need batches of {blocks}, and {most} is the most: give \
             fewer (--clients)"
        ),
    })
}

/// No interval is long enough.
fn too_slow(need: &Need, link: &LinkArgs) -> Error {
    Error::Usage(format!(
        "a batch of {} and a write batch of {} take too long over this link ({}), for an epoch has \
         two hours at the most: take a nearer or wider one (--rtt-ms, --up-mb-s, --down-mb-s), or \
         fewer transactions (--clients, --rate)",
        need.batch,
        need.write_batch,
        link.words()
    ))
}

fn config(need: &Need, capacity: u32, interval_ms: u64, link: &LinkArgs) -> Result<StoreConfig> {
    let shape = ShapeArgs {
        capacity: Some(capacity),
        value_size: Some(ByteSize::b(need.value_bytes)),
        read_batches: Some(need.read_batches),
        batch: Some(need.batch),
        write_batch: Some(need.write_batch),
        interval_ms: Some(interval_ms),
        ..ShapeArgs::default()
    };
    // Whether cells are combined follows from where the store is, which a link tells here.
    let across = !link.is_instant();
    StoreConfig::derive_at(&shape, across, across)
}
