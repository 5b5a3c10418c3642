//! How soon a thread gets a core when it becomes ready (decision 0041).
//!
//! Linux shares a core in slices. A thread that becomes ready waits until the slice of another has
//! ended, however nice that one is: up to four milliseconds, most of a quantum. A thread with a
//! shorter slice does not wait (Linux 6.12 and later; earlier ones take no notice).
//!
//! A new thread has the slices of the one that started it.

use std::io;

/// The shortest slice that Linux gives, in nanoseconds.
const SHORT_NANOS: u64 = 100_000;

/// From now on this thread has the shortest slices, and so have the threads that it starts.
///
/// # Errors
/// If the system refuses: then they are as long as before.
pub fn short_slices() -> io::Result<()> {
    set_slice(SHORT_NANOS)
}

/// From now on this thread has slices of the system's own choice, and so have the threads that it
/// starts.
///
/// # Errors
/// If the system refuses: then they are as long as before.
pub fn usual_slices() -> io::Result<()> {
    set_slice(0)
}

/// What the system calls `struct sched_attr`, as its first version has it.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64, // for an ordinary thread: its slice in nanoseconds, 0 for the system's choice
    deadline: u64,
    period: u64,
}

/// Bytes of [`Attributes`].
#[cfg(target_os = "linux")]
const SIZE: u32 = size_of::<Attributes>() as u32;

#[cfg(target_os = "linux")]
fn set_slice(nanos: u64) -> io::Result<()> {
    // The rest stays as it is.
    let attributes = Attributes { size: SIZE, runtime: nanos, ..attributes()? };
    set(&attributes)
}

/// Those of this thread.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe interface has this call")]
fn attributes() -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the pointer is to a value of ours that outlives the call, of the size that is passed,
    // and any bytes are a value of it.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, std::ptr::from_mut(&mut attributes), SIZE, 0)
    };
    if done == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe interface has this call")]
fn set(attributes: &Attributes) -> io::Result<()> {
    // SAFETY: the pointer is to a value of ours that outlives the call and says its own size; the
    // system only reads it.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Other systems have none to choose.
#[cfg(not(target_os = "linux"))]
fn set_slice(_: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The slice and how nice the thread is. A kernel before 6.12 tells no slice.
    fn told() -> io::Result<(u64, i32)> {
        attributes().map(|told| (told.runtime, told.nice))
    }

    #[test]
    fn threads_inherit_slices_and_can_leave_them() {
        let thread = std::thread::spawn(|| {
            let before = told()?;
            short_slices()?;
            let here = told()?;
            let there = std::thread::spawn(|| {
                let inherited = told()?;
                usual_slices()?;
                Ok::<_, io::Error>((inherited, told()?))
            });
            Ok::<_, io::Error>((before, here, there.join()))
        });
        let Ok(Ok((before, here, Ok(Ok((inherited, left)))))) = thread.join() else {
            panic!("the system tells of its threads and lets them choose");
        };
        assert_eq!(inherited, here);
        assert_eq!(left, before);
        assert_eq!(here.1, before.1);
        assert!([0, SHORT_NANOS].contains(&here.0), "{here:?}");
    }
}
