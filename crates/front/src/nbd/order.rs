//! What came before what: a flush is answered after the requests that came before it.
//!
//! Reads count as writes do. A flush promises nothing about them, but its answer, and whatever a
//! client does when it has it, would otherwise come earlier after a read than after a write.

use std::convert::Infallible;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The requests of one connection since its last flush.
pub struct Order {
    mark: Sender<Infallible>,
    passed: Receiver<Infallible>,
}

/// Held by a request until it is answered.
pub struct Mark {
    _mark: Sender<Infallible>,
}

/// What a flush waits for.
pub struct Barrier {
    passed: Receiver<Infallible>,
    /// Later flushes wait for this one, and so for what it waits for.
    _mark: Mark,
}

impl Order {
    /// Nothing came yet.
    pub fn new() -> Self {
        let (mark, passed) = channel(1);
        Self { mark, passed }
    }

    /// A request comes.
    pub fn request(&self) -> Mark {
        Mark { _mark: self.mark.clone() }
    }

    /// A flush comes.
    pub fn flush(&mut self) -> Barrier {
        let before = std::mem::replace(self, Self::new());
        Barrier { passed: before.passed, _mark: self.request() }
    }
}

impl Barrier {
    /// Completes when every request that came before has been answered. To be held until the flush
    /// is.
    pub async fn passed(&mut self) {
        let Some(never) = self.passed.recv().await else { return };
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_passed(barrier: &mut Barrier) -> bool {
        pin!(barrier.passed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_flush_waits_for_what_came_before_it_and_for_nothing_else() {
        let mut order = Order::new();
        let first = order.request();
        let mut flush = order.flush();
        let later = order.request();
        let mut second = order.flush();
        assert!(!is_passed(&mut flush));
        drop(first);
        assert!(is_passed(&mut flush));
        drop(later);
        assert!(!is_passed(&mut second), "the flush before it is not answered");
        drop(flush);
        assert!(is_passed(&mut second));
    }
}
