//! The register at a majority of 2f + 1 small servers in other trust domains.
//!
//! 1. *take*: read all peers, draw a ballot above every ballot seen, have a majority promise to
//!    refuse lower ones, and write the newest value found back under the ballot, so that it stands
//!    at a majority whatever its writer achieved;
//! 2. *write*: write to all under the next number of the ballot; done when a majority has it.
//!    Whoever took the register before meets a promise at one peer of every majority: he is fenced.
//!
//! While no majority answers, the same is asked again ([`QuorumRegister::patient`]), as it is of a
//! cloud that does not answer: whoever waits for the register has sent nothing that depends on it.
//!
//! Every value is sealed, bound to its stamp, by a key of the proxy: a peer learns how often it is
//! replaced, and when. A peer that forges is as good as down, two values under one stamp are a
//! fork. A peer that goes back to an older value is harmless as long as every majority that answers
//! has one peer that does not: f faults of any kind together, where a peer that was rolled back
//! stays silent, as with peers that are only down.

use std::cmp::Ordering;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos, Stream};
use fogbank_seal::{MasterKey, RegisterKey};
use fogbank_store::RetrySchedule;
use rand_core::Rng;
use tokio::sync::mpsc;

use crate::section::SectionWriter;
use crate::{Ballot, Held, PeerDown, RegisterPeer, Stamp};
use crate::{Error, Register, RegisterValue, Result};

/// A register kept by peers.
pub struct QuorumRegister {
    peers: Vec<Arc<dyn RegisterPeer>>,
    key: RegisterKey,
    state: Mutex<State>,
    patience: Option<(Arc<dyn Clock>, RetrySchedule)>,
}

struct State {
    nonces: Stream,
    /// What this proxy wrote last, since it took the register.
    written: Option<(Stamp, Option<RegisterValue>)>,
}

/// Why a majority did not do what it was asked.
enum Trouble {
    /// It may if it is asked again.
    TooFew(String),
    /// It would not.
    Over(Error),
}

/// What a majority said.
struct View {
    highest: Ballot,
    newest: Stamped,
}

impl QuorumRegister {
    /// The register kept by `peers`, an odd number of them; `nonces` is a stream that no other
    /// opening has (`fogbank_env::Purpose::Incarnation` of a split of its randomness).
    pub fn new(peers: Vec<Arc<dyn RegisterPeer>>, master: &MasterKey, nonces: Stream) -> Self {
        let state = Mutex::new(State { nonces, written: None });
        Self { peers, key: RegisterKey::derive(master), state, patience: None }
    }

    /// Asks again by `schedule` while no majority answers.
    pub fn patient(self, clock: Arc<dyn Clock>, schedule: RetrySchedule) -> Self {
        Self { patience: Some((clock, schedule)), ..self }
    }

    /// Asks until a majority has answered or patience is at an end.
    async fn patiently<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut tries = 0;
        loop {
            let why = match ask().await {
                Ok(answer) => {
                    if tries > 0 {
                        tracing::info!("a majority of the register servers answers again");
                    }
                    return Ok(answer);
                }
                Err(Trouble::Over(error)) => return Err(error),
                Err(Trouble::TooFew(why)) => why,
            };
            let Some((clock, wait)) = self.wait_after(tries) else { return Err(self.fault(why)) };
            if tries == 0 {
                tracing::warn!(
                    "too few register servers answer, trying again; meanwhile nothing is read and \
                     nothing acknowledged: {why}"
                );
            }
            clock.sleep_until(clock.now().saturating_add(wait)).await;
            tries += 1;
        }
    }

    /// How long to wait after so many tries, if there is to be another.
    fn wait_after(&self, tries: usize) -> Option<(&dyn Clock, Nanos)> {
        let (clock, schedule) = self.patience.as_ref()?;
        let wait = schedule.waits.get(tries)?.as_nanos();
        Some((&**clock, u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    fn majority(&self) -> usize {
        self.peers.len() / 2 + 1
    }

    fn fault(&self, reason: impl ToString) -> Error {
        Error::Register { place: self.place(), reason: reason.to_string() }
    }

    /// Asks every peer, in tasks of their own: who is late goes on when the others have decided.
    fn ask<F>(
        &self,
        ask: impl Fn(Arc<dyn RegisterPeer>) -> F,
    ) -> mpsc::Receiver<Result<Held, PeerDown>>
    where
        F: Future<Output = Result<Held, PeerDown>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(self.peers.len().max(1));
        for peer in &self.peers {
            let (answer, sender) = (ask(peer.clone()), sender.clone());
            tokio::spawn(async move { sender.send(answer.await).await });
        }
        receiver
    }

    /// Reads all peers, who promise `promise`; waits for every answer, since one more honest peer
    /// may know what a majority of late or lying ones does not.
    async fn view(&self, promise: Ballot) -> Result<View> {
        self.patiently(|| self.view_once(promise)).await
    }

    async fn view_once(&self, promise: Ballot) -> Result<View, Trouble> {
        let mut answers = self.ask(|peer| async move { peer.read(promise).await });
        let mut view = View { highest: Ballot::default(), newest: Stamped::default() };
        let (mut heard, mut silent) = (0, Vec::new());
        while let Some(answer) = answers.recv().await {
            let held = match answer {
                Ok(held) if held.promised >= promise => held,
                Ok(_) => continue,
                Err(PeerDown(why)) => {
                    silent.push(why);
                    continue;
                }
            };
            let Some(bytes) = self.open(&held) else {
                silent.push("an answer is forged".into());
                continue;
            };
            // The key vouches for it: it is no lie, but nothing that is known here.
            let other = || Trouble::Over(self.fault("another version of fogbank has written it"));
            let decoded =
                (!bytes.is_empty()).then(|| RegisterValue::decode(&bytes).ok_or_else(other));
            let value = decoded.transpose()?;
            heard += 1;
            view.highest = view.highest.max(held.promised).max(held.stamp.ballot);
            let found = (held.stamp, value);
            let forked = || Trouble::Over(self.fault("it was forked"));
            view.newest = newer(view.newest, found).ok_or_else(forked)?;
        }
        if heard < self.majority() {
            return Err(self.too_few(heard, &silent));
        }
        Ok(view)
    }

    /// Writes under `stamp` to a majority: the same again as long as it takes.
    async fn put(&self, stamp: Stamp, value: Option<RegisterValue>) -> Result<()> {
        let sealed = self.seal(stamp, value);
        self.patiently(|| self.put_once(stamp, sealed.clone())).await
    }

    async fn put_once(&self, stamp: Stamp, sealed: Bytes) -> Result<(), Trouble> {
        let mut answers = self.ask(|peer| {
            let sealed = sealed.clone();
            async move { peer.write(stamp, sealed).await }
        });
        let (mut done, mut refused, mut silent) = (0, 0, Vec::new());
        while let Some(answer) = answers.recv().await {
            let held = match answer {
                Ok(held) => held,
                Err(PeerDown(why)) => {
                    silent.push(why);
                    continue;
                }
            };
            // A later number of the same ballot is there already: the value went through.
            if held.stamp.ballot == stamp.ballot && held.stamp >= stamp {
                done += 1;
            } else if held.promised > stamp.ballot {
                refused += 1;
            } else {
                silent.push("a server does not take what is newer than what it holds".into());
            }
            if done >= self.majority() {
                return Ok(());
            }
            // One more than may be faulty: no majority is left, and one that refuses is honest.
            if refused > self.peers.len() - self.majority() {
                return Err(Trouble::Over(Error::Fenced));
            }
        }
        if refused > 0 {
            silent.push(format!(
                "{refused} have promised another proxy to take no more from this one"
            ));
        }
        Err(self.too_few(done, &silent))
    }

    fn too_few(&self, heard: usize, silent: &[String]) -> Trouble {
        let (of, majority, why) = (self.peers.len(), self.majority(), silent.join("; "));
        Trouble::TooFew(format!("{heard} of {of} servers answer and {majority} have to ({why})"))
    }

    fn seal(&self, stamp: Stamp, value: Option<RegisterValue>) -> Bytes {
        let bytes = value.map_or(Vec::new(), |value| value.encode());
        self.key.seal(&place(stamp), bytes).into()
    }

    /// The bytes of the value a peer holds, if it is one of ours; `None` if it is forged. There are
    /// none before the first.
    fn open(&self, held: &Held) -> Option<Vec<u8>> {
        if held.value.is_empty() {
            return (held.stamp == Stamp::default()).then(Vec::new);
        }
        self.key.open(&place(held.stamp), &held.value).ok()
    }
}

/// What a value is bound to.
fn place(stamp: Stamp) -> Vec<u8> {
    let mut w = SectionWriter::default();
    w.u64(stamp.ballot.round).u64(stamp.ballot.nonce).u64(stamp.number);
    w.0
}

/// A value, or that there is none yet, and under which stamp that was written.
type Stamped = (Stamp, Option<RegisterValue>);

/// The one with the higher stamp; `None` if they differ under one.
fn newer(a: Stamped, b: Stamped) -> Option<Stamped> {
    match a.0.cmp(&b.0) {
        Ordering::Equal => (a == b).then_some(a),
        Ordering::Greater => Some(a),
        Ordering::Less => Some(b),
    }
}

#[async_trait]
impl Register for QuorumRegister {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        Ok(self.view(Ballot::default()).await?.newest.1)
    }

    async fn take(&self) -> Result<Option<RegisterValue>> {
        let round = self.view(Ballot::default()).await?.highest.round + 1;
        let ballot = Ballot { round, nonce: self.state.lock().nonces.next_u64() };
        let value = self.view(ballot).await?.newest.1;
        let stamp = Stamp { ballot, number: 1 };
        self.put(stamp, value).await?;
        self.state.lock().written = Some((stamp, value));
        Ok(value)
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        let written = self.state.lock().written;
        let Some((Stamp { ballot, number }, held)) = written else {
            return Err(Error::Bug("a register that was not taken".into()));
        };
        if held == Some(to) {
            return Ok(());
        }
        if held != from {
            return Err(Error::Fenced);
        }
        let stamp = Stamp { ballot, number: number + 1 };
        // Noted first: if this fails midway, nothing else may ever be written under this stamp.
        self.state.lock().written = Some((stamp, Some(to)));
        self.put(stamp, Some(to)).await
    }

    fn place(&self) -> String {
        format!("at {} servers", self.peers.len())
    }
}
