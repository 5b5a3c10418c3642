//! Strongly connected components, after Tarjan, without recursion.

use super::graph::{Graph, Mask};

const UNMET: u32 = u32::MAX;

/// The components of two nodes or more of `graph`, following only edges in `mask` between nodes
/// that `inside` admits.
pub(super) fn components(
    graph: &Graph,
    mask: Mask,
    nodes: impl Iterator<Item = u32>,
    inside: impl Fn(u32) -> bool,
) -> Vec<Vec<u32>> {
    let count = graph.nodes() as usize;
    let mut search = Search {
        index: vec![UNMET; count],
        low: vec![0; count],
        on_stack: vec![false; count],
        ..Search::default()
    };
    for root in nodes {
        if search.index[root as usize] == UNMET {
            search.visit(graph, mask, root, &inside);
        }
    }
    search.found
}

#[derive(Default)]
struct Search {
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    next: u32,
    /// Nodes being visited, each with how many of its edges are done.
    path: Vec<(u32, u32)>,
    found: Vec<Vec<u32>>,
}

impl Search {
    fn visit(&mut self, graph: &Graph, mask: Mask, root: u32, inside: &impl Fn(u32) -> bool) {
        self.enter(root);
        while let Some((node, done)) = self.path.last().copied() {
            match self.step(graph, mask, node, done, inside) {
                Some(child) => self.enter(child),
                None => self.leave(node),
            }
        }
    }

    fn enter(&mut self, node: u32) {
        let at = node as usize;
        (self.index[at], self.low[at], self.on_stack[at]) = (self.next, self.next, true);
        self.next += 1;
        self.stack.push(node);
        self.path.push((node, 0));
    }

    /// Goes along the edges of `node` until one leads somewhere new.
    fn step(
        &mut self,
        graph: &Graph,
        mask: Mask,
        node: u32,
        done: u32,
        inside: &impl Fn(u32) -> bool,
    ) -> Option<u32> {
        for (next, edge) in graph.out_from(node, mask, done) {
            let to = edge.to as usize;
            if self.index[to] == UNMET && inside(edge.to) {
                if let Some(top) = self.path.last_mut() {
                    top.1 = next;
                }
                return Some(edge.to);
            }
            if self.on_stack[to] {
                self.low[node as usize] = self.low[node as usize].min(self.index[to]);
            }
        }
        None
    }

    fn leave(&mut self, node: u32) {
        self.path.pop();
        let low = self.low[node as usize];
        if let Some((parent, _)) = self.path.last() {
            let parent = &mut self.low[*parent as usize];
            *parent = low.min(*parent);
        }
        if low == self.index[node as usize] {
            self.close(node);
        }
    }

    fn close(&mut self, root: u32) {
        let at = self.stack.iter().rposition(|node| *node == root).unwrap_or(0);
        let members = self.stack.split_off(at);
        for node in &members {
            self.on_stack[*node as usize] = false;
        }
        if members.len() > 1 {
            self.found.push(members);
        }
    }
}
