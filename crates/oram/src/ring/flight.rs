//! A batch's reads under way.
//!
//! 1. Its windows are asked for in order, so many at once; another when one has arrived and
//!    verified. XORed paths are one message beside the first window.
//! 2. Every cell of a window is opened as it arrives, on all cores, beside the others.
//! 3. When all have verified, the payloads land in the slab, and only then is any of them used.
//!
//! With several batches in flight each is a task of its own: the owner of the engine keeps its
//! times meanwhile, and may plan and send the next batch. Dropping a flight ends what it asked for.
//!
//! Invariants
//! - Nothing is asked for once a cell of the flight has not verified.
//! - At most so many windows of a flight ([`super::RingSettings::windows`]) are in memory.
//! - Flights land in the order in which they were planned: what an earlier one brings, a later one
//!   may have been promised.
//!
//! What the cloud sees: windows in the order of planning, and when each was ready for the next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fogbank_env::compute;
use fogbank_seal::KeyRing;
use fogbank_store::{Cell, Store};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::RingEngine;
use super::canary::Trust;
use super::execute::{open_cells, open_paths};
use super::plan::{Fetch, Plan, Reads};
use crate::geometry::BLOCK_ID_BYTES;
use crate::slab::{Handle, Slab};
use crate::{Error, Result, Unverified, blame, miscounted, of_task};

/// Windows of a batch that are under way at once: with [`super::WINDOW_BYTES`] it fills a link of
/// 1 GB/s and 10 ms.
pub const WINDOWS: usize = 6;

/// A part of a flight: what is asked for by one message, and room for the payloads.
#[derive(Debug)]
pub(super) struct Part {
    pub reads: Reads,
    /// Where each path ends, if the cloud XORs them.
    pub path_ends: Option<Vec<u32>>,
    /// A buffer for every fetch, empty where nothing is kept.
    pub payloads: Vec<Box<[u8]>>,
}

/// What was sought: where in the reply its value goes, and its payload.
pub(super) type Sought = (u32, Handle);

/// The reads of one batch.
pub(super) struct Flight {
    /// One task, ended when this is dropped.
    task: JoinSet<Result<Vec<Part>>>,
    landed: Option<Result<Vec<Part>>>,
    found: Vec<Sought>,
    replies: usize,
}

impl Flight {
    /// Whether all of it has arrived and verified, or what went wrong.
    fn poll_landed(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.landed.is_none() {
            let ended = ready!(self.task.poll_join_next(cx));
            self.landed = Some(ended.map_or(Ok(Vec::new()), of_task));
        }
        Poll::Ready(
            self.landed
                .as_ref()
                .map_or(Ok(()), |landed| landed.as_ref().map(drop).map_err(Error::clone)),
        )
    }
}

/// The first of `flights` to fail; never if none does.
pub(super) async fn failure(flights: &mut VecDeque<Flight>) -> Error {
    poll_fn(|cx| {
        for flight in flights.iter_mut() {
            if let Poll::Ready(Err(error)) = flight.poll_landed(cx) {
                return Poll::Ready(error);
            }
        }
        Poll::Pending
    })
    .await
}

impl RingEngine {
    /// Sends what is planned, in a task of its own; `found` says where in the reply of `replies`
    /// values it is wanted.
    pub(super) fn launch(&mut self, found: Vec<Sought>, replies: usize) -> Flight {
        let (flying, parts) = self.depart();
        let (begins, begun) = oneshot::channel();
        let mut task = JoinSet::new();
        match parts.is_empty() {
            true => drop(begins),
            false => drop(task.spawn(flying.fly(parts, self.settings.windows, begins))),
        }
        self.begun = Some(begun);
        Flight { task, landed: None, found, replies }
    }

    /// Sends what is planned and takes in the reply: nobody works meanwhile, so it needs no task.
    pub(super) async fn fetch(
        &mut self,
        found: Vec<Sought>,
        replies: usize,
    ) -> Result<Vec<Option<Bytes>>> {
        let (flying, parts) = self.depart();
        let landed = match parts.is_empty() {
            true => Vec::new(),
            false => flying.fly(parts, self.settings.windows, oneshot::channel().0).await?,
        };
        Ok(self.land(landed, found, replies))
    }

    fn depart(&mut self) -> (Flying, Vec<Part>) {
        self.count_fetched();
        let parts = parts(&mut self.planner.plan, &mut self.slab);
        let flying = Flying {
            store: self.store.clone(),
            keys: self.keys.clone(),
            trust: self.planner.canary.trust(),
            plaintext_bytes: self.slab.buffer_bytes(),
        };
        (flying, parts)
    }

    /// Waits until every message of the flights so far has been begun: the next may follow them.
    /// Any flight that fails meanwhile ends that.
    pub(super) async fn all_begun(&mut self) -> Result<()> {
        let failed = failure(&mut self.flights);
        tokio::pin!(failed);
        let begun = async {
            if let Some(begun) = &mut self.begun {
                // It is dropped when the last message leaves, and where the flight has failed.
                let _ = begun.await;
            }
        };
        tokio::select! { biased;
            error = failed => return Err(error),
            () = begun => self.begun = None,
        }
        Ok(())
    }

    /// Waits for the oldest flight, and for no longer than all are well. May be given up.
    pub(super) async fn arrival(&mut self) -> Result<()> {
        poll_fn(|cx| {
            let mut arrived = Poll::Pending;
            for (at, flight) in self.flights.iter_mut().enumerate() {
                match flight.poll_landed(cx) {
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) if at == 0 => arrived = Poll::Ready(Ok(())),
                    _ => {}
                }
            }
            arrived
        })
        .await
    }

    /// Takes in what the oldest flight has brought; the values that were sought.
    pub(super) fn land_oldest(&mut self) -> Result<Vec<Option<Bytes>>> {
        let Some(flight) = self.flights.pop_front() else { return Ok(Vec::new()) };
        let landed = flight.landed.unwrap_or(Ok(Vec::new()))?;
        Ok(self.land(landed, flight.found, flight.replies))
    }

    fn land(
        &mut self,
        landed: Vec<Part>,
        found: Vec<Sought>,
        replies: usize,
    ) -> Vec<Option<Bytes>> {
        landed.into_iter().for_each(|part| self.take_in(part));
        if self.flights.is_empty() {
            // No read under way can fill them any more.
            self.planner.release_retired();
        }
        let mut values = vec![None; replies];
        for (reply, payload) in found {
            if let Some(value) = values.get_mut(reply as usize) {
                let plaintext = self.slab.get(payload);
                *value = plaintext.get(BLOCK_ID_BYTES..).map(Bytes::copy_from_slice);
            }
        }
        values
    }

    fn take_in(&mut self, part: Part) {
        for (fetch, payload) in part.reads.fetches.iter().zip(part.payloads) {
            self.slab.put(fetch.payload, payload);
        }
        if part.path_ends.is_none() {
            self.planner.plan.give_back(part.reads);
        }
    }

    fn count_fetched(&mut self) {
        let plan = &self.planner.plan;
        if plan.is_empty() {
            return;
        }
        let cells = plan.cell_count();
        self.moved.cells_read += (cells + plan.paths.fetches.len()) as u64;
        self.moved.cells_received += (cells + plan.path_ends.len()) as u64;
        self.moved.read_calls += 1;
    }
}

/// The messages of `plan` in the order in which they leave; the plan is empty then.
fn parts(plan: &mut Plan, slab: &mut Slab) -> Vec<Part> {
    let mut part = |reads: Reads, path_ends| {
        let room = |fetch: &Fetch| slab.take(fetch.payload);
        let payloads = reads.fetches.iter().map(room).collect();
        Part { reads, path_ends, payloads }
    };
    let mut windows = plan.take_windows().into_iter().map(|reads| (reads, None));
    let paths = plan.take_paths().map(|(reads, ends)| (reads, Some(ends)));
    let first = windows.next();
    first.into_iter().chain(paths).chain(windows).map(|(reads, ends)| part(reads, ends)).collect()
}

/// What the cell, or the path, of this number in a message is called.
fn unverified(reads: &Reads, path_ends: Option<&[u32]>, at: usize) -> Unverified {
    let (first, cells) = match path_ends {
        None => (at, 1),
        Some(ends) => {
            let [start, end] =
                [at.checked_sub(1), Some(at)].map(|at| at.and_then(|at| ends.get(at)).copied());
            let start = start.unwrap_or(0);
            (start as usize, (end.unwrap_or(start) - start) as usize)
        }
    };
    let Some(fetch) = reads.fetches.get(first) else {
        return Unverified::Reply("a path without cells".into());
    };
    let (chunk, cell) = (fetch.chunk(), fetch.place.cell);
    match path_ends {
        None => Unverified::Cell { chunk, cell },
        Some(_) => Unverified::Path { chunk, cell, cells },
    }
}

/// What a flight needs of the engine.
#[derive(Clone)]
struct Flying {
    store: Arc<dyn Store>,
    keys: Arc<KeyRing>,
    trust: Trust,
    plaintext_bytes: usize,
}

type Asked = BoxFuture<'static, Result<(Part, Vec<Cell>)>>;

impl Flying {
    async fn fly(
        self,
        parts: Vec<Part>,
        at_once: usize,
        begun: oneshot::Sender<()>,
    ) -> Result<Vec<Part>> {
        let mut landed = Vec::with_capacity(parts.len());
        let (mut parts, mut begun) = (parts.into_iter(), Some(begun));
        let (mut asked, mut opening) = (FuturesUnordered::<Asked>::new(), JoinSet::new());
        let mut room = at_once.max(1);
        loop {
            // XORed paths take no room.
            let paths = |parts: &[Part]| parts.first().is_some_and(|part| part.path_ends.is_some());
            while (room > 0 || paths(parts.as_slice()))
                && let Some(part) = parts.next()
            {
                room -= usize::from(part.path_ends.is_none());
                let last = parts.len() == 0;
                asked.push(self.ask(part, if last { begun.take() } else { None }));
            }
            tokio::select! { biased;
                Some(opened) = opening.join_next() => {
                    let part: Part = of_task(opened)?;
                    room += usize::from(part.path_ends.is_none());
                    landed.push(part);
                }
                Some(arrived) = asked.next() => {
                    let (part, cells) = arrived?;
                    if asked.is_empty() {
                        // Nothing that is under way would be held up.
                        room += usize::from(part.path_ends.is_none());
                        landed.push(compute(|| self.open(part, &cells))?);
                        continue;
                    }
                    let flying = self.clone();
                    opening.spawn(async move { compute(|| flying.open(part, &cells)) });
                }
                else => return Ok(landed),
            }
        }
    }

    fn ask(&self, part: Part, begins: Option<oneshot::Sender<()>>) -> Asked {
        let store = self.store.clone();
        Box::pin(async move {
            // Whoever waits for this goes on when this has been polled once.
            drop(begins);
            let message = &part.reads.message;
            let cells = match (&part.path_ends, store.xor()) {
                (None, _) => store.read_cells(message).await,
                (Some(ends), Some(xor)) => xor.read_xor(message, ends).await,
                (Some(_), None) => return Err(Error::Bug("the store does not XOR".into())),
            };
            Ok((part, cells.map_err(blame)?))
        })
    }

    fn open(&self, mut part: Part, cells: &[Cell]) -> Result<Part> {
        let expected = part.path_ends.as_ref().map_or(part.reads.fetches.len(), Vec::len);
        if cells.len() != expected {
            return Err(miscounted(cells.len(), expected));
        }
        let by = (&*self.keys, self.trust);
        let Part { reads, path_ends, payloads } = &mut part;
        let verdict = match path_ends {
            None => open_cells(by, &reads.fetches, cells, payloads, self.plaintext_bytes),
            Some(ends) => {
                open_paths(by, (&reads.fetches, ends), cells, payloads, self.plaintext_bytes)
            }
        };
        let place = |at| unverified(reads, path_ends.as_deref(), at);
        verdict.into_result(place).map(|()| part)
    }
}
