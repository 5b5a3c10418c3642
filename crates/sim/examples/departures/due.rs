//! When messages were due, given the cloud's own replies: the pace of decision 0009, reckoned from
//! a trace that may begin anywhere in the life of a store.
//!
//! - The record of a batch is due at its point of the grid: the first that is later than the one
//!   taken before and not past when the last reply was handed over; the slack later.
//! - The images of an epoch are due `image_points` later than whatever else would be.
//! - Whatever else leaves is due at the first point of the quantum after the last reply was handed
//!   over, or, if none came since, after the message before it. Messages that leave together are
//!   due together.
//!
//! What follows from an earlier reply than the last counts as displaced by less than it was, never
//! by more.

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_env::Nanos;
use fogbank_store::trace::{Event, Request};

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The journal record of a batch.
    Record,
    /// Cells of a batch.
    Reads,
    /// Images of an epoch.
    Images,
    /// A piece of a delta or of a checkpoint.
    Piece,
    /// Whatever else there is: commit records, barriers, deletions.
    Other,
}

impl Kind {
    /// All, and what stands above their column.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Record, "records"),
        (Self::Reads, "reads"),
        (Self::Images, "images"),
        (Self::Piece, "pieces"),
        (Self::Other, "others"),
    ];

    fn of(request: &Request) -> Self {
        let is_put =
            |of: &str| matches!(request, Request::BlobPut { name, .. } if name.starts_with(of));
        match request {
            _ if is_put("journal/") => Self::Record,
            _ if is_put("delta/") || is_put("checkpoint/") => Self::Piece,
            Request::ReadCells { .. } | Request::ReadXor { .. } => Self::Reads,
            Request::WriteChunks { .. } => Self::Images,
            _ => Self::Other,
        }
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    pub at: Nanos,
    pub kind: Kind,
    /// By how many quanta it was late.
    pub displaced: u64,
}

pub struct Due {
    interval: Nanos,
    slack: Nanos,
    quantum: Nanos,
    /// How much later the images of an epoch leave than what else follows from a reply.
    before_images: Nanos,
    /// What left last.
    kind: Option<Kind>,
    /// The number of the first point of the grid that is free.
    next: u64,
    /// When the last reply was handed over, or the next call could be made beside the last one.
    ready: Nanos,
    /// The last point at which something left, and when that was due.
    last: (Nanos, Nanos),
}

impl Due {
    pub fn new(config: &RingConfig) -> Self {
        Self {
            interval: config.interval_ns.max(1),
            slack: config.slack_ns,
            quantum: config.quantum_ns.max(1),
            before_images: u64::from(config.image_points) * config.quantum_ns,
            kind: None,
            next: 0,
            ready: 0,
            last: (0, 0),
        }
    }

    /// Takes in the next event of the trace; a departure, if it is one.
    pub fn event(&mut self, event: &Event) -> Option<Departure> {
        match event {
            Event::Sent(sent) => Some(self.sent(sent.at, &sent.request)),
            Event::Done(done) => {
                self.ready = self.delivery_time(done.at);
                None
            }
            _ => None,
        }
    }

    fn sent(&mut self, at: Nanos, request: &Request) -> Departure {
        let point = at - at % self.quantum;
        let kind = Kind::of(request);
        let is_record = kind == Kind::Record;
        if self.kind.replace(kind) != Some(kind) && kind == Kind::Images {
            self.ready += self.before_images;
        }
        if point > self.last.0 {
            self.last = (point, self.due(is_record));
        }
        if is_record {
            self.next = point.saturating_sub(self.slack) / self.interval + 1;
        }
        self.ready = self.ready.max(self.delivery_time(point));
        Departure { at, kind, displaced: point.saturating_sub(self.last.1) / self.quantum }
    }

    fn due(&self, record: bool) -> Nanos {
        let made = match record {
            true => self.next.max(self.ready.div_ceil(self.interval)) * self.interval + self.slack,
            false => self.ready,
        };
        made.next_multiple_of(self.quantum)
    }

    fn delivery_time(&self, at: Nanos) -> Nanos {
        (at + self.quantum / 2).next_multiple_of(self.quantum) - self.quantum / 2
    }
}
