//! `multicloud` beside the others: a client and two real `fogbank-cloud` processes on this machine,
//! each with TLS, and links between them that are played (`relay`), or made by the kernel where it
//! lets this program have a network of its own (`kernel`).
//!
//! 1. Two servers begin, beside this program's binary; they end with the run. With `--sparse` they
//!    run within this program, and have what nobody wrote (`sparse`).
//! 2. Every block is written once, and a quarter more, over links that take everything at once.
//!    With `--sparse` all blocks are there as it is.
//! 3. The client's link is what `--rtt-ms`, `--up-mb-s` and `--down-mb-s` say, both servers sharing
//!    it; what the servers send each other has `--between-mb-s` each way. Then clients run.
//!
//! Messages are counted by what they are for (`parts`), journal and checkpoints on the trusted
//! disk, and on the links every byte: what is left is framing, TLS among it, and commit records.

mod ground;
mod kernel;
mod pair;
mod parts;
mod relay;
mod server;
mod sparse;
#[cfg(test)]
mod virtual_time;

use std::sync::Arc;
use std::time::Duration;

use fogbank::{Error, Result};
use fogbank_oram::multicloud::MulticloudSettings;
use fogbank_process::say;
use serde_json::json;

pub use self::kernel::KernelLink;
pub use self::pair::{Links, Made, Measured, Pair};
pub use self::parts::{PARTS, REFRESH};
use super::asked::Asked;

/// Measures it with so much memory and every number of clients, the servers' link being the
/// kernel's if there is one.
///
/// # Errors
/// [`Error::Usage`] for what it cannot be measured with; [`Error::CannotUse`] if servers cannot be
/// begun; those of accesses.
pub async fn measure(
    asked: &Asked,
    cache_bytes: u64,
    kernel: &Option<Arc<KernelLink>>,
) -> Result<()> {
    if asked.site.disks.is_some() {
        let why = "--disks is not for multicloud, whose clouds are real servers";
        return Err(Error::Usage(why.into()));
    }
    let usual = MulticloudSettings::with_cache(asked.shape, cache_bytes)?;
    let settings = MulticloudSettings {
        quantum: Duration::from_micros(asked.args.quantum_us),
        under_way_max: asked.clients.iter().copied().max().unwrap_or(0),
        ..usual
    };
    let between = asked.args.between_mb_s.map(|mb| (mb * 1e6) as u64);
    let made = Made { settings, seed: asked.args.seed, is_sparse: asked.site.is_sparse };
    let pair = Pair::load(made, kernel.clone()).await?;
    let links = Links { client: asked.link, between };
    for (number, clients) in (1..).zip(&asked.clients) {
        let measured = pair.measure((number, *clients), links, asked.args.seconds).await?;
        say_point(asked, (*clients, cache_bytes), (&measured, pair.reckoned_between()?));
    }
    pair.close().await
}

/// Prints a point: blocks of an access, by parts, and on the wire.
fn say_point(
    asked: &Asked,
    (clients, cache_bytes): (usize, u64),
    (measured, reckoned): (&Measured, f64),
) {
    let Measured { parts, disk, up, down, between, .. } = measured;
    let block = asked.shape.value_bytes as f64;
    let (per_s, mean) = (measured.per_s(), measured.answers.latencies.mean() / 1e6);
    let (p99, max) = (measured.ms(0.99), measured.ms(1.0));
    let (told, framing) = (measured.told(), measured.framing());
    say!(
        "{:<11} {clients:>7} {per_s:>11.1} {:>8.2} {mean:>9.1} {p99:>9.1} {max:>9.1}",
        "multicloud",
        per_s * block / 1e6
    );
    let of_parts: Vec<String> =
        PARTS.iter().zip(parts).map(|(name, blocks)| format!("{name} {blocks:.3}")).collect();
    say!("            blocks of an access, client: {told:.3} ({})", of_parts.join(", "));
    say!(
        "            with framing {framing:.3}, on the wire: {:.3} ({up:.3} up, {down:.3} down); \
         between the clouds: {between:.2} ({reckoned:.2} reckoned); journal and checkpoints, on \
         the trusted disk: {disk:.2}",
        up + down
    );
    if asked.args.json {
        let parts: serde_json::Map<_, _> =
            PARTS.iter().zip(parts).map(|(name, blocks)| ((*name).into(), json!(blocks))).collect();
        let figures = json!({
            "engine": "multicloud", "block_bytes": block, "clients": clients, "seconds": measured.answers.seconds,
            "ops_per_s": per_s, "latency_ms_mean": mean, "latency_ms_p99": p99,
            "latency_ms_max": max, "client_blocks_per_op": told, "parts_blocks_per_op": parts,
            "disk_blocks_per_op": disk, "framing_blocks_per_op": framing,
            "wire_up_blocks_per_op": up, "wire_down_blocks_per_op": down,
            "between_blocks_per_op": between, "reckoned_between_blocks_per_op": reckoned, "link": asked.args.link.words(),
            "between_mb_s": asked.args.between_mb_s, "blocks": asked.shape.capacity,
            "sparse": asked.site.is_sparse, "cache": cache_bytes,
        });
        say!("{figures}");
    }
}
