//! Transactions whose body is known beforehand: single commands, `MULTI`.
//!
//! The proxy may run a program several times: to find out what it reads, when that is here, and
//! again if something it read was taken back. Only the last run counts. A run that is refused ends
//! as one that only reads: the error is told when what it rests on is durable.

use std::future::Future;

use tokio::sync::oneshot;

use crate::error::{Error, Pause, Result, unanswered};
use crate::view::View;

/// A transaction whose body is known beforehand. [`Program::run`] may be called several times, must
/// depend on the view alone, and must be cheap: it holds up everybody else.
pub trait Program: Send + 'static {
    /// What the client is answered.
    type Reply: Send + 'static;

    /// Runs on the newest state. Everything it does counts only if it returns `Ok`.
    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<Self::Reply, Pause>;
}

impl<R, F> Program for F
where
    R: Send + 'static,
    F: FnMut(&mut View<'_>) -> std::result::Result<R, Pause> + Send + 'static,
{
    type Reply = R;

    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<R, Pause> {
        self(view)
    }
}

/// A submitted program, its reply type hidden.
pub(crate) trait Submission: Send {
    /// Runs; keeps the reply.
    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<(), Pause>;
    /// Keeps an error as the reply of a run that was refused.
    fn refuse(&mut self, error: Error);
    /// Answers with the kept reply or the error.
    fn answer(self: Box<Self>, outcome: Result<()>);
}

struct Waiting<P: Program> {
    program: P,
    reply: Option<Result<P::Reply>>,
    sender: oneshot::Sender<Result<P::Reply>>,
}

impl<P: Program> Submission for Waiting<P> {
    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<(), Pause> {
        self.reply = None;
        self.reply = Some(Ok(self.program.run(view)?));
        Ok(())
    }

    fn refuse(&mut self, error: Error) {
        self.reply = Some(Err(error));
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let Self { reply, sender, .. } = *self;
        // A client that has gone no longer wants the answer.
        let _ = sender.send(outcome.and_then(|()| reply.unwrap_or(Err(Error::Conflict))));
    }
}

/// A submission and the future of its answer.
pub(crate) fn submission<P: Program>(
    program: P,
) -> (Box<dyn Submission>, impl Future<Output = Result<P::Reply>> + Send + 'static) {
    let (sender, receiver) = oneshot::channel();
    let answer = async move { receiver.await.unwrap_or_else(|_| Err(unanswered())) };
    (Box::new(Waiting { program, reply: None, sender }), answer)
}
