//! What is full makes its sender wait, and loses nothing: the queues of a session, what is worked
//! off at once, and what goes back to the other cloud.

use fogbank_store::MemoryStore;

use super::tests::opening;
use super::*;
use crate::Cells;
use crate::message::{FromHolder, Look, Mix, Moved, Source, Sources, Upload};
use crate::signed::UNSIGNED;

/// A way to the other cloud that keeps all it is given until it is let go.
struct Gate {
    open: Semaphore,
    passed: fogbank_env::Mutex<Vec<Between>>,
    /// How many it keeps now, and at most.
    held: fogbank_env::Mutex<(usize, usize)>,
}

impl Gate {
    fn closed() -> Arc<Self> {
        let (passed, held) = (fogbank_env::Mutex::default(), fogbank_env::Mutex::default());
        Arc::new(Self { open: Semaphore::new(0), passed, held })
    }

    fn most(&self) -> usize {
        self.held.lock().1
    }
}

/// Lets it go, passed or not.
struct Holds<'a>(&'a Gate);

impl Drop for Holds<'_> {
    fn drop(&mut self) {
        self.0.held.lock().0 -= 1;
    }
}

#[async_trait]
impl PeerLink for Gate {
    async fn pass(&self, message: Between) -> Result<(), SessionError> {
        {
            let mut held = self.held.lock();
            *held = (held.0 + 1, held.1.max(held.0 + 1));
        }
        let _holds = Holds(self);
        self.open.acquire().await.unwrap().forget();
        self.open.add_permits(1);
        self.passed.lock().push(message);
        Ok(())
    }
}

fn server_beside(peer: Arc<dyn PeerLink>, bounds: Bounds) -> MixServer {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let server = MixServer::new(store, peer, Arc::new(Signer::new(&Seed::new([5; 32]))));
    MixServer { bounds, ..server }
}

/// Lets all others run until none can go on.
async fn all_wait() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

/// Sends so many reads of no cells, each when there is room; counts those sent.
fn many_reads(sender: mpsc::Sender<ToCloud>, count: u64) -> (JoinHandle<()>, Arc<AtomicU64>) {
    let sent = Arc::<AtomicU64>::default();
    let counted = sent.clone();
    let task = tokio::spawn(async move {
        for read in 0..count {
            let (pads, places) = (Seed::new([1; 32]), Vec::new());
            let look = Look { read, partition: (read % 2) as u16, pads, places };
            sender.send(ToCloud::Holder(look.into())).await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (task, sent)
}

/// Which reads a client is told the records of.
async fn told(session: &mut Session, count: u64) -> Vec<u64> {
    let mut reads = Vec::new();
    for _ in 0..count {
        match session.receiver.recv().await {
            Some(Ok(FromCloud::Holder(FromHolder::Records(records)))) => {
                reads.push(records.read);
            }
            other => panic!("{other:?}"),
        }
    }
    reads
}

/// In order for each partition, and all of them.
fn are_all(reads: &[u64], count: u64) {
    for partition in 0..2 {
        let of = |read: &&u64| **read % 2 == partition;
        let due: Vec<u64> = (0..count).filter(|read| read % 2 == partition).collect();
        assert_eq!(reads.iter().filter(of).copied().collect::<Vec<_>>(), due);
    }
}

const MANY: u64 = 4 * (QUEUED_MAX + AT_ONCE_MAX) as u64;

/// A client that takes no answers is kept waiting at a bound, and so are its messages. When it
/// takes them all goes on, and nothing is lost.
async fn takes_no_answers(bounds: Bounds) {
    let gate = Gate::closed();
    gate.open.add_permits(1);
    let cloud = server_beside(gate.clone(), bounds);
    let mut session = cloud.open(&opening(1, 1)).await.unwrap();
    let (sending, sent) = many_reads(session.sender.clone(), MANY);
    all_wait().await;
    let waits = sent.load(Ordering::Relaxed);
    let most = (2 * QUEUED_MAX + AT_ONCE_MAX) as u64;
    assert_eq!(waits, most, "both queues, and what is worked off");
    assert!(!sending.is_finished());
    are_all(&told(&mut session, MANY).await, MANY);
    sending.await.unwrap();
    all_wait().await;
    assert_eq!(gate.passed.lock().len() as u64, MANY);
}

/// The other cloud takes nothing: so many messages are on their way to it, the client waits to
/// send more, and all of them come when it takes them.
async fn other_cloud_is_slow(bounds: Bounds) {
    let gate = Gate::closed();
    let cloud = server_beside(gate.clone(), bounds);
    let mut session = cloud.open(&opening(1, 1)).await.unwrap();
    let (sending, sent) = many_reads(session.sender.clone(), MANY);
    all_wait().await;
    let most = (AT_ONCE_MAX + QUEUED_MAX) as u64;
    assert_eq!(sent.load(Ordering::Relaxed), most, "a queue, and what is worked off");
    assert_eq!(gate.most(), AT_ONCE_MAX);
    let mut reads = told(&mut session, AT_ONCE_MAX as u64).await;
    all_wait().await;
    assert!(session.receiver.try_recv().is_err() && !sending.is_finished());
    gate.open.add_permits(1);
    reads.extend(told(&mut session, MANY - reads.len() as u64).await);
    are_all(&reads, MANY);
    sending.await.unwrap();
    all_wait().await;
    let read = |passed: &Between| match passed {
        Between::Across(Across::Blinded(blinded)) => blinded.read,
        other => panic!("{other:?}"),
    };
    let mut passed: Vec<u64> = gate.passed.lock().iter().map(read).collect();
    passed.sort_unstable();
    assert_eq!(passed, (0..MANY).collect::<Vec<_>>());
    assert_eq!(gate.most(), AT_ONCE_MAX);
}

/// What the other cloud makes this one send back is a level a job. Of a partition one is kept:
/// a client that begins a job again and again, beside a slow link, fills no memory.
async fn levels_go_back(bounds: Bounds) {
    let other = Arc::new(Signer::new(&Seed::new([6; 32])));
    let gate = Gate::closed();
    let cloud = server_beside(gate.clone(), bounds);
    let opening = Opening { other: other.key(), ..opening(1, 1) };
    let session = cloud.open(&opening).await.unwrap();
    let signing = Signing { volume: 1, own: other, other: cloud.signer.key() };
    let shape = opening.shape;
    let source = Source { level: 1, generation: Generation::new(2, 0) };
    let sources = Sources(vec![source]);
    for attempt in 0..20 {
        for partition in 0..2 {
            let generation = Generation::new(shape.cycle(), attempt);
            let level = shape.top();
            let (order, pads) = (Seed::new([1; 32]), Seed::new([2; 32]));
            let sources = sources.clone();
            let mix = Mix { partition, level, generation, sources, order, pads };
            let upload = Upload { partition, generation, cells: Cells::zeros(32, 2) };
            for message in [mix.into(), upload.into()] {
                session.sender.send(ToCloud::Shuffler(message)).await.unwrap();
            }
            all_wait().await;
            let cells = Cells::zeros(32, 1);
            let moved = Moved { partition, generation, signature: UNSIGNED, cells };
            let mut moved = Across::from(moved);
            signing.sign(&mut moved);
            cloud.receive(Between::Across(moved)).await.unwrap();
        }
    }
    all_wait().await;
    assert_eq!(gate.held.lock().0, 2, "levels on their way");
    gate.open.add_permits(1);
    all_wait().await;
    let newest = |passed: &Between| match passed {
        Between::Back(Back::Level(level)) => level.generation.attempt(),
        other => panic!("{other:?}"),
    };
    assert_eq!(gate.passed.lock().iter().map(newest).collect::<Vec<_>>(), [19, 19]);
}

#[tokio::test]
async fn who_takes_no_answers_waits_to_send_and_loses_nothing() {
    takes_no_answers(Bounds::default()).await;
}

#[tokio::test]
async fn a_slow_other_cloud_keeps_the_sender_waiting_and_nothing_is_lost() {
    other_cloud_is_slow(Bounds::default()).await;
}

#[tokio::test]
async fn of_levels_that_go_back_one_a_partition_is_kept() {
    levels_go_back(Bounds::default()).await;
}

/// A server that has forgotten a bound is found by each of these that is about it.
#[tokio::test]
async fn a_bound_that_is_forgotten_is_seen() {
    let usual = Bounds::default;
    let queues = Bounds { queued: 1 << 20, ..usual() };
    let works = Bounds { at_once: 1 << 20, ..usual() };
    let levels = Bounds { one_level: false, ..usual() };
    for (wrong, words) in [
        (tokio::spawn(takes_no_answers(queues)), "both queues"),
        (tokio::spawn(takes_no_answers(works)), "both queues"),
        (tokio::spawn(other_cloud_is_slow(queues)), "a queue, and"),
        (tokio::spawn(other_cloud_is_slow(works)), "a queue, and"),
        (tokio::spawn(levels_go_back(levels)), "levels on their way"),
    ] {
        let seen = wrong.await.expect_err("it was not seen").into_panic();
        let told = seen.downcast_ref::<String>().unwrap();
        assert!(told.contains(words), "{told}");
    }
}
