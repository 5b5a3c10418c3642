//! A directed graph with typed edges, packed for linear passes.

use super::Key;

/// Why one transaction precedes another in every serial order. A bit each, so that a set of kinds
/// is a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// The later overwrote what the earlier wrote.
    Ww = 1,
    /// The later read what the earlier wrote.
    Wr = 2,
    /// The later overwrote what the earlier read.
    Rw = 4,
    /// The later added a key to a range that the earlier had scanned.
    RwPredicate = 8,
    /// The earlier had ended before the later started.
    RealTime = 16,
}

/// A set of [`Kind`]s.
pub(super) type Mask = u8;

/// One edge as seen from its tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub to: u32,
    pub kind: Kind,
    /// The key it is about; `None` for real time.
    pub key: Option<Key>,
}

/// Nodes below `transactions` are transactions; those above are moments in time.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub transactions: u32,
    first: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Packs `edges`, given with their tails.
    pub(super) fn pack(transactions: u32, nodes: u32, mut edges: Vec<(u32, Edge)>) -> Self {
        edges.sort_unstable_by_key(|(from, edge)| (*from, edge.to, edge.kind, edge.key));
        edges.dedup_by_key(|(from, edge)| (*from, edge.to, edge.kind));
        let mut first = vec![0; nodes as usize + 1];
        for (from, _) in &edges {
            first[*from as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        Self { transactions, first, edges: edges.into_iter().map(|(_, edge)| edge).collect() }
    }

    pub(super) fn nodes(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// The edges out of `node` whose kind is in `mask`.
    pub(super) fn out(&self, node: u32, mask: Mask) -> impl Iterator<Item = &Edge> {
        self.out_from(node, mask, 0).map(|(_, edge)| edge)
    }

    /// The same from the `skip`-th edge on, each with the number to go on from.
    pub(super) fn out_from(
        &self,
        node: u32,
        mask: Mask,
        skip: u32,
    ) -> impl Iterator<Item = (u32, &Edge)> {
        let (from, to) = (self.first[node as usize] + skip, self.first[node as usize + 1]);
        let all = self.edges[from as usize..to as usize].iter().enumerate();
        let all = all.map(move |(n, edge)| (skip + n as u32 + 1, edge));
        all.filter(move |(_, edge)| edge.kind as u8 & mask != 0)
    }
}
