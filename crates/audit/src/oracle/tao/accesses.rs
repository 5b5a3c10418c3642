//! Accesses: what arrives, in which records it leaves, and when it is answered.
//!
//! 1. Accesses wait for their record. One record is put at a time; it takes all that wait, as far
//!    as there is room for their paths. At a fixed rate it takes always as many, at points of a
//!    grid.
//! 2. When a record is durable a path leaves for each of its accesses, in order and at once, or at
//!    the link's pace in its turn (`turns`); it shows nothing where it leads to buckets that were
//!    never written.
//! 3. Answer j leaves at the moment at which the last of paths 1 to j is back, padding included,
//!    and then at once.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::trace::Client;

use super::TaoConfig;
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::turns::{Turns, check_turn};

/// A record whose accesses have not all been answered, or whose paths are not all back.
#[derive(Debug, Clone)]
struct Record {
    number: u64,
    /// Accesses that somebody waits for; the others are padding.
    asked: usize,
    answered: usize,
    /// Since when its paths may leave.
    durable: Option<Nanos>,
    /// Paths that have not left.
    left: usize,
    /// By path that has left: whether it is back.
    back: Vec<bool>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Accesses {
    most: usize,
    under_way_max: usize,
    padded: Option<usize>,
    /// Whether arrivals and answers are in the trace.
    clients: bool,
    waiting: VecDeque<(u32, u64)>,
    unanswered: VecDeque<(u32, u64)>,
    records: VecDeque<Record>,
    /// Records that were put.
    pub put: u64,
    under_way: usize,
    turns: Turns,
    bucket_bytes: u64,
}

impl Record {
    fn is_back(&self) -> bool {
        self.durable.is_some() && self.left == 0 && self.back.iter().all(|back| *back)
    }

    /// How many accesses from the first on have an answer.
    fn answers(&self) -> usize {
        self.back.iter().take_while(|back| **back).count().min(self.asked)
    }
}

impl Accesses {
    pub fn new(config: &TaoConfig) -> Self {
        Self {
            most: config.parts_max as usize,
            under_way_max: config.under_way_max as usize,
            padded: config.rate.map(|rate| rate.accesses as usize),
            clients: config.clients,
            waiting: VecDeque::new(),
            unanswered: VecDeque::new(),
            records: VecDeque::new(),
            put: 0,
            under_way: 0,
            turns: Turns::new(config.quantum_ns, config.pace.down_bytes_per_s),
            bucket_bytes: u64::from(config.reals) * u64::from(config.cell_bytes),
        }
    }

    /// A new process.
    pub fn restart(&mut self) {
        self.waiting.clear();
        self.unanswered.clear();
        self.records.clear();
        self.turns.restart();
        (self.put, self.under_way) = (0, 0);
    }

    /// An access arrives.
    pub fn arrive(&mut self, client: &Client) {
        self.waiting.push_back((client.connection, client.number));
        self.unanswered.push_back((client.connection, client.number));
    }

    /// Whether a record of what waits could leave where there is `room`.
    pub fn may_record(&self, room: usize) -> bool {
        match self.padded {
            Some(accesses) => room >= accesses,
            None => !self.waiting.is_empty() && room > 0,
        }
    }

    /// Whether nothing waits for a record.
    pub fn have_left(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Paths for which there is room, as far as paths go.
    pub fn room(&self) -> usize {
        self.under_way_max.saturating_sub(self.under_way)
    }

    /// Whether any path is under way or about to be.
    pub fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// A record of so many accesses is put where there is `room`.
    pub fn record(&mut self, parts: usize, room: usize) -> Step {
        let waiting = self.waiting.len();
        let fits = match (self.padded, self.clients) {
            (Some(accesses), _) => parts == accesses && parts <= room,
            (None, true) => parts == waiting.min(self.most).min(room) && parts > 0,
            (None, false) => parts <= room,
        };
        if !fits {
            let due = match self.padded {
                Some(accesses) => format!("{accesses} accesses"),
                None => format!("those of {waiting} that wait for which there is room, {room}"),
            };
            return fault("record-parts", due, format!("a record of {parts}"));
        }
        let asked = if self.clients { parts.min(waiting) } else { parts };
        self.waiting.drain(..asked.min(waiting));
        self.begin(parts, asked);
        Ok(())
    }

    fn begin(&mut self, parts: usize, asked: usize) {
        self.under_way += parts;
        self.records.push_back(Record {
            number: self.put,
            asked,
            answered: 0,
            durable: None,
            left: parts,
            back: Vec::new(),
        });
        self.put += 1;
    }

    /// The record is durable from `at` on.
    pub fn durable(&mut self, at: Nanos) {
        if let Some(record) = self.records.back_mut() {
            record.durable = Some(at);
        }
    }

    /// A path leaves at `at` that names so many buckets. Returns the number of its record, and
    /// which of its paths it is.
    pub fn path(&mut self, at: Nanos, buckets: usize) -> Step<(u64, usize)> {
        let Some((due, record)) = next_path(&mut self.records, &self.turns) else {
            let due = "a durable record that has an access more";
            return fault("path-per-access", due, "a path");
        };
        check_turn(due, at)?;
        self.turns.take(at, buckets as u64 * self.bucket_bytes);
        record.left -= 1;
        record.back.push(false);
        Ok((record.number, record.back.len() - 1))
    }

    /// A path is back.
    pub fn back(&mut self, (number, nth): (u64, usize)) {
        self.under_way -= 1;
        let found = self.records.iter_mut().find(|record| record.number == number);
        if let Some(back) = found.and_then(|record| record.back.get_mut(nth)) {
            *back = true;
        }
        self.forget_answered();
    }

    /// The oldest record with a path under way; beyond all if there is none.
    pub fn oldest(&self) -> u64 {
        let under_way = self.records.iter().find(|record| !record.is_back());
        under_way.map_or(u64::MAX, |record| record.number)
    }

    /// An access is answered.
    pub fn answer(&mut self, client: &Client) -> Step {
        let due = self.unanswered.pop_front();
        let seen = (client.connection, client.number);
        if due != Some(seen) {
            let due = format!("the answer to {due:?}");
            return fault("reply-time", due, format!("that to {seen:?}"));
        }
        for record in &mut self.records {
            if record.answered < record.answers() {
                record.answered += 1;
                self.forget_answered();
                return Ok(());
            }
            if record.answered < record.asked {
                break;
            }
        }
        fault(
            "reply-time",
            "no answer before all paths up to its own are back",
            format!("{seen:?}"),
        )
    }

    fn forget_answered(&mut self) {
        let over = |record: &Record| record.is_back() && (record.answered == record.asked);
        if !self.clients {
            for record in &mut self.records {
                record.answered = record.asked;
            }
        }
        while self.records.front().is_some_and(over) {
            self.records.pop_front();
        }
    }

    /// When it is the turn of the next path.
    pub fn turn_after(&mut self, at: Nanos) -> Option<Nanos> {
        next_path(&mut self.records, &self.turns).map(|(due, _)| due).filter(|due| *due > at)
    }

    /// What should have left by `at` and has not.
    pub fn check_settled(&mut self, at: Nanos) -> Step {
        let next = next_path(&mut self.records, &self.turns);
        if let Some((_, record)) = next.filter(|(due, _)| *due <= at) {
            let due = format!("{} paths more of record {}", record.left, record.number);
            return fault("path-per-access", due, "nothing at once");
        }
        if self.clients {
            for record in &self.records {
                let answers = record.answers();
                if record.answered < answers {
                    let due = format!("{answers} answers of record {}", record.number);
                    return fault("reply-time", due, format!("{}", record.answered));
                }
                if !record.is_back() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The record whose path leaves next, and when.
fn next_path<'a>(
    records: &'a mut VecDeque<Record>,
    turns: &Turns,
) -> Option<(Nanos, &'a mut Record)> {
    let may_leave = |record: &mut Record| record.durable.filter(|_| record.left > 0);
    records.iter_mut().find_map(|record| Some((turns.due(may_leave(record)?), record)))
}
