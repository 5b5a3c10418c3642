//! What was journalled is read again after a stop: the same cells, in messages of the same order.
//!
//! 1. The plane says which requests a record was of ([`Plane::replay`]). They leave at one point,
//!    none at a pace: nothing else is on its way.
//! 2. When all replies have come, each is verified and given to the plane, in the order of the
//!    requests.

use futures_util::future::try_join_all;

use super::engine::Shared;
use super::plane::{Codec, Message, Plane};
use crate::Result;

impl<P: Plane> Shared<P> {
    /// Asks for all of `requests` at once; what comes is verified one by one, as it is taken.
    ///
    /// # Errors
    /// As for an access.
    pub async fn reread(
        &self,
        requests: Vec<P::Request>,
    ) -> Result<impl Iterator<Item = Result<(P::Request, P::Opened)>>> {
        let (_, nothing_is_taken) = self.at_point().await;
        self.fault.sound()?;
        let messages: Vec<Message> = self.step(|core| {
            let ask = |request: &P::Request| {
                core.plane.leaves(request);
                core.plane.ask(request)
            };
            requests.iter().map(ask).collect()
        });
        drop(nothing_is_taken);
        let reads = messages.iter().map(|message| message.send(&*self.bare));
        let replies = try_join_all(reads).await;
        self.grid.wait_for_delivery(self.grid.now()).await;
        let returned = requests.into_iter().zip(messages).zip(replies?);
        Ok(returned.map(|((request, message), reply)| {
            let opened = self.codec.open(&request, &message, reply)?;
            Ok((request, opened))
        }))
    }
}
