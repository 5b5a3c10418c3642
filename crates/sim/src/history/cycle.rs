//! Naming what a strongly connected component hides: a shortest cycle of the gravest class in it.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::component::components;
use super::graph::{Edge, Graph, Kind, Mask};
use super::{Class, History, Report};

const WW: Mask = Kind::Ww as Mask;
const WR: Mask = WW | Kind::Wr as Mask;
const RW: Mask = Kind::Rw as Mask;
const PREDICATE: Mask = Kind::RwPredicate as Mask;
const REAL_TIME: Mask = Kind::RealTime as Mask;

/// Searches started within one component before the shortest found so far is taken.
const SEARCHES: usize = 200;

/// A step of a cycle: the tail and the edge out of it.
type Cycle = Vec<(u32, Edge)>;

/// Reports one cycle for every strongly connected component.
pub(super) fn find(history: &History, graph: &Graph, report: &mut Report) {
    let everything = WR | RW | PREDICATE | REAL_TIME;
    for component in components(graph, everything, 0..graph.nodes(), |_| true) {
        let within = Within::new(graph, &component);
        if let Some(cycle) = within.gravest() {
            let class = classify(&cycle);
            let transactions = cycle.iter().map(|(from, _)| *from);
            let transactions = transactions.filter(|at| *at < graph.transactions).collect();
            report.add(class, transactions, words(history, graph, &cycle));
        }
    }
}

struct Within<'a> {
    graph: &'a Graph,
    nodes: &'a [u32],
    inside: Vec<bool>,
}

impl<'a> Within<'a> {
    fn new(graph: &'a Graph, nodes: &'a [u32]) -> Self {
        let mut inside = vec![false; graph.nodes() as usize];
        for node in nodes {
            inside[*node as usize] = true;
        }
        Self { graph, nodes, inside }
    }

    /// Looks for the classes from the gravest on: first without real time, then with it.
    fn gravest(&self) -> Option<Cycle> {
        [0, REAL_TIME].into_iter().find_map(|time| {
            let plain = |mask| self.shortest(mask | time);
            plain(WW)
                .or_else(|| plain(WR))
                .or_else(|| self.through_one(RW, WR | time))
                .or_else(|| plain(WR | RW))
                .or_else(|| self.through_one(PREDICATE, WR | time))
                .or_else(|| plain(WR | RW | PREDICATE))
        })
    }

    /// A shortest cycle of edges in `mask`.
    fn shortest(&self, mask: Mask) -> Option<Cycle> {
        let parts =
            components(self.graph, mask, self.nodes.iter().copied(), |n| self.inside[n as usize]);
        let starts = parts.iter().flatten().filter(|node| **node < self.graph.transactions);
        let mut best: Option<Cycle> = None;
        for start in starts.take(SEARCHES) {
            best = shorter(best, self.path(*start, *start, mask));
            if best.as_ref().is_some_and(|cycle| cycle.len() == 2) {
                break;
            }
        }
        best
    }

    /// A shortest cycle with one edge in `one` and all others in `mask`.
    fn through_one(&self, one: Mask, mask: Mask) -> Option<Cycle> {
        let edges =
            self.nodes.iter().flat_map(|from| self.graph.out(*from, one).map(|e| (*from, *e)));
        let mut best = None;
        for (from, edge) in edges.filter(|(_, e)| self.inside[e.to as usize]).take(SEARCHES * 10) {
            let back = self.path(edge.to, from, mask);
            let cycle = back.map(|back| [vec![(from, edge)], back].concat());
            best = shorter(best, cycle);
        }
        best
    }

    /// A shortest path of at least one edge, breadth first.
    fn path(&self, from: u32, to: u32, mask: Mask) -> Option<Cycle> {
        let mut came: HashMap<u32, (u32, Edge)> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for edge in self.graph.out(node, mask).filter(|e| self.inside[e.to as usize]) {
                if !came.contains_key(&edge.to) {
                    came.insert(edge.to, (node, *edge));
                    queue.push_back(edge.to);
                }
            }
            if came.contains_key(&to) {
                return Some(retrace(&came, from, to));
            }
        }
        None
    }
}

fn shorter(a: Option<Cycle>, b: Option<Cycle>) -> Option<Cycle> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.len() < a.len() { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn retrace(came: &HashMap<u32, (u32, Edge)>, from: u32, to: u32) -> Cycle {
    let mut path = Vec::new();
    let mut node = to;
    while let Some((before, edge)) = came.get(&node) {
        path.push((*before, *edge));
        node = *before;
        if node == from {
            break;
        }
    }
    path.reverse();
    path
}

fn classify(cycle: &Cycle) -> Class {
    let count = |kind| cycle.iter().filter(|(_, edge)| edge.kind == kind).count();
    if count(Kind::RealTime) > 0 {
        return Class::RealTime;
    }
    match (count(Kind::Wr), count(Kind::Rw), count(Kind::RwPredicate)) {
        (0, 0, 0) => Class::G0,
        (_, 0, 0) => Class::G1c,
        (_, 1, 0) => Class::GSingle,
        (_, _, 0) => Class::G2Item,
        _ => Class::G2,
    }
}

fn words(history: &History, graph: &Graph, cycle: &Cycle) -> String {
    let start = cycle.iter().position(|(from, _)| *from < graph.transactions).unwrap_or(0);
    let steps: Vec<_> = cycle[start..].iter().chain(&cycle[..start]).collect();
    let mut text = String::from("a cycle, each before the next:");
    let mut at = 0;
    while at < steps.len() {
        let (from, first) = steps[at];
        let mut to = first.to;
        while to >= graph.transactions && at + 1 < steps.len() {
            at += 1;
            to = steps[at].1.to;
        }
        let client = history.transactions[*from as usize].client;
        text += &format!("\n  T{from} (client {client}) {}", step(first, to));
        at += 1;
    }
    text
}

fn step(edge: &Edge, to: u32) -> String {
    let key = edge.key.map(|key| key.to_string()).unwrap_or_default();
    match edge.kind {
        Kind::Ww => format!("-ww-> T{to}: wrote {key} before T{to} overwrote it"),
        Kind::Wr => format!("-wr-> T{to}: wrote {key} as T{to} saw it"),
        Kind::Rw => format!("-rw-> T{to}: saw {key} as it was before T{to} wrote it"),
        Kind::RwPredicate => format!("-rw-> T{to}: scanned past {key} before T{to} created it"),
        Kind::RealTime => format!("-rt-> T{to}: had ended before T{to} started"),
    }
}
