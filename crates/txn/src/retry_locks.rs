//! Locks by which transactions that keep losing take turns.
//!
//! Who has lost often runs again alone among those who have lost at the same record. So at least
//! one of them meets no rival that keeps losing too. Those who lose at other records do not wait:
//! with one lock for all, the deliveries of ten warehouses took turns though no two warehouses
//! share a record.
//!
//! A lock is held for a body, in Fogbank for two epochs at most while somebody polls it. A future
//! that is kept and not polled keeps its lock, so whoever runs bodies polls them.
//!
//! The store sees nothing of who waits for whom.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::sync::{Mutex, MutexGuard};

use crate::key::Key;

/// Records share a turn by chance: that costs time and nothing else.
const TURNS: usize = 64;

/// Where a transaction has lost: the same for those that have lost at the same record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConflictKey(u64);

impl ConflictKey {
    /// That of a record.
    pub(crate) fn of(key: &Key) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The locks of one proxy: whoever holds one has its turn.
#[derive(Debug)]
pub(crate) struct RetryLocks([Mutex<()>; TURNS]);

impl Default for RetryLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl RetryLocks {
    /// Waits for the lock of one who has lost there; nobody knows where if it was for the end of an
    /// epoch.
    pub(crate) async fn take(&self, lost: Option<ConflictKey>) -> MutexGuard<'_, ()> {
        self.of(lost).lock().await
    }

    fn of(&self, lost: Option<ConflictKey>) -> &Mutex<()> {
        let nth = lost.map_or(0, |ConflictKey(hash)| hash % TURNS as u64) as usize;
        &self.0[nth]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_elsewhere_does_not_wait() {
        let retry_locks = RetryLocks::default();
        let free = |number: u8| {
            let key = Key::new(b"group", &[number]);
            retry_locks.of(Some(ConflictKey::of(&key))).try_lock()
        };
        let held = free(0);
        assert!(held.is_ok() && free(0).is_err());
        // Some of many share a turn by chance.
        assert!((1..100).filter(|number| free(*number).is_ok()).count() > 80);
        drop(held);
        assert!(free(0).is_ok());
    }
}
