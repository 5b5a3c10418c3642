//! Answers leave: a few at a time, in the order of their epochs, on the clients' threads.
//!
//! They may be as many as clients have asked for, so nobody that departures wait for sends them.

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::core::{Refused, Unanswered};
use crate::error::Result;

/// Answers between two looks at what else there is to do.
const ANSWERS_AT_ONCE: usize = 64;

/// Who is to be answered.
pub(crate) enum Answers {
    /// Everybody whose transaction is part of an epoch; the end of the sender says that all are.
    Epoch(Unanswered, Result<()>, oneshot::Sender<()>),
    /// Programs that were refused.
    Refused(Vec<Refused>),
}

/// Answers whoever comes, until nobody will.
pub(crate) async fn leave(mut answers: UnboundedReceiver<Answers>) {
    while let Some(answers) = answers.recv().await {
        match answers {
            Answers::Epoch(unanswered, outcome, _all) => {
                for (nth, program) in unanswered.programs.into_iter().enumerate() {
                    program.answer(outcome.clone());
                    pause_after(nth).await;
                }
                for (nth, answer) in unanswered.committed.into_iter().enumerate() {
                    // The owner may have gone.
                    let _ = answer.send(outcome.clone());
                    pause_after(nth).await;
                }
            }
            Answers::Refused(refused) => {
                for (nth, refused) in refused.into_iter().enumerate() {
                    refused.answer();
                    pause_after(nth).await;
                }
            }
        }
    }
}

async fn pause_after(nth: usize) {
    if nth % ANSWERS_AT_ONCE == ANSWERS_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}
