//! What may be under way beside what, and when the next of it leaves.
//!
//! - A batch, and the images of a commit, are several messages, `windows` of them under way at
//!   once. The first leave together; each further one when another of them has ended.
//! - `in_flight` read batches are under way at once. The record of a batch leaves at the first
//!   point after the record before it was durable, all messages of that batch were made, and fewer
//!   batches were under way; nothing but reads is then.
//! - A commit's pieces, of a delta or a checkpoint, are under way a few at a time as well
//!   (`pieces_at_once`), but each leaves at a point of its own, after the one before. Once it is
//!   known that one is in doubt none leaves until it was looked for.

use std::collections::VecDeque;

use fogbank_env::Nanos;

use crate::oracle::fault::{Step, fault};
use crate::oracle::ring::RingConfig;
use crate::oracle::ring::pace::{Cause, Pace};

/// Where a message under way belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::oracle::ring) enum Lane {
    /// Cells of the batch of this number.
    Window(u64),
    /// Paths of it, which the cloud XORs.
    Paths(u64),
    /// Images.
    Images,
    /// Pieces of a delta or a checkpoint.
    Pieces,
}

/// Pieces that leave one at a point.
#[derive(Debug, Clone, Default)]
struct Pieces {
    sent: usize,
    ended: Vec<Nanos>,
    /// From when on the next could be made, but for those under way.
    free: Nanos,
    /// When the first of those failed that were not looked for yet.
    doubted: Option<Nanos>,
}

/// Messages of one kind that leave a few at a time.
#[derive(Debug, Clone, Default)]
struct Windows {
    sent: usize,
    ended: Vec<Nanos>,
    first: Option<(Nanos, Cause)>,
    /// When the last that left beyond the first ones was made.
    made: Nanos,
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    number: u64,
    under_way: u32,
    /// When its last message so far ended, or its record if there was none.
    done: Nanos,
}

/// The messages of the open epoch that are under way.
#[derive(Debug, Clone)]
pub(in crate::oracle::ring) struct Lanes {
    windows: usize,
    in_flight: usize,
    /// The batch whose reads were seen last.
    reads: Windows,
    reading: u64,
    opened: u64,
    images: Windows,
    pieces: Pieces,
    pieces_at_once: usize,
    batches: VecDeque<Batch>,
    /// When the record of the batch that was opened last was durable.
    recorded: Nanos,
}

impl Lanes {
    pub fn new(config: &RingConfig) -> Self {
        Self {
            windows: config.windows.max(1) as usize,
            in_flight: config.in_flight.max(1) as usize,
            reads: Windows::default(),
            reading: 0,
            opened: 0,
            images: Windows::default(),
            pieces: Pieces::default(),
            pieces_at_once: config.vault.as_ref().map_or(1, |vault| vault.pieces_at_once.max(1))
                as usize,
            batches: VecDeque::new(),
            recorded: 0,
        }
    }

    /// A new process: nothing is under way.
    pub fn restart(&mut self) {
        self.batches.clear();
        (self.reads, self.images, self.pieces) = Default::default();
        self.reading = 0;
    }

    /// A batch begins; `ready` is when its reads could leave.
    pub fn open(&mut self, ready: Nanos) {
        self.opened += 1;
        self.recorded = ready;
        (self.reading, self.reads) = (self.opened, Windows::default());
        self.batches.push_back(Batch { number: self.opened, under_way: 0, done: ready });
        if self.batches.len() > self.in_flight {
            self.batches.pop_front();
        }
        self.images = Windows::default();
    }

    /// The batch whose reads were seen last.
    pub fn reading(&self) -> u64 {
        self.reading
    }

    /// When the reads of the batch that was opened last could leave.
    pub fn recorded(&self) -> Nanos {
        self.recorded
    }

    /// Reads of the batch `number` come now, which may be another one than before.
    pub fn turn_to(&mut self, number: u64) {
        if self.reading != number {
            (self.reading, self.reads) = (number, Windows::default());
        }
    }

    /// Reads of the batch that was opened last come now.
    pub fn turn_to_last(&mut self) {
        self.turn_to(self.opened);
    }

    /// When the record of the next batch could leave, but for the grid.
    pub fn room_at(&self) -> Nanos {
        let before = self.batches.len().checked_sub(self.in_flight);
        let done = before.and_then(|at| self.batches.get(at)).map_or(0, |batch| batch.done);
        self.recorded.max(done).max(self.reads.made)
    }

    /// Whether the record of a read batch may leave beside the reads under way.
    pub fn may_record(&self) -> bool {
        let complete = self.batches.len().saturating_sub(self.in_flight - 1);
        self.batches.iter().take(complete).all(|batch| batch.under_way == 0)
    }

    /// Whether another window of the batch `number` may leave.
    pub fn may_read(&self, number: u64) -> bool {
        self.reading != number || self.reads.sent < self.windows + self.reads.ended.len()
    }

    /// Whether another window of the batch that was opened last may leave.
    pub fn may_go_on(&self) -> bool {
        self.reading == self.opened && self.may_read(self.opened)
    }

    /// Whether more images may leave.
    pub fn may_write(&self) -> bool {
        self.images.sent < self.windows + self.images.ended.len()
    }

    /// Whether another piece may leave beside those under way.
    pub fn may_put(&self) -> bool {
        self.pieces.sent < self.pieces_at_once + self.pieces.ended.len()
    }

    /// A message has left.
    pub fn sent(&mut self, lane: Lane) {
        if let Lane::Window(number) | Lane::Paths(number) = lane
            && let Some(batch) = self.batch_mut(number)
        {
            batch.under_way += 1;
        }
    }

    /// A message has ended.
    pub fn ended(&mut self, lane: Lane, at: Nanos) {
        match lane {
            Lane::Window(number) | Lane::Paths(number) => {
                if let Some(batch) = self.batch_mut(number) {
                    (batch.under_way, batch.done) = (batch.under_way.saturating_sub(1), at);
                }
                if lane == Lane::Window(self.reading) {
                    self.reads.ended.push(at);
                }
            }
            Lane::Images => self.images.ended.push(at),
            Lane::Pieces => self.pieces.ended.push(at),
        }
    }

    fn batch_mut(&mut self, number: u64) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.number == number)
    }

    /// The time of a window of the batch at hand; `None` if it is the first, which has its own.
    pub fn window(&mut self, pace: &Pace, at: Nanos) -> Step<Option<Cause>> {
        self.reads.leave(self.windows, pace, at)
    }

    /// The first message of the batch at hand has left; `window` if it is a window.
    pub fn first(&mut self, at: Nanos, cause: Cause, window: bool) {
        self.reads.first = Some((at, cause));
        self.reads.sent = usize::from(window);
    }

    /// Whether a window could leave at `at`.
    pub fn fits(&self, pace: &Pace, at: Nanos) -> bool {
        self.reads.clone().leave(self.windows, pace, at).is_ok()
    }

    /// As [`Lanes::window`], of images.
    pub fn image(&mut self, pace: &Pace, at: Nanos) -> Step<Option<Cause>> {
        self.images.leave(self.windows, pace, at)
    }

    /// The time of a piece that is not the first.
    pub fn piece(&mut self, pace: &Pace, at: Nanos) -> Step<Cause> {
        let ended = self.pieces.sent.checked_sub(self.pieces_at_once);
        let room = ended.and_then(|nth| self.pieces.ended.get(nth).copied()).unwrap_or_default();
        let made = self.pieces.free.max(room);
        if self.pieces.doubted.is_some_and(|known| pace.knew(known, made)) {
            return fault(
                "waits-for-all",
                "the end of the pieces under way, and a look",
                "a piece",
            );
        }
        let cause = pace.after(made, at)?;
        (self.pieces.sent, self.pieces.free) = (self.pieces.sent + 1, pace.delivery_time(at));
        Ok(cause)
    }

    /// The first piece has left.
    pub fn first_piece(&mut self, pace: &Pace, at: Nanos) {
        self.pieces = Pieces { sent: 1, free: pace.delivery_time(at), ..Pieces::default() };
    }

    /// A piece has failed, and may be there all the same.
    pub fn doubted(&mut self, at: Nanos) {
        self.pieces.doubted.get_or_insert(at);
    }

    /// Pieces in doubt were looked for until then; whether there are `more`.
    pub fn looked(&mut self, until: Nanos, more: bool) {
        self.pieces.free = self.pieces.free.max(until);
        self.pieces.doubted = self.pieces.doubted.filter(|_| more);
    }

    /// As [`Lanes::first`], of images.
    pub fn first_image(&mut self, at: Nanos, cause: Cause) {
        (self.images.first, self.images.sent) = (Some((at, cause)), 1);
    }
}

impl Windows {
    fn leave(&mut self, at_once: usize, pace: &Pace, at: Nanos) -> Step<Option<Cause>> {
        let Some((first, cause)) = self.first else { return Ok(None) };
        let nth = self.sent;
        self.sent += 1;
        let Some(before) = nth.checked_sub(at_once) else {
            pace.together(at, first)?;
            return Ok(Some(cause));
        };
        match self.ended.get(before) {
            Some(ready) => {
                self.made = *ready;
                pace.after(*ready, at).map(Some)
            }
            None => fault("waits-for-all", "the end of a window", "another one"),
        }
    }
}
