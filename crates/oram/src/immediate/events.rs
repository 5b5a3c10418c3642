//! What happens to an engine that one task serves.
//!
//! 1. Whatever happens is told from anywhere, with its moment.
//! 2. The task takes together what has happened by the middle between two points of the grid, in its
//!    order; what follows from it leaves at the next point.
//! 3. When the engine stops, the first reason counts, and all who wait are told.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_env::Nanos;
use fogbank_store::DepartureGrid;
use tokio::sync::{mpsc, watch};

use crate::{Error, Result};

/// Tells what happens.
pub struct Tells<E> {
    grid: DepartureGrid,
    told: mpsc::UnboundedSender<(Nanos, E)>,
}

impl<E> Clone for Tells<E> {
    fn clone(&self) -> Self {
        Self { grid: self.grid.clone(), told: self.told.clone() }
    }
}

impl<E> Tells<E> {
    /// It happens now.
    ///
    /// # Errors
    /// The event, if nobody serves any longer.
    pub fn tell(&self, event: E) -> std::result::Result<(), E> {
        self.told.send((self.grid.now(), event)).map_err(|refused| refused.0.1)
    }
}

/// What has happened, for the task that serves.
pub struct Events<E> {
    grid: DepartureGrid,
    told: mpsc::UnboundedReceiver<(Nanos, E)>,
    happened: VecDeque<(Nanos, E)>,
}

impl<E> Events<E> {
    /// Nothing so far.
    pub fn new(grid: &DepartureGrid) -> (Tells<E>, Self) {
        let (sender, told) = mpsc::unbounded_channel();
        let tells = Tells { grid: grid.clone(), told: sender };
        (tells, Self { grid: grid.clone(), told, happened: VecDeque::new() })
    }

    /// Waits until something has happened; all of it that may be looked at.
    ///
    /// # Errors
    /// [`Error::Bug`] if nobody is left to tell anything.
    pub async fn next(&mut self) -> Result<Vec<E>> {
        if self.happened.is_empty() {
            let gone = || Error::Bug("nobody is left to tell anything".into());
            self.happened.push_back(self.told.recv().await.ok_or_else(gone)?);
        }
        let first = self.happened.front().map_or(0, |(at, _)| *at);
        let point = self.grid.wait_for_delivery(first.max(self.grid.now())).await;
        while let Ok(event) = self.told.try_recv() {
            self.happened.push_back(event);
        }
        let is_due = |(at, _): &(Nanos, E)| {
            self.grid.quantum() == 0 || self.grid.delivery_time(*at) <= point
        };
        let due = self.happened.iter().take_while(|event| is_due(event)).count();
        Ok(self.happened.drain(..due).map(|(_, event)| event).collect())
    }

    /// Nothing can be told any more; what was told and not taken.
    pub fn end(&mut self) -> Vec<E> {
        self.told.close();
        let mut left = std::mem::take(&mut self.happened);
        while let Ok(event) = self.told.try_recv() {
            left.push_back(event);
        }
        left.into_iter().map(|(_, event)| event).collect()
    }
}

/// What has stopped an engine, once something has; the first reason counts. Dropped without one it
/// says that the engine ended midway.
pub struct Fault(pub Arc<watch::Sender<Option<Error>>>);

impl Fault {
    /// This is a reason.
    pub fn is(&self, reason: &Error) {
        self.0.send_if_modified(|fault| {
            let is_first = fault.is_none();
            fault.get_or_insert_with(|| reason.clone());
            is_first
        });
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.is(&Error::Bug("the engine ended midway".into()));
    }
}
