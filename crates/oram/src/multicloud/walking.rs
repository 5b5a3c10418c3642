//! Chains that wait to be walked, and the threads that walk them.
//!
//! Those of reads are walked in the order in which they came, by as many threads as there are
//! cores. A thread for each would be hundreds that want the cores at once, and keep those waiting
//! that let messages leave. All of a refresh are walked together, beside that line.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_env::Mutex;
use tokio::task::JoinSet;

use super::chain::{Uncovered, Uncovering};
use crate::Result;

/// See the module.
pub struct Walking {
    line: Arc<Mutex<Line>>,
    threads_max: usize,
    tells: Arc<Told>,
}

/// Is told what was found; an error if nobody hears of it any more.
type Told = dyn Fn(Result<Uncovered>) -> Result<()> + Send + Sync;

#[derive(Default)]
struct Line {
    waiting: VecDeque<Uncovering>,
    threads: usize,
}

impl Walking {
    /// Nothing, for so many threads that tell what they find.
    pub fn new(threads_max: usize, tells: Arc<Told>) -> Self {
        Self { line: Arc::default(), threads_max, tells }
    }

    /// By as many threads as there are cores.
    pub fn usual(tells: Arc<Told>) -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from), tells)
    }

    /// A chain is walked in its turn, by one of `threads`.
    pub fn push(&self, chain: Uncovering, threads: &mut JoinSet<Result<()>>) {
        let tells = self.tells.clone();
        if !chain.whose.is_read() {
            threads.spawn_blocking(move || tells(chain.find()));
            return;
        }
        let mut line = self.line.lock();
        line.waiting.push_back(chain);
        if line.threads == self.threads_max {
            return;
        }
        line.threads += 1;
        drop(line); // where no thread begins any more the place goes at once, and takes the line
        let mut place = Place { line: self.line.clone(), is_free: false };
        threads.spawn_blocking(move || {
            while let Some(chain) = place.next() {
                tells(chain.find())?;
            }
            Ok(())
        });
    }
}

/// The place of one thread: free when nothing waits, or when this goes, whether the thread ever
/// began or not.
struct Place {
    line: Arc<Mutex<Line>>,
    is_free: bool,
}

impl Place {
    /// What is next. With nothing the place is free at once: who pushes meanwhile needs another.
    fn next(&mut self) -> Option<Uncovering> {
        let mut line = self.line.lock();
        let next = line.waiting.pop_front();
        if next.is_none() {
            line.threads -= 1;
            self.is_free = true;
        }
        next
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_free {
            self.line.lock().threads -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fogbank_env::Randomness;
    use fogbank_seal::{MasterKey, SplitKeys, StoreId};

    use super::*;
    use crate::multicloud::chain::Whose;
    use crate::multicloud::{Effect, MulticloudPlane, MulticloudSettings};
    use crate::{Access, Error, ImmediateShape};

    const THREADS_MAX: usize = 2;

    /// Those of so many reads.
    fn chains(reads: u32) -> Vec<Uncovering> {
        let shape = ImmediateShape { capacity: 900, value_bytes: 64 };
        let settings = MulticloudSettings::new(shape, 2).unwrap();
        let keys = SplitKeys::derive(&MasterKey::from_bytes(&mut [3; 32]), StoreId([1; 16]));
        let random = Randomness::from_seed([7; 32]);
        let mut plane = MulticloudPlane::imagined(settings, Arc::new(keys), &random).unwrap();
        let effects = (0..reads).flat_map(|block| plane.arrive(Some(block), Access::Read).unwrap());
        let chains = effects.filter_map(|effect| match effect {
            Effect::Uncover(chain) => Some(chain),
            _ => None,
        });
        let chains: Vec<_> = chains.filter(|chain| chain.whose.is_read()).collect();
        assert_eq!(chains.len(), reads as usize);
        chains
    }

    #[tokio::test]
    async fn one_thread_walks_them_in_their_order() {
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let tells = move |found: Result<Uncovered>| {
            told.send(found?.whose).unwrap();
            Ok(())
        };
        let (walking, mut threads) = (Walking::new(1, Arc::new(tells)), JoinSet::new());
        chains(20).into_iter().for_each(|chain| walking.push(chain, &mut threads));
        for read in 0..20 {
            assert_eq!(heard.recv().await, Some(Whose::Read(read)));
        }
    }

    /// All are walked, by two threads, though all came at once; and so are those that come when
    /// the threads have nothing to do.
    #[tokio::test]
    async fn a_few_threads_walk_all_chains() {
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let at_once = AtomicUsize::new(0);
        let walking = Walking::new(
            THREADS_MAX,
            Arc::new(move |found: Result<Uncovered>| {
                let others = at_once.fetch_add(1, Ordering::SeqCst);
                (0..100_000).for_each(|_| std::hint::spin_loop());
                at_once.fetch_sub(1, Ordering::SeqCst);
                told.send((others, found.is_ok())).unwrap();
                Ok(())
            }),
        );
        let (chains, mut threads) = (chains(20), JoinSet::new());
        for round in 1..=chains.len() {
            for chain in &chains[..round] {
                walking.push(chain.clone(), &mut threads);
            }
            for _ in 0..round {
                let (others, is_found) = heard.recv().await.unwrap();
                assert!(is_found && others < THREADS_MAX, "{others}");
            }
        }
    }

    /// A thread that ends early leaves its place to another.
    #[tokio::test]
    async fn who_ends_early_holds_nobody_up() {
        let walking = Walking::new(1, Arc::new(|_| Err(Error::Bug("nobody hears".into()))));
        let mut threads = JoinSet::new();
        for chain in chains(3) {
            walking.push(chain, &mut threads);
            assert!(threads.join_next().await.unwrap().unwrap().is_err());
        }
    }
}
