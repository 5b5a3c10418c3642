//! What goes on beside departures: records, a checkpoint and its commit record on their way, and
//! deletions.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use fogbank_durable::{Checkpoint, PutAdoption};
use tokio::task::JoinSet;

use super::entrance::Fault;
use super::plane::Plane;
use super::records::{Landed, Records};
use crate::{Error, Result, of_task};

/// See the module.
pub struct Beside<P: Plane> {
    /// Records that do not count yet.
    pub records: Records<Vec<P::Request>>,
    /// A checkpoint that is being written.
    pub checkpoints: JoinSet<Result<Checkpoint>>,
    /// The commit record that adopts it.
    pub adoptions: JoinSet<Result<PutAdoption>>,
    /// Of what the last checkpoint superseded.
    pub deletions: JoinSet<Result<()>>,
}

/// What has come to its end.
pub enum Ended<P: Plane> {
    /// A checkpoint is written.
    Written(Checkpoint),
    /// Its commit record was put.
    Put(Box<PutAdoption>),
    /// What was superseded is gone.
    Deleted,
    /// The oldest records, at least one, were put.
    Landed(Landed<Vec<P::Request>>),
}

impl<P: Plane> Beside<P> {
    /// Nothing.
    pub fn new() -> Self {
        let (checkpoints, adoptions, deletions) = Default::default();
        Self { records: Records::new(), checkpoints, adoptions, deletions }
    }

    /// Waits until something comes to its end; `None` if nothing goes on. Nothing is lost if this
    /// is abandoned.
    pub async fn next(&mut self) -> Option<Result<Ended<P>>> {
        let ended = tokio::select! { biased;
            Some(written) = self.checkpoints.join_next() => of_task(written).map(Ended::Written),
            Some(put) = self.adoptions.join_next() => of_task(put).map(Box::new).map(Ended::Put),
            Some(done) = self.deletions.join_next() => of_task(done).map(|()| Ended::Deleted),
            landed = self.records.land(), if !self.records.is_empty() => landed.map(Ended::Landed),
            else => return None,
        };
        Some(ended)
    }

    /// Why the vault has stopped: a record, or a commit record, failed whose end nobody has taken.
    /// It has come, or is about to.
    pub async fn failure(&mut self) -> Option<Error> {
        let adoption = async {
            match self.adoptions.join_next().await {
                Some(put) => of_task(put).err(),
                None => None,
            }
        };
        tokio::select! { biased;
            Some(error) = adoption => Some(error),
            Some(error) = self.records.failure() => Some(error),
            else => None,
        }
    }
}

/// Something leaves now, before anything else is decided; a task of its own waits for its end.
pub async fn leave_now<T: Send + 'static>(
    fault: &Arc<Fault>,
    tasks: &mut JoinSet<Result<T>>,
    put: impl Future<Output = Result<T>> + Send + 'static,
) {
    let mut put = Box::pin(put);
    let polled = poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await;
    let fault = fault.clone();
    tasks.spawn(async move {
        if let Poll::Ready(ended) = polled {
            return ended;
        }
        // Also before this task is dropped with departures: nothing leaves after a failure.
        tokio::select! { biased;
            failed = fault.come() => Err(failed),
            ended = put => ended,
        }
    });
}
