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
