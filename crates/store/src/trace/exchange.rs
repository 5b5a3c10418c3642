//! Requests joined with their ends, in the order of sending.
//!
//! Memory holds what was under way at once, and no more.

use std::collections::VecDeque;

use super::event::{Done, Event, Sent};
use super::reader::{TraceError, TraceReader};

/// A request with its end, or another event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    /// A request and how it ended; `None` if the trace ends before.
    Request(Sent, Option<Done>),
    /// Any other event, handed out when it is met.
    Other(Event),
}

/// The exchanges of a trace.
#[derive(Debug)]
pub struct Exchanges {
    reader: TraceReader,
    /// Requests not handed out yet, by id without gaps.
    waiting: VecDeque<(Sent, Option<Done>)>,
    ended: bool,
}

impl Exchanges {
    /// Joins what `reader` is yet to read.
    pub fn new(reader: TraceReader) -> Self {
        Self { reader, waiting: VecDeque::new(), ended: false }
    }

    /// The reader behind, for what it knows of the trace.
    pub fn reader(&self) -> &TraceReader {
        &self.reader
    }

    fn join(&mut self, done: Done) {
        let first = self.waiting.front().map_or(u64::MAX, |(sent, _)| sent.id);
        let slot = done.id.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(slot) = slot.and_then(|at| self.waiting.get_mut(at)) {
            slot.1 = Some(done);
        } // else its beginning was skipped by whoever read before us
    }
}

impl Iterator for Exchanges {
    type Item = Result<Exchange, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let ready = self.waiting.front().is_some_and(|(_, done)| done.is_some());
            if ready || self.ended {
                return self
                    .waiting
                    .pop_front()
                    .map(|(sent, done)| Ok(Exchange::Request(sent, done)));
            }
            match self.reader.next() {
                None => self.ended = true,
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Some(Ok(Event::Sent(sent))) => self.waiting.push_back((sent, None)),
                Some(Ok(Event::Done(done))) => self.join(done),
                Some(Ok(other)) => return Some(Ok(Exchange::Other(other))),
            }
        }
    }
}
