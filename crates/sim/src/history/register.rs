//! Is what clients saw of one register linearizable? A register is written as a whole, no value
//! twice.
//!
//! Whoever reads a value has seen its write, so operations fall into clusters, one a value, and a
//! linearization is an order of clusters with the write first in each. Let a cluster's first end be
//! the earliest at which one of its operations ended, and its last begin the latest at which one
//! began. One cluster has to come before another if something in it ended before something in the
//! other began: if its first end is before the other's last begin. There is an order exactly if no
//! two clusters have to come before each other (Gibbons and Korach), and if nobody has read what
//! was not yet being written.

use std::collections::BTreeMap;

use fogbank_env::Nanos;

/// What one client saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<V> {
    /// Whether it wrote the value, or read it.
    pub wrote: bool,
    /// The value.
    pub value: V,
    /// When it was asked for, and when it was answered.
    pub times: (Nanos, Nanos),
}

/// Why no order explains what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation<V> {
    /// A value that nobody wrote, or that was written later or twice.
    Unwritten(V),
    /// Each of two values has to come before the other.
    Twisted(V, V),
}

#[derive(Debug, Clone, Copy)]
struct Cluster {
    written_from: Option<Nanos>,
    first_end: Nanos,
    last_begin: Nanos,
}

/// Holds what was seen of a register that held `initial` against an order that explains it.
///
/// # Errors
/// The first violation.
pub fn check<V: Ord + Clone>(seen: &[Seen<V>], initial: &V) -> Result<(), Violation<V>> {
    let mut clusters: BTreeMap<&V, Cluster> = BTreeMap::new();
    let before = Cluster { written_from: Some(0), first_end: 0, last_begin: 0 };
    clusters.insert(initial, before);
    for Seen { wrote, value, times } in seen {
        // What was there at first was written before anything else began, also at time 0.
        let [began, ended] = [times.0, times.1].map(|time| time.saturating_add(1));
        let fresh = Cluster { written_from: None, first_end: ended, last_begin: began };
        let cluster = clusters.entry(value).or_insert(fresh);
        cluster.first_end = cluster.first_end.min(ended);
        cluster.last_begin = cluster.last_begin.max(began);
        if *wrote && cluster.written_from.replace(began).is_some() {
            return Err(Violation::Unwritten(value.clone()));
        }
    }
    let unwritten =
        |cluster: &Cluster| cluster.written_from.is_none_or(|from| cluster.first_end < from);
    if let Some((value, _)) = clusters.iter().find(|(_, cluster)| unwritten(cluster)) {
        return Err(Violation::Unwritten((*value).clone()));
    }
    let before = |one: &Cluster, other: &Cluster| one.first_end < other.last_begin;
    let all: Vec<(&V, Cluster)> = clusters.into_iter().collect();
    for (at, (value, one)) in all.iter().enumerate() {
        let twisted = |(_, other): &&(&V, Cluster)| before(one, other) && before(other, one);
        if let Some((other, _)) = all[..at].iter().find(twisted) {
            return Err(Violation::Twisted((*other).clone(), (*value).clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(wrote: bool, value: u32, began: Nanos, ended: Nanos) -> Seen<u32> {
        Seen { wrote, value, times: (began, ended) }
    }

    #[test]
    fn orders_that_explain_are_found() {
        let writes = [seen(true, 1, 0, 10), seen(true, 2, 5, 20)];
        for reads in [
            vec![],
            vec![seen(false, 0, 0, 4), seen(false, 1, 3, 30), seen(false, 2, 21, 22)],
            vec![seen(false, 2, 5, 6), seen(false, 1, 8, 9)], // both writes are under way
        ] {
            let all: Vec<_> = writes.iter().cloned().chain(reads).collect();
            assert_eq!(check(&all, &0), Ok(()), "{all:?}");
        }
    }

    #[test]
    fn what_no_order_explains_is_told() {
        let writes = [seen(true, 1, 0, 10), seen(true, 2, 11, 20)];
        for (reads, expected) in [
            (vec![seen(false, 1, 21, 22)], Violation::Twisted(1, 2)), // stale
            (vec![seen(false, 0, 11, 12)], Violation::Twisted(0, 1)),
            (vec![seen(false, 2, 5, 10)], Violation::Unwritten(2)), // before it was written
            (vec![seen(false, 3, 5, 10)], Violation::Unwritten(3)),
        ] {
            let all: Vec<_> = writes.iter().cloned().chain(reads).collect();
            assert_eq!(check(&all, &0), Err(expected), "{all:?}");
        }
    }
}
