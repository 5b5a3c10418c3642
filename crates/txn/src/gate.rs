//! A lock with two queues: the clerk is the next to hold it, however many clients wait.
//!
//! 1. A client takes its turn among the clients (`clients`), then stands next (`next`), then holds.
//! 2. The clerk stands next at once. So it waits for whoever holds the lock and for whoever stands
//!    next when it comes, and for nobody after them.
//!
//! A plain lock goes to whoever is awake when it is released: a thread that gives it up and takes
//! it again, as the sweeper does, would keep the clerk out for as long as there is work.

use std::sync::MutexGuard;

use fogbank_env::Mutex;

/// See the module.
pub(crate) struct Gate<T> {
    held: Mutex<T>,
    next: Mutex<()>,
    clients: Mutex<()>,
}

/// The lock, held for a client.
pub(crate) struct ClientGuard<'a, T> {
    /// What is locked. Given up before the turn.
    pub core: MutexGuard<'a, T>,
    _turn: MutexGuard<'a, ()>,
}

impl<T> Gate<T> {
    /// A lock around `value`.
    pub(crate) fn new(value: T) -> Self {
        Self { held: Mutex::new(value), next: Mutex::new(()), clients: Mutex::new(()) }
    }

    /// Waits behind the clerk and the clients that have come before.
    pub(crate) fn client(&self) -> ClientGuard<'_, T> {
        let turn = self.clients.lock();
        let _next = self.next.lock();
        ClientGuard { core: self.held.lock(), _turn: turn }
    }

    /// Waits for the holder and the next, at most.
    pub(crate) fn clerk(&self) -> MutexGuard<'_, T> {
        let _next = self.next.lock();
        self.held.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// With a plain lock a thread that always wants it keeps the other out for many turns.
    #[test]
    fn who_stands_next_waits_for_one_holder_at_most() {
        let gate = Gate::new(0_u64);
        let (asked, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let clients = || {
                while !over.load(Ordering::Acquire) {
                    let mut guard = gate.client();
                    // Turns that clients have taken since the clerk asked.
                    *guard.core += u64::from(asked.load(Ordering::Acquire));
                }
            };
            let (one, two) = (scope.spawn(clients), scope.spawn(clients));
            for _ in 0..200 {
                *gate.client().core = 0;
                let guard = {
                    let _next = gate.next.lock(); // as `clerk` does, to know when it stands next
                    asked.store(true, Ordering::Release);
                    gate.held.lock()
                };
                assert!(*guard <= 1, "{} clients went first", *guard);
                asked.store(false, Ordering::Release);
                drop(guard);
            }
            over.store(true, Ordering::Release);
            assert!(one.join().is_ok() && two.join().is_ok());
        });
    }
}
