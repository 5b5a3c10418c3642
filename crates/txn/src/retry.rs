//! `transact`: run a body until it commits.
//!
//! 1. Begin, run the body, commit.
//! 2. After a conflict run it again at once, since what it read is likely to be here still: an
//!    attempt that waits for nothing has hardly any rivals. After eight of them in turn (see
//!    below), and after nine from the next epoch but one on.
//! 3. After the end of an epoch or a full batch wait for the next epoch.
//!
//! A body that ends with an error of its own has decided that on what it saw, which may never have
//! been, or be lost with this proxy: the error is an answer as any other, told when what it has
//! read is durable. What the body has written is taken back; if what it has read is never
//! committed, it is run again.
//!
//! Attempts keep the age of the first, so a transaction that keeps losing moves to the front of the
//! read queue. Those that have lost often at the same record take turns ([`crate::retry_locks`]):
//! of clients in step whose bodies wait for things of their own between what they read and what
//! they write, one would commit at a time, and the last of fifty run out of attempts.
//!
//! What the cloud sees: nothing; batches have their size whoever retries.

use std::future::Future;

use tokio::sync::MutexGuard;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::proxy::Proxy;
use crate::transaction::Transaction;

/// Attempts that need no turn.
const ATTEMPTS_AT_ONCE: u32 = 8;
/// Epochs that an attempt waits for which is to take its turn.
const EPOCHS_BEFORE_A_TURN: u64 = 2;
/// Epochs after which a body that is still running has had its turn.
const EPOCHS_OF_A_TURN: u64 = 2;

impl Proxy {
    /// Runs `body` in a transaction and commits it, again if it loses. The body must be fit to run
    /// several times, and should return the errors of its statements as they are. One that ends
    /// with an error of its own writes nothing; if it has read anything, the error is told at the
    /// end of the epoch, as a commit is, or the body is run again. Errors that end the transaction
    /// themselves (no room, too large, no counter) are told at once.
    ///
    /// A body may end its transaction itself; then whatever it returns is told as it is, and it is
    /// not run again unless its commit has lost. After [`Transaction::abort`] what it returns may
    /// rest on what is lost later.
    pub async fn transact<T, F, Fut>(&self, mut body: F) -> Result<T>
    where
        F: FnMut(Transaction) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let (mut age, mut lost) = (None, None);
        let mut error = Error::Conflict;
        for attempt in 1..=self.attempts_max() {
            let transaction = Transaction::new(self.shared.clone(), age);
            let turn = match attempt <= ATTEMPTS_AT_ONCE {
                true => None,
                false => Some(self.shared.retry_locks.take(lost).await),
            };
            match self.attempt_once(&transaction, &mut body, turn).await {
                Ok(result) => return Ok(result),
                Err(lost) if lost.is_retryable() && !transaction.has_asked() => error = lost,
                Err(wrong) => return Err(wrong),
            }
            (age, lost) = (transaction.age(), transaction.lost().or(lost));
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
            _ if beyond == 0 => 1,
            _ => EPOCHS_BEFORE_A_TURN,
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

    async fn attempt_once<T, F, Fut>(
        &self,
        transaction: &Transaction,
        body: &mut F,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<T>
    where
        F: FnMut(Transaction) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let result = self.in_turn(body(transaction.clone()), turn).await;
        if transaction.has_given_up() || transaction.has_asked() {
            return result;
        }
        match &result {
            Ok(_) => transaction.commit().await?,
            Err(error) if error.is_retryable() => {}
            Err(_) => match transaction.end_in_error().await {
                Ok(()) | Err(Error::Ended) => {}
                Err(lost) => return Err(lost), // what it was shown makes no sense
            },
        }
        result
    }

    /// Runs a body; its turn ends with it, or with its epoch if it waits for something of its own.
    async fn in_turn<T>(
        &self,
        body: impl Future<Output = Result<T>>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<T> {
        let Some(turn) = turn else { return body.await };
        let mut body = std::pin::pin!(body);
        tokio::select! {
            biased;
            result = &mut body => return result,
            _ = self.wait_for_epoch(self.epoch() + EPOCHS_OF_A_TURN) => drop(turn),
        }
        body.await
    }
}
