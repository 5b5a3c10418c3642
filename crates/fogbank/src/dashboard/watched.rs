//! A store that is looked at: what passes is counted, as the cloud could count it.

use std::sync::Arc;

use fogbank_store::{Call, Reply, Result, Store, store_by_calls};

use super::live::Live;

/// Counts all that passes to the store inside.
pub struct Watched<S> {
    inner: S,
    live: Arc<Live>,
}

impl<S: Store> Watched<S> {
    /// Tells `live` what passes to `inner`.
    pub fn new(inner: S, live: Arc<Live>) -> Self {
        Self { inner, live }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        self.live.sent(&call);
        let reply = call.perform(&self.inner).await;
        if let Ok(reply) = &reply {
            self.live.arrived(reply.bytes_down());
        }
        reply
    }
}

store_by_calls!(Watched);
