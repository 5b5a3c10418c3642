//! The janitor: gives back what flushed, expired and deleted keys still hold.
//!
//! Nothing that a client sees depends on it: what it deletes is already absent. It runs one
//! program an epoch. Dead generations and retired collections are forgotten, many records for one
//! slot of the write batch; then it deletes at most a fixed number of records: notes of retired
//! collections that are gone, expired keys, incarnation numbers nobody needs any more. So however
//! much there is to do it takes the same small share of the write batch; and as every write batch
//! is padded, the cloud sees none of it.

use super::command::reply_of;
use super::keyspace::{Bounds, Keyspace, Outcome};
use super::layout::{Group, Kind, Role, dead_generations, shared_group};
use super::reply::Reply;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex};
use fogbank_txn::{Key, KeyRange, Pause, Program, Proxy, Stat, View};
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::watch;

/// Deadlines and incarnations looked at per record that may be deleted.
const LOOKED_AT_PER_RECORD: usize = 16;
/// Between two attempts when the proxy refuses a program.
const PAUSE_NANOS: u64 = 100_000_000;

/// Where the walks over deadlines and incarnations stand.
#[derive(Debug, Default)]
struct Walks {
    deadlines: Option<Bytes>,
    incarnations: Option<Bytes>,
}

struct Round {
    bounds: Arc<Bounds>,
    quota: usize,
    walks: Arc<Mutex<Walks>>,
}

/// Cleans until `stopping` turns true or the proxy closes.
pub async fn clean(
    proxy: Proxy,
    bounds: Arc<Bounds>,
    quota: usize,
    clock: Arc<dyn Clock>,
    mut stopping: watch::Receiver<bool>,
) {
    let session = proxy.session();
    let walks = Arc::new(Mutex::new(Walks::default()));
    let work = async {
        loop {
            let round = Round { bounds: bounds.clone(), quota, walks: walks.clone() };
            match session.submit(round).await {
                Ok(_) => {}
                Err(fogbank_txn::Error::Closed | fogbank_txn::Error::Stopped(_)) => return,
                Err(_) => clock.sleep_until(clock.now() + PAUSE_NANOS).await,
            }
        }
    };
    tokio::select! {
        () = work => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

impl Program for Round {
    type Reply = Reply;

    fn run(&mut self, view: &mut View<'_>) -> Result<Reply, Pause> {
        let db = &mut match Keyspace::open(view, &self.bounds) {
            Ok(db) => db,
            Err(halt) => return reply_of(Err(halt)),
        };
        let walks = self.walks.lock();
        let from =
            Walks { deadlines: walks.deadlines.clone(), incarnations: walks.incarnations.clone() };
        drop(walks);
        match round(db, self.quota, from) {
            Ok(after) => {
                *self.walks.lock() = after;
                Ok(Reply::OK)
            }
            Err(halt) => reply_of(Err(halt)),
        }
    }
}

fn round(db: &mut Keyspace<'_, '_>, quota: usize, from: Walks) -> Outcome<Walks> {
    let mut left = quota;
    let dead = dead_generations(db.generation);
    db.view.forget(&dead)?;
    reclaim_retired(db, &mut left)?;
    let deadlines = reclaim_expired(db, from.deadlines, &mut left)?;
    let incarnations = reclaim_incarnations(db, from.incarnations, &mut left)?;
    Ok(Walks { deadlines, incarnations })
}

/// Forgets what retired collections hold; once that is gone, deletes the notes that they were
/// retired.
fn reclaim_retired(db: &mut Keyspace<'_, '_>, left: &mut usize) -> Outcome<()> {
    let retired = shared_group(db.generation, Role::Retired);
    for (note, _) in db.view.scan(&KeyRange::group(&retired), *left, false)? {
        let mut group = Group::from_slice(&retired);
        group.pop();
        group.extend_from_slice(note.member());
        if db.view.count(&group)? > 0 {
            db.view.forget(&KeyRange::group(&group))?;
        } else {
            db.view.delete(&note)?;
            *left -= 1;
        }
    }
    Ok(())
}

/// Records met on a walk.
type Found = Vec<(Key, Stat)>;

/// Some members of a group after `last`, and where to go on: from the start after the end.
fn some(
    db: &mut Keyspace<'_, '_>,
    group: &[u8],
    last: Option<&[u8]>,
    count: usize,
) -> Outcome<(Found, Option<Bytes>)> {
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    let keys = db.view.scan(&KeyRange::members(group, from, Bound::Unbounded), count, false)?;
    let next = keys.last().filter(|_| keys.len() == count);
    let next = next.map(|(key, _)| Bytes::copy_from_slice(key.member()));
    Ok((keys, next))
}

fn reclaim_expired(
    db: &mut Keyspace<'_, '_>,
    last: Option<Bytes>,
    left: &mut usize,
) -> Outcome<Option<Bytes>> {
    /// Records that removing one key may touch: a deadline and a small collection, or two notes
    /// and an incarnation.
    const RECORDS_A_KEY_MAX: usize = 20;
    let group = shared_group(db.generation, Role::Deadlines);
    let count = *left * LOOKED_AT_PER_RECORD;
    if *left == 0 {
        return Ok(last);
    }
    let (keys, next) = some(db, &group, last.as_deref(), count)?;
    let mut done = last;
    for (key, stat) in keys {
        if stat.attr < db.now_ms {
            if *left < RECORDS_A_KEY_MAX.min(count / LOOKED_AT_PER_RECORD) {
                return Ok(done);
            }
            let located = db.locate(key.member(), Kind::String)?;
            db.remove(key.member(), &located)?;
            *left = left.saturating_sub(if located.is_string() { 2 } else { RECORDS_A_KEY_MAX });
        }
        done = Some(Bytes::copy_from_slice(key.member()));
    }
    Ok(next)
}

/// An incarnation number is needed while its collection exists or records of an earlier one do.
fn reclaim_incarnations(
    db: &mut Keyspace<'_, '_>,
    last: Option<Bytes>,
    left: &mut usize,
) -> Outcome<Option<Bytes>> {
    let retired = shared_group(db.generation, Role::Retired);
    if *left == 0 || db.view.count(&retired)? > 0 {
        return Ok(last);
    }
    let group = shared_group(db.generation, Role::Incarnations);
    let (keys, next) = some(db, &group, last.as_deref(), *left)?;
    for (key, stat) in keys {
        let incarnation = stat.attr as u32;
        let mut used = false;
        for role in [Role::Fields, Role::Members] {
            used |= db.view.count(&db.group(role, key.member(), incarnation))? > 0;
        }
        if !used {
            db.view.delete(&key)?;
            *left -= 1;
        }
    }
    Ok(next)
}
