//! What all volumes share whose engine serves accesses as they come: they are checked, opened and
//! described alike.
//!
//! Whatever leaves does so at points of a grid, so that its moment does not tell how long the proxy
//! worked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::{Register, VaultSettings};
use fogbank_oram::immediate::{LinkRate, Parts, Rate, ShellSettings, Traffic};
use fogbank_oram::{ImmediateEngine, ProxyMemory};
use fogbank_store::{DepartureGrid, GridStore, Store};

use super::VolumeOpening;
use crate::error::{Error, Result};
use crate::open::{Side, Sides};
use crate::plan::bill::Bill;
use crate::plan::lines::Line;
use crate::plan::volume::{VolumePlan, VolumeSite};
use crate::registers::RegisterPlace;
use crate::volume::{Flow, Volume};

/// Bytes of what is written that are under way where the store is near, and across a network.
pub(super) struct Behind {
    near: u64,
    across: u64,
}

/// A few messages; of a network nothing is known: what 50 MB/s carry in 20 ms.
pub(super) const WRITE_BACKS: Behind = Behind { near: 8 << 20, across: 1 << 20 };
/// A job that is written at once writes up to 8 MiB, and others wait for it.
pub(super) const JOBS: Behind = Behind { near: 32 << 20, across: 4 << 20 };

/// The quantum is the volume's own, so it is not for whoever chooses a rate to remember.
pub(super) fn check(shell: &ShellSettings, group_max: usize, traffic: Traffic) -> Result<()> {
    let quantum = shell.quantum.as_nanos() as u64;
    let most = group_max.min(shell.under_way_max);
    if shell.pace != LinkRate::default() && quantum == 0 {
        return Err(Error::Usage(
            "--send-mb-s and --receive-mb-s are for volumes that send at points of a grid; this \
             one was made with --quantum-us 0: leave them out"
                .into(),
        ));
    }
    match shell.rate {
        Some(rate) if rate.accesses > most => Err(Error::Usage(format!(
            "--fixed-rate: at most {most} accesses leave at a tick, so {} a second with --tick-ms \
             {}",
            most as u64 * 1_000_000_000 / rate.interval,
            rate.interval / 1_000_000
        ))),
        Some(rate) if quantum > 0 && !rate.interval.is_multiple_of(quantum) => {
            Err(Error::Usage(format!(
                "this volume sends at multiples of {:?}, which --tick-ms {} is not; choose one \
                 that is",
                shell.quantum,
                rate.interval / 1_000_000
            )))
        }
        Some(rate) => fits_the_pace(shell, traffic, rate),
        None => Ok(()),
    }
}

/// A rate that moves more than the link carries is none: most ticks would pass without accesses.
fn fits_the_pace(shell: &ShellSettings, traffic: Traffic, rate: Rate) -> Result<()> {
    let per_s = rate.accesses as f64 * 1e9 / rate.interval as f64;
    let LinkRate { up_bytes_per_s, down_bytes_per_s } = shell.pace;
    for (flag, carries, each) in [
        ("--send-mb-s", up_bytes_per_s, traffic.up_bytes),
        ("--receive-mb-s", down_bytes_per_s, traffic.down_bytes),
    ] {
        let Some(carries) = carries.map(|bytes| bytes as f64).filter(|c| *c < per_s * each) else {
            continue;
        };
        let ticks_per_s = 1e9 / rate.interval as f64;
        let fits = (carries / each / ticks_per_s).floor() * ticks_per_s;
        let advice = match fits {
            0.0 => "a longer --tick-ms".to_owned(),
            fits => format!("a rate of at most {fits}"),
        };
        return Err(Error::Usage(format!(
            "--fixed-rate: {per_s} accesses a second move up to {:.3} MB/s and {flag} says {:.3}; \
             give {advice}, or a faster link",
            per_s * each / 1e6,
            carries / 1e6
        )));
    }
    Ok(())
}

/// Bytes of what is written that are to be under way.
pub(super) fn write_behind(opening: &VolumeOpening, usual: &Behind) -> usize {
    let usual = if opening.options.across_a_link() { usual.across } else { usual.near };
    opening.flow.write_behind.unwrap_or(usual) as usize
}

/// What the cloud sees where there may be a fixed rate.
pub(super) const HOW_MANY: &str = "the cloud sees how many blocks you ask for, and when; volume \
                                   serve --fixed-rate N hides it";

/// What the volume takes there, and bytes that a block of a busy one moves, or bytes a second at a
/// fixed rate: in lines of a banner.
pub(super) fn traffic(
    traffic: Traffic,
    storage_bytes: u64,
    flow: Flow,
    seen: &'static str,
) -> Vec<Line> {
    let gb = storage_bytes as f64 / 1e9;
    let storage = format!("up to {gb:.2} GB at the cloud side, once the volume is full");
    let mut lines = vec![("storage", storage)];
    let Traffic { up_bytes, down_bytes } = traffic;
    match flow.rate {
        None => {
            let (up, down) = (up_bytes / 1e3, down_bytes / 1e3);
            lines.push((
                "traffic",
                format!("every block you ask for sends {up:.0} KB and receives {down:.0} KB"),
            ));
            lines.push(("seen", seen.into()));
        }
        Some(Rate { interval, accesses }) => {
            let per_s = accesses as f64 * 1e9 / interval as f64;
            let (up, down) = (per_s * up_bytes / 1e6, per_s * down_bytes / 1e6);
            let ms = interval / 1_000_000;
            lines.push((
                "fixed rate",
                format!(
                    "{accesses} accesses every {ms} ms, {up:.2} MB/s up and {down:.2} MB/s down, \
                     used or not"
                ),
            ));
        }
    }
    lines
}

/// What an engine of this kind reckons of itself.
pub(super) struct Reckoned<'a> {
    pub shell: &'a ShellSettings,
    pub memory: ProxyMemory,
    pub storage_bytes: u64,
    pub checkpoint_bytes: u64,
    /// Accesses from one to the next.
    pub checkpoint_every: u64,
    pub traffic: Traffic,
    pub requests: Requests,
    /// Of journal and checkpoints where these stay on the trusted disk.
    pub kept: Option<KeptApart>,
}

/// What is on the trusted disk and not in a cloud.
pub(super) struct KeptApart {
    /// All of it, at most.
    pub bytes: u64,
    /// What a recovery reads of the journal.
    pub journal_bytes: u64,
    /// What an access writes there.
    pub written_bytes: f64,
}

/// Requests of an access: how many, and how many a cloud counts where it charges by size.
pub(super) struct Requests {
    /// Reads, and writes.
    pub made: (f64, f64),
    /// The same as they are charged.
    pub charged: (f64, f64),
}

/// The plan of a volume: its access waits for its record and for what it reads.
pub(super) fn plan(reckoned: &Reckoned<'_>, site: &VolumeSite<'_>) -> VolumePlan {
    let Reckoned { shell, memory, traffic, requests, .. } = reckoned;
    let Traffic { up_bytes, down_bytes } = *traffic;
    let VolumeSite { prices, link, .. } = *site;
    let (gets, puts) = requests.charged;
    let access = prices.of(gets, puts, puts, down_bytes);
    let storage_bytes = reckoned.storage_bytes as f64;
    let bill = Bill::of_accesses(access, up_bytes, shell.rate, prices.storage_usd(storage_bytes));
    let trip_s = |takes_ms: f64| {
        let trip_s = (link.rtt_ms + link.jitter_ms / 2.0 + takes_ms) / 1e3;
        let point_s = shell.quantum.as_secs_f64();
        if point_s > 0.0 { (trip_s / point_s).ceil() * point_s } else { trip_s }
    };
    let carried = |mb_s: Option<f64>, bytes: f64| mb_s.map(|mb_s| mb_s * 1e6 / bytes);
    let per_s = [carried(link.up_mb_s, up_bytes), carried(link.down_mb_s, down_bytes)];
    // What came since the last checkpoint but one is done again.
    let since = 2.0 * reckoned.checkpoint_every as f64;
    let replayed = match &reckoned.kept {
        None => since * down_bytes,
        Some(kept) => kept.journal_bytes as f64,
    };
    VolumePlan {
        leaves_as_it_comes: true,
        memory_bytes: memory.total(),
        storage_bytes,
        trusted_bytes: reckoned.kept.as_ref().map_or(0.0, |kept| kept.bytes as f64),
        checkpoint_bytes: reckoned.checkpoint_bytes as f64,
        up_bytes,
        down_bytes,
        reads: requests.made.0,
        writes: requests.made.1,
        answer_s: trip_s(link.write_ms) + trip_s(link.read_ms),
        per_s: per_s.into_iter().flatten().reduce(f64::min),
        recovery_bytes: reckoned.checkpoint_bytes as f64 + replayed,
        recovery_accesses: since,
        disk_bytes: reckoned.kept.as_ref().map_or(0.0, |kept| kept.written_bytes),
        bill,
        two_clouds: None,
    }
}

/// Why no trace is written. An auditor predicts what leaves at each moment from what has come.
pub(super) const NO_RECORD: Option<&str> = Some(
    "no auditor could follow the trace: what this engine sends depends on how long the proxy \
     works, which a trace by a real clock does not tell; make test holds what it sends to its \
     specification in virtual time",
);

/// An engine that is being opened.
pub(super) type Opening<'a, E> = Pin<Box<dyn Future<Output = fogbank_oram::Result<E>> + Send + 'a>>;

/// Opens a volume, however it was left: its vault, then its `engine`.
pub(super) async fn open<E: ImmediateEngine + 'static>(
    opening: VolumeOpening,
    vault: (VaultSettings, Duration),
    engine: impl for<'a> FnOnce(Parts<'a>) -> Opening<'a, E> + Send,
) -> Result<Volume> {
    open_with(opening, vault, |paced| paced, |register, _| register, engine).await
}

/// The same; the vault's blobs lie in what `of_vault` makes of the store, and its register is what
/// `of_register` makes of it.
pub(super) async fn open_with<E: ImmediateEngine + 'static>(
    opening: VolumeOpening,
    (settings, quantum): (VaultSettings, Duration),
    of_vault: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send,
    of_register: impl FnOnce(Arc<dyn Register>, DepartureGrid) -> Arc<dyn Register> + Send,
    engine: impl for<'a> FnOnce(Parts<'a>) -> Opening<'a, E> + Send,
) -> Result<Volume> {
    let VolumeOpening { options, sides, config, .. } = opening;
    let Sides { lock, bare, clock, claimed } = sides;
    let randomness = options.randomness()?;
    let kept = RegisterPlace::of(options.place())?;
    let side = Side { clock: &clock, lock: &lock, randomness: &randomness, kept: &kept };
    let grid = DepartureGrid::new(clock.clone(), quantum);
    let paced = Arc::new(GridStore::new(bare.clone(), grid.clone()));
    let told = (config.encode(), settings);
    let of_register = |register| of_register(register, grid.clone());
    let vault = options.vault(of_vault(paced), claimed.as_deref(), told, side, of_register);
    let (vault, recovered) = vault.await?;
    let replayed = recovered.records as usize;
    let parts = Parts {
        store: bare,
        vault,
        recovered,
        random: &randomness,
        grid,
        progress: &|done, of| {
            if of > 0 && (done % 1024 == 0 || done == of) {
                tracing::info!("the volume was not closed: {done} of {of} accesses replayed");
            }
        },
    };
    let engine = Arc::new(engine(parts).await?);
    let register = kept.describe();
    Ok(Volume { engine, config, clock, replayed, register, recording: None, _lock: lock })
}
