//! How long an epoch takes: the rounds that have to follow one another, what the link needs for the
//! bytes, and what the machine needs to open and seal them.
//!
//! - A read batch: its journal record (the batch is planned meanwhile), then its cells in windows,
//!   so many under way, each opened as it arrives. With several batches in flight the next one
//!   follows when the record is durable and link and machine are through with this one.
//! - The write batch: its record, then what its evictions read.
//! - The commit: buckets in windows, a quantum later, sealed while those before are on their way; a
//!   barrier; the delta; the commit record; the deletions.
//!
//! With an interval everything begins at points of the grid, and messages between them at parts of
//! it (`StoreConfig::departure_quantum`). A reply is handed over in the middle between two parts,
//! so a message that waits for it leaves half a part later at the earliest.

use crate::config::StoreConfig;
use crate::link::LinkArgs;
use fogbank_oram::ring::WINDOW_BYTES;

use crate::traffic::Traffic;

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
    /// To hand a message over from thread to thread, there and back.
    pub message_s: f64,
}

impl Machine {
    /// One that takes no time.
    pub const IDEAL: Self = Self { opens_s: 0.0, seals_s: 0.0, plans_s: 0.0, message_s: 0.0 };
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
        let quantum_s = config.departure_quantum().as_secs_f64();
        let wire = Wire::of(link, machine, quantum_s);
        let cell_bytes = config.cell_bytes() as f64;
        let batches = config.read_batches as f64;
        let read_cells = traffic.rewrite_cells - traffic.write_batch_cells;
        let fetch = Fetch {
            asked: (traffic.path_cells + read_cells) / batches,
            sent: (traffic.path_cells_sent + read_cells) / batches,
            cell_bytes,
            overshoot: f64::from(config.bucket_reals) / 2.0,
        };
        let at_once = config.windows as f64;
        let record_s = wire.put(traffic.record_bytes);
        let plan_s = config.batch as f64 * machine.plans_s;
        let first_s = record_s.max(plan_s);
        let read_batch_s = first_s + fetch.pipe(&wire, machine, at_once).seconds(&wire);
        let next_batch_s = match config.in_flight {
            1 => read_batch_s,
            most => {
                let busy_s = plan_s + fetch.pipe(&wire, machine, at_once).busy_s();
                first_s.max(busy_s).max(read_batch_s / most as f64)
            }
        };
        let due =
            Fetch { asked: traffic.write_batch_cells, sent: traffic.write_batch_cells, ..fetch };
        // A small write batch has nothing to read in most epochs.
        let share = due.asked.min(1.0);
        let write_s = record_s + share * due.pipe(&wire, machine, at_once).seconds(&wire);
        let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
        let images_s = images(traffic.buckets, (slots, cell_bytes), &wire, machine, at_once)
            + traffic.buckets.min(1.0) * quantum_s;
        // Several pieces are under way, but each leaves at a point of its own.
        let in_turn = |pieces: f64| (pieces / at_once).max(pieces.min(1.0));
        let pieces_s = |pieces: f64, bytes: f64| match pieces {
            0.0 => 0.0,
            _ => {
                let last_s = wire.put(bytes / pieces);
                let in_turn_s = in_turn(pieces) * last_s;
                in_turn_s.max((pieces - 1.0) * quantum_s + last_s * pieces.min(1.0))
            }
        };
        let delta_s = pieces_s(traffic.delta_pieces, traffic.delta_bytes);
        let full_s = pieces_s(traffic.full_pieces, traffic.full_bytes);
        let settle_s = wire.put(0.0) + delta_s + full_s + wire.put(traffic.commit_bytes);
        let commit_s = write_s + images_s + settle_s;
        let rounds = 2.0 * batches
            + 1.0
            + share
            + 4.0
            + in_turn(traffic.delta_pieces)
            + in_turn(traffic.full_pieces)
            + batches * ((fetch.windows() / at_once).ceil() - 1.0);
        let delete_s = wire.put(0.0);
        let interval_s = config.interval_ms as f64 / 1e3;
        let total_s = if interval_s == 0.0 {
            (batches - 1.0) * next_batch_s + read_batch_s + commit_s + delete_s
        } else {
            let points = |takes_s: f64| (takes_s / interval_s - 1e-9).ceil().max(1.0) * interval_s;
            let reads_s = (batches - 1.0) * points(next_batch_s) + points(read_batch_s);
            reads_s + points(commit_s + delete_s)
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
    /// Messages leave at multiples of it; 0: at once.
    quantum_s: f64,
}

impl Wire {
    fn of(link: &LinkArgs, machine: &Machine, quantum_s: f64) -> Self {
        // What a lost packet costs is spread over all calls.
        let lost_s = link.loss * link.loss_ms() / 1e3;
        let round_s = (link.rtt_ms + link.jitter_ms / 2.0) / 1e3 + lost_s + machine.message_s;
        let a_byte = |mb_s: Option<f64>| mb_s.map_or(0.0, |rate| 1e-6 / rate);
        Self {
            read_s: round_s + link.read_ms / 1e3,
            write_s: round_s + link.write_ms / 1e3,
            up_s_a_byte: a_byte(link.up_mb_s),
            down_s_a_byte: a_byte(link.down_mb_s),
            quantum_s,
        }
    }

    /// From a message to the one that waits for its reply, which takes so long.
    fn next_s(&self, takes_s: f64) -> f64 {
        match self.quantum_s {
            0.0 => takes_s,
            // Sums of parts are not exact, and one more would follow from a billionth.
            quantum_s => (takes_s / quantum_s + 0.5 - 1e-9).ceil() * quantum_s,
        }
    }

    fn up_s(&self, bytes: f64) -> f64 {
        bytes * self.up_s_a_byte
    }

    fn put(&self, bytes: f64) -> f64 {
        self.next_s(self.write_s + self.up_s(bytes))
    }
}

/// Cells read by one batch.
struct Fetch {
    asked: f64,
    sent: f64,
    cell_bytes: f64,
    /// Cells by which a window is longer than it has to be.
    overshoot: f64,
}

/// How many there are on average, where the last is some part of one.
fn whole(parts: f64) -> f64 {
    if parts <= 1.0 { 1.0 } else { parts + 0.5 }
}

impl Fetch {
    fn windows(&self) -> f64 {
        // A window is full once it has so many cells; a bucket that is retired comes whole.
        let full = (WINDOW_BYTES as f64 / self.cell_bytes).max(1.0) + self.overshoot;
        whole(self.asked / full)
    }

    fn pipe(&self, wire: &Wire, machine: &Machine, at_once: f64) -> Pipe {
        let windows = self.windows();
        let asking_s = self.asked / windows * REQUEST_BYTES * wire.up_s_a_byte;
        Pipe {
            windows,
            at_once,
            round_s: wire.read_s + asking_s,
            link_s: self.sent / windows * self.cell_bytes * wire.down_s_a_byte,
            work_s: self.asked / windows * machine.opens_s + machine.message_s,
        }
    }
}

fn images(
    buckets: f64,
    (slots, cell_bytes): (f64, f64),
    wire: &Wire,
    machine: &Machine,
    at_once: f64,
) -> f64 {
    let bytes = buckets * slots * cell_bytes;
    let windows = whole(buckets / (WINDOW_BYTES as f64 / (slots * cell_bytes)).floor().max(1.0));
    let pipe = Pipe {
        windows,
        at_once,
        round_s: wire.write_s,
        link_s: wire.up_s(bytes / windows),
        work_s: bytes / windows / cell_bytes * machine.seals_s + machine.message_s,
    };
    // An epoch without an eviction writes nothing.
    buckets.min(1.0) * pipe.seconds(wire)
}

/// Windows that follow one another, some of them under way at once: the narrowest part sets the
/// pace.
struct Pipe {
    windows: f64,
    at_once: f64,
    /// Of a window, without its bytes.
    round_s: f64,
    /// The link is busy with a window.
    link_s: f64,
    /// The machine is.
    work_s: f64,
}

impl Pipe {
    fn seconds(&self, wire: &Wire) -> f64 {
        let through_s = self.round_s + self.link_s + self.work_s;
        let rounds = whole(self.windows / self.at_once);
        let busy_s = (self.windows - 1.0) * self.link_s.max(self.work_s);
        wire.next_s(through_s + busy_s).max(rounds * wire.next_s(through_s))
    }

    fn busy_s(&self) -> f64 {
        self.windows * self.link_s.max(self.work_s)
    }
}
