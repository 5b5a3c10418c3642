//! What blobs are there, or may be.
//!
//! A put that did not end, or failed and was not found done, may be there or not; so may a blob
//! whose deletion did not end. Until an opening sees which, it has no certainty.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::oracle::blob::Kept;

/// A blob that is there or may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blob {
    pub kept: Kept,
    /// Whether it is there for certain.
    pub certain: bool,
    /// Whether it is a takeover record: nobody ever deletes those.
    pub stays: bool,
}

/// The blobs of one store, but for the commit record.
#[derive(Debug, Clone, Default)]
pub(super) struct Blobs {
    known: BTreeMap<String, Blob>,
    deleting: Vec<String>,
}

impl Blobs {
    /// A blob is put.
    pub fn put(&mut self, name: String, kept: Kept, stays: bool) {
        self.known.insert(name, Blob { kept, certain: false, stays });
    }

    /// One that was put is durable.
    pub fn landed(&mut self, name: &str) {
        if let Some(blob) = self.known.get_mut(name) {
            blob.certain = true;
        }
    }

    /// A deletion is asked for.
    pub fn delete(&mut self, names: &[String]) {
        self.deleting = names.to_vec();
        for name in names {
            self.known.entry(name.clone()).and_modify(|blob| blob.certain = false);
        }
    }

    /// It has ended.
    pub fn deleted(&mut self) {
        for name in self.deleting.drain(..) {
            self.known.remove(&name);
        }
    }

    /// The process has stopped.
    pub fn stop(&mut self) {
        self.deleting.clear();
    }

    pub fn get(&self, name: &str) -> Option<Blob> {
        self.known.get(name).copied()
    }

    /// It was seen that a blob is not there.
    pub fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Those whose names begin so, in the order of names, after `after`.
    pub fn under<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a str, Blob)> {
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let known = self.known.range::<str, _>((from, Bound::Unbounded));
        let known = known.map(|(name, blob)| (name.as_str(), *blob));
        known.take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// No opening will ever list these: takeover records of epochs long gone.
    pub fn forget_records_before(&mut self, first: &str, prefix: &str) {
        let old: Vec<String> = self.under(prefix, None).map(|(name, _)| name.into()).collect();
        old.iter().take_while(|name| name.as_str() < first).for_each(|name| self.forget(name));
    }
}
