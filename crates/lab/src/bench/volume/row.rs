//! What one engine came to with so many clients: for people, for programs, and for figures.

use fogbank::{Error, Result};
use serde_json::{Value, json};

use super::lane::Measured;

/// Figures of a point. Bytes are those of an access, as they were counted at the store.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Clients.
    pub clients: usize,
    /// Accesses a second.
    pub per_s: f64,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Milliseconds to an answer: the mean, the 99th percentile and the longest.
    pub mean_ms: f64,
    /// See above.
    pub p99_ms: f64,
    /// See above.
    pub max_ms: f64,
    /// What is read for accesses.
    pub queries: f64,
    /// What is read to be shuffled, and for nothing else.
    pub shuffles_down: f64,
    /// What is written shuffled, or written back.
    pub shuffles_up: f64,
    /// Records of the journal.
    pub journal: f64,
    /// Checkpoints.
    pub checkpoints: f64,
    /// Places that a disk went to.
    pub seeks: f64,
    /// Checkpoints meanwhile.
    pub checkpoint_count: u64,
    /// Orders that shuffling was behind before, and afterwards.
    pub debt: Option<(u64, u64)>,
}

/// The columns of [`Row::line`].
pub const HEAD: &str = "engine      clients  accesses/s     MB/s   ms mean    ms p99    ms max  KB \
                        down: queries shuffles   KB up: shuffles  journal checkpoints";

impl Row {
    /// Of what was measured.
    ///
    /// # Errors
    /// [`Error::TooFewData`] if nobody was answered.
    pub fn of<S>(clients: usize, measured: &Measured<S>) -> Result<Self> {
        let Measured { answers, traffic, asked_bytes, seeks, debt, .. } = measured;
        let (latencies, seconds) = (&answers.latencies, answers.seconds);
        if latencies.is_empty() {
            return Err(Error::TooFewData(format!(
                "nobody was answered within {seconds} s: give more --seconds"
            )));
        }
        let ops = latencies.len() as f64;
        let each = |bytes: u64| bytes as f64 / ops;
        let queries = asked_bytes.unwrap_or(traffic.read).min(traffic.read);
        let beside = traffic.journal + traffic.checkpoints;
        let quantile = |share| latencies.value_at_quantile(share) as f64 / 1e6;
        Ok(Self {
            clients,
            per_s: ops / seconds,
            seconds,
            mean_ms: latencies.mean() / 1e6,
            p99_ms: quantile(0.99),
            max_ms: quantile(1.0),
            queries: each(queries),
            shuffles_down: each(traffic.read - queries),
            shuffles_up: each(traffic.written - beside),
            journal: each(traffic.journal),
            checkpoints: each(traffic.checkpoints),
            seeks: each(*seeks),
            checkpoint_count: measured.checkpoints,
            debt: *debt,
        })
    }

    /// Bytes of an access from the store.
    pub fn down(&self) -> f64 {
        self.queries + self.shuffles_down
    }

    /// Bytes of an access to the store.
    pub fn up(&self) -> f64 {
        self.shuffles_up + self.journal + self.checkpoints
    }

    /// A line under [`HEAD`], and one of disks and of what is left to be shuffled.
    pub fn line(&self, engine: &str, block_bytes: u64) -> String {
        let Self { clients, per_s, mean_ms, p99_ms, max_ms, .. } = self;
        let mb_s = per_s * block_bytes as f64 / 1e6;
        let kb = |bytes: f64| bytes / 1e3;
        let mut line = format!(
            "{engine:<11} {clients:>7} {per_s:>11.1} {mb_s:>8.2} {mean_ms:>9.1} {p99_ms:>9.1} \
             {max_ms:>9.1} {:>7.1}: {:>7.1} {:>8.1} {:>7.1}: {:>8.1} {:>8.1} {:>11.1}",
            kb(self.down()),
            kb(self.queries),
            kb(self.shuffles_down),
            kb(self.up()),
            kb(self.shuffles_up),
            kb(self.journal),
            kb(self.checkpoints),
        );
        if self.seeks > 0.0 {
            line += &format!("\n            seeks an access: {:.2}", self.seeks);
        }
        if let Some((before, after)) = self.debt {
            line +=
                &format!("\n            orders not carried out: {before} before, {after} after");
        }
        line
    }

    /// The same for programs.
    pub fn json(&self, engine: &str, block_bytes: u64) -> Value {
        json!({
            "engine": engine,
            "block_bytes": block_bytes,
            "clients": self.clients,
            "seconds": self.seconds,
            "ops_per_s": self.per_s,
            "mb_per_s": self.per_s * block_bytes as f64 / 1e6,
            "latency_ms_mean": self.mean_ms,
            "latency_ms_p99": self.p99_ms,
            "latency_ms_max": self.max_ms,
            "down_bytes_per_op": self.down(),
            "up_bytes_per_op": self.up(),
            "queries_bytes_per_op": self.queries,
            "shuffles_down_bytes_per_op": self.shuffles_down,
            "shuffles_up_bytes_per_op": self.shuffles_up,
            "journal_bytes_per_op": self.journal,
            "checkpoint_bytes_per_op": self.checkpoints,
            "seeks_per_op": self.seeks,
            "checkpoints": self.checkpoint_count,
            "orders_open_before": self.debt.map(|debt| debt.0),
            "orders_open_after": self.debt.map(|debt| debt.1),
        })
    }
}
