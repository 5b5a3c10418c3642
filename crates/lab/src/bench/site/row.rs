//! What a site came to with so many clients: for people, and for programs.

use fogbank::{Error, Result};
use serde_json::{Value, json};

use super::phases::NAMES;
use super::strain::Strain;
use super::warm::Measured;

/// Figures of a point. Bytes are those of a query, of all clients together.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    clients: usize,
    per_s: f64,
    seconds: f64,
    mean_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// Cells that queries touch, and those that builds read and write.
    cells: [f64; 2],
    /// Entries and results to the log, and from it to all clients.
    log: [f64; 2],
    tables: f64,
    builds: f64,
    superblocks: f64,
    built: f64,
    /// What a query waits for, and what is left for results and the grid.
    phases: [f64; NAMES.len() + 1],
    strain: Strain,
}

/// The columns of [`Row::line`].
pub const HEAD: &str = "clients  queries/s  ms mean   ms p99   ms max  cells: touched  built   \
                        KB: log up  log down  tables   builds  superblocks  largest table";

/// Beside a block, of a cell: its address, and a tag.
const BESIDE_BYTES: u32 = 4 + 16;

impl Row {
    /// Of what was measured.
    ///
    /// # Errors
    /// [`Error::TooFewData`] if nobody was answered.
    pub fn of(clients: usize, measured: &Measured, block_bytes: u32) -> Result<Self> {
        let Measured { answers, traffic, log, times, places, built, strain } = measured;
        let (latencies, seconds) = (&answers.latencies, answers.seconds);
        if latencies.is_empty() || *places == 0 {
            return Err(Error::TooFewData(format!(
                "nobody was answered within {seconds} s: give more --seconds"
            )));
        }
        let each = |bytes: u64| bytes as f64 / *places as f64;
        let cells = |bytes: u64| each(bytes) / f64::from(block_bytes + BESIDE_BYTES);
        let quantile = |share| latencies.value_at_quantile(share) as f64 / 1e6;
        let beside = traffic.cells + traffic.superblocks;
        let mut phases = [latencies.mean() / 1e6; NAMES.len() + 1];
        for (at, nanos) in times.nanos.iter().enumerate() {
            phases[at] = *nanos as f64 / 1e6 / times.count.max(1) as f64;
            phases[NAMES.len()] -= phases[at];
        }
        Ok(Self {
            clients,
            per_s: latencies.len() as f64 / seconds,
            seconds,
            mean_ms: latencies.mean() / 1e6,
            p99_ms: quantile(0.99),
            max_ms: quantile(1.0),
            cells: [cells(traffic.cells), cells(traffic.chunks)],
            log: log.map(each),
            tables: each(traffic.cells),
            builds: each((traffic.read + traffic.written).saturating_sub(beside)),
            superblocks: each(traffic.superblocks),
            built: *built,
            phases,
            strain: *strain,
        })
    }

    /// A line under [`HEAD`].
    pub fn line(&self) -> String {
        let Self { clients, per_s, mean_ms, p99_ms, max_ms, cells: [touched, built], .. } = self;
        let kb = |bytes: f64| bytes / 1e3;
        format!(
            "{clients:>7} {per_s:>10.1} {mean_ms:>8.1} {p99_ms:>8.1} {max_ms:>8.1} {touched:>15.1} \
             {built:>6.1} {:>12.1} {:>9.1} {:>7.1} {:>8.1} {:>12.2} {:>12.0} %",
            kb(self.log[0]),
            kb(self.log[1]),
            kb(self.tables),
            kb(self.builds),
            kb(self.superblocks),
            100.0 * self.built,
        )
    }

    /// What its queries wait for, on a line of its own.
    pub fn phases(&self) -> String {
        let each = |(name, ms): (&&str, &f64)| format!("{ms:.1} {name}");
        let each: Vec<String> =
            NAMES.iter().chain(&["for results"]).zip(&self.phases).map(each).collect();
        format!("        ms of a query: {}", each.join(", "))
    }

    /// What the machine had to do for all of it, and how late it was: where it is late, points of
    /// the grid are missed, as they would not be by clients with cores of their own.
    pub fn strain(&self) -> String {
        let [mean, p99] = self.strain.late_us.map(|us| us / 1e3);
        let took = self.processors().map_or(String::new(), |[cores, ms]| {
            let each = ms / self.clients as f64;
            format!("{cores:.2} cores, {ms:.2} ms of them a query ({each:.3} a client); ")
        });
        format!("        this machine: {took}woken {mean:.2} ms late, p99 {p99:.2}")
    }

    /// Cores that were kept busy, and milliseconds of them for each query.
    fn processors(&self) -> Option<[f64; 2]> {
        let seconds = self.strain.processor_s?;
        Some([seconds / self.seconds, 1e3 * seconds / self.seconds / self.per_s])
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        json!({
            "clients": self.clients,
            "seconds": self.seconds,
            "ops_per_s": self.per_s,
            "latency_ms_mean": self.mean_ms,
            "latency_ms_p99": self.p99_ms,
            "latency_ms_max": self.max_ms,
            "cells_touched_per_op": self.cells[0],
            "cells_built_per_op": self.cells[1],
            "log_up_bytes_per_op": self.log[0],
            "log_down_bytes_per_op": self.log[1],
            "tables_bytes_per_op": self.tables,
            "builds_bytes_per_op": self.builds,
            "superblocks_bytes_per_op": self.superblocks,
            "largest_table_built": self.built,
            "phases_ms": self.phases,
            "cores_busy": self.processors().map(|[cores, _]| cores),
            "processor_ms_per_op": self.processors().map(|[_, ms]| ms),
            "woken_late_us_mean": self.strain.late_us[0],
            "woken_late_us_p99": self.strain.late_us[1],
        })
    }
}
