//! Replies that wait to be encoded, and what one connection's take.
//!
//! A reply exists from the run of its program until the client takes it, and may be a thousand
//! times as long as its command. Each is counted from its run on, so that what a connection holds
//! is known before the next program makes more. One reply alone is no longer than all may be: the
//! same value told a thousand times takes little here, but is encoded as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::reply::Reply;
use fogbank_txn::{Bound, Error, Pause};

/// What a connection's replies take.
pub struct Untaken {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Untaken {
    /// Nothing so far. From `bytes_max` on no more replies are made.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), bytes_max })
    }

    /// Bytes that are held now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A reply of nothing yet.
    pub fn growing(&self) -> Growing {
        Growing { bytes: 0, limit: self.bytes_max }
    }

    /// Why no program may run now, if none may.
    pub fn refusal(&self) -> Option<Reply> {
        let full = self.bytes() >= self.bytes_max;
        full.then(|| Reply::error("replies wait to be taken; read them before asking for more"))
    }
}

/// A reply that grows, command by command.
pub struct Growing {
    bytes: usize,
    limit: usize,
}

impl Growing {
    /// Adds `reply`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if all together is too long.
    pub fn add(&mut self, reply: Reply) -> Result<Reply, Pause> {
        self.bytes += reply.bytes();
        if self.bytes <= self.limit {
            return Ok(reply);
        }
        let (what, needed, limit) = (Bound::Reply, self.bytes, self.limit);
        Err(Pause::Refused(Error::TooLarge { what, needed, limit }))
    }
}

/// A reply, counted for as long as it is here.
pub struct Answered {
    reply: Reply,
    bytes: usize,
    untaken: Arc<Untaken>,
}

impl Answered {
    /// Counts `reply`.
    pub fn new(reply: Reply, untaken: &Arc<Untaken>) -> Self {
        let bytes = reply.bytes();
        untaken.bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { reply, bytes, untaken: untaken.clone() }
    }

    /// The reply itself.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.untaken.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn replies_count_until_they_are_gone() {
        let untaken = Untaken::new(10_000);
        assert_eq!(untaken.refusal(), None);
        let names = (0..100).map(|_| Reply::Bulk(Bytes::from(vec![b'n'; 100]))).collect();
        let answered = Answered::new(Reply::Array(names), &untaken);
        assert!((10_000..20_000).contains(&untaken.bytes()), "{}", untaken.bytes());
        assert!(matches!(untaken.refusal(), Some(Reply::Error(_))));
        drop(answered);
        assert_eq!((untaken.bytes(), untaken.refusal()), (0, None));
    }
}
