//! From version orders to the graph of who precedes whom.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::graph::{Edge, Graph, Kind};
use super::order::Order;
use super::within::{Sight, Sweep, View};
use super::{History, Key, Outcome, Promise, Seen};

/// The graph of the counted transactions.
pub(super) fn graph(
    history: &History,
    orders: &HashMap<Key, Order>,
    views: &[View],
    counted: &[bool],
    promise: Promise,
) -> Graph {
    let mut edges = Edges::default();
    for (key, order) in orders {
        edges.writes(*key, order);
    }
    let born = born(orders);
    for (at, view) in views.iter().enumerate() {
        for sight in &view.sights {
            if let Some(order) = orders.get(&sight.key) {
                edges.sight(at as u32, sight, order);
            }
        }
        for sweep in &view.sweeps {
            edges.sweep(at as u32, sweep, &born);
        }
    }
    let transactions = history.transactions.len() as u32;
    let nodes = match promise {
        Promise::Serializable => transactions,
        Promise::Strict => edges.real_time(history, counted),
    };
    Graph::pack(transactions, nodes, edges.0)
}

/// The keys of each range that were ever created, with their creators.
type Born = BTreeMap<Key, Vec<u32>>;

fn born(orders: &HashMap<Key, Order>) -> Born {
    let created = orders.iter().map(|(key, order)| (*key, order.creators().to_vec()));
    created.filter(|(_, creators)| !creators.is_empty()).collect()
}

#[derive(Default)]
struct Edges(Vec<(u32, Edge)>);

impl Edges {
    fn add(&mut self, from: u32, to: u32, kind: Kind, key: Key) {
        if from != to {
            self.0.push((from, Edge { to, kind, key: Some(key) }));
        }
    }

    /// Every version after the one before it; those nobody read after those that were read.
    fn writes(&mut self, key: Key, order: &Order) {
        let known: Vec<u32> = order.writers.iter().flatten().copied().collect();
        for pair in known.windows(2) {
            self.add(pair[0], pair[1], Kind::Ww, key);
        }
        for next in &order.unplaced {
            if let Some(last) = known.last() {
                self.add(*last, *next, Kind::Ww, key);
            }
        }
        if let Some(deleter) = order.deleter {
            let before = if order.unplaced.is_empty() { known.last() } else { None };
            for before in order.unplaced.iter().chain(before) {
                self.add(*before, deleter, Kind::Ww, key);
            }
        }
    }

    /// A reader after the writer of what it saw and before whoever wrote the next version.
    fn sight(&mut self, reader: u32, sight: &Sight, order: &Order) {
        let key = sight.key;
        match &sight.seen {
            Seen::List(list) if order.values.starts_with(list) => {
                if let Some(Some(writer)) = list.len().checked_sub(1).map(|at| order.writers[at]) {
                    self.add(writer, reader, Kind::Wr, key);
                }
                self.before_version(reader, list.len(), order, key, Kind::Rw);
            }
            Seen::NotYet => {
                let kind = if sight.by_scan { Kind::RwPredicate } else { Kind::Rw };
                self.before_version(reader, 0, order, key, kind);
            }
            Seen::Alive => {
                if let [creator] = order.creators() {
                    self.add(*creator, reader, Kind::Wr, key);
                }
                if let Some(deleter) = order.deleter {
                    self.add(reader, deleter, Kind::Rw, key);
                }
            }
            Seen::Gone => {
                if let Some(deleter) = order.deleter {
                    self.add(deleter, reader, Kind::Wr, key);
                }
            }
            _ => {}
        }
    }

    fn before_version(&mut self, reader: u32, at: usize, order: &Order, key: Key, kind: Kind) {
        let next = order.writers.get(at..).unwrap_or_default().iter().flatten();
        if let Some(next) = next.copied().find(|writer| *writer != reader) {
            return self.add(reader, next, kind, key);
        }
        let unplaced = order.unplaced.iter().filter(|writer| **writer != reader);
        let mut last = order.deleter;
        for next in unplaced {
            self.add(reader, *next, kind, key);
            last = None;
        }
        if let Some(deleter) = last {
            self.add(reader, deleter, kind, key);
        }
    }

    /// A scan before the creators of all keys of its range that it did not show.
    fn sweep(&mut self, reader: u32, sweep: &Sweep, born: &Born) {
        let bound = |member| Key { range: sweep.range, member };
        if sweep.from > sweep.to {
            return;
        }
        let mut accounted = sweep.accounted.iter().peekable();
        for (key, creators) in born.range(bound(sweep.from)..=bound(sweep.to)) {
            while accounted.next_if(|member| **member < key.member).is_some() {}
            if accounted.peek() == Some(&&key.member) {
                continue;
            }
            for creator in creators {
                self.add(reader, *creator, Kind::RwPredicate, *key);
            }
        }
    }

    /// Chains the moments at which transactions ended; returns the number of nodes. A transaction
    /// leads to the moment of its end, and the last moment before its start leads to it, so the
    /// order of n transactions costs 3n edges.
    fn real_time(&mut self, history: &History, counted: &[bool]) -> u32 {
        let transactions = history.transactions.len() as u32;
        let all = history.transactions.iter().enumerate().filter(|(at, _)| counted[*at]);
        let ends = all.clone().filter(|(_, t)| t.outcome == Outcome::Committed);
        let mut ends: Vec<(u64, u32)> = ends.map(|(at, t)| (t.ended, at as u32)).collect();
        ends.sort_unstable();
        for (moment, (_, at)) in (transactions..).zip(&ends) {
            self.moment(*at, moment);
            if moment > transactions {
                self.moment(moment - 1, moment);
            }
        }
        for (at, transaction) in all {
            let before = ends.partition_point(|(ended, _)| *ended < transaction.started);
            if before > 0 {
                self.moment(transactions + before as u32 - 1, at as u32);
            }
        }
        transactions + ends.len() as u32
    }

    fn moment(&mut self, from: u32, to: u32) {
        self.0.push((from, Edge { to, kind: Kind::RealTime, key: None }));
    }
}
