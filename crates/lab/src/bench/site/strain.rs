//! What the machine that measures adds: it stands for all clients, their links and the server, with
//! the cores of one machine. Whoever is woken late misses the point of the grid that was aimed at.

use std::sync::Arc;

use fogbank::{Error, Result};
use fogbank_env::{Clock, Mutex, Nanos};
use hdrhistogram::Histogram;
use tokio::task::JoinHandle;

use crate::bench::machine::processor_seconds;

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct Strain {
    /// Seconds of processors, of all that was measured; none where the system does not tell.
    pub processor_s: Option<f64>,
    /// Microseconds by which somebody was woken late who waited for a moment: the mean, and the
    /// 99th percentile.
    pub late_us: [f64; 2],
}

/// From one look to the next: no multiple of the grid.
const LOOK: Nanos = 7_300_000;
const LATE_NANOS_MAX: u64 = 10_000_000_000;

/// A strain that is being watched.
pub struct Straining {
    begun: Option<f64>,
    looks: JoinHandle<()>,
    late: Arc<Mutex<Histogram<u64>>>,
}

impl Straining {
    /// From now on.
    ///
    /// # Errors
    /// None: its bounds are constants.
    pub fn begin(clock: Arc<dyn Clock>) -> Result<Self> {
        let late = Histogram::new_with_max(LATE_NANOS_MAX, 3);
        let late = late.map_err(|e| Error::Bug(format!("three figures within seconds: {e}")))?;
        let late = Arc::new(Mutex::new(late));
        let notes = late.clone();
        let looks = tokio::spawn(async move {
            loop {
                let at = clock.now() + LOOK;
                clock.come_near(at).await;
                notes.lock().saturating_record(clock.now() - at);
            }
        });
        Ok(Self { begun: processor_seconds(), looks, late })
    }

    /// What it has been up to now.
    pub fn end(self) -> Strain {
        self.looks.abort();
        let late = self.late.lock();
        let processor_s = self.begun.and_then(|begun| Some(processor_seconds()? - begun));
        let late_us = [late.mean(), late.value_at_quantile(0.99) as f64].map(|nanos| nanos / 1e3);
        Strain { processor_s, late_us }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use fogbank_env::SystemClock;

    use super::*;

    /// Virtual time, in which whoever waits is woken 3 ms late.
    struct Late(SystemClock);

    impl Clock for Late {
        fn now(&self) -> Nanos {
            self.0.now()
        }

        fn wall_ms(&self) -> u64 {
            self.0.wall_ms()
        }

        fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            self.0.sleep_until(deadline + 3_000_000)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_woken_late_is_seen() {
        let clock = Arc::new(Late(SystemClock::new()));
        let straining = Straining::begin(clock.clone()).unwrap();
        clock.sleep_until(1_000_000_000).await;
        let [mean, p99] = straining.end().late_us;
        // Its looks are at multiples of a tenth of a millisecond, virtual time counts whole ones.
        assert!((3_000.0..4_010.0).contains(&mean) && p99 < 4_010.0, "{mean} {p99}");
    }
}
