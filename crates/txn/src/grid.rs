//! The points in time at which something may be sent.
//!
//! Points lie at `origin + k * interval`, for ever. Every call of the driver takes the first point
//! that is later than the one before and not yet past: a call that takes long makes points be
//! skipped, nothing is ever caught up, and no delay carries over into the distance of later calls.
//! What is sent leaves `slack` after its point; the work before the send hides in that.

use std::time::Duration;

use fogbank_env::Nanos;

/// The grid of one proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    origin: Nanos,
    interval: Nanos,
    slack: Nanos,
    next: u64,
    skipped: u64,
}

/// One point: when to freeze and when to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// The point of the grid.
    pub freeze: Nanos,
    /// The point and the slack.
    pub send: Nanos,
}

impl Grid {
    /// A grid whose points are multiples of the interval on the clock, `now` or later: where all
    /// whose times are public can know them.
    pub(crate) fn from(now: Nanos, interval: Duration, slack: Duration) -> Self {
        let unit = (interval.as_nanos() as Nanos).max(1);
        Self::new(now.next_multiple_of(unit), interval, slack)
    }

    /// A grid whose first usable point is one interval after `origin`.
    pub(crate) fn new(origin: Nanos, interval: Duration, slack: Duration) -> Self {
        let interval = interval.as_nanos() as Nanos;
        let slack = slack.as_nanos() as Nanos;
        Self { origin, interval, slack, next: 1, skipped: 0 }
    }

    /// Whether calls follow each other without a grid.
    pub(crate) fn is_back_to_back(&self) -> bool {
        self.interval == 0
    }

    /// The point of the next call, `now` being when the one before completed.
    pub(crate) fn point(&mut self, now: Nanos) -> Point {
        if self.is_back_to_back() {
            return Point { freeze: now, send: now };
        }
        let reached = now.saturating_sub(self.origin).div_ceil(self.interval);
        self.skipped += reached.saturating_sub(self.next);
        let index = self.next.max(reached);
        self.next = index + 1;
        let freeze = self.origin + index * self.interval;
        Point { freeze, send: freeze + self.slack }
    }

    /// The first point later than `now`; it is not taken.
    pub(crate) fn next(&self, now: Nanos) -> Nanos {
        let since = now.saturating_sub(self.origin) / self.interval.max(1);
        self.origin + (since + 1) * self.interval
    }

    /// How many points were skipped because the call before them took too long.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_calls_skip_points_and_move_none() {
        let unit = Duration::from_nanos(10);
        let mut grid = Grid::new(100, unit, Duration::from_nanos(3));
        assert_eq!(grid.point(100), Point { freeze: 110, send: 113 });
        assert_eq!(grid.point(115), Point { freeze: 120, send: 123 });
        assert_eq!(grid.point(120), Point { freeze: 130, send: 133 });
        assert_eq!(grid.point(141), Point { freeze: 150, send: 153 });
        assert_eq!(grid.point(160), Point { freeze: 160, send: 163 });
        assert_eq!(grid.skipped(), 1);
        let mut grid = Grid::new(100, Duration::ZERO, Duration::ZERO);
        assert_eq!(grid.point(117), Point { freeze: 117, send: 117 });
    }
}
