//! The entrance of an engine: what is submitted goes to the task that serves it, and whoever waits
//! is told what has stopped that.
//!
//! 1. An access is held against the shape, and handed over.
//! 2. Closing waits for the task that serves, which ends when nothing is left to do.
//! 3. The first fault counts. Once there is one nothing is served any more.
//!
//! An engine that is dropped sends nothing more: as if its process had died.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::{Mutex, Nanos};
use fogbank_store::DepartureGrid;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::arrival::Arrival;
use super::{ImmediateEngine, ImmediateShape, Ticket};
use crate::{Access, Address, Error, Result};

/// What the task that serves is told.
pub trait Told: Send + Sized {
    /// Somebody has submitted an access.
    fn arrives(arrival: Arrival) -> Self;

    /// Nothing arrives any more, unless the end of what it is told says so.
    fn closes(at: Nanos) -> Option<Self>;
}

/// See the module.
pub struct Entrance<T> {
    shape: ImmediateShape,
    grid: DepartureGrid,
    fault: Arc<Fault>,
    /// None when the engine is closed.
    told: Mutex<Option<mpsc::UnboundedSender<T>>>,
    serving: Mutex<Option<JoinHandle<Result<()>>>>,
}

impl<T: Told> Entrance<T> {
    /// That of an engine whose task `serving` is told what arrives, and sets `fault` if it fails.
    pub fn new(
        (shape, grid): (ImmediateShape, DepartureGrid),
        (told, fault): (mpsc::UnboundedSender<T>, Arc<Fault>),
        serving: JoinHandle<Result<()>>,
    ) -> Self {
        let (told, serving) = (Mutex::new(Some(told)), Mutex::new(Some(serving)));
        Self { shape, grid, fault, told, serving }
    }

    fn arrive(&self, address: Address, access: Access) -> Result<Ticket> {
        self.shape.check(address, &access)?;
        let (reply, ticket) = Ticket::new();
        let arrival = Arrival { at: self.grid.now(), address, access, reply: Some(reply) };
        let handed_over = self.told.lock().as_ref().map(|told| told.send(T::arrives(arrival)));
        match handed_over {
            Some(Ok(())) => Ok(ticket),
            _ => Err(self.fault.reason()),
        }
    }
}

impl<T> Drop for Entrance<T> {
    fn drop(&mut self) {
        self.serving.lock().iter().for_each(JoinHandle::abort);
    }
}

/// An engine that has an entrance.
pub trait Entered: Send + Sync {
    /// What its task is told.
    type Told: Told;

    /// See [`Entrance`].
    fn entrance(&self) -> &Entrance<Self::Told>;
}

#[async_trait]
impl<E: Entered> ImmediateEngine for E {
    fn shape(&self) -> ImmediateShape {
        self.entrance().shape
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        self.entrance().arrive(address, access).unwrap_or_else(|refused| {
            let (reply, ticket) = Ticket::new();
            let _nobody_waits = reply.send(Err(refused));
            ticket
        })
    }

    async fn close(&self) -> Result<()> {
        let Entrance { grid, fault, told, serving, .. } = self.entrance();
        let serving = serving.lock().take().ok_or_else(|| fault.reason())?;
        if let (Some(told), Some(closes)) = (told.lock().take(), E::Told::closes(grid.now())) {
            let _it_has_ended = told.send(closes);
        }
        serving.await.unwrap_or_else(|_| Err(ended_midway()))
    }

    async fn stopped(&self) -> Error {
        self.entrance().fault.come().await
    }
}

/// What has stopped an engine. Those who wait for it are told in the order in which they began to.
#[derive(Debug, Default)]
pub struct Fault {
    reason: Mutex<Option<Error>>,
    came: Notify,
}

impl Fault {
    /// The engine has stopped, if it has not before.
    pub fn set(&self, reason: &Error) {
        self.reason.lock().get_or_insert_with(|| reason.clone());
        self.came.notify_waiters();
    }

    /// Whether anything may be sent.
    pub fn sound(&self) -> Result<()> {
        self.reason.lock().clone().map_or(Ok(()), Err)
    }

    /// Why nothing is served any more.
    pub fn reason(&self) -> Error {
        self.sound().err().unwrap_or_else(|| Error::Caller("the engine is closed".into()))
    }

    /// Completes when the engine has stopped, with the reason.
    pub async fn come(&self) -> Error {
        let came = self.came.notified();
        tokio::pin!(came);
        came.as_mut().enable();
        if self.sound().is_ok() {
            came.await;
        }
        self.reason()
    }
}

/// Sets the fault where a task is dropped, or panics.
pub struct EndsMidway(pub Arc<Fault>);

impl Drop for EndsMidway {
    fn drop(&mut self) {
        self.0.set(&ended_midway());
    }
}

/// A task of ours has ended as it should not.
pub fn ended_midway() -> Error {
    Error::Bug("the engine ended midway".into())
}
