//! Threads for what clients ask for, apart from those that let messages leave.
//!
//! They are as many as there are cores, and *nice*: when both want a core, the system gives it to
//! what leaves at a point of the grid. A system that does not let us be nice loses that, and
//! nothing else: the two share no lock for longer than a small constant anyway.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// How much less urgent than the rest of the process: enough that a thread that becomes ready takes
/// the core at once, and not so much that clients starve beside other programs of the machine.
const NICE: i32 = 5;

/// A runtime of its own for clients. When it goes, what runs on it is dropped.
pub struct ClientThreads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl ClientThreads {
    /// Starts them; each calls `settle` first.
    ///
    /// # Errors
    /// If the system has no threads to give.
    pub fn start(settle: fn()) -> io::Result<Self> {
        // A thread begins as nice as the one that starts it, which may be one of these.
        let nice = rustix::process::getpriority_process(None).map(|urgent| urgent + NICE);
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().thread_name("clients").on_thread_start(move || {
            // Where it is refused they are as urgent as others.
            let _as_before = nice.map(|nice| rustix::process::setpriority_process(None, nice));
            settle();
        });
        let runtime = builder.build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Where to start what they are to do.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for ClientThreads {
    fn drop(&mut self) {
        // A runtime must not be waited for within another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How nice this thread is: field 19 of what the system says of it.
    fn nice() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap(); // from field 3 on
        fields.split(' ').nth(19 - 3).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn clients_are_nicer_than_what_departs() {
        let threads = ClientThreads::start(|| {}).unwrap();
        let clients = threads.handle().spawn(async { nice() }).await.unwrap();
        assert_eq!(clients, (nice() + NICE).min(19));
        // One that starts another does not pass its niceness on, to be added to.
        let another = async { tokio::task::spawn_blocking(nice).await.unwrap() };
        assert_eq!(threads.handle().spawn(another).await.unwrap(), clients);
    }
}
