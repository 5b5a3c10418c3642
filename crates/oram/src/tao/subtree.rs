//! The subtree: buckets that were fetched and may not be dropped yet.
//!
//! # The fresh-subtree invariant
//!
//! A bucket that is here is current. One that is not is current in the cloud, in the version that
//! the proxy names, and no reply that brings an older one is under way.
//!
//! A bucket comes here with the first path that reads it and is dropped when a write-back that
//! holds its last change has been acknowledged, unless a path under way goes through it. If one
//! does, the bucket is changed again when that path is processed, and so written again: none stays
//! for ever.

use hashbrown::HashMap;

use super::path_requests::PathRequests;
use crate::slab::Handle;

/// A block in a bucket here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketBlock {
    /// Its id.
    pub block: u32,
    /// Its payload.
    pub payload: Handle,
}

/// A bucket here.
#[derive(Debug, Default)]
pub struct Node {
    /// At most Z.
    pub blocks: Vec<BucketBlock>,
    /// The number of the last flush along it.
    pub flushed: u64,
    /// The newest version of it that has been sent; 0 if none was since it came here.
    pub sent: u64,
}

/// Buckets by chunk.
#[derive(Debug, Default)]
pub struct Subtree {
    nodes: HashMap<u32, Node>,
}

impl Subtree {
    /// The bucket, if it is here.
    pub fn get(&self, chunk: u32) -> Option<&Node> {
        self.nodes.get(&chunk)
    }

    /// The bucket, if it is here.
    pub fn get_mut(&mut self, chunk: u32) -> Option<&mut Node> {
        self.nodes.get_mut(&chunk)
    }

    /// A bucket has come.
    pub fn insert(&mut self, chunk: u32, blocks: Vec<BucketBlock>) {
        self.nodes.insert(chunk, Node { blocks, ..Node::default() });
    }

    /// Drops the bucket if nothing happened to it since flush `flushed` and no path under way goes
    /// through it; returns what it held.
    pub fn drop_if_settled(
        &mut self,
        chunk: u32,
        flushed: u64,
        under_way: &PathRequests,
    ) -> Option<Node> {
        let settled = |node: &Node| node.flushed <= flushed && !under_way.go_through(chunk);
        if self.nodes.get(&chunk).is_some_and(settled) { self.nodes.remove(&chunk) } else { None }
    }

    /// Drops it whatever happens: what no engine may do.
    pub fn drop_early(&mut self, chunk: u32) -> Option<Node> {
        self.nodes.remove(&chunk)
    }

    /// All buckets here.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.nodes.iter().map(|(chunk, node)| (*chunk, node))
    }

    /// How many buckets are here.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}
