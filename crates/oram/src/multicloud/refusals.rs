//! A cloud refuses, or says that a later session has taken the place of this one. That ends
//! everything, but not at once.
//!
//! 1. A liar could say so before its lie is seen, and be told as one that refuses. So its session
//!    is opened again, what is under way is repeated, and both clouds are heard for a while: a
//!    check that fails meanwhile, and the proof after it, name the liar.
//! 2. After that time what was said first is told, with the name of the cloud that said it.
//! 3. A session that both clouds know of has taken the place of this one: that is told at once.
//!
//! At opening it is told at once: nothing was sent yet that a lie could be about.
//!
//! A cloud that lacks what it has acknowledged does not refuse: it has broken its word, says so
//! itself (`fogbank_mix::Error::Lacks`), and is told as a liar.
//!
//! The time is public: it follows from when it was said.

use fogbank_env::Nanos;

use super::witness::NAMES;
use crate::Error;

/// What both clouds have said of it.
#[derive(Debug, Default)]
pub struct Refusals {
    /// What is told, and when.
    first: Option<(Error, Nanos)>,
    /// Which say that another session has taken the place.
    taken: [bool; 2],
}

impl Refusals {
    /// A cloud refuses, and why.
    pub fn refuses(&mut self, cloud: usize, why: &str, now: Nanos) {
        let told = || Error::Refused(format!("the {} cloud: {why}", NAMES[cloud]));
        self.first.get_or_insert_with(|| (told(), now + HEARD_NANOS));
    }

    /// A cloud says that a later session has taken the place of this one.
    pub fn is_taken(&mut self, cloud: usize, now: Nanos) {
        self.taken[cloud] = true;
        self.refuses(cloud, TAKEN, now);
        if self.taken == [true; 2] {
            self.first = Some((Error::Fenced, now));
        }
    }

    /// When it is told, if there is anything to tell.
    pub fn until(&self) -> Option<Nanos> {
        self.first.as_ref().map(|(_, until)| *until)
    }

    /// What is told by now.
    pub fn told(&self, now: Nanos) -> Option<Error> {
        self.first.as_ref().filter(|(_, until)| *until <= now).map(|(error, _)| error.clone())
    }
}

const TAKEN: &str = "it says that a later session has taken the place of this one, of which the \
                     other cloud knows nothing";
/// For how long both clouds are heard after one has refused.
const HEARD_NANOS: Nanos = 5_000_000_000;
