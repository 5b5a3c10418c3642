//! One thread that wakes many tasks, each a few tens of microseconds after its deadline.
//!
//! The runtime's timers count milliseconds: too coarse for a link of 0.3 ms that is played. A
//! thread a message, held until its deadline, is exact and costs more than the message itself once
//! there are thousands a second. Here those whose deadline has passed are woken together, and the
//! thread sleeps until the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, OnceLock, PoisonError};
use std::time::Duration;

use crate::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What the system's timer is late by when it has nothing else to do.
const TIMER_SLACK: Duration = Duration::from_micros(60);

/// The shortest sleep.
const MOMENT: Duration = Duration::from_micros(5);

/// The process's timer.
pub(crate) struct Timer {
    queue: Mutex<Queue>,
    earlier: Condvar,
}

#[derive(Default)]
struct Queue {
    /// By deadline, then by arrival.
    waiting: BinaryHeap<Reverse<(Instant, u64)>>,
    wakers: std::collections::BTreeMap<u64, oneshot::Sender<()>>,
    arrived: u64,
}

impl Timer {
    /// The timer, started if need be; `None` if the system has no thread for it.
    pub(crate) fn shared() -> Option<&'static Arc<Self>> {
        static TIMER: OnceLock<Option<Arc<Timer>>> = OnceLock::new();
        TIMER.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Arc<Self>> {
        let timer = Arc::new(Self { queue: Mutex::default(), earlier: Condvar::new() });
        let own = timer.clone();
        let thread = std::thread::Builder::new().name("timer".into());
        thread.spawn(move || own.run()).ok().map(|_| timer)
    }

    /// Completes once `deadline` has passed.
    #[allow(clippy::disallowed_methods)] // it is the clock that waits
    pub(crate) async fn passed(&self, deadline: Instant) {
        if deadline <= Instant::now() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut queue = self.queue.lock();
            queue.arrived += 1;
            let number = queue.arrived;
            queue.wakers.insert(number, sender);
            queue.waiting.push(Reverse((deadline, number)));
            queue.waiting.peek() == Some(&Reverse((deadline, number)))
        };
        if is_first {
            self.earlier.notify_one();
        }
        // The thread never ends before it has woken everybody.
        let _woken = receiver.await;
    }

    #[allow(clippy::disallowed_methods)] // it is the clock that waits
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            let now = Instant::now();
            let due = queue.take_due(now);
            if !due.is_empty() {
                drop(queue);
                for waker in due {
                    // Whoever waited may have gone.
                    let _ = waker.send(());
                }
                queue = self.queue.lock();
                continue;
            }
            queue = match queue.waiting.peek() {
                None => self.earlier.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(Reverse((deadline, _))) => {
                    // Never less than a moment: a thread that spins would take a core from those it
                    // wakes.
                    let sleep = (*deadline - now).saturating_sub(TIMER_SLACK).max(MOMENT);
                    let waited = self.earlier.wait_timeout(queue, sleep);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Queue {
    fn take_due(&mut self, now: Instant) -> Vec<oneshot::Sender<()>> {
        let mut due = Vec::new();
        while let Some(Reverse((deadline, number))) = self.waiting.peek().copied()
            && deadline <= now
        {
            self.waiting.pop();
            due.extend(self.wakers.remove(&number));
        }
        due
    }
}
