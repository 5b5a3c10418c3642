//! What all tenants share and none may have to itself: memory, and places for connections.
//!
//! - A quarter is kept for those who hold little: a small part each for as many tenants as
//!   [`GUARANTEED_TENANTS`], which each finds however much the others took.
//! - Of the rest a tenant takes only as much as leaves as much again. So one that takes all it can
//!   has three eighths, the next half of that, and so on: it never comes to nothing.
//!
//! What is not there is waited for until a deadline, or refused.
//!
//! Invariants
//! - What is held by all together never exceeds the pool.
//! - What was taken comes back when its [`Room`] ends, wherever that is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::{Clock, Mutex, Nanos, by};
use tokio::sync::Notify;

/// So many of something, for all tenants.
#[derive(Debug)]
pub struct Pool {
    most: u64,
    free: Mutex<u64>,
    freed: Notify,
}

/// What a tenant holds of a pool.
#[derive(Debug)]
pub struct Account {
    pool: Arc<Pool>,
    /// Changed with the pool's lock held.
    held: AtomicU64,
}

/// Part of a pool, held until it is dropped.
#[derive(Debug)]
pub struct Room {
    account: Arc<Account>,
    taken: u64,
}

impl Pool {
    /// With `most` of it.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, free: Mutex::new(most), freed: Notify::new() })
    }

    /// One more who takes from it.
    pub fn account(self: &Arc<Self>) -> Arc<Account> {
        Arc::new(Account { pool: self.clone(), held: AtomicU64::new(0) })
    }

    /// What a tenant can have at once when nobody else has any.
    pub fn most_of_one(&self) -> u64 {
        self.most / 8 * 3
    }

    /// What is held by all now.
    pub fn held(&self) -> u64 {
        self.most - *self.free.lock()
    }
}

impl Account {
    /// As [`Pool::most_of_one`].
    pub fn most_of_one(&self) -> u64 {
        self.pool.most_of_one()
    }

    /// So much of it, if it is there and may be this tenant's.
    pub fn try_take(self: &Arc<Self>, wanted: u64) -> Option<Room> {
        let mut free = self.pool.free.lock();
        let left = free.checked_sub(wanted)?;
        let held = self.held.load(Ordering::Relaxed).checked_add(wanted)?;
        let guaranteed = self.pool.most / 4 / GUARANTEED_TENANTS;
        if held > guaranteed && held.checked_add(self.pool.most / 4)? > left {
            return None;
        }
        *free = left;
        self.held.store(held, Ordering::Relaxed);
        Some(Room { account: self.clone(), taken: wanted })
    }

    /// As [`Account::try_take`], but waits for it until `deadline`.
    pub async fn take(
        self: &Arc<Self>,
        wanted: u64,
        clock: &dyn Clock,
        deadline: Nanos,
    ) -> Option<Room> {
        if wanted > self.pool.most_of_one() {
            return None;
        }
        let found = async {
            loop {
                let mut freed = std::pin::pin!(self.pool.freed.notified());
                // Before it is tried: what is freed in between must not be missed.
                freed.as_mut().enable();
                match self.try_take(wanted) {
                    Some(room) => return room,
                    None => freed.await,
                }
            }
        };
        by(clock, deadline, found).await
    }
}

impl Room {
    /// What `other` holds of the same account is held by this one.
    pub fn merge(&mut self, mut other: Room) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account));
        self.taken += std::mem::take(&mut other.taken);
    }

    /// Gives back what is more than `needed`.
    pub fn shrink(&mut self, needed: u64) {
        let more = self.taken.saturating_sub(needed);
        if more == 0 {
            return;
        }
        self.taken -= more;
        let pool = &self.account.pool;
        {
            let mut free = pool.free.lock();
            *free += more;
            self.account.held.fetch_sub(more, Ordering::Relaxed);
        }
        pool.freed.notify_waiters();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// A quarter of a pool is enough for the guaranteed part of so many.
pub const GUARANTEED_TENANTS: u64 = 16;

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;

    #[test]
    fn whoever_takes_all_he_can_leaves_something() {
        let pool = Pool::new(1 << 20);
        let mut rooms = Vec::new();
        let mut greedy = |pieces: u64| {
            let account = pool.account();
            let mut had = 0;
            while let Some(room) = account.try_take(pieces) {
                rooms.push(room);
                had += pieces;
            }
            had
        };
        assert_eq!(greedy(1 << 10), 3 << 17, "three eighths");
        assert_eq!(greedy(1 << 10), 3 << 16);
        for _ in 2..GUARANTEED_TENANTS {
            assert!(greedy(1 << 10) >= 1 << 14, "each finds its part");
        }
        drop(rooms);
        assert_eq!(pool.held(), 0, "all of it came back");
    }

    #[test]
    fn rooms_are_merged_and_shrink() {
        let pool = Pool::new(1000);
        let account = pool.account();
        let (mut one, two) = (account.try_take(100).unwrap(), account.try_take(50).unwrap());
        one.merge(two);
        assert_eq!(pool.held(), 150);
        one.shrink(200);
        assert_eq!(pool.held(), 150);
        one.shrink(40);
        assert_eq!(pool.held(), 40);
        drop(one);
        assert_eq!(pool.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_is_waited_for_until_the_deadline() {
        let (pool, clock) = (Pool::new(104), SystemClock::new());
        let (one, two) = (pool.account(), pool.account());
        assert!(one.take(40, &clock, u64::MAX).await.is_none(), "it can never be had");
        let room = one.try_take(39).unwrap();
        assert!(one.try_take(1).is_none() && two.try_take(20).is_none());
        assert!(two.take(20, &clock, 1_000_000_000).await.is_none());
        assert_eq!(clock.now() / 100_000_000, 10, "the deadline");
        let waiting = tokio::spawn(async move {
            let clock = SystemClock::new();
            two.take(20, &clock, 1_000_000_000).await.is_some()
        });
        tokio::task::yield_now().await;
        drop(room);
        assert!(waiting.await.unwrap());
        assert_eq!(pool.held(), 0);
    }
}
