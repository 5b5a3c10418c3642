//! A log over the blobs of any store, of which it may have these to itself.
//!
//! ```text
//! log/PLACE       session, turn, bytes of the entry       put if absent
//! result/PLACE    what was published                      put if absent
//! log/forgotten   first place that is kept, last turns of all sessions before it
//! ```
//! PLACE is 16 hexadecimal digits.
//!
//! 1. *Append*: one at a time. The entry is put at the next place if nothing is there. If something
//!    is, an earlier try was done whose answer was lost, or another process was there first: it is
//!    read and counts, and the next place is tried. Who has lost no answer tries that at once, and
//!    reads then: so nobody comes too late again and again.
//! 2. *Publish*: put if absent. Whoever finds something there takes that.
//! 3. *Forget*: first the blob that says so, then what it says goes.
//! 4. *Open*: what was forgotten, then all entries and results after it. What a stop left before it
//!    goes: beside others when this process forgets for the first time, and not on the word of the
//!    blob, which nobody has sealed.
//! 5. *Beside others* (`others`): what they put is looked for at a fixed interval.
//!
//! Invariants
//! - Place q is tried only when all places below it are taken. So there is no hole, whatever is cut
//!   short, and an entry whose answer was lost is found by whoever comes next.
//! - All that is not forgotten is in memory, up to a bound; above it entries and results are
//!   refused. What others have put counts up to twice the bound, and then nothing more is believed.
//! - A listener takes no memory but what is under way to it, and nobody waits for it.
//!
//! What the cloud sees is the calls of the log, each as one put; a start reads all that is kept.

mod form;
mod kept;
mod listener;
mod others;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos, by};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::form::{ENTRIES, FORGOTTEN, RESULTS, decode_forgotten, encode_forgotten, name, place};
pub use self::kept::is_of_forgotten;
use self::kept::{Kept, Standing, cost};
pub use self::listener::LogListener;
use crate::{
    BlobTag, LOG_BYTES_MAX, Log, LogEntry, LogEvents, PutCondition, PutOutcome, Result, Store,
    StoreError, check_log_bytes,
};

/// A log in blobs.
pub struct BlobLog(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    bytes_max: u64,
    /// Whether other processes append, too.
    beside_others: bool,
    appending: tokio::sync::Mutex<()>,
    /// The session and turn of an entry whose put may have been done, though nobody said so.
    in_doubt: Mutex<Option<(u32, u64)>>,
    /// How long the last put of an entry took.
    put_takes: Mutex<Nanos>,
    /// Until when the next place is left to others.
    leaves_until: Mutex<Nanos>,
    forgetting: tokio::sync::Mutex<Forgetting>,
    kept: Arc<Mutex<Kept>>,
    grown: watch::Sender<()>,
}

/// What was forgotten, in the store.
struct Forgetting {
    /// The blob's, if there is one.
    tag: Option<BlobTag>,
    /// Whether what a stop has left before it may still be there.
    has_leftovers: bool,
    /// Places that are forgotten, and whose blobs are to go.
    going: Range<u64>,
}

impl BlobLog {
    /// The log in `store`, begun if there is none, of which this process alone makes use. It keeps
    /// so many bytes in memory at most, beside what it finds.
    ///
    /// # Errors
    /// Those of the store; [`StoreError::Misbehaved`] if what is there is no log;
    /// [`StoreError::Refused`] if it has more than twice as many bytes.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
    ) -> Result<Self> {
        Ok(Self(Arc::new(Inner::open(store, clock, bytes_max, false).await?)))
    }

    /// The same, of which other processes make use, too. What they put is looked for so often.
    ///
    /// # Errors
    /// As [`BlobLog::open`].
    pub async fn open_beside_others(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
        interval: Nanos,
    ) -> Result<Self> {
        let inner = Arc::new(Inner::open(store, clock, bytes_max, true).await?);
        others::watch(&inner, interval);
        Ok(Self(inner))
    }

    /// The first place that has no entry yet, as far as this process knows.
    pub fn end(&self) -> u64 {
        self.0.kept.lock().end()
    }

    /// Bytes that what it has in memory counts for.
    pub fn kept_bytes(&self) -> u64 {
        self.0.kept.lock().bytes()
    }

    /// As [`Log::follow`], for whoever takes one event at a time.
    ///
    /// # Errors
    /// As there.
    pub fn listen(&self, from: u64) -> Result<LogListener> {
        let kept = self.0.kept.lock();
        if from > kept.end() && !self.0.beside_others {
            // Whoever asks has heard of it, and what was told of is durable.
            let end = kept.end();
            let why = format!("the log ends before place {end}: it has gone back from {from}");
            return Err(StoreError::Misbehaved(why));
        }
        let heard = kept.listen(from)?;
        drop(kept);
        Ok(LogListener { kept: self.0.kept.clone(), grown: self.0.grown.subscribe(), heard })
    }
}

impl Inner {
    async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
        beside_others: bool,
    ) -> Result<Self> {
        let (mut tag, mut first, mut turns) = forgotten(&store).await?;
        let most = bytes_max.saturating_mul(2);
        let found = places(&store, ENTRIES, first, beside_others).await?;
        let entries = read_all(&store, ENTRIES, &found, most).await?;
        let found = places(&store, RESULTS, first, beside_others).await?;
        let results = read_all(&store, RESULTS, &found, most).await?;
        if beside_others {
            // Only now is it known which of those count.
            (tag, first, turns) = forgotten(&store).await?;
        }
        let last = entries.last_key_value().map(|(at, _)| *at);
        let mut kept = Kept::after(first, turns);
        for (at, blob) in entries.into_iter().filter(|(at, _)| *at >= first) {
            match at == kept.end() {
                true => kept.append(at, form::decode(at, blob)?)?,
                false if beside_others => break, // what is missing came later, and is looked for
                false => {
                    let why = format!("place {} of the log is missing", kept.end());
                    return Err(StoreError::Misbehaved(why));
                }
            }
        }
        for (at, blob) in results {
            kept.publish(at, result(at, blob)?);
        }
        let forgetting = Forgetting { tag, has_leftovers: beside_others, going: first..first };
        let inner = Self {
            store,
            clock,
            bytes_max,
            beside_others,
            appending: tokio::sync::Mutex::default(),
            in_doubt: Mutex::default(),
            put_takes: Mutex::default(),
            leaves_until: Mutex::default(),
            forgetting: tokio::sync::Mutex::new(forgetting),
            kept: Arc::new(Mutex::new(kept)),
            grown: watch::Sender::new(()),
        };
        if beside_others {
            inner.has_no_hole(last).await?;
        }
        Ok(inner)
    }

    /// Looks whether all places before one that is taken are, too: nobody puts an entry before they
    /// are. One that was put while names were read is there by now.
    async fn has_no_hole(&self, last: Option<u64>) -> Result<()> {
        if last.is_none_or(|last| last < self.kept.lock().end()) {
            return Ok(());
        }
        self.catch_up().await?;
        let end = self.kept.lock().end();
        match last.is_none_or(|last| last < end) {
            true => Ok(()),
            false => Err(StoreError::Misbehaved(format!(
                "place {end} of the log is gone, and not all after it"
            ))),
        }
    }

    /// Leaves the next places to others: the time of a put to each that has put any lately. A put
    /// that took long, since the cloud was away, is no measure of that.
    fn leave(&self, session: u32) {
        if self.beside_others {
            let others = self.kept.lock().others_of(session, LATELY);
            let left = others.saturating_mul(*self.put_takes.lock()).min(LEFT_NANOS_MAX);
            *self.leaves_until.lock() = self.clock.now() + left;
        }
    }

    /// Puts an entry at the first place from `next` on that is free: there, or after so many. It is
    /// not known what those hold that were passed over, but that nobody is there twice: unless an
    /// earlier put of this entry may have been done, which is looked for first.
    ///
    /// Who read each place before it tried the next would come too late for ever, beside one that
    /// has many entries to put. And who has put one leaves the time of a put to each other that has
    /// put any lately: so there are places left for all, and for one more.
    async fn put_from(
        &self,
        next: u64,
        entry: &LogEntry,
        blob: &Bytes,
    ) -> Result<(u64, PutOutcome)> {
        let this = Some((entry.session, entry.turn));
        let is_known = self.beside_others && *self.in_doubt.lock() != this;
        let last = next + if is_known { PASSED_AT_ONCE } else { 0 };
        let mut at = next;
        let until = *self.leaves_until.lock();
        self.clock.sleep_until(until).await;
        loop {
            *self.in_doubt.lock() = this;
            let (name, condition) = (name(ENTRIES, at), PutCondition::IfAbsent);
            let begun = self.clock.now();
            let put = self.store.blob_put(&name, blob.clone(), condition).await?;
            *self.put_takes.lock() = self.clock.now() - begun;
            if put != PutOutcome::ConditionFailed || at == last {
                if is_known || matches!(put, PutOutcome::Done(_)) {
                    *self.in_doubt.lock() = None;
                }
                return Ok((at, put));
            }
            at += 1;
        }
    }

    /// Waits until it is not too early for this turn.
    async fn its_turn(&self, session: u32, turn: u64) -> Result<()> {
        let mut grown = self.grown.subscribe();
        let comes = async {
            loop {
                grown.borrow_and_update();
                if self.kept.lock().standing(session, turn) != Standing::Early {
                    return;
                }
                if grown.changed().await.is_err() {
                    return; // cannot be: the other end is here
                }
            }
        };
        let clock = &*self.clock;
        let came = by(clock, clock.now() + PREDECESSOR_NANOS_MAX, comes).await;
        came.ok_or_else(|| {
            StoreError::Absent(format!("turn {} of session {session} did not come", turn - 1))
        })
    }

    /// Whether so many more bytes may be kept.
    fn check_room(&self, kept: &Kept, bytes: usize) -> Result<()> {
        if kept.bytes() + cost(bytes) <= self.bytes_max {
            return Ok(());
        }
        let max = self.bytes_max;
        Err(StoreError::Refused(format!("the log is full: of {max} bytes nothing was forgotten")))
    }

    /// The place that this entry may be put at, or its own if it is there.
    fn place(&self, entry: &LogEntry) -> Result<std::result::Result<u64, Option<u64>>> {
        let kept = self.kept.lock();
        match kept.standing(entry.session, entry.turn) {
            Standing::There(at) => return Ok(Err(at)),
            Standing::Early => return Err(changed(kept.end())),
            Standing::Next => {}
        }
        if !kept.takes(entry.session) {
            return Err(StoreError::Refused("the log has too many sessions".into()));
        }
        self.check_room(&kept, entry.bytes.len())?;
        Ok(Ok(kept.end()))
    }
}

#[async_trait]
impl Log for BlobLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        check_log_bytes(&entry.bytes)?;
        if entry.turn == 0 {
            return Err(StoreError::Caller("turns are counted from 1".into()));
        }
        let log = &*self.0;
        log.its_turn(entry.session, entry.turn).await?;
        let blob = form::encode(&entry);
        let _alone = log.appending.lock().await;
        if log.beside_others && log.place(&entry)?.is_err() {
            log.hear_of_forgotten().await?;
        }
        loop {
            let next = match log.place(&entry)? {
                Ok(at) => at,
                Err(there) => {
                    log.leave(entry.session);
                    return Ok(there);
                }
            };
            let (at, put) = log.put_from(next, &entry, &blob).await?;
            let first = match put {
                PutOutcome::Done(_) if at == next && log.beside_others => {
                    log.hear_of_forgotten().await?
                }
                PutOutcome::Done(_) if at == next => next,
                // Those that were passed over, or what was there first.
                _ => log.take_in(next..at + 1).await?.1,
            };
            if first > at {
                // It was free since all of it was gone, or that is not so: whoever follows finds
                // out. What was put there stays, for it is not for the cloud to say that it goes.
                return Err(log.kept.lock().gone());
            }
            let end = log.kept.lock().end();
            match put {
                PutOutcome::Done(_) if end == at => {
                    log.kept.lock().append(at, form::decode(at, blob)?)?;
                    log.grown.send_replace(());
                    log.leave(entry.session);
                    return Ok(Some(at));
                }
                // It was looked for, or is another's that was there first.
                _ if end > at => {}
                _ => return Err(taken(end)),
            }
        }
    }

    async fn publish(&self, at: u64, bytes: Bytes) -> Result<()> {
        check_log_bytes(&bytes)?;
        let log = &*self.0;
        if log.beside_others && at >= log.kept.lock().end() {
            log.catch_up().await?;
        }
        {
            let kept = log.kept.lock();
            match kept.has_result(at) {
                None if at < kept.first() => return Ok(()),
                None => return Err(StoreError::Caller(format!("the log has no place {at} yet"))),
                Some(true) => return Ok(()),
                Some(false) => log.check_room(&kept, bytes.len())?,
            }
        }
        let name = name(RESULTS, at);
        let put = log.store.blob_put(&name, bytes.clone(), PutCondition::IfAbsent).await?;
        let stays = match put {
            // What arrived may be a slice of more.
            PutOutcome::Done(_) => Bytes::copy_from_slice(&bytes),
            PutOutcome::ConditionFailed => match log.store.blob_get(&name).await? {
                Some((there, _)) => result(at, there)?,
                None if log.beside_others && log.hear_of_forgotten().await? <= at => {
                    return Err(taken(at));
                }
                None => return Ok(()), // forgotten meanwhile
            },
        };
        let is_kept = log.kept.lock().publish(at, stays);
        match is_kept {
            true => _ = log.grown.send_replace(()),
            // Forgotten while it was put, and perhaps after all else of it was deleted.
            false if !log.beside_others => return log.store.blob_delete(&[&name]).await,
            false => {}
        }
        Ok(())
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        if self.0.beside_others {
            self.0.hear_of_forgotten().await?;
        }
        Ok(self.listen(from)?.run())
    }

    async fn forget(&self, before: u64) -> Result<()> {
        let log = &*self.0;
        let mut forgetting = log.forgetting.lock().await;
        loop {
            let (first, before, turns) = {
                let kept = log.kept.lock();
                let before = before.min(kept.end());
                (kept.first(), before, kept.turns_below(before))
            };
            if before <= first {
                break;
            }
            let condition =
                forgetting.tag.clone().map_or(PutCondition::IfAbsent, PutCondition::IfUnchanged);
            let blob = encode_forgotten(before, &turns);
            match log.store.blob_put(FORGOTTEN, blob, condition).await? {
                PutOutcome::Done(tag) => {
                    forgetting.tag = Some(tag);
                    forgetting.go(first, before);
                    log.kept.lock().forget(before, turns);
                }
                // An earlier try was done, or another process has forgotten.
                PutOutcome::ConditionFailed => {
                    let (tag, there, turns) = forgotten(&log.store).await?;
                    if tag == forgetting.tag {
                        return Err(changed(first));
                    }
                    forgetting.tag = tag;
                    forgetting.go(first, there.min(before));
                    log.kept.lock().forget(there, turns);
                }
            }
            log.grown.send_replace(());
        }
        if forgetting.has_leftovers {
            let below = before.min(log.kept.lock().first());
            for prefix in [ENTRIES, RESULTS] {
                places(&log.store, prefix, below, false).await?;
            }
            forgetting.has_leftovers = false;
        }
        while !forgetting.going.is_empty() {
            let end = forgetting.going.end.min(forgetting.going.start + DELETED_AT_ONCE);
            let going = (forgetting.going.start..end)
                .flat_map(|at| [name(ENTRIES, at), name(RESULTS, at)])
                .collect::<Vec<_>>();
            delete(&log.store, &going).await?;
            forgetting.going.start = end;
        }
        Ok(())
    }
}

impl Forgetting {
    /// What is from `first` on and below `before` is to go, too.
    fn go(&mut self, first: u64, before: u64) {
        match self.going.is_empty() {
            true => self.going = first..before.max(first),
            false => self.going.end = self.going.end.max(before),
        }
    }
}

/// What was forgotten: the tag of the blob that says so, the first place that is kept, the last
/// turns before it.
async fn forgotten(store: &Arc<dyn Store>) -> Result<(Option<BlobTag>, u64, BTreeMap<u32, u64>)> {
    match store.blob_get(FORGOTTEN).await? {
        Some((blob, tag)) => {
            let (first, turns) = decode_forgotten(blob)?;
            Ok((Some(tag), first, turns))
        }
        None => Ok((None, 0, BTreeMap::new())),
    }
}

/// The places that have something under `prefix`, in order. What is below `first` goes, unless it
/// is kept.
async fn places(
    store: &Arc<dyn Store>,
    prefix: &str,
    first: u64,
    is_kept: bool,
) -> Result<Vec<u64>> {
    let names = store.blob_list(prefix).await?;
    let found: Vec<u64> = names.iter().filter_map(|found| place(prefix, found)).collect();
    let (going, staying): (Vec<u64>, Vec<u64>) = found.into_iter().partition(|at| *at < first);
    if is_kept {
        return Ok(staying);
    }
    let going: Vec<String> = going.into_iter().map(|at| name(prefix, at)).collect();
    delete(store, &going).await?;
    Ok(staying)
}

async fn delete(store: &Arc<dyn Store>, names: &[String]) -> Result<()> {
    for some in names.chunks(2 * DELETED_AT_ONCE as usize) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        store.blob_delete(&some).await?;
    }
    Ok(())
}

/// The blobs of these places that are there, several read at once: so many bytes at most.
///
/// # Errors
/// [`StoreError::Refused`] if there are more.
async fn read_all(
    store: &Arc<dyn Store>,
    prefix: &'static str,
    places: &[u64],
    bytes_max: u64,
) -> Result<BTreeMap<u64, Bytes>> {
    let (mut reading, mut read) = (JoinSet::new(), BTreeMap::new());
    let mut bytes = 0;
    let mut left = places.iter();
    loop {
        while reading.len() < READ_AT_ONCE
            && let Some(&at) = left.next()
        {
            let store = store.clone();
            reading.spawn(async move { (at, store.blob_get(&name(prefix, at)).await) });
        }
        let Some(done) = reading.join_next().await else { return Ok(read) };
        let (at, found) = done.map_err(|_| StoreError::Absent("a read was broken off".into()))?;
        if let Some((blob, _)) = found? {
            bytes += cost(blob.len());
            if bytes > bytes_max {
                return Err(too_much(bytes_max));
            }
            read.insert(at, blob);
        }
    }
}

fn result(at: u64, blob: Bytes) -> Result<Bytes> {
    match blob.len() {
        ..=LOG_BYTES_MAX => Ok(blob),
        _ => Err(StoreError::Misbehaved(format!("what place {at} of the log has is no result"))),
    }
}

fn too_much(bytes_max: u64) -> StoreError {
    StoreError::Refused(format!("the log has more than {bytes_max} bytes: nothing was forgotten"))
}

/// What nobody deletes before the log forgets it.
fn taken(at: u64) -> StoreError {
    StoreError::Misbehaved(format!("place {at} of the log is taken, and nothing is there"))
}

fn changed(at: u64) -> StoreError {
    StoreError::Absent(format!("the log changed at place {at} while it was read"))
}

/// Bytes that a log keeps in memory unless something else is said: 64 epochs of 256 places of 8.5
/// KB, twice.
pub const LOG_KEPT_BYTES: u64 = 256 << 20;
/// Places that others have taken and that are passed over before they are read, at most.
const PASSED_AT_ONCE: u64 = 16;
/// Entries by which it is seen who has put any lately.
const LATELY: usize = 32;
/// For how long places are left to others, at most.
const LEFT_NANOS_MAX: Nanos = 1_000_000_000;
/// How long an entry waits for its predecessor.
const PREDECESSOR_NANOS_MAX: Nanos = 10_000_000_000;
/// Places whose blobs go in one call, and blobs that are read at once.
const DELETED_AT_ONCE: u64 = 250;
const READ_AT_ONCE: usize = 16;
