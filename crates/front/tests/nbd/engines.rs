//! Engines to test with: one that waits to be let go, one that stops, and some that are wrong.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_oram::immediate::plain::PlainEngine;
use fogbank_oram::{
    Access, Address, Error, ImmediateEngine, ImmediateShape, Result, Ticket, Unverified,
};
use tokio::sync::oneshot::Sender;

/// An engine that answers when it is told to, and counts.
pub struct Held {
    engine: PlainEngine,
    is_open: AtomicBool,
    waiting: Mutex<VecDeque<Waiting>>,
    submitted: AtomicUsize,
    most: AtomicUsize,
}

struct Waiting {
    address: Address,
    access: Access,
    answer: Sender<Result<Bytes>>,
}

impl Held {
    pub fn new(shape: ImmediateShape) -> Self {
        Self {
            engine: PlainEngine::new(shape),
            is_open: AtomicBool::new(false),
            waiting: Mutex::default(),
            submitted: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        }
    }

    /// Lets the oldest `count` go, in their order.
    pub async fn release(&self, count: usize) {
        for _ in 0..count {
            let next = self.waiting.lock().pop_front();
            let Some(Waiting { address, access, answer }) = next else { return };
            let _ = answer.send(self.engine.submit(address, access).await);
        }
    }

    /// Lets all go, and holds no more.
    pub async fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
        self.release(usize::MAX).await;
    }

    /// Addresses of what waits, in the order of arrival.
    pub fn waiting(&self) -> Vec<u32> {
        self.waiting.lock().iter().map(|one| one.address.0).collect()
    }

    /// Waits until so many wait.
    pub async fn until_waiting(&self, count: usize) {
        while self.waiting.lock().len() != count {
            tokio::task::yield_now().await;
        }
    }

    /// How many there were.
    pub fn submitted(&self) -> usize {
        self.submitted.load(Ordering::SeqCst)
    }

    /// The most that waited at a time.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ImmediateEngine for Held {
    fn shape(&self) -> ImmediateShape {
        self.engine.shape()
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        self.submitted.fetch_add(1, Ordering::SeqCst);
        if self.is_open.load(Ordering::SeqCst) {
            return self.engine.submit(address, access);
        }
        let (answer, ticket) = Ticket::new();
        let mut waiting = self.waiting.lock();
        waiting.push_back(Waiting { address, access, answer });
        self.most.fetch_max(waiting.len(), Ordering::SeqCst);
        ticket
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    async fn stopped(&self) -> Error {
        self.engine.stopped().await
    }
}

/// An engine that stops after so many accesses.
pub struct Stopping {
    engine: PlainEngine,
    left: AtomicUsize,
}

impl Stopping {
    pub fn after(accesses: usize, shape: ImmediateShape) -> Self {
        Self { engine: PlainEngine::new(shape), left: AtomicUsize::new(accesses) }
    }
}

#[async_trait]
impl ImmediateEngine for Stopping {
    fn shape(&self) -> ImmediateShape {
        self.engine.shape()
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let count_down = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down).is_ok() {
            return self.engine.submit(address, access);
        }
        let (answer, ticket) = Ticket::new();
        let _ = answer.send(Err(Error::CloudLied(Unverified::Reply("a test".into()))));
        ticket
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    async fn stopped(&self) -> Error {
        self.engine.stopped().await
    }
}

/// What an engine does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A write of a part of a block is forgotten, now and then.
    DropsPatch,
    /// A write of a part of a block fills the rest with zeros.
    ClearsAround,
    /// Two answers are exchanged, now and then.
    SwapsAnswers,
}

/// An engine with a fault.
pub struct Faulty {
    engine: PlainEngine,
    fault: Fault,
    count: AtomicUsize,
    last: Mutex<Option<Bytes>>,
}

impl Faulty {
    pub fn new(fault: Fault, shape: ImmediateShape) -> Self {
        let engine = PlainEngine::new(shape);
        Self { engine, fault, count: AtomicUsize::new(0), last: Mutex::default() }
    }

    fn is_due(&self) -> bool {
        self.count.fetch_add(1, Ordering::SeqCst) % 50 == 49
    }

    fn instead(&self, access: Access) -> Access {
        let value_bytes = self.engine.shape().value_bytes;
        match (self.fault, access) {
            (Fault::DropsPatch, Access::Write { bytes, .. })
                if bytes.len() < value_bytes && self.is_due() =>
            {
                Access::Read
            }
            (Fault::ClearsAround, Access::Write { offset, bytes }) if self.is_due() => {
                let mut whole = vec![0; value_bytes];
                whole[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
                Access::Write { offset: 0, bytes: whole.into() }
            }
            (_, access) => access,
        }
    }
}

#[async_trait]
impl ImmediateEngine for Faulty {
    fn shape(&self) -> ImmediateShape {
        self.engine.shape()
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let is_read = access == Access::Read;
        let ticket = self.engine.submit(address, self.instead(access));
        if !is_read || self.fault != Fault::SwapsAnswers {
            return ticket;
        }
        // It was answered before this came.
        let (answer, late) = Ticket::new();
        let block = now(ticket);
        let before = self.last.lock().replace(block.clone());
        let wrong = before.filter(|_| self.is_due());
        let _ = answer.send(Ok(wrong.unwrap_or(block)));
        late
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    async fn stopped(&self) -> Error {
        self.engine.stopped().await
    }
}

fn now(ticket: Ticket) -> Bytes {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    match std::pin::pin!(ticket).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(block)) => block,
        other => panic!("the plain engine answers at once: {other:?}"),
    }
}
