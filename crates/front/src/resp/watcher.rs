//! Somebody of the trusted side who looks on: which keys commands are about, how long answers take.
//!
//! What a watcher is told is secret. It is called on the way of every command, so it must neither
//! wait nor take long, and nothing of the store's side may depend on what it does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fogbank_env::{Clock, Nanos};

use super::command::Command;
use super::frame::Request;

/// Is told what clients ask.
pub trait Watcher: Send + Sync {
    /// A command about `key` arrived that may change something, or only looks.
    fn asked(&self, changes: bool, key: &[u8]);

    /// The answer to a command is there, `nanos` after it was taken.
    fn answered(&self, nanos: Nanos);
}

/// Tells `watcher` every key of a command.
pub fn tell(watcher: &dyn Watcher, command: &Command, request: &Request) {
    for place in command.key_places(request.len()) {
        watcher.asked(command.is('w'), request.get(place));
    }
}

/// `answer`, and `watcher` is told how long it took.
pub fn timed<T: Send + 'static>(
    watcher: Arc<dyn Watcher>,
    clock: Arc<dyn Clock>,
    answer: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    let taken = clock.now();
    Box::pin(async move {
        let answer = answer.await;
        watcher.answered(clock.now().saturating_sub(taken));
        answer
    })
}
