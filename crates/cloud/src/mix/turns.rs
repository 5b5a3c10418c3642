//! Connections to the other server, of which each writes one message at a time.
//!
//! Messages are written in the order in which they came, as many at once as there are connections.
//! All at once would share the link: a level of some megabytes would take as long as all that came
//! after it, and whatever waits for that level as well. What a message has to do once it is written
//! holds nobody up.

use std::sync::Arc;

use fogbank_env::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dial::Lane;

/// See the module.
pub struct Turns {
    idle: Arc<Mutex<Vec<Lane>>>,
    free: Arc<Semaphore>,
}

impl Turns {
    /// With so many connections, none of them made yet.
    pub fn new(connections: usize) -> Self {
        let idle = (0..connections).map(|_| Lane::default()).collect();
        Self { idle: Arc::new(Mutex::new(idle)), free: Arc::new(Semaphore::new(connections)) }
    }

    /// Waits for a connection, behind all who wait already. `None` if there is none at all.
    pub async fn next(&self) -> Option<Turn> {
        let permit = self.free.clone().acquire_owned().await.ok()?;
        let lane = self.idle.lock().pop()?;
        Some(Turn { lane, idle: self.idle.clone(), _permit: permit })
    }
}

/// A connection for one message: the next has it when this goes.
pub struct Turn {
    pub lane: Lane,
    idle: Arc<Mutex<Vec<Lane>>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.idle.lock().push(std::mem::take(&mut self.lane)); // before the permit goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many have one, the others in the order in which they came.
    #[tokio::test]
    async fn each_waits_for_its_turn() {
        let turns = Turns::new(2);
        let (first, second) = (turns.next().await, turns.next().await);
        assert!(first.is_some() && second.is_some());
        let (mut third, mut fourth) = (Box::pin(turns.next()), Box::pin(turns.next()));
        let waits = async {
            tokio::select! { biased;
                _ = &mut third => 3,
                _ = &mut fourth => 4,
                () = tokio::task::yield_now() => 0,
            }
        };
        assert_eq!(waits.await, 0);
        drop(second);
        tokio::select! { biased;
            _ = &mut fourth => panic!("it came later"),
            turn = &mut third => assert!(turn.is_some()),
        }
        assert!(fourth.await.is_some(), "the third has given its turn up");
    }
}
