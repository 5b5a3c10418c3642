//! An access on its way from its submission to its record.

use fogbank_env::Nanos;

use super::sequencer::Reply;
use crate::{Access, Address, Error};

/// What stands for a block where there is none.
pub(crate) const PADDING: u32 = u32::MAX;

/// An access that somebody has submitted.
#[derive(Debug)]
pub struct Arrival {
    /// When it arrived.
    pub at: Nanos,
    pub address: Address,
    pub access: Access,
    pub reply: Reply,
}

impl Arrival {
    /// What stands for one that nobody has submitted.
    pub fn padding() -> Self {
        Self { at: 0, address: Address(PADDING), access: Access::Read, reply: None }
    }

    /// Tells whoever waits for it that it will not be served.
    pub fn refuse(self, error: &Error) {
        if let Some(reply) = self.reply {
            let _nobody_waits = reply.send(Err(error.clone()));
        }
    }
}
