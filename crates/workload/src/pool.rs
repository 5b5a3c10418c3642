//! Connections that are shared, each by one transaction at a time.

use fogbank_env::Mutex as Brief;
use std::ops::{Deref, DerefMut};

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use crate::database::{Error, Result};

/// Connections, some of them lent.
pub(crate) struct Pool<C> {
    connections: Vec<Mutex<C>>,
    /// Those that nobody has, by index; the one given back last is lent first.
    idle: Brief<Vec<usize>>,
    room: Semaphore,
}

/// A connection that one transaction has; it goes back when dropped, also in the middle of
/// something.
pub(crate) struct Lease<'a, C> {
    connection: MutexGuard<'a, C>,
    // After the guard, so that whoever is given the place finds the connection unlocked.
    _place: Place<'a>,
}

struct Place<'a> {
    index: usize,
    idle: &'a Brief<Vec<usize>>,
    _room: SemaphorePermit<'a>,
}

impl<C> Pool<C> {
    pub fn of(connections: Vec<C>) -> Self {
        let count = connections.len();
        let idle = Brief::new((0..count).collect());
        let connections = connections.into_iter().map(Mutex::new).collect();
        Self { connections, idle, room: Semaphore::new(count) }
    }

    /// A connection, as soon as there is one.
    pub async fn lease(&self) -> Result<Lease<'_, C>> {
        let none = || Error::Failed("there is no connection".into());
        if self.connections.is_empty() {
            return Err(none());
        }
        let room = self.room.acquire().await.map_err(|_| none())?;
        let index = self.idle.lock().pop();
        let index = index.ok_or_else(none)?;
        let place = Place { index, idle: &self.idle, _room: room };
        let connection = self.connections.get(index).ok_or_else(none)?.lock().await;
        Ok(Lease { connection, _place: place })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.idle.lock().push(self.index);
    }
}

impl<C> Deref for Lease<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.connection
    }
}

impl<C> DerefMut for Lease<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_is_lent_once() {
        let pool = Pool::of(vec![1, 2]);
        let (first, second) = (pool.lease().await.unwrap(), pool.lease().await.unwrap());
        assert_eq!(*first + *second, 3);
        let mut third = Box::pin(pool.lease());
        tokio::select! {
            biased;
            _ = &mut third => panic!("there were two"),
            () = std::future::ready(()) => (),
        }
        let was = *second;
        drop(second);
        assert_eq!(*third.await.unwrap(), was);
        assert!(Pool::<()>::of(vec![]).lease().await.is_err());
    }
}
