//! Calls that end in time.

use crate::{Clock, Nanos};

/// What `call` comes to, unless the clock reaches `deadline` before: then it is dropped.
pub async fn by<T>(clock: &dyn Clock, deadline: Nanos, call: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = call => Some(done),
        () = clock.sleep_until(deadline) => None,
    }
}
