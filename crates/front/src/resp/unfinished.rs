//! Bytes of requests that cannot be carried out yet: those whose end is missing, and those queued
//! since `MULTI`. A client may keep them for as long as it likes, so what all clients keep together
//! has a bound, as in Redis (`maxmemory-clients`). Who goes beyond it is told so and ends; small
//! requests are not counted, so nobody who keeps much keeps others from work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes of a connection are not counted: no more than its buffers take in any case.
const FREE_BYTES: usize = 64 * 1024;

/// What one connection keeps, counted with what all others do.
pub struct Unfinished {
    all: Arc<AtomicUsize>,
    counted: usize,
}

impl Unfinished {
    /// Nothing so far; `all` is what all connections keep.
    pub fn new(all: Arc<AtomicUsize>) -> Self {
        Self { all, counted: 0 }
    }

    /// The connection keeps `bytes` now. Whether it may: what is counted does not grow beyond
    /// `bytes_max` by it.
    pub fn keeps(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let (counted, before) = (bytes.saturating_sub(FREE_BYTES), self.counted);
        if counted != before {
            self.all.fetch_add(counted, Ordering::Relaxed);
            self.all.fetch_sub(before, Ordering::Relaxed);
            self.counted = counted;
        }
        counted <= before || self.all.load(Ordering::Relaxed) <= bytes_max
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.all.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_adds_beyond_the_bound_is_refused() {
        let all = Arc::<AtomicUsize>::default();
        let mut kept = [(); 3].map(|()| Unfinished::new(all.clone()));
        assert!(kept[0].keeps(FREE_BYTES + 600, 1000));
        assert!(kept[1].keeps(FREE_BYTES + 400, 1000));
        assert!(kept[2].keeps(FREE_BYTES, 1000), "small requests go on");
        assert!(!kept[2].keeps(FREE_BYTES + 1, 1000));
        assert!(kept[0].keeps(FREE_BYTES + 600, 1000), "who was there stays");
        drop(kept);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
