//! What comes to a tenant's volume of two clouds, written down for an auditor as it comes.
//!
//! 1. Which of the two clouds this is nobody says: the first message about a partition tells. What came
//!    before that is kept meanwhile.
//! 2. A message is with the operating system before anything is done of it: a process that is killed
//!    leaves a trace that lacks nothing of what it did.
//!
//! No key is needed: what is written is what the server sees, with fingerprints of cells and seeds.

use std::path::PathBuf;
use std::sync::Arc;

use fogbank_env::{Clock, Mutex};
use fogbank_mix::server::Between;
use fogbank_mix::session::{SessionError, ToCloud};
use fogbank_mix::{Shape, traced};
use fogbank_store::trace::{Shown, TraceClock, TraceOptions, TraceWriter};

/// See the module.
pub struct Recording {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

enum State {
    /// What came before it was known which cloud this is, and of whom.
    Before(Vec<(u8, Shown)>),
    Writes(TraceWriter),
}

impl Recording {
    /// Into a file at `path`, which has to be new, once something comes.
    pub fn new(path: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { path, clock, state: Mutex::new(State::Before(Vec::new())) }
    }

    /// A message of the client has come.
    ///
    /// # Errors
    /// [`SessionError::Refused`] if it cannot be written.
    pub fn asked(&self, shape: &Shape, message: &ToCloud) -> Result<(), SessionError> {
        let Some(shown) = traced::asked(message) else { return Ok(()) };
        self.comes(shape, traced::cloud_asked(message), (CLIENT, shown))
    }

    /// A message of the other cloud has come.
    ///
    /// # Errors
    /// As [`Recording::asked`].
    pub fn passed(&self, shape: &Shape, message: &Between) -> Result<(), SessionError> {
        let shown = traced::passed(message);
        self.comes(shape, traced::cloud_passed(message), (OTHER, shown))
    }

    fn comes(
        &self,
        shape: &Shape,
        cloud: Option<u8>,
        came: (u8, Shown),
    ) -> Result<(), SessionError> {
        let failed = |why: String| {
            SessionError::Refused(format!("its operator records what comes, and cannot: {why}"))
        };
        let mut state = self.state.lock();
        let writer = match (&mut *state, cloud) {
            (State::Writes(writer), _) => writer,
            (State::Before(before), None) => {
                before.push(came);
                return Ok(());
            }
            (State::Before(before), Some(cloud)) => {
                let head = traced::public(TraceClock::Real, cloud, shape).encode();
                let options = TraceOptions { flush_requests: true, ..TraceOptions::default() };
                let made = TraceWriter::create(&self.path, &head, self.clock.clone(), options);
                let writer = made.map_err(|e| failed(format!("{}: {e}", self.path.display())))?;
                for (from, shown) in before.drain(..) {
                    writer.comes(from, &shown).map_err(|e| failed(e.to_string()))?;
                }
                *state = State::Writes(writer);
                let State::Writes(writer) = &mut *state else { return Ok(()) };
                writer
            }
        };
        let (from, shown) = came;
        writer.comes(from, &shown).map_err(|e| failed(e.to_string()))
    }
}

/// From whom something came, as it stands in the trace.
const CLIENT: u8 = 0;
const OTHER: u8 = 1;
