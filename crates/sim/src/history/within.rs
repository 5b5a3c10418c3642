//! A transaction against itself: what it saw of others, with its own writes taken off.

use hashbrown::HashMap;

use super::{Class, History, Key, Op, Report, Seen, Transaction, Value};

/// One version written by others that a transaction saw.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub key: Key,
    pub seen: Seen,
    /// Seen by scanning a range, not by asking for the key.
    pub by_scan: bool,
}

/// A scan with the members of whose version something else is recorded.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    pub range: u32,
    pub from: u32,
    pub to: u32,
    /// Ascending: members returned, and members this transaction itself wrote.
    pub accounted: Vec<u32>,
}

/// What one transaction saw of others.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub sights: Vec<Sight>,
    pub sweeps: Vec<Sweep>,
}

/// What a transaction knows of one key while it is replayed.
#[derive(Debug, Default)]
struct Own {
    external: Option<Seen>,
    appended: Vec<Value>,
    deleted: bool,
}

/// The view of every counted transaction; reports own writes that were not seen.
pub(super) fn views(history: &History, counted: &[bool], report: &mut Report) -> Vec<View> {
    let mut own = HashMap::new();
    let all = history.transactions.iter().enumerate();
    all.map(|(at, transaction)| {
        if !counted[at] {
            return View::default();
        }
        own.clear();
        let mut replay = Replay { at: at as u32, own: &mut own, view: View::default(), report };
        replay.run(transaction);
        replay.view
    })
    .collect()
}

struct Replay<'a> {
    at: u32,
    own: &'a mut HashMap<Key, Own>,
    view: View,
    report: &'a mut Report,
}

impl Replay<'_> {
    fn run(&mut self, transaction: &Transaction) {
        for op in &transaction.ops {
            match op {
                Op::Append { key, value } => {
                    self.own.entry(*key).or_default().appended.push(*value);
                }
                Op::Delete { key } => self.own.entry(*key).or_default().deleted = true,
                Op::Read { key, seen } => self.see(*key, seen, false),
                Op::Scan { range, from, to, found } => self.sweep(*range, *from, *to, found),
            }
        }
    }

    fn see(&mut self, key: Key, seen: &Seen, by_scan: bool) {
        let own = self.own.entry(key).or_default();
        let external = match take_off(own, seen) {
            Ok(external) => external,
            Err(expected) => {
                let words = format!("T{} saw {key} as {seen:?} after it {expected}", self.at);
                return self.report.add(Class::Internal, vec![self.at], words);
            }
        };
        let Some(external) = external else { return };
        if own.external.as_ref() != Some(&external) {
            own.external = Some(external.clone());
            self.view.sights.push(Sight { key, seen: external, by_scan });
        }
    }

    fn sweep(&mut self, range: u32, from: u32, to: u32, found: &[(u32, Seen)]) {
        let mut accounted: Vec<u32> = found.iter().map(|(member, _)| *member).collect();
        let written = self.own.iter().filter(|(key, own)| {
            let inside = key.range == range && (from..=to).contains(&key.member);
            inside && (own.deleted || !own.appended.is_empty())
        });
        let mut written: Vec<u32> = written.map(|(key, _)| key.member).collect();
        written.sort_unstable();
        for member in &written {
            if !accounted.contains(member) {
                let key = Key { range, member: *member };
                let words = format!("T{} wrote {key}; its own scan does not show it", self.at);
                self.report.add(Class::Internal, vec![self.at], words);
            }
        }
        accounted.extend(written);
        accounted.sort_unstable();
        accounted.dedup();
        for (member, seen) in found {
            self.see(Key { range, member: *member }, seen, true);
        }
        self.view.sweeps.push(Sweep { range, from, to, accounted });
    }
}

/// The version of others under what was seen; `None` when it says nothing about others, an error
/// with words when it contradicts the transaction's own writes.
fn take_off(own: &Own, seen: &Seen) -> Result<Option<Seen>, String> {
    if own.deleted {
        return match seen {
            Seen::Gone | Seen::Missing => Ok(None),
            _ => Err("deleted it".into()),
        };
    }
    if own.appended.is_empty() {
        return Ok((*seen != Seen::Missing).then(|| seen.clone()));
    }
    match seen {
        Seen::Alive => Ok(None),
        Seen::List(list) => match list.strip_suffix(&own.appended[..]) {
            Some([]) => Ok(Some(Seen::NotYet)),
            Some(before) => Ok(Some(Seen::List(before.to_vec()))),
            None => Err(format!("appended {:?}", own.appended)),
        },
        _ => Err(format!("appended {:?}", own.appended)),
    }
}
