//! How the processes of the binaries use the system's allocator (decision 0015).
//!
//! Buffers of an epoch are allocated on one thread and freed on another. With an arena for every
//! few threads, the system allocator keeps what was freed in the arena where it was made, and each
//! of them grows to the peak of its own: a million records of 1 KiB took 1.3 GB. Two arenas, one a
//! core that works at a time, need less than a quarter of that.
//!
//! A buffer of some megabytes is asked of the system each time and given back, and every page of it
//! comes as a fault and is cleared: a server that moves such buffers all day spends half of its
//! time so.

/// Arenas of the process.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;
/// Buffers up to this size are kept for the next one, in bytes.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: libc::c_int = 64 << 20;
/// Free bytes that stay with the process.
#[cfg(target_env = "gnu")]
const SPARE_BYTES: libc::c_int = 256 << 20;

/// Bounds the arenas; to be called before there is a second thread.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc takes this setting from no safe interface")]
pub fn share_arenas() {
    // SAFETY: no pointer is passed, no other thread exists yet, and an unknown setting is ignored.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
}

/// Keeps large buffers for the next use, and up to 256 MiB of them while there is none; to be
/// called before there is a second thread.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc takes this setting from no safe interface")]
pub fn keep_large_buffers() {
    // SAFETY: no pointer is passed, no other thread exists yet, and an unknown setting is ignored.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE_BYTES);
    }
}

/// Other C libraries have no arenas to bound.
#[cfg(not(target_env = "gnu"))]
pub fn share_arenas() {}

/// Other C libraries are left as they are.
#[cfg(not(target_env = "gnu"))]
pub fn keep_large_buffers() {}
