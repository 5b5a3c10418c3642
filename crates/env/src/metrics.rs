//! Figures about a running proxy, each typed by who may see it.
//!
//! A public figure is a function of what the cloud already sees (epochs, batches, bytes). A secret
//! one is not (stash size, hits, deduplicated reads, aborts): it never appears in a log, an
//! unprivileged reply or a public export.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Mutex;

/// Who may see a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Already known to the cloud.
    Public,
    /// Known to the trusted side only.
    Secret,
}

/// One named figure; cheap to clone and to update.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Replaces the value by the larger of it and `value`.
    pub fn set_max(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The register of figures of one proxy; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<(Visibility, &'static str), Gauge>>>);

impl Metrics {
    /// The figure called `name`, made on first use. The visibility is part of its identity.
    pub fn gauge(&self, visibility: Visibility, name: &'static str) -> Gauge {
        let mut all = self.0.lock();
        all.entry((visibility, name)).or_default().clone()
    }

    /// All figures of one visibility, by name.
    pub fn snapshot(&self, visibility: Visibility) -> Vec<(&'static str, u64)> {
        let all = self.0.lock();
        all.iter().filter(|((v, _), _)| *v == visibility).map(|((_, n), g)| (*n, g.get())).collect()
    }
}
