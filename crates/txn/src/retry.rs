//! `transact`: run a body until it commits.
//!
//! 1. Begin, run the body, commit.
//! 2. After a conflict run it again at once, since what it read is likely to be here still. Those who do that
//!    come one after the other until they wait for something: of rivals that a batch has woken together, each
//!    then sees what the one before has written, where side by side they would make each other lose.
//!    After eight attempts in turn (see below), and after nine from the next epoch on, waiting for more and
//!    more of them.
//! 3. After the end of an epoch or a full batch wait for the next epoch.
//!
//! Attempts keep the age of the first, so a transaction that keeps losing moves to the front of the
//! read queue. Those that have lost often take turns: of clients in step whose bodies wait for things of
//! their own between what they read and what they write, one would commit at a time, and the last of fifty
//! run out of attempts.
//!
//! What the cloud sees: nothing; batches have their size whoever retries.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::{Mutex, MutexGuard};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::proxy::Proxy;
use crate::transaction::Transaction;

/// Attempts that need no turn.
const ATTEMPTS_AT_ONCE: u32 = 8;
/// Epochs an attempt waits for at most.
const EPOCHS_WAITED_MAX: u64 = 8;
/// Epochs after which a body that is still running has had its turn.
const EPOCHS_OF_A_TURN: u64 = 2;

impl Proxy {
    /// Runs `body` in a transaction and commits it, again if it loses. The body must be fit to run
    /// several times, and should return the errors of its statements as they are. A body that has
    /// called [`Transaction::abort`] and returns `Ok` is not committed and not run again.
    pub async fn transact<T, F, Fut>(&self, mut body: F) -> Result<T>
    where
        F: FnMut(Transaction) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let mut age = None;
        let mut error = Error::Conflict;
        for attempt in 1..=self.attempts_max() {
            let transaction = Transaction::new(self.shared.clone(), age);
            let turn = self.turn(attempt).await;
            let body = body(transaction.clone());
            let moment = (attempt > 1).then_some(&self.shared.moment);
            let body = alone_until_it_waits(moment, body);
            match self.attempt_once(&transaction, body, turn).await {
                Ok(result) => return Ok(result),
                Err(lost) if lost.is_retryable() => error = lost,
                Err(wrong) => return Err(wrong),
            }
            age = transaction.age();
            let epoch = transaction.stamp().map_or_else(|| self.epoch(), |(epoch, _)| epoch);
            drop(transaction);
            self.back_off(epoch, attempt, &error).await?;
        }
        Err(error)
    }

    async fn back_off(&self, began: u64, attempt: u32, lost: &Error) -> Result<()> {
        let beyond = attempt.saturating_sub(ATTEMPTS_AT_ONCE);
        let epochs = match lost {
            Error::Conflict if beyond == 0 => return Ok(()),
            _ => (1_u64 << beyond.min(3)).min(EPOCHS_WAITED_MAX),
        };
        self.wait_for_epoch(began + epochs).await
    }

    async fn wait_for_epoch(&self, epoch: u64) -> Result<()> {
        loop {
            let beat = self.shared.next_beat();
            let stopped = |core: &mut Core| core.stopped.clone().or_else(|| core.resting.clone());
            let (now, stopped) = self.shared.with(|core| (core.epoch, stopped(core)));
            if let Some(error) = stopped {
                return Err(error);
            }
            if now >= epoch {
                return Ok(());
            }
            beat.await;
        }
    }

    /// Who has lost often runs its body alone among those who have: then at least the eldest of them
    /// meets no rival that keeps losing too. The store sees nothing of who waits for whom.
    async fn turn(&self, attempt: u32) -> Option<MutexGuard<'_, ()>> {
        if attempt <= ATTEMPTS_AT_ONCE { None } else { Some(self.shared.turn.lock().await) }
    }

    async fn attempt_once<T>(
        &self,
        transaction: &Transaction,
        body: impl Future<Output = Result<T>>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<T> {
        let result = self.in_turn(body, turn).await;
        if transaction.has_given_up() {
            return result;
        }
        // A body that went wrong on what a doomed transaction showed it has not gone wrong.
        if result.is_err() && transaction.is_doomed() {
            return Err(result.err().filter(Error::is_retryable).unwrap_or(Error::Conflict));
        }
        let result = result?;
        transaction.commit().await?;
        Ok(result)
    }

    /// Runs a body; its turn ends with it, or with its epoch if it waits for something of its own.
    async fn in_turn<T>(
        &self,
        body: impl Future<Output = Result<T>>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<T> {
        let Some(turn) = turn else { return body.await };
        let mut body = pin!(body);
        tokio::select! {
            biased;
            result = &mut body => return result,
            _ = self.wait_for_epoch(self.epoch() + EPOCHS_OF_A_TURN) => drop(turn),
        }
        body.await
    }
}

/// Runs a body, until it first waits alone among those who share `moment`: whatever it waits for, it holds
/// nobody up.
pub(crate) async fn alone_until_it_waits<T>(
    moment: Option<&Mutex<()>>,
    body: impl Future<Output = T>,
) -> T {
    let Some(moment) = moment else { return body.await };
    let mut body = pin!(body);
    let begun = {
        let _alone = moment.lock().await;
        poll_fn(|context| Poll::Ready(body.as_mut().poll(context))).await
    };
    match begun {
        Poll::Ready(result) => result,
        Poll::Pending => body.await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn those_who_share_a_moment_are_alone_until_they_wait_and_then_hold_nobody_up() {
        const BODIES: usize = 200;
        let moment = Arc::new(Mutex::new(()));
        let (inside, waiting) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Barrier::new(BODIES)));
        let bodies = (0..BODIES).map(|_| {
            let (moment, inside, waiting) = (moment.clone(), inside.clone(), waiting.clone());
            tokio::spawn(async move {
                let body = async {
                    let others = inside.fetch_add(1, SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, SeqCst);
                    // Only once all have come this far does anybody go on.
                    waiting.wait().await;
                    others
                };
                alone_until_it_waits(Some(&moment), body).await
            })
        });
        for body in bodies.collect::<Vec<_>>() {
            assert_eq!(body.await.unwrap(), 0);
        }
    }
}
