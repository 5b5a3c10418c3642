//! How long an epoch takes: the rounds that have to follow one another, what the link needs for the
//! bytes, and what the machine needs to open and seal them.
//!
//! - A read batch: its journal record (the batch is planned meanwhile), then its cells in windows, the
//!   next of which is asked for while the one before is opened.
//! - The write batch: its record, then what its evictions read.
//! - The commit: buckets in windows, sealed while those before are on their way; a barrier; the delta;
//!   the commit record; the deletions.
//!
//! With an interval everything begins at points of the grid.

use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank_oram::ring::WINDOW_BYTES;

use super::traffic::Traffic;

/// Bytes of a request for a cell: which chunk, which version, which cell.
const REQUEST_BYTES: f64 = 16.0;

/// How fast this machine is, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// To take a cell in: open it, move it, keep account of it.
    pub opens_s: f64,
    /// To send a cell: seal it into its bucket.
    pub seals_s: f64,
    /// To plan an access, without its cells.
    pub plans_s: f64,
}

/// An epoch in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// From one epoch to the next.
    pub total_s: f64,
    /// One read batch, from its point to its values.
    pub read_batch_s: f64,
    /// From the end of the last read batch to the answers.
    pub commit_s: f64,
    /// Messages that wait for the one before.
    pub rounds: f64,
}

impl Epoch {
    /// Expected time of an epoch.
    pub fn of(config: &StoreConfig, traffic: &Traffic, link: &LinkArgs, machine: &Machine) -> Self {
        let wire = Wire::of(link);
        let cell_bytes = config.cell_bytes() as f64;
        let batches = config.read_batches as f64;
        let read_cells = traffic.rewrite_cells - traffic.write_batch_cells;
        let fetch = Fetch {
            asked: (traffic.path_cells + read_cells) / batches,
            sent: (traffic.path_cells_sent + read_cells) / batches,
            cell_bytes,
        };
        let record_s = wire.put(traffic.record_bytes);
        let plan_s = config.batch as f64 * machine.plans_s;
        let read_batch_s = record_s.max(plan_s) + fetch.seconds(&wire, machine);
        let due =
            Fetch { asked: traffic.write_batch_cells, sent: traffic.write_batch_cells, cell_bytes };
        // A small write batch has nothing to read in most epochs.
        let share = due.asked.min(1.0);
        let write_s = record_s + share * due.seconds(&wire, machine);
        let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
        let images_s = images(traffic.buckets, slots, cell_bytes, &wire, machine);
        let delta_s = traffic.delta_pieces * wire.write_s + wire.up_s(traffic.delta_bytes);
        let full_s = traffic.full_pieces * wire.write_s + wire.up_s(traffic.full_bytes);
        let settle_s = wire.write_s + delta_s + full_s + wire.put(traffic.commit_bytes);
        let commit_s = write_s + images_s + settle_s;
        let rounds = 2.0 * batches
            + 1.0
            + share
            + 4.0
            + traffic.delta_pieces
            + traffic.full_pieces
            + batches * (fetch.windows() - 1.0);
        let delete_s = wire.write_s;
        let interval_s = config.interval_ms as f64 / 1e3;
        let total_s = if interval_s == 0.0 {
            batches * read_batch_s + commit_s + delete_s
        } else {
            let points = |takes_s: f64| (takes_s / interval_s).ceil().max(1.0) * interval_s;
            batches * points(read_batch_s) + points(commit_s + delete_s)
        };
        Self { total_s, read_batch_s, commit_s, rounds }
    }
}

/// The link and the store's own time, in seconds.
struct Wire {
    /// A call that asks, without its bytes.
    read_s: f64,
    /// A call that changes something.
    write_s: f64,
    up_s_a_byte: f64,
    down_s_a_byte: f64,
}

impl Wire {
    fn of(link: &LinkArgs) -> Self {
        // What a lost packet costs is spread over all calls.
        let lost_s = link.loss * fogbank_store::Link::RESEND.as_secs_f64();
        let round_s = (link.rtt_ms + link.jitter_ms / 2.0) / 1e3 + lost_s;
        let a_byte = |mb_s: Option<f64>| mb_s.map_or(0.0, |rate| 1e-6 / rate);
        Self {
            read_s: round_s + link.read_ms / 1e3,
            write_s: round_s + link.write_ms / 1e3,
            up_s_a_byte: a_byte(link.up_mb_s),
            down_s_a_byte: a_byte(link.down_mb_s),
        }
    }

    fn up_s(&self, bytes: f64) -> f64 {
        bytes * self.up_s_a_byte
    }

    fn put(&self, bytes: f64) -> f64 {
        if bytes == 0.0 { 0.0 } else { self.write_s + self.up_s(bytes) }
    }
}

/// Cells read by one batch.
struct Fetch {
    asked: f64,
    sent: f64,
    cell_bytes: f64,
}

impl Fetch {
    fn windows(&self) -> f64 {
        (self.asked * self.cell_bytes / WINDOW_BYTES as f64).ceil().max(1.0)
    }

    fn seconds(&self, wire: &Wire, machine: &Machine) -> f64 {
        let windows = self.windows();
        let fetch_s = wire.read_s
            + self.asked / windows * REQUEST_BYTES * wire.up_s_a_byte
            + self.sent / windows * self.cell_bytes * wire.down_s_a_byte;
        let open_s = self.asked / windows * machine.opens_s;
        fetch_s + (windows - 1.0) * fetch_s.max(open_s) + open_s
    }
}

fn images(buckets: f64, slots: f64, cell_bytes: f64, wire: &Wire, machine: &Machine) -> f64 {
    let bytes = buckets * slots * cell_bytes;
    let windows = (bytes / WINDOW_BYTES as f64).ceil().max(1.0);
    let send_s = wire.write_s + wire.up_s(bytes / windows);
    let seal_s = buckets / windows * slots * machine.seals_s;
    // An epoch without an eviction writes nothing.
    buckets.min(1.0) * (seal_s + (windows - 1.0) * send_s.max(seal_s) + send_s)
}
