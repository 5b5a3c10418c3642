//! What comes to a tenant's volume of two clouds, written down for an auditor as it comes.
//!
//! 1. Which of the two clouds this is nobody says: the client's first message about a partition
//!    tells. What came before that is kept meanwhile, in memory, and is little.
//! 2. From then on a message is with the operating system before anything is done of it: a process
//!    that is killed leaves a trace that lacks nothing of what it did since.
//! 3. Of the other cloud only what it has signed is written: anybody can send the rest.
//! 4. What cannot be written is refused, and so is what comes when the trace is as long as one may
//!    be.
//!
//! No key is needed: what is written is what the server sees, with fingerprints of cells and seeds.

use std::path::PathBuf;
use std::sync::Arc;

use fogbank_env::{Clock, Mutex, compute};
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
        let cloud = traced::cloud_asked(message).map(|cloud| (cloud, shape));
        compute(|| self.comes(cloud, (CLIENT, shown)))
    }

    /// A message of the other cloud has come, which has signed it.
    ///
    /// # Errors
    /// As [`Recording::asked`].
    pub fn passed(&self, message: &Between) -> Result<(), SessionError> {
        compute(|| self.comes(None, (OTHER, traced::passed(message))))
    }

    fn comes(&self, cloud: Option<(u8, &Shape)>, came: (u8, Shown)) -> Result<(), SessionError> {
        let failed = |why: String| {
            SessionError::Refused(format!("its operator records what comes, and cannot: {why}"))
        };
        let mut state = self.state.lock();
        let writer = match (&mut *state, cloud) {
            (State::Writes(writer), _) => writer,
            (State::Before(before), None) if before.len() < BEFORE_MAX => {
                before.push(came);
                return Ok(());
            }
            (State::Before(_), None) => {
                return Err(failed("its client has not said yet which of the two it is".into()));
            }
            (State::Before(before), Some((cloud, shape))) => {
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
        if writer.bytes() >= BYTES_MAX {
            return Err(failed(format!("{} is as long as one may be", self.path.display())));
        }
        let (from, shown) = came;
        writer.comes(from, &shown).map_err(|e| failed(e.to_string()))
    }
}

/// Messages that are kept until it is known which cloud this is.
const BEFORE_MAX: usize = 1024;
/// Bytes of a trace: a tenant is not to fill the disk of its server.
const BYTES_MAX: u64 = 64 << 30;
/// From whom something came, as it stands in the trace.
const CLIENT: u8 = 0;
const OTHER: u8 = 1;
