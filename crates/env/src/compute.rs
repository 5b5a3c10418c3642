//! Running a stretch of CPU work from async code.

/// Runs `work` on this thread and returns what it returns, telling a multi-threaded runtime that
/// the thread is busy so that other tasks move on. On a single-threaded runtime (virtual time,
/// simulation) it simply runs: virtual time stands still meanwhile, which keeps a seed repeatable.
pub fn compute<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|h| h.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Runs `work` over so many bytes: as [`compute`] does, unless it takes less time than another
/// thread needs to go on with the other tasks of this one.
pub fn compute_over<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LONG_BYTES { work() } else { compute(work) }
}

/// Sealed, hashed or copied, they take some hundreds of microseconds. Handing a core over and
/// taking it back takes some tens, of two threads.
const LONG_BYTES: usize = 256 << 10;
