//! One point of a sweep: its figures for people, for programs and for drawings.

use fogbank_oram::ImmediateShape;
use fogbank_oram::tao::{Stats, TaoSettings};
use serde_json::{Value, json};

use super::published::published;
use super::setting::Setting;
use crate::bench::volume::lane::Measured;

/// What was measured at one point.
#[derive(Debug, Clone)]
pub struct Point {
    /// Clients.
    pub clients: usize,
    /// k.
    pub write_back_every: u32,
    /// The cached levels as a share of the leaves, as the paper reckons it.
    pub cached_share: f64,
    /// Accesses a second.
    pub ops_per_s: f64,
    /// Mean response time.
    pub latency_ms: f64,
    /// The mean time of a path, the link between included.
    pub path_ms: f64,
    json: Value,
    row: String,
}

/// The columns of [`Point::row`].
pub const HEAD: &str = "clients    k   cached  accesses/s   ms mean   ms p99  ms a path  \
                        KB down    KB up";

/// The share of the leaves that the cached levels of these settings come to.
pub fn cached_share(settings: &TaoSettings) -> fogbank::Result<f64> {
    let geometry = settings.geometry()?;
    let cached = (1u64 << geometry.cached_levels) - 1;
    Ok(cached as f64 / (1u64 << geometry.leaf_level()) as f64)
}

impl Point {
    /// Of what was measured with `clients` and these settings.
    ///
    /// # Errors
    /// [`fogbank::Error::TooFewData`] if nobody was answered.
    pub fn of(
        profile: &str,
        setting: &Setting,
        (settings, clients): (&TaoSettings, usize),
        measured: &Measured<Stats>,
    ) -> fogbank::Result<Self> {
        let Measured { answers, traffic, path_ms, checkpoints, stats, .. } = measured;
        let (latencies, seconds) = (&answers.latencies, answers.seconds);
        if latencies.is_empty() {
            return Err(fogbank::Error::TooFewData(format!(
                "nobody was answered within {seconds} s: give more --seconds"
            )));
        }
        let geometry = settings.geometry()?;
        let ops = latencies.len() as f64;
        let ops_per_s = ops / seconds;
        let (latency_ms, p99) =
            (latencies.mean() / 1e6, latencies.value_at_quantile(0.99) as f64 / 1e6);
        let [down, up] = [traffic.read, traffic.written].map(|bytes| bytes as f64 / ops);
        let write_back_every = settings.write_back_every;
        let cached_share = cached_share(settings)?;
        let published = published(setting.paper, clients, write_back_every, cached_share);
        let ImmediateShape { capacity, value_bytes } = settings.shell.shape;
        let json = json!({
            "profile": profile,
            "link": setting.link_words,
            "blocks": capacity,
            "block_bytes": value_bytes,
            "clients": clients,
            "write_back_every": write_back_every,
            "cache": settings.cache_bytes,
            "cached_levels": geometry.cached_levels,
            "cached_share": cached_share,
            "seconds": seconds,
            "ops_per_s": ops_per_s,
            "ops_per_s_of_paper": published.ops_per_s,
            "latency_ms_mean": latency_ms,
            "latency_ms_mean_of_paper": published.latency_ms,
            "latency_ms_p99": p99,
            "path_ms_mean": path_ms,
            "path_ms_mean_of_paper_from_disk": published.path_ms,
            "up_bytes_per_op": up,
            "down_bytes_per_op": down,
            "path_bytes": geometry.path_bytes(),
            "stash_max": stats.secret.stash_max,
            "subtree_max": stats.subtree_max,
            "checkpoints": checkpoints,
        });
        let mut row = format!(
            "{clients:>7} {write_back_every:>4} {:>6.2} %  {ops_per_s:>10.2} {latency_ms:>9.2} \
             {p99:>8.2} {path_ms:>10.2} {:>8.1} {:>8.1}",
            cached_share * 100.0,
            down / 1e3,
            up / 1e3
        );
        if let (Some(ops), Some(ms)) = (published.ops_per_s, published.latency_ms) {
            row += &format!("  (the paper: {ops}/s, {ms} ms)");
        }
        let path_ms = *path_ms;
        Ok(Self {
            clients,
            write_back_every,
            cached_share,
            ops_per_s,
            latency_ms,
            path_ms,
            json,
            row,
        })
    }

    /// A line under [`HEAD`].
    pub fn row(&self) -> &str {
        &self.row
    }

    /// All figures.
    pub fn json(&self) -> &Value {
        &self.json
    }
}
