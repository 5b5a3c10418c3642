//! One client: programs and interactive transactions, one after another or several at once, with
//! pauses for thought; sometimes it goes away without waiting for the answer.

use std::sync::Arc;

use fogbank_env::{Clock, Mutex};
use fogbank_txn::{Error, Proxy, Session, Transaction};

use crate::driver::Cheat;
use crate::history::Outcome;
use crate::workload::{Attempt, Knobs, Planned, Planner, Recorder, Script, Scripted};

/// How a transaction ended, from what its client was told.
pub fn outcome<T>(result: &Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Committed,
        Err(Error::Stopped(_) | Error::Closed) => Outcome::Unknown,
        Err(_) => Outcome::Aborted,
    }
}

/// One client.
pub struct Client {
    /// Its number.
    pub number: u32,
    /// What it talks to.
    pub proxy: Proxy,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where it writes down what it does.
    pub recorder: Recorder,
    /// What it does.
    pub planner: Planner,
    /// How it behaves.
    pub knobs: Knobs,
    /// How it cheats.
    pub cheat: Cheat,
}

impl Client {
    /// Runs all its transactions.
    pub async fn run(mut self) {
        let mut session = self.proxy.session();
        let mut left = self.knobs.transactions;
        while left > 0 {
            let some = (1 + self.planner.below(self.knobs.pipeline) as u32).min(left);
            if self.cheat == Cheat::Split {
                self.split(&session).await;
                left -= 1;
            } else if self.planner.percent(self.knobs.interactive) {
                self.interactive().await;
                left -= 1;
            } else if self.planner.permille(self.knobs.vanish) {
                self.vanish(session, some).await;
                session = self.proxy.session();
                left -= some;
            } else {
                self.programs(&session, some).await;
                left -= some;
            }
            self.think().await;
        }
    }

    /// Submits some programs at once, then awaits them in order.
    async fn programs(&mut self, session: &Session, some: u32) {
        let mut pending = Vec::new();
        for _ in 0..some {
            let (program, attempt) = self.program();
            pending.push((session.submit(program), attempt));
        }
        for (answer, attempt) in pending {
            let result = answer.await;
            attempt.end(self.recorder.now(), outcome(&result));
        }
    }

    fn program(&mut self) -> (Scripted, Attempt) {
        let attempt = self.recorder.attempt(self.number);
        (Scripted::new(self.planner.transaction(), attempt.clone()), attempt)
    }

    /// Submits some programs and goes away at some point of the epoch; nobody hears the answers.
    async fn vanish(&mut self, session: Session, some: u32) {
        let mut pending = Vec::new();
        for _ in 0..some {
            pending.push(session.submit(self.program().0));
        }
        self.think().await;
        drop(pending);
        drop(session);
    }

    async fn interactive(&mut self) {
        let plan = Arc::new(self.planner.transaction());
        let think = [0, 0, 50_000, 1_500_000][self.planner.below(4) as usize];
        if self.planner.percent(60) {
            self.retried(plan, think).await;
        } else {
            self.by_hand(plan, think).await;
        }
    }

    fn script(&self, plan: &Arc<Vec<Planned>>, think: u64) -> Script {
        let attempt = self.recorder.attempt(self.number);
        Script { plan: plan.clone(), attempt, clock: self.clock.clone(), think }
    }

    /// By `transact`: every run of the body is a transaction by itself, all but the last aborted.
    async fn retried(&mut self, plan: Arc<Vec<Planned>>, think: u64) {
        let last: Arc<Mutex<Option<Attempt>>> = Arc::default();
        let result = self.proxy.transact(|transaction: Transaction| {
            let script = self.script(&plan, think);
            let mut last = last.lock();
            if let Some(lost) = last.replace(script.attempt.clone()) {
                lost.end(self.recorder.now(), Outcome::Aborted);
            }
            async move { script.run(&transaction).await }
        });
        let result = result.await;
        let last = last.lock().take();
        if let Some(attempt) = last {
            attempt.end(self.recorder.now(), outcome(&result));
        }
    }

    /// Begin, statements, commit; now and then it changes its mind or goes away instead.
    async fn by_hand(&mut self, plan: Arc<Vec<Planned>>, think: u64) {
        let script = self.script(&plan, think);
        let transaction = self.proxy.begin();
        let ran = script.run(&transaction).await;
        let goes_away = self.planner.permille(self.knobs.vanish);
        let end = match ran {
            Err(error) => outcome::<()>(&Err(error)),
            Ok(()) if self.planner.percent(5) => {
                transaction.abort();
                Outcome::Aborted
            }
            Ok(()) if goes_away => return self.commit_and_go(transaction).await,
            Ok(()) => outcome(&transaction.commit().await),
        };
        script.attempt.end(self.recorder.now(), end);
    }

    /// Asks for the commit and goes away before the answer: nobody knows the outcome.
    async fn commit_and_go(&mut self, transaction: Transaction) {
        let deadline = self.clock.now() + self.planner.below(10_000_000);
        tokio::select! {
            biased;
            _ = transaction.commit() => {}
            () = self.clock.sleep_until(deadline) => {}
        }
    }

    /// The cheat: one record over many transactions.
    async fn split(&mut self, session: &Session) {
        let whole = self.recorder.attempt(self.number);
        for planned in self.planner.transaction() {
            let part = whole.part();
            let result = session.submit(Scripted::new(vec![planned], part.clone())).await;
            if result.is_ok() {
                whole.absorb(&part);
            }
        }
        whole.end(self.recorder.now(), Outcome::Committed);
    }

    /// Waits for nothing, a moment, or long enough to be in another epoch.
    async fn think(&mut self) {
        let most_ns = [0, 200_000, 5_000_000, 40_000_000][self.planner.below(4) as usize];
        let deadline = self.clock.now() + self.planner.below(most_ns);
        self.clock.sleep_until(deadline).await;
    }
}
