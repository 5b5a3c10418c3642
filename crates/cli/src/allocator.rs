//! How the process keeps its memory small.
//!
//! Buffers of an epoch are allocated on one thread and freed on another. With an arena for every few
//! threads, the system allocator keeps what was freed in the arena where it was made, and each of
//! them grows to the peak of its own: a million records of 1 KiB took 1.3 GB. Two arenas, one a core
//! that works at a time, need less than a quarter of that (decision 0015).

/// Arenas of the process.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Bounds the arenas; to be called before there is a second thread.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc takes this setting from no safe interface")]
pub fn share_arenas() {
    // SAFETY: no pointer is passed, no other thread exists yet, and an unknown setting is ignored.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
}

/// Other C libraries have no arenas to bound.
#[cfg(not(target_env = "gnu"))]
pub fn share_arenas() {}
