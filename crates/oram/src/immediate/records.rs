//! Records on their way: several at once, which land in any order and count in theirs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fogbank_durable::PutRecord;
use tokio::task::JoinSet;

use super::beside::leave_now;
use super::entrance::Fault;
use crate::{Error, Result, of_task};

/// Records that were put, and what may leave when they count.
pub type Landed<T> = (Vec<PutRecord>, Vec<T>);

/// See the module.
pub struct Records<T> {
    /// What may leave when they count; oldest first.
    under_way: VecDeque<T>,
    /// The number of the first of them.
    first: u64,
    /// Each left where it was decided; a task of its own waits for its end.
    puts: JoinSet<Result<(u64, PutRecord)>>,
    landed: BTreeMap<u64, PutRecord>,
}

impl<T> Records<T> {
    /// None.
    pub fn new() -> Self {
        let (under_way, landed) = (VecDeque::new(), BTreeMap::new());
        Self { under_way, first: 0, puts: JoinSet::new(), landed }
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// What may leave behind them, the oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.under_way.iter_mut()
    }

    /// What may leave behind the newest.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.under_way.back_mut()
    }

    /// A record is put now; `behind` may leave when it counts.
    pub async fn begin(
        &mut self,
        fault: &Arc<Fault>,
        put: impl Future<Output = Result<PutRecord>> + Send + 'static,
        behind: T,
    ) {
        let number = self.first + self.under_way.len() as u64;
        self.under_way.push_back(behind);
        leave_now(fault, &mut self.puts, async move { Ok((number, put.await?)) }).await;
    }

    /// Waits until the oldest has landed, and takes it and all behind it that have. Nothing is lost
    /// if this is abandoned.
    ///
    /// # Errors
    /// Those of a put.
    pub async fn land(&mut self) -> Result<Landed<T>> {
        loop {
            let counts = (self.first..).zip(self.landed.keys());
            let counts = counts.take_while(|(number, landed)| number == *landed).count();
            if counts > 0 {
                return Ok(self.take(counts));
            }
            let Some(put) = self.puts.join_next().await else {
                return Err(Error::Bug("no record is under way".into()));
            };
            let (number, put) = of_task(put)?;
            self.landed.insert(number, put);
        }
    }

    /// How a put failed that was not waited for; `None` if none does.
    pub async fn failure(&mut self) -> Option<Error> {
        while let Some(put) = self.puts.join_next().await {
            if let Err(error) = of_task(put) {
                return Some(error);
            }
        }
        None
    }

    fn take(&mut self, counts: usize) -> Landed<T> {
        let put = std::iter::from_fn(|| self.landed.pop_first().map(|(_, put)| put));
        let put = put.take(counts).collect();
        self.first += counts as u64;
        (put, self.under_way.drain(..counts.min(self.under_way.len())).collect())
    }
}
