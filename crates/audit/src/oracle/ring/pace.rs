//! When messages leave: the grid of the epochs and the pace's quantum.
//!
//! - A batch takes the first point `k * interval` that is later than the one taken before and not
//!   past when the batch before was complete; it is sent `slack` after that.
//! - Whatever the engine sends leaves at the next multiple of the quantum after it was made, and a
//!   reply is handed over in the middle between two multiples: what follows from it is made then.
//!
//! In virtual time a departure is its point, and the points tell which batch a message is of. By a
//! real clock it may be late, never early, and a message may be of a later batch than it looks; so
//! there a batch is only known to take a point of its own, counted from the start of its epoch, and
//! one that is not past when the message before it ended.

use fogbank_env::Nanos;
use fogbank_store::trace::TraceClock;

use super::RingConfig;
use super::fault::{Step, fault};

/// The clockwork of one proxy.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    exact: bool,
    interval: Nanos,
    slack: Nanos,
    quantum: Nanos,
    /// The number of the first point that is free.
    next: u64,
    /// When the last message, or a batch that showed nothing, was complete.
    ready: Nanos,
    /// When the last reply was handed over.
    delivered: Nanos,
    /// How many points in a row were taken since one had to be skipped.
    since_skip: u32,
}

/// What a departure waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cause {
    pub at: Nanos,
    /// How many quanta later than it was due.
    pub missed: u64,
}

/// The point of a batch.
#[derive(Debug, Clone, Copy)]
struct Point {
    index: u64,
    skipped: bool,
    /// When it is sent, but for the quantum.
    send: Nanos,
}

impl Pace {
    pub fn new(clock: TraceClock, config: &RingConfig) -> Self {
        Self {
            exact: clock == TraceClock::Virtual,
            interval: config.interval_ns,
            slack: config.slack_ns,
            quantum: config.quantum_ns,
            next: 0,
            ready: 0,
            delivered: 0,
            since_skip: u32::MAX,
        }
    }

    /// A new proxy, nothing of which was seen yet.
    pub fn restart(&mut self) {
        (self.next, self.ready, self.delivered) = (0, 0, 0);
        self.since_skip = u32::MAX;
    }

    /// Whether the time of a message tells which batch it is of.
    pub fn tells_batches(&self) -> bool {
        self.exact && self.interval > 0
    }

    /// The epochs start: the grid begins at the next point, whose first use is one later.
    pub fn start_epochs(&mut self) {
        if self.interval > 0 {
            self.next = self.ready.div_ceil(self.interval) + 1;
        }
    }

    /// A message ended: its reply is handed over then, or a little later.
    pub fn ended(&mut self, at: Nanos) {
        self.ready = self.delivery_time(at);
        self.delivered = self.ready;
    }

    /// When the reply of a message that ended at `at` is handed over.
    pub fn delivery_time(&self, at: Nanos) -> Nanos {
        match self.quantum {
            0 => at,
            quantum => (at + quantum / 2).next_multiple_of(quantum) - quantum / 2,
        }
    }

    /// When the last reply was handed over, or a batch that showed nothing was complete.
    pub fn ready(&self) -> Nanos {
        self.ready
    }

    fn point(&self) -> Point {
        self.point_after(self.ready)
    }

    fn point_after(&self, ready: Nanos) -> Point {
        if self.interval == 0 {
            return Point { index: 0, skipped: false, send: ready };
        }
        let reached = ready.div_ceil(self.interval);
        let index = self.next.max(reached);
        Point { index, skipped: reached > self.next, send: self.send(index) }
    }

    /// What follows leaves so many points after the first that follows the last reply.
    pub fn let_pass(&mut self, points: u32) {
        if self.quantum > 0 && points > 0 {
            let last = self.departure(self.delivered) + u64::from(points - 1) * self.quantum;
            self.ready = self.ready.max(last + 1);
        }
    }

    /// When a message leaves that was made at `ready`.
    fn departure(&self, ready: Nanos) -> Nanos {
        if self.quantum == 0 { ready } else { ready.next_multiple_of(self.quantum) }
    }

    /// When the first message of the batch that comes after `silent` ones leaves.
    pub fn departure_after(&self, silent: u32) -> Nanos {
        let mut ahead = self.clone();
        (0..silent).for_each(|_| ahead.pass_batch());
        ahead.departure(ahead.point().send)
    }

    /// A batch has its point and shows nothing there.
    pub fn pass_batch(&mut self) {
        let point = if self.exact { self.point() } else { self.least() };
        self.take(point);
        self.ready = self.ready.max(point.send);
    }

    /// An epoch is over.
    pub fn epoch_done(&mut self) {
        if !self.exact && self.interval > 0 {
            self.next = self.next.max(self.ready.div_ceil(self.interval));
        }
    }

    /// The first point that the batch can have taken if the message before was perhaps its own.
    fn least(&self) -> Point {
        let send = if self.interval == 0 { self.ready } else { self.send(self.next) };
        Point { index: self.next, skipped: false, send }
    }

    fn send(&self, index: u64) -> Nanos {
        index * self.interval + self.slack
    }

    fn take(&mut self, point: Point) {
        self.next = point.index + 1;
        self.since_skip = if point.skipped { 0 } else { self.since_skip.saturating_add(1) };
    }

    /// Whatever leaves at `at` may have waited for this point: nobody says that epochs run before.
    pub fn rest_until(&mut self, at: Nanos) {
        if let Some(index) = at.saturating_sub(self.slack).checked_div(self.interval) {
            self.ready = self.ready.max(index * self.interval);
        }
    }

    /// The first message of a batch leaves at `at`. Returns its cause.
    pub fn first(&mut self, at: Nanos) -> Step<Cause> {
        self.first_after(self.ready, at)
    }

    /// The same, of a batch for which there was room at `ready`, while others were under way.
    pub fn first_after(&mut self, ready: Nanos, at: Nanos) -> Step<Cause> {
        let point = self.point_after(ready);
        let expected = self.departure(point.send);
        let caught_up = point.skipped || self.since_skip < CATCHING_UP;
        if self.interval == 0 {
            return self.loose(at, expected);
        }
        let cause = self.hold(at, expected, caught_up)?;
        self.take(if self.exact { point } else { self.least() });
        Ok(cause)
    }

    /// A further message of the same batch, or one whose time follows from the end before it.
    pub fn further(&mut self, at: Nanos) -> Step<Cause> {
        self.hold(at, self.departure(self.ready), self.since_skip < CATCHING_UP)
    }

    /// A message that was made at `ready`, while others were under way.
    pub fn after(&self, ready: Nanos, at: Nanos) -> Step<Cause> {
        self.hold(at, self.departure(ready), self.since_skip < CATCHING_UP)
    }

    /// Whether what was made at `made` was made after a reply that was handed over at `known`. By a
    /// real clock nobody can tell.
    pub fn knew(&self, known: Nanos, made: Nanos) -> bool {
        self.exact && known < made
    }

    /// A message that leaves together with one that left at `first`.
    pub fn together(&self, at: Nanos, first: Nanos) -> Step {
        if at == first || (at > first && !self.exact) {
            return Ok(());
        }
        fault("on-grid", format!("{first} ns, with the other one"), format!("{at} ns"))
    }

    /// Whether a message that follows from the end before it comes before that, and not because
    /// missed ones are caught up with.
    pub fn is_early(&self, at: Nanos) -> bool {
        self.exact && self.since_skip >= CATCHING_UP && at < self.departure(self.ready)
    }

    /// A message of the owner of the engine, who has his own time.
    pub fn loose(&self, at: Nanos, expected: Nanos) -> Step<Cause> {
        if at < expected || (self.exact && self.quantum > 0 && !at.is_multiple_of(self.quantum)) {
            let expected = format!("at a point from {expected} ns on");
            return fault("on-grid", expected, format!("{at} ns"));
        }
        Ok(Cause { missed: 0, ..self.cause(at, expected) })
    }

    /// The same, `expected` being the first point after the end of the message before.
    pub fn owners(&self, at: Nanos) -> Step<Cause> {
        self.loose(at, self.departure(self.ready))
    }

    fn hold(&self, at: Nanos, expected: Nanos, caught_up: bool) -> Step<Cause> {
        if at == expected || (at > expected && !self.exact) {
            return Ok(self.cause(at, expected));
        }
        let rule = if at < expected && caught_up { "no-catch-up" } else { "on-grid" };
        fault(rule, format!("{expected} ns"), format!("{at} ns"))
    }

    /// The last point that a departure at `at`, due at `expected`, can have meant.
    fn cause(&self, at: Nanos, expected: Nanos) -> Cause {
        match self.quantum {
            0 => Cause { at: expected, missed: 0 },
            quantum => {
                let point = expected.max(at - at % quantum);
                Cause { at: point, missed: (point - expected) / quantum }
            }
        }
    }
}

/// For how many points after a skipped one an early message is one that catches up.
const CATCHING_UP: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_points_of_lateness_are_counted() {
        let pace = Pace {
            exact: false,
            interval: 1000,
            slack: 0,
            quantum: 100,
            next: 0,
            ready: 0,
            delivered: 0,
            since_skip: u32::MAX,
        };
        assert_eq!(pace.cause(1_007, 1_000), Cause { at: 1_000, missed: 0 });
        assert_eq!(pace.cause(1_207, 1_000), Cause { at: 1_200, missed: 2 });
        assert!(pace.owners(1_207).is_ok_and(|cause| cause.missed == 0));
    }
}
