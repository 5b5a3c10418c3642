//! Programs: how commands, `WATCH` and `EXEC` run on the transaction layer.
//!
//! One command is one transaction; the commands between `MULTI` and `EXEC` are one transaction
//! inside one epoch. Programs of one connection take effect in the order sent. `WATCH` is a
//! program too, so it is ordered with the reads around it: it notes what each key is and asks the
//! transaction layer to remember writes from its own timestamp on; `EXEC` compares.

use super::command::{Data, reply_of};
use super::frame::Request;
use super::keyspace::{Bounds, Halt, Keyspace, Outcome};
use super::layout::{Kind, Role, collection_group, shared_group};
use super::reply::Reply;
use super::untaken::{Answered, Growing, Untaken};
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_txn::{Key, KeyRange, Pause, Program, View, Watch};
use std::sync::Arc;

/// One transaction of a connection.
pub struct Work {
    task: Task,
    bounds: Arc<Bounds>,
    untaken: Arc<Untaken>,
}

/// What a transaction is to do.
pub enum Task {
    /// A command by itself.
    Single { code: Data, request: Request },
    /// `WATCH`; what it notes goes to `slot`.
    Watch { names: Request, slot: Slot },
    /// `EXEC` of what was queued, unless something watched has changed.
    Exec { watched: Vec<Slot>, body: Vec<Queued> },
}

/// A command between `MULTI` and `EXEC`.
pub enum Queued {
    /// One that works on keys.
    Data(Data, Request),
    /// One that the connection carries out once this transaction takes place; its reply stands
    /// in for what is told then.
    Elsewhere,
    /// `UNWATCH`.
    Unwatch,
}

/// What one `WATCH` noted, once it has run.
pub type Slot = Arc<Mutex<Option<Watched>>>;

/// What one `WATCH` noted.
pub struct Watched {
    generation: u32,
    watch: Watch,
    keys: Vec<WatchedKey>,
}

struct WatchedKey {
    name: Bytes,
    existed: bool,
    incarnation: u32,
}

impl Work {
    /// Of a connection whose replies count as `untaken`.
    pub fn new(task: Task, bounds: Arc<Bounds>, untaken: Arc<Untaken>) -> Self {
        Self { task, bounds, untaken }
    }

    fn reply(&self, view: &mut View<'_>) -> Result<Reply, Pause> {
        if let Some(refusal) = self.untaken.refusal() {
            return Ok(refusal);
        }
        let mut db = match Keyspace::open(view, &self.bounds) {
            Ok(db) => db,
            Err(halt) => return reply_of(Err(halt)),
        };
        match &self.task {
            Task::Single { code, request } => {
                let reply = reply_of(code(&mut db, request))?;
                self.untaken.growing().add(reply)
            }
            Task::Watch { names, slot } => reply_of(watch(&mut db, names, slot)),
            Task::Exec { watched, body } => {
                match unchanged(&mut db, watched) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Reply::NullArray),
                    Err(halt) => return reply_of(Err(halt)),
                }
                run_body(&mut db, body, self.untaken.growing())
            }
        }
    }
}

impl Program for Work {
    type Reply = Answered;

    fn run(&mut self, view: &mut View<'_>) -> Result<Answered, Pause> {
        self.reply(view).map(|reply| Answered::new(reply, &self.untaken))
    }
}

/// Runs the queued commands. One that must wait for records does not keep the others from asking
/// for theirs, so that the whole body waits for one round and not for one a command; such a run
/// ends as a pause, and nothing of it stays.
fn run_body(
    db: &mut Keyspace<'_, '_>,
    body: &[Queued],
    mut growing: Growing,
) -> Result<Reply, Pause> {
    let mut replies = Vec::with_capacity(body.len());
    let mut paused = None;
    for queued in body {
        let outcome = match queued {
            Queued::Data(code, request) => reply_of(code(db, request)),
            Queued::Elsewhere => Ok(Reply::Null),
            Queued::Unwatch => Ok(Reply::OK),
        };
        match outcome.and_then(|reply| growing.add(reply)) {
            Ok(reply) => replies.push(reply),
            Err(Pause::Missing) => paused = Some(Pause::Missing),
            Err(refused) => return Err(paused.unwrap_or(refused)),
        }
    }
    paused.map_or(Ok(Reply::Array(replies)), Err)
}

fn watch(db: &mut Keyspace<'_, '_>, names: &Request, slot: &Slot) -> Outcome {
    let mut keys = Vec::with_capacity(names.len() - 1);
    for index in 1..names.len() {
        // What an expired key left is cleared first: that it goes later is no change.
        let located = db.settled(names.get(index))?;
        keys.push(WatchedKey {
            name: names.bytes_of(index),
            existed: located.kind().is_some(),
            incarnation: db.incarnation(names.get(index))?,
        });
    }
    let generation = db.generation;
    let watch = db.view.watch();
    for key in &keys {
        for role in [Role::Strings, Role::Deadlines] {
            db.view.watch_key(&watch, &Key::new(&shared_group(generation, role), &key.name));
        }
        for role in [Role::Fields, Role::Members] {
            let group = collection_group(generation, role, &key.name, key.incarnation);
            db.view.watch_range(&watch, &KeyRange::group(&group));
        }
    }
    let watched = Watched { generation, watch, keys };
    *slot.lock() = Some(watched);
    Ok(Reply::OK)
}

/// Whether everything watched is as it was. A `WATCH` that failed noted nothing: then it is not.
fn unchanged(db: &mut Keyspace<'_, '_>, watched: &[Slot]) -> Result<bool, Halt> {
    for slot in watched {
        let slot = slot.lock();
        let Some(watched) = slot.as_ref() else { return Ok(false) };
        if db.generation == watched.generation && db.view.changed(&watched.watch) {
            return Ok(false);
        }
        for key in &watched.keys {
            if !key_unchanged(db, watched.generation, key)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What a set of watched records does not show: that the key has expired, or that it went and came
/// in another generation or incarnation, where its records have other names. A key that was
/// absent and still is has not changed.
fn key_unchanged(db: &mut Keyspace<'_, '_>, generation: u32, key: &WatchedKey) -> Outcome<bool> {
    let exists = db.locate(&key.name, Kind::String)?.kind().is_some();
    let same = db.generation == generation && db.incarnation(&key.name)? == key.incarnation;
    Ok(if same { exists || !key.existed } else { !exists && !key.existed })
}
