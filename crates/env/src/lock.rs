//! Locks that a panic does not poison: what they guard is left as the panic found it, and whoever
//! comes next goes on. A task that panics stops its engine or its proxy by other means, which every
//! engine has.

#![allow(clippy::disallowed_types)] // what stands in their place

use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// One at a time.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Guards `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// What was guarded.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for whoever has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Several who read, or one who writes.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Guards `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for whoever writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all others.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_leaves_what_it_found_to_whoever_comes_next() {
        let (one, several) = (Mutex::new(1), RwLock::new(1));
        let midway = catch_unwind(AssertUnwindSafe(|| {
            (*one.lock(), *several.write()) = (2, 2);
            let _both = (one.lock(), several.write());
            panic!("midway");
        }));
        assert!(midway.is_err());
        assert_eq!((*one.lock(), *several.read()), (2, 2));
        assert_eq!(one.into_inner(), 2);
    }
}
