//! Independent pieces of work on all cores; what comes of them stands in their order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does `work` for every number below `count`.
pub(super) fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let next = AtomicUsize::new(0);
    let some = || {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count);
        std::iter::from_fn(take).map(|number| (number, work(number))).collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(count)).map(|_| scope.spawn(some)).collect();
        let mut done = some();
        for other in others {
            // A panic of `work` is the caller's.
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_order() {
        assert_eq!(
            super::each(50, |number| 2 * number),
            (0..50).map(|n| 2 * n).collect::<Vec<_>>()
        );
        assert_eq!(super::each(0, |number| number), [0; 0]);
    }
}
