//! Why nothing more may be sent: after a lie, after a failure, and where traces do not join.

use fogbank_store::trace::Request;

use super::fault::{Step, fault};
use super::joint::{Looked, Stranger};
use super::{Ring, Stop};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    No,
    /// A reply was a lie.
    Lied,
    Failed,
    /// A reply was either a lie, or what a process has put whose trace was not given.
    Strange(Stranger),
}

impl Ring {
    /// A reply was a lie.
    pub(super) fn lied(&mut self) {
        self.summary.lies += 1;
        if self.silence == Silence::No {
            self.begin_silence(Silence::Lied);
        }
    }

    /// A reply was a lie that the proxy does not look for, as it does no harm.
    pub(super) fn lied_in_vain(&mut self) {
        self.summary.lies += 1;
    }

    /// A request has failed.
    pub(super) fn failed(&mut self) {
        if self.silence == Silence::No {
            self.begin_silence(Silence::Failed);
        }
        self.silence = Silence::Failed;
    }

    /// Silence is due once the reply at hand has been handed over.
    fn begin_silence(&mut self, silence: Silence) {
        self.silence = silence;
        self.silent_from = self.epochs.pace.delivery_time(self.at);
    }

    /// What a look at the commit record or the journal came to. Whether an epoch has landed, if it
    /// is what is there.
    pub(super) fn take_look(&mut self, looked: Looked) -> Option<bool> {
        match looked {
            Looked::True { landed } => return Some(landed),
            Looked::Lie => self.lied(),
            Looked::Strange(stranger) => {
                self.summary.lies += 1;
                self.begin_silence(Silence::Strange(stranger));
            }
        }
        None
    }

    /// Holds a request against the silence that is due.
    pub(super) fn hold_silence(&mut self, request: &Request) -> Result<(), Stop> {
        let seen = request.word();
        match (&mut self.silence, request) {
            (Silence::Failed, _) => fault("silence-after-a-failure", "nothing more", seen)?,
            (Silence::Strange(stranger), _) => {
                let stranger = *stranger;
                if let Some(gap) = self.gap(stranger, request) {
                    return Err(Stop::Unfollowing(gap));
                }
                after_a_lie(seen)?;
            }
            _ => after_a_lie(seen)?,
        }
        Ok(())
    }

    /// Why this trace does not follow the one before.
    fn gap(&self, stranger: Stranger, request: &Request) -> Option<String> {
        let config = self.config.vault.as_ref()?;
        stranger.gap(request, config, self.chain.as_ref()?.ended())
    }
}

fn after_a_lie(seen: String) -> Step {
    fault("silence-after-a-lie", "nothing more", seen)
}
