//! When epochs run: always, while clients are here, or at set hours.
//!
//! 1. Before an epoch its driver asks whether epochs run now. If so, the epoch takes the next point
//!    of the grid, as always.
//! 2. If not, the driver asks again at every point of the grid. Outside of set hours everything
//!    that waits is refused meanwhile, and so is what comes, with the reason; without a client,
//!    what the proxy does for itself waits for the next one.
//!
//! An epoch that has begun comes to its end. What the cloud sees: whether there are epochs. With
//! clients as the cause it sees when the first has come and when the last has been gone for the
//! time that the epochs go on without one; with hours, the hours.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::Nanos;

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::handover::Message;

/// When epochs run.
#[derive(Clone, Default)]
pub enum Uptime {
    /// Always.
    #[default]
    Always,
    /// While a client is here, see [`crate::Session::attend`], and for `linger` after.
    WhilePresent {
        /// How long epochs go on without a client.
        linger: Duration,
    },
    /// At set hours.
    Hours(Arc<dyn Hours>),
}

/// Set hours.
pub trait Hours: Send + Sync {
    /// Whether epochs run at `wall_ms` milliseconds after 1970 by the wall clock; if not, the
    /// reason that clients are told.
    fn closed_at(&self, wall_ms: u64) -> Option<String>;
}

/// What becomes of whoever asks for something while no epoch runs.
enum Rest {
    Wait,
    Refuse(String),
}

/// How often a driver without a grid asks whether epochs run.
const LOOK_NANOS: Nanos = 10_000_000;

impl Driver {
    /// Waits until epochs run, or the proxy is being closed.
    pub(crate) async fn rest(&mut self) -> Result<()> {
        let clock = self.clock.clone();
        let mut rested = false;
        while let Some(rest) = self.rest_now() {
            if let Rest::Refuse(reason) = rest {
                rested = true;
                self.clerk.send(Message::Rest(Some(Error::Resting(reason))))?;
            }
            let now = clock.now();
            let next =
                if self.grid.is_back_to_back() { now + LOOK_NANOS } else { self.grid.next(now) };
            clock.sleep_until(next).await;
        }
        if rested { self.clerk.send(Message::Rest(None)) } else { Ok(()) }
    }

    /// How no epoch runs now, if none does.
    fn rest_now(&mut self) -> Option<Rest> {
        match self.signals.uptime() {
            _ if self.signals.is_closing() => None,
            Uptime::Always => None,
            Uptime::WhilePresent { linger } => {
                let now = self.clock.now();
                if self.signals.is_anybody_present() {
                    self.last_present = Some(now);
                }
                let gone_ns = self.last_present.map(|last| now - last);
                let here = gone_ns.is_some_and(|gone| u128::from(gone) <= linger.as_nanos());
                (!here).then_some(Rest::Wait)
            }
            Uptime::Hours(hours) => hours.closed_at(self.clock.wall_ms()).map(Rest::Refuse),
        }
    }
}
