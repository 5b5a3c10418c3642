//! The Sequencer: answers leave in the order of arrival.
//!
//! An answer leaves when its block is known, what its access asked for has come, and all before it
//! have left. So the moment at which answer j leaves is that at which the last of what accesses 1
//! to j asked for came, which the cloud knows anyway: it does not tell whether two accesses asked
//! for one block.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{Error, Result};

/// The number of an access in the order of arrival.
pub(crate) type Number = u64;

/// Where an answer goes; `None` for an access that nobody waits for.
pub(crate) type Reply = Option<oneshot::Sender<Result<Bytes>>>;

/// Accesses that have arrived and whose answers have not left.
#[derive(Debug, Default)]
pub struct Sequencer {
    first: Number,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    reply: Reply,
    has_come: bool,
    answer: Option<Bytes>,
}

impl Sequencer {
    /// An access arrives.
    pub fn arrive(&mut self, reply: Reply) -> Number {
        let answer = reply.is_none().then(Bytes::new);
        self.waiting.push_back(Waiting { reply, has_come: false, answer });
        self.first + self.waiting.len() as u64 - 1
    }

    /// The number of the next access to arrive.
    pub fn next(&self) -> Number {
        self.first + self.waiting.len() as u64
    }

    /// Whether every answer has left.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What it asked for has come.
    pub fn has_come(&mut self, number: Number) {
        if let Some(waiting) = self.find(number) {
            waiting.has_come = true;
        }
    }

    /// Its block is known; only who waits for it needs a copy, which `answer` makes.
    pub fn answer(&mut self, number: Number, answer: impl FnOnce() -> Bytes) {
        if let Some(waiting) = self.find(number)
            && waiting.answer.is_none()
        {
            waiting.answer = Some(answer());
        }
    }

    /// Lets those leave whose turn it is.
    pub fn emit(&mut self) {
        while let Some(Waiting { has_come: true, answer: Some(_), .. }) = self.waiting.front() {
            self.first += 1;
            if let Some(Waiting { reply: Some(reply), answer: Some(answer), .. }) =
                self.waiting.pop_front()
            {
                let _nobody_waits = reply.send(Ok(answer));
            }
        }
    }

    /// Lets all leave that have an answer, before their turn: what no engine may do.
    #[cfg(feature = "canaries")]
    pub fn emit_early(&mut self) {
        for waiting in &mut self.waiting {
            if let Waiting { reply, answer: Some(answer), .. } = waiting
                && let Some(reply) = reply.take()
            {
                let _nobody_waits = reply.send(Ok(answer.clone()));
            }
        }
    }

    /// The engine has stopped: tells all that wait.
    pub fn fail(&mut self, error: &Error) {
        self.first += self.waiting.len() as u64;
        for reply in self.waiting.drain(..).filter_map(|waiting| waiting.reply) {
            let _nobody_waits = reply.send(Err(error.clone()));
        }
    }

    fn find(&mut self, number: Number) -> Option<&mut Waiting> {
        let index = number.checked_sub(self.first)?;
        self.waiting.get_mut(index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_arrival() {
        let mut sequencer = Sequencer::default();
        let mut tickets = Vec::new();
        for number in 0..3 {
            let (reply, ticket) = oneshot::channel();
            assert_eq!(sequencer.arrive(Some(reply)), number);
            tickets.push(ticket);
        }
        let padding = sequencer.arrive(None);
        for number in [2, 1] {
            sequencer.has_come(number);
        }
        for number in 0..3 {
            sequencer.answer(number, || vec![number as u8].into());
        }
        sequencer.emit();
        assert!(tickets.iter_mut().all(|ticket| ticket.try_recv().is_err()));
        sequencer.has_come(0);
        sequencer.emit();
        for (number, ticket) in tickets.iter_mut().enumerate() {
            assert_eq!(ticket.try_recv().unwrap().unwrap(), vec![number as u8]);
        }
        assert_eq!(sequencer.next(), 4);
        sequencer.has_come(padding);
        sequencer.emit();
        let (reply, mut ticket) = oneshot::channel();
        assert_eq!((sequencer.waiting.len(), sequencer.arrive(Some(reply))), (0, 4));
        sequencer.fail(&crate::lied("a test"));
        assert!(matches!(ticket.try_recv(), Ok(Err(Error::CloudLied(_)))));
    }
}
