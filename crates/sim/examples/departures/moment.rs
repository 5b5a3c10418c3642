//! The machine's clock.

use std::time::Duration;

use fogbank_env::{Clock, Nanos, SystemClock};

/// One clock for everything that is measured.
#[derive(Clone, Default)]
pub struct Moment(SystemClock);

impl Moment {
    pub fn now(&self) -> Nanos {
        self.0.now()
    }

    pub fn wall_ms(&self) -> u64 {
        self.0.wall_ms()
    }

    pub fn rest_until(&self, at: Nanos) {
        rest(Duration::from_nanos(at.saturating_sub(self.now())));
    }
}

#[allow(clippy::disallowed_methods)] // threads of a program that measures by the machine's clock
pub fn rest(time: Duration) {
    std::thread::sleep(time);
}
