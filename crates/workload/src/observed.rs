//! A database whose transactions are observed: what each fetched and wrote, as if nothing had been
//! in memory ([`Footprint`]). Runs that lost count for nothing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_txn::{Footprint, Key, Observer, Trail};

use crate::database::{Database, Effect, Performed, Procedure, Result, Statements};

/// A database, and who is told of what is done with it.
pub struct Observed {
    database: Arc<dyn Database>,
    observer: Arc<dyn Observer>,
}

impl Observed {
    /// `observer` is told of every transaction that commits on `database`.
    pub fn new(database: Arc<dyn Database>, observer: Arc<dyn Observer>) -> Self {
        Self { database, observer }
    }
}

#[async_trait]
impl Database for Observed {
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed> {
        let watched = Watched { procedure, last: Mutex::default() };
        let performed = self.database.perform(&watched).await?;
        self.observer.ended(&watched.last.lock());
        Ok(performed)
    }

    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        self.database.snapshot(keys).await
    }

    fn snapshot_max(&self) -> usize {
        self.database.snapshot_max()
    }
}

/// A procedure that notes what its last run has asked for.
struct Watched<'a> {
    procedure: &'a dyn Procedure,
    last: Mutex<Footprint>,
}

#[async_trait]
impl Procedure for Watched<'_> {
    fn kind(&self) -> usize {
        self.procedure.kind()
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let noting = Noting { on, trail: Mutex::default() };
        let effect = self.procedure.run(&noting).await?;
        let trail = noting.trail.into_inner();
        *self.last.lock() = trail.end();
        Ok(effect)
    }
}

/// Statements that are noted. Hints are not: what they save depends on what else is under way.
struct Noting<'a> {
    on: &'a dyn Statements,
    trail: Mutex<Trail<Key>>,
}

impl Noting<'_> {
    /// These records came of one round, apart from those that were known.
    fn came<'k>(&self, records: impl Iterator<Item = (&'k Key, &'k Bytes)>) {
        let mut trail = self.trail.lock();
        records.for_each(|(key, value)| trail.ask(key.clone(), value.len() as u32));
        trail.fetch();
    }
}

#[async_trait]
impl Statements for Noting<'_> {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let found = self.on.get_many(keys).await?;
        self.came(keys.iter().zip(&found).filter_map(|(key, value)| Some((key, value.as_ref()?))));
        Ok(found)
    }

    async fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        self.trail.lock().write(key.clone(), Some(value.len() as u32));
        self.on.put(key, value).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.trail.lock().write(key.clone(), None);
        self.on.delete(key).await
    }

    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        let found = self.on.scan(from, limit).await?;
        self.came(found.iter().map(|(key, value)| (key, value)));
        Ok(found)
    }

    async fn prefetch(&self, keys: &[Key]) -> Result<()> {
        self.on.prefetch(keys).await
    }

    fn gains_by_reading_ahead(&self) -> bool {
        self.on.gains_by_reading_ahead()
    }
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};

    use super::*;
    use crate::serial::Serial;
    use crate::smallbank::SmallBank;
    use crate::workload::Workload;

    #[derive(Default)]
    struct Seen(Mutex<Vec<Footprint>>);

    impl Observer for Seen {
        fn ended(&self, footprint: &Footprint) {
            self.0.lock().push(footprint.clone());
        }
    }

    #[tokio::test]
    async fn accounts_are_found_by_name_and_then_read() {
        let bank = SmallBank::uniform(50);
        let seen = Arc::new(Seen::default());
        let database = Observed::new(Arc::new(Serial::loaded(&bank)), seen.clone());
        let mut stream = Randomness::repeatable(1).stream(Purpose::Workload);
        let mut kinds = Vec::new();
        for _ in 0..100 {
            let procedure = bank.draw(&mut stream);
            database.perform(&*procedure).await.unwrap();
            kinds.push(procedure.kind());
        }
        let seen = seen.0.lock().clone();
        assert_eq!(seen.len(), 100);
        let of = |kind: usize| &seen[kinds.iter().position(|k| *k == kind).unwrap()];
        assert_eq!((&of(0).rounds[..], of(0).written), (&[1, 2][..], 0), "balance");
        assert_eq!((&of(1).rounds[..], of(1).written), (&[1, 1][..], 1), "deposit checking");
        assert_eq!((&of(3).rounds[..], of(3).written), (&[2, 3][..], 3), "amalgamate");
        assert_eq!(of(1).value_bytes, [4, 8, 8]);
    }
}
