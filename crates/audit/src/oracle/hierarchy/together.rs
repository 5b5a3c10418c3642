//! The traces of all clients of a site, as one.
//!
//! 1. Clocks of two clients have nothing to do with each other. What ties their traces is what one
//!    gets that another has sent: an entry or a result that is heard, an object that is there. Such
//!    an event comes behind the sending.
//! 2. Of the traces that may go on that one does whose client has heard the least of the log.
//! 3. An event gets the number of its client as its connection, and a request an id of its own. A
//!    trace that ends says so, by a mark; marks of its own are left out.
//!
//! Where no trace may go on, one is missing: then they go on all the same, and the specification
//! says so.

use std::collections::HashSet;

use fogbank_store::trace::{Done, Event, LogCall, Mark, Outcome, Request};

use super::named::Named;

/// The mark of a client whose trace has ended.
pub const ENDS: &str = "client-ends";

/// See the module.
pub struct Together<I> {
    traces: Vec<Trace<I>>,
    /// What clients have sent so far: entries, results and objects, by what was sealed.
    sent: HashSet<u64>,
}

struct Trace<I> {
    events: I,
    next: Option<Event>,
    /// How much of the log its client has heard.
    length: u64,
    has_ended: bool,
    /// Objects that were asked for, which another client may have put.
    asked: HashSet<u64>,
}

impl<I> Together<I> {
    /// Of traces of the clients of one site, in any order.
    pub fn new(traces: impl IntoIterator<Item = I>) -> Self {
        let trace = |events| {
            let (next, length, has_ended, asked) = Default::default();
            Trace { events, next, length, has_ended, asked }
        };
        Self { traces: traces.into_iter().map(trace).collect(), sent: HashSet::new() }
    }

    /// The traces themselves.
    pub fn into_inner(self) -> impl Iterator<Item = I> {
        self.traces.into_iter().map(|trace| trace.events)
    }
}

impl<I: Iterator<Item = Result<Event, E>>, E> Iterator for Together<I> {
    type Item = Result<Event, E>;

    fn next(&mut self) -> Option<Self::Item> {
        // 1. What each would go on with.
        for (number, trace) in self.traces.iter_mut().enumerate() {
            match trace.look() {
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(false)) => {
                    let mark = Mark { at: 0, label: ENDS.into(), number: number as u64 };
                    return Some(Ok(Event::Mark(mark)));
                }
                Some(Ok(true)) | None => {}
            }
        }
        // 2. Which one does.
        let (count, sent) = (self.traces.len() as u64, &mut self.sent);
        let live = self.traces.iter_mut().enumerate().filter(|(_, trace)| !trace.has_ended);
        let (number, trace) =
            live.min_by_key(|(_, trace)| (!trace.may_go_on(sent), trace.length))?;
        let mut event = trace.next.take()?;
        trace.goes_on(&event, sent);
        // 3. Whose it is.
        let named = |id: u64| id.saturating_mul(count).saturating_add(number as u64);
        match &mut event {
            Event::Sent(sent) => (sent.id, sent.connection) = (named(sent.id), number as u32),
            Event::Done(done) => done.id = named(done.id),
            Event::Heard(heard) => heard.id = named(heard.id),
            _ => {}
        }
        Some(Ok(event))
    }
}

impl<I: Iterator<Item = Result<Event, E>>, E> Trace<I> {
    /// Has the next event at hand; false when it has just come to its end.
    fn look(&mut self) -> Option<Result<bool, E>> {
        while self.next.is_none() && !self.has_ended {
            match self.events.next() {
                None => {
                    self.has_ended = true;
                    return Some(Ok(false));
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_))) => {}
                Some(Ok(event)) => self.next = Some(event),
            }
        }
        None
    }
}

impl<I> Trace<I> {
    /// Whether what the next event gets has been sent.
    fn may_go_on(&self, sent: &HashSet<u64>) -> bool {
        match &self.next {
            Some(Event::Heard(heard)) => sent.contains(&heard.fingerprint),
            Some(Event::Done(Done { id, outcome: Outcome::Blob(Some(seen)), .. })) => {
                let print = seen.fingerprints.first().filter(|_| self.asked.contains(id));
                print.is_none_or(|print| sent.contains(print))
            }
            _ => true,
        }
    }

    fn goes_on(&mut self, event: &Event, sent: &mut HashSet<u64>) {
        match event {
            Event::Sent(request) => match &request.request {
                Request::BlobGet { name } if is_of_clients(name) => {
                    self.asked.insert(request.id);
                }
                Request::BlobPut { fingerprint, .. }
                | Request::Log(
                    LogCall::Append { fingerprint, .. } | LogCall::Publish { fingerprint, .. },
                ) => _ = sent.insert(*fingerprint),
                Request::Log(LogCall::Follow { from }) => self.length = self.length.max(*from),
                _ => {}
            },
            Event::Done(done) => _ = self.asked.remove(&done.id),
            Event::Heard(heard) if !heard.is_result => {
                self.length = self.length.max(heard.place + 1);
            }
            _ => {}
        }
    }
}

/// Whether an object is none that whoever made the site has put, before anybody joined, or may
/// have.
fn is_of_clients(name: &str) -> bool {
    match Named::of(name) {
        None | Some(Named::Header | Named::Session(_) | Named::Superblock(1)) => false,
        Some(Named::Manifest(table)) => table.index >= 0,
        Some(_) => true,
    }
}
