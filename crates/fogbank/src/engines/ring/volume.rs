//! A volume of the engine `ring`: the epochs of a store of keys, whose records are the blocks.
//!
//! Epochs run whether there is work or not, so neither how much is asked for nor when is seen. An
//! access waits for the end of its epoch. Journal, commits, recovery and pace are those of any
//! store: see `open`, and `fogbank_txn::Ticker` for what makes accesses of it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use bytesize::ByteSize;
use fogbank_env::within;
use fogbank_txn::{BLOCK_KEY_BYTES, Ticker, Uptime};
use serde::{Deserialize, Serialize};

use super::NAME;
use crate::args::ShapeArgs;
use crate::config::StoreConfig;
use crate::engines::{NewVolume, VolumeEngine, VolumeOpening, VolumeTail, decode};
use crate::error::{Error, Result};
use crate::limits;
use crate::object_default::interval_for;
use crate::plan::Plan;
use crate::plan::bill::Bill;
use crate::plan::lines::{Line, of_store, when};
use crate::plan::requests::Requests;
use crate::plan::time::Machine;
use crate::plan::volume::{VolumePlan, VolumeSite};
use crate::traffic::Traffic;
use crate::volume::{CACHE, CACHE_BYTES, Flag, Flow, OF_EPOCHS, Volume, VolumeShape};

/// The entry.
pub(crate) static ENGINE: VolumeEngine = VolumeEngine {
    name: NAME,
    about: "Obladi: accesses wait for the epochs, which come at one pace whether there are any \
            or not",
    flags: &[&CACHE, &INTERVAL_MS, &READ_BATCHES, &BATCH, &WRITE_BATCH],
    flow: OF_EPOCHS,
    has_two_clouds: false,
    no_other_flow: "has epochs of one rate and shape whatever is asked",
    no_record: None,
    new: |volume| Ok(Arc::new(RingVolume::new(volume)?)),
    decode: decode::<RingVolume>,
};

// The defaults are for trying things out: blocks cost ten to twenty times their size, all day.
static INTERVAL_MS: Flag = Flag {
    name: "interval-ms",
    value_name: "MS",
    about: "Milliseconds between batches. An access is answered one to two epochs later, which are \
            --read-batches + 1 of these; 0 as for serve (benchmarks only) [100]",
    parse: |typed| within(limits::INTERVAL_MS)(typed),
};
/// An access depends on no other, so one batch brings all that an epoch reads, and soonest.
static READ_BATCHES: Flag = Flag {
    name: "read-batches",
    value_name: "R",
    about: "Read batches an epoch [1]",
    parse: |typed| count(limits::READ_BATCHES, typed),
};
static BATCH: Flag = Flag {
    name: "batch",
    value_name: "N",
    about: "Blocks that a read batch reads [32]",
    parse: |typed| count(limits::BATCH, typed),
};
static WRITE_BATCH: Flag = Flag {
    name: "write-batch",
    value_name: "N",
    about: "Blocks that an epoch writes [32]",
    parse: |typed| count(limits::WRITE_BATCH_SERVED, typed),
};

fn count(limits: RangeInclusive<usize>, typed: &str) -> std::result::Result<u64, String> {
    within(limits)(typed).map(|count| count as u64)
}

/// The slack before a message is reckoned by the block of a batch, whatever its size: copying more
/// than so many bytes of each would outlast it, and the message would leave at a later point.
const BLOCK_BYTES_MAX: usize = 64 << 10;

/// What the commit record says of it. Public.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RingVolume {
    /// The store of which it is made.
    epochs: StoreConfig,
}

impl RingVolume {
    /// Of a new volume: where requests are charged for, epochs come as often as a month of them
    /// costs little, unless it was said how often.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is out of its limits.
    fn new(volume: &NewVolume<'_>) -> Result<Self> {
        let NewVolume { shape: VolumeShape { blocks, block_bytes }, flags, url, .. } = *volume;
        if block_bytes > BLOCK_BYTES_MAX {
            return Err(Error::Usage(format!(
                "--block {block_bytes}: blocks of the engine ring have at most 64 KiB"
            )));
        }
        let capacity = Ticker::capacity_for(blocks);
        if !limits::CAPACITY.contains(&capacity) {
            return Err(Error::Usage(format!(
                "--size: {blocks} blocks are more than the engine ring takes; give larger ones \
                 with --block"
            )));
        }
        let count = |flag, usual| Some(flags.get(flag).map_or(usual, |count| count as usize));
        let said = flags.get(&INTERVAL_MS);
        let shape = ShapeArgs {
            capacity: Some(capacity),
            value_size: Some(ByteSize(block_bytes as u64)),
            read_batches: count(&READ_BATCHES, 1),
            batch: count(&BATCH, 32),
            write_batch: count(&WRITE_BATCH, 32),
            interval_ms: Some(said.unwrap_or(100)),
            cache: Some(ByteSize(flags.get(&CACHE).unwrap_or(CACHE_BYTES))),
            ..ShapeArgs::default()
        };
        let epochs = StoreConfig::derive(&shape, false)?;
        let epochs = StoreConfig { key_budget: BLOCK_KEY_BYTES, ..epochs };
        let interval_ms = said.map_or_else(|| interval_for(&epochs, url), Ok)?;
        Ok(Self { epochs: StoreConfig { interval_ms, ..epochs } })
    }
}

#[async_trait]
impl VolumeTail for RingVolume {
    fn block_bytes(&self) -> Option<usize> {
        Some(self.epochs.value_size)
    }

    fn check(&self, _shape: VolumeShape) -> Result<()> {
        self.epochs.check()?;
        self.epochs.check_served()
    }

    /// Bytes a second, once every bucket is written.
    fn traffic(&self, _shape: VolumeShape, flow: Flow) -> Result<Vec<Line>> {
        let epochs = &self.epochs;
        let traffic = Traffic::of(epochs)?;
        let (up, down) = (traffic.bytes_written(epochs) / 1e6, traffic.bytes_read(epochs) / 1e6);
        let (reads, writes) = (epochs.read_batches * epochs.batch, epochs.write_batch);
        let said = match (epochs.read_batches as u64 + 1) * epochs.interval_ms {
            0 => format!(
                "epochs back to back, {reads} blocks read and {writes} written in each, {up:.2} MB \
                 up and {down:.2} MB down; their pace shows how busy the proxy is"
            ),
            ms => format!(
                "epochs of {ms} ms, at most {reads} blocks read and {writes} written in each, \
                 {:.2} MB/s up and {:.2} MB/s down, {}",
                up * 1000.0 / ms as f64,
                down * 1000.0 / ms as f64,
                when(flow.rest_after.is_some())
            ),
        };
        Ok(vec![("traffic", said)])
    }

    fn cost(&self, _shape: VolumeShape, flow: Flow, url: &str) -> Result<Vec<Line>> {
        Ok(of_store(&self.epochs, url, flow.rest_after.is_some()))
    }

    /// As much as its epochs carry.
    fn plan(&self, _shape: VolumeShape, _flow: Flow, site: &VolumeSite<'_>) -> Result<VolumePlan> {
        let (epochs, VolumeSite { url, prices, link, .. }) = (&self.epochs, *site);
        let plan = Plan::of(epochs, link, &Machine::IDEAL)?;
        let requests = Requests::of(epochs, &plan.traffic, url);
        let each = 1.0 / plan.accesses;
        let vault = epochs.vault_settings()?;
        let epoch_reads = plan.traffic.bytes_read(epochs);
        let full_every = vault.full_every as f64;
        let deltas = full_every * plan.traffic.delta_bytes;
        let full = plan.traffic.full_bytes * full_every;
        Ok(VolumePlan {
            leaves_as_it_comes: false,
            memory_bytes: plan.proxy_bytes,
            storage_bytes: plan.storage_bytes,
            trusted_bytes: 0.0,
            checkpoint_bytes: full,
            up_bytes: each * plan.traffic.bytes_written(epochs),
            down_bytes: each * epoch_reads,
            reads: each * requests.gets,
            writes: each * requests.puts,
            answer_s: plan.latency_s().0,
            per_s: Some(plan.accesses / plan.epoch.total_s),
            recovery_bytes: full + deltas + epoch_reads,
            recovery_accesses: 0.0,
            disk_bytes: 0.0,
            bill: Bill::of_epochs(epochs, &plan, &requests, prices),
            two_clouds: None,
        })
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let VolumeOpening { options, sides, mut config, flow, is_new } = opening;
        let mut epochs = self.epochs.clone();
        if is_new {
            // Across a link: what that saves is bytes of the link.
            epochs.xor = sides.bare.xor().is_some() && options.across_a_link();
            config = config.with_tail(Arc::new(Self { epochs: epochs.clone() }));
        }
        let options = match flow.rest_after {
            Some(linger) => options.uptime(Uptime::WhilePresent { linger }),
            None => options,
        };
        let clock = sides.clock.clone();
        let opened = options.open_as(sides, epochs, config.encode()).await?;
        let ticker = Ticker::new(opened.proxy(), config.blocks())?.with_vault(opened.vault.clone());
        let recovered = opened.recovered();
        Ok(Volume {
            engine: Arc::new(ticker),
            config,
            clock,
            replayed: recovered.epochs_replayed + recovered.batches_repeated,
            register: opened.register().to_owned(),
            recording: opened.recording,
            _lock: opened._lock,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Flags;

    fn new(block_bytes: usize, flags: &Flags, url: &str) -> Result<RingVolume> {
        RingVolume::new(&NewVolume {
            shape: VolumeShape { blocks: 1 << 10, block_bytes },
            flags,
            second_store: None,
            url,
        })
    }

    #[test]
    fn long_blocks_are_refused() {
        for (block_bytes, fits) in [(64 << 10, true), (128 << 10, false)] {
            let made = new(block_bytes, &Flags::default(), "file:///x");
            assert_eq!(made.is_ok(), fits, "{block_bytes}");
        }
    }

    #[test]
    fn epochs_come_seldom_where_each_is_charged_for() {
        let interval_ms = |url, flags| new(4096, &flags, url).unwrap().epochs.interval_ms;
        let usual = interval_ms("file:///x", Flags::default());
        assert!(interval_ms("s3://b", Flags::default()) > 10 * usual);
        assert_eq!(interval_ms("s3://b", Flags::default().with(&INTERVAL_MS, 50)), 50);
    }
}
