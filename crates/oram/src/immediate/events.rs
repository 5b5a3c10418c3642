//! What happens to an engine that one task serves.
//!
//! 1. Whatever happens is told from anywhere, with its moment.
//! 2. The task takes together what has happened by the middle between two points of the grid, in
//!    its order; what follows from it leaves at the next point.
//! 3. What was told and not taken when the engine stops is refused, with the reason.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_env::Nanos;
use fogbank_store::DepartureGrid;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::ImmediateShape;
use super::arrival::Arrival;
use super::entrance::{Entrance, Fault, Told};
use crate::{Error, Result};

/// What an engine of this kind has among what happens to it.
pub trait Happens: Send {
    /// An access is submitted.
    fn arrives(arrival: Arrival) -> Self;

    /// Nothing arrives any more.
    fn closes() -> Self;

    /// The access, if one is submitted.
    fn arrival(self) -> Option<Arrival>;
}

impl<E: Happens> Told for (Nanos, E) {
    fn arrives(arrival: Arrival) -> Self {
        (arrival.at, E::arrives(arrival))
    }

    fn closes(at: Nanos) -> Option<Self> {
        Some((at, E::closes()))
    }
}

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

impl<E: Happens> Tells<E> {
    /// The entrance of an engine whose task `serving` is told in this way.
    pub fn entrance(
        self,
        shape: ImmediateShape,
        fault: Arc<Fault>,
        serving: JoinHandle<Result<()>>,
    ) -> Entrance<(Nanos, E)> {
        Entrance::new((shape, self.grid), (self.told, fault), serving)
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

    /// Waits until something has happened, and then for the moment at which it is taken.
    ///
    /// # Errors
    /// [`Error::Bug`] if nobody is left to tell anything.
    pub async fn moment(&mut self) -> Result<Nanos> {
        if self.happened.is_empty() {
            let gone = || Error::Bug("nobody is left to tell anything".into());
            self.happened.push_back(self.told.recv().await.ok_or_else(gone)?);
        }
        let first = self.happened.front().map_or(0, |(at, _)| *at);
        let moment = self.grid.wait_for_delivery(first.max(self.grid.now())).await;
        while let Ok(event) = self.told.try_recv() {
            self.happened.push_back(event);
        }
        Ok(moment)
    }

    /// The next that is taken at that moment.
    pub fn next(&mut self, moment: Nanos) -> Option<E> {
        let (at, _) = self.happened.front()?;
        let is_due = self.grid.quantum() == 0 || self.grid.delivery_time(*at) <= moment;
        if is_due { self.happened.pop_front().map(|(_, event)| event) } else { None }
    }

    /// Whether all that is known to have happened was taken.
    pub fn is_empty(&self) -> bool {
        self.happened.is_empty()
    }

    /// Nothing can be told any more; refuses what was submitted and not taken.
    pub fn end(&mut self, reason: &Error)
    where
        E: Happens,
    {
        self.told.close();
        while let Ok(event) = self.told.try_recv() {
            self.happened.push_back(event);
        }
        let left = self.happened.drain(..).filter_map(|(_, event)| event.arrival());
        left.for_each(|arrival| arrival.refuse(reason));
    }
}
