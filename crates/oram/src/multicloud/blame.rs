//! Who has lied, when a check fails.
//!
//! 1. What a cloud says itself, over its own link, is its own lie: a record without its seal, cells
//!    of a refresh, an answer that is not among the cells that it digested.
//! 2. What one cloud sends the other is checked by what the other says of it, and either may have
//!    lied. Then all else stops: no message and no answer leaves any more. The receiver alone is
//!    asked for the batch, as it was signed (`fogbank_mix::signed`).
//! 3. If the cells that the sender has signed are not the right ones, the sender has lied; if they
//!    are, the receiver, who said otherwise. A receiver takes no batch that is not signed, so one
//!    that shows such a batch has lied.
//! 4. A receiver that has none any more, since it was started again, or does not answer, proves
//!    nothing: it is told as a lie of the link between the two. It shows no cells, and no
//!    signature.
//! 5. The other cloud is not heard any more: whether it breaks its session changes nothing.
//!
//! That a batch is asked for says that its check failed, which is the same whatever was wanted.

use fogbank_mix::Sum;
use fogbank_mix::message::{Proof, Prove, ProveRead, ToHolder, ToShuffler};
use fogbank_mix::signed::{Batch, UNSIGNED, What};

use super::plane::{Effect, MulticloudPlane};
use super::witness::{NAMES, number};
use crate::{Error, Result, lied};

/// A check that failed, of what one cloud sent the other.
#[derive(Debug)]
pub struct Accusation {
    /// What was checked.
    what: &'static str,
    partition: u16,
    batch: What,
    /// Sums of the right cells, at the receiver's point.
    right: Vec<Sum>,
}

impl Accusation {
    /// Of these cells, whose right sums at the receiver's point are known.
    pub fn new(what: &'static str, partition: u16, batch: What, right: Vec<Sum>) -> Self {
        Self { what, partition, batch, right }
    }

    /// Who can prove it.
    pub fn receiver(&self) -> usize {
        let holder = usize::from(self.partition % 2);
        if let What::Level(..) = self.batch { holder } else { 1 - holder }
    }

    /// That is asked for.
    fn asks(&self) -> Effect {
        let partition = self.partition;
        let job = |number| fogbank_mix::Generation(number);
        match self.batch {
            What::Blinded(read) => {
                Effect::Shuffler(partition, ProveRead { partition, read }.into())
            }
            What::Moved(_, number) | What::Handed(_, number) => {
                let prove = Prove { partition, generation: job(number) };
                Effect::Shuffler(partition, ToShuffler::Prove(prove))
            }
            What::Level(_, _, number) => {
                let prove = Prove { partition, generation: job(number) };
                Effect::Holder(partition, ToHolder::Prove(prove))
            }
        }
    }
}

impl MulticloudPlane {
    /// A check has failed that does not say of whom: from now on only the proof counts.
    pub(super) fn accuse(&mut self, accusation: Accusation, out: &mut Vec<Effect>) {
        out.clear();
        out.push(accusation.asks());
        self.accusation = Some(accusation);
    }

    /// Whether a check has failed, and it is not known yet of whom.
    pub fn is_accusing(&self) -> bool {
        self.accusation.is_some()
    }

    /// Whether what a cloud does still counts: all does, until a check has failed that the other is
    /// to prove.
    pub fn hears(&self, cloud: usize) -> bool {
        self.accusation.as_ref().is_none_or(|accusation| accusation.receiver() == cloud)
    }

    /// The question once more, if there is one: a session has ended.
    pub(super) fn ask_again(&self) -> Option<Effect> {
        self.accusation.as_ref().map(Accusation::asks)
    }

    /// A proof comes of a cloud. One that nobody has asked it for changes nothing.
    pub(super) fn proof_comes(&mut self, cloud: usize, proof: &Proof) -> Result<Vec<Effect>> {
        let is_asked = |accusation: &mut Accusation| accusation.receiver() == cloud;
        match self.accusation.take_if(is_asked) {
            Some(accusation) => Err(self.silent(self.judge(&accusation, proof))),
            None => Ok(Vec::new()),
        }
    }

    /// The proof has not come: what is told then.
    pub fn unproved(&mut self) -> Option<Error> {
        let accusation = self.accusation.take()?;
        Some(self.silent(lied_between(accusation.what)))
    }

    fn judge(&self, accusation: &Accusation, proof: &Proof) -> Error {
        let (what, receiver) = (accusation.what, accusation.receiver());
        let (sender, cells) = (1 - receiver, &proof.cells);
        if cells.is_empty() && proof.signature == UNSIGNED {
            return lied_between(what);
        }
        let batch = Batch { what: accusation.batch, cells };
        let (volume, key) = (number(self.keys.store()), &self.settings.signers[sender]);
        if !batch.is_signed(volume, key, &proof.signature) && !self.canary.believes_proofs() {
            return lied_by(receiver, what);
        }
        let point = self.point_of(receiver);
        let is_right =
            cells.iter().map(|cell| point.sum(cell)).eq(accusation.right.iter().copied());
        lied_by(if is_right { receiver } else { sender }, what)
    }
}

/// A cloud has lied.
pub fn lied_by(cloud: usize, what: &str) -> Error {
    lied(format!("the {} cloud has lied: {what}", NAMES[cloud]))
}

/// One of both has, or the link between them.
pub fn lied_between(what: &str) -> Error {
    lied(format!("the link between the two clouds: {what}; nothing proves which of them has lied"))
}
