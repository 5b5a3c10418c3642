//! Figures of two clouds in virtual time: what the protocol and the links make of it. No time
//! passes while the client and both clouds compute, so all three can share one machine. Those of
//! large volumes are drawn by hand, with the name of one behind:
//! `cargo test -p fogbank-lab --bins -- --ignored --nocapture multicloud::virtual_time`.
//!
//! 1. Both servers are in this process, behind their messages: nothing is encoded.
//! 2. Between them a message takes the link in pieces, so that those on their way share it as
//!    streams do. Its sender hears that it was worked off when a word has come back.
//! 3. The client's link takes messages whole. Its commit records have the round trip, and no bytes.
//!
//! What there is not: TLS, bounds of memory, time that a disk takes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
use fogbank_mix::Seed;
use fogbank_mix::message::Reached;
use fogbank_mix::server::{Between as Message, LocalPeer, MixServer, PeerLink};
use fogbank_mix::session::{FromCloud, MixCloud, Opening, QUEUED_MAX, Session, SessionError};
use fogbank_mix::signed::{PublicKey, Signed, Signer};
use fogbank_oram::ImmediateShape;
use fogbank_oram::multicloud::MulticloudSettings;
use fogbank_process::say;
use fogbank_store::{Delay, Link, MemoryStore, Store};
use tokio::sync::mpsc;

use super::ground::{Between, Ground};
use super::parts::{bytes_of_asked, bytes_of_told};
use super::relay::Pipe;
use super::sparse::Past;
use super::{Links, Made, Measured, Pair};

/// What a message takes of a link at once.
const PIECE_BYTES: usize = 16 << 10;
/// What stands around the cells of a message between clouds, heads of HTTP among it.
const AROUND_BYTES: usize = 256;
/// The word that it was worked off.
const WORD_BYTES: usize = 64;

/// The other cloud, behind a link: there, and back.
struct FarPeer {
    inner: Arc<LocalPeer>,
    pipes: [Arc<Pipe>; 2],
    clock: Arc<dyn Clock>,
}

impl FarPeer {
    /// Returns when so many bytes have come.
    async fn carry(&self, pipe: &Pipe, bytes: usize) {
        let (mut left, mut all_there) = (bytes, 0);
        while left > 0 {
            let piece = left.min(PIECE_BYTES);
            let (gone, comes) = pipe.takes(piece);
            pipe.follow(gone).await;
            (left, all_there) = (left - piece, comes);
        }
        self.clock.come_near(all_there).await;
    }
}

#[async_trait]
impl PeerLink for FarPeer {
    async fn pass(&self, message: Message) -> Result<(), SessionError> {
        let cells = match &message {
            Message::Across(message) => message.batch().cells.bytes().len(),
            Message::Back(message) => message.batch().cells.bytes().len(),
        };
        let [there, back] = &self.pipes;
        self.carry(there, cells + AROUND_BYTES).await;
        let passed = self.inner.pass(message).await;
        self.carry(back, WORD_BYTES).await;
        passed
    }
}

/// A cloud behind the client's link.
struct FarCloud {
    server: Arc<MixServer>,
    client: [Arc<Pipe>; 2],
    clock: Arc<dyn Clock>,
}

impl FarCloud {
    /// Carries messages of so many bytes through `pipe`, in order.
    fn carry<T: Send + 'static>(
        &self,
        mut from: mpsc::Receiver<T>,
        (to, pipe): (mpsc::Sender<T>, &Arc<Pipe>),
        bytes: impl Fn(&T) -> usize + Send + 'static,
    ) {
        let (sender, mut carried) = mpsc::unbounded_channel::<(Nanos, T)>();
        let (pipe, clock) = (pipe.clone(), self.clock.clone());
        tokio::spawn(async move {
            while let Some(message) = from.recv().await {
                let (left, comes) = pipe.takes(bytes(&message));
                if sender.send((comes, message)).is_err() {
                    break;
                }
                pipe.follow(left).await;
            }
        });
        tokio::spawn(async move {
            while let Some((comes, message)) = carried.recv().await {
                clock.come_near(comes).await;
                if to.send(message).await.is_err() {
                    break;
                }
            }
        });
    }
}

#[async_trait]
impl MixCloud for FarCloud {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        let Session { sender, receiver, reached, key } = self.server.open(opening).await?;
        let ((asks, asked), (tells, told)) = (mpsc::channel(QUEUED_MAX), mpsc::channel(QUEUED_MAX));
        let [up, down] = &self.client;
        let shape = opening.shape;
        self.carry(asked, (sender, up), move |message| bytes_of_asked(&shape, message));
        let bytes =
            |message: &Result<FromCloud, SessionError>| message.as_ref().map_or(0, bytes_of_told);
        self.carry(receiver, (tells, down), bytes);
        Ok(Session { sender: asks, receiver: told, reached, key })
    }

    async fn reached(&self, opening: &Opening) -> Result<Option<Reached>, SessionError> {
        self.server.reached(opening).await
    }

    async fn key(&self, opening: &Opening) -> Result<PublicKey, SessionError> {
        self.server.key(opening).await
    }
}

/// Two clouds in this process.
struct Near {
    ways: [Arc<LocalPeer>; 2],
}

impl Drop for Near {
    /// Each has the way to the other, so neither would go by itself.
    fn drop(&mut self) {
        self.ways.iter().for_each(|way| way.is(None));
    }
}

fn clouds(clock: &Arc<dyn Clock>) -> Ground {
    let pipe = || Pipe::new(clock);
    let (client, between) = ([pipe(), pipe()], [pipe(), pipe()]);
    let ways: [Arc<LocalPeer>; 2] = Default::default();
    let store = || -> Arc<dyn Store> { Arc::new(MemoryStore::new()) };
    let server = |at: usize| {
        let pipes = [between[at].clone(), between[1 - at].clone()];
        let way = FarPeer { inner: ways[1 - at].clone(), pipes, clock: clock.clone() };
        let signer = Arc::new(Signer::new(&Seed::new([at as u8; 32])));
        Arc::new(MixServer::new(store(), Arc::new(way), signer))
    };
    let servers = [server(0), server(1)];
    ways.iter().zip(&servers).for_each(|(way, server)| way.is(Some(server.clone())));
    let clouds = servers.map(|server| -> Arc<dyn MixCloud> {
        Arc::new(FarCloud { server, client: client.clone(), clock: clock.clone() })
    });
    let far = Link { round_trip: ROUND_TRIP, ..Link::instant() };
    let faults = Randomness::repeatable(1).stream(Purpose::Faults);
    let commits = Arc::new(Delay::new(store(), clock.clone(), far, faults));
    let pasts = [Past::new(0), Past::new(1)];
    let (between, runs) = (Between::Played(between), Box::new(Near { ways }));
    Ground { clouds, store: commits, journal: store(), client, between, pasts, runs }
}

/// A full volume of so many blocks of 4 KiB.
async fn pair(blocks: u32) -> Pair {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let shape = ImmediateShape { capacity: blocks, value_bytes: 4_096 };
    let settings = MulticloudSettings::with_cache(shape, CACHE_BYTES).unwrap();
    let settings = MulticloudSettings { quantum: QUANTUM, under_way_max: CLIENTS_MAX, ..settings };
    let made = Made { settings, seed: 1, is_sparse: false };
    Pair::over(made, clouds(&clock), clock).await.unwrap()
}

/// So many clients, with 50 ms and 12.5 MB/s each way to both clouds together, and so many
/// megabytes a second between these, each way.
async fn measured(pair: &Pair, clients: usize, between_mb_s: u64, seconds: f64) -> Measured {
    let client = Link {
        round_trip: ROUND_TRIP,
        up_bytes_per_s: Some(12_500_000),
        down_bytes_per_s: Some(12_500_000),
        ..Link::instant()
    };
    let links = Links { client, between: Some(between_mb_s * 1_000_000) };
    let number = 1_000 * between_mb_s + clients as u64;
    let measured = pair.measure((number, clients), links, seconds).await.unwrap();
    let share = filled(&measured, between_mb_s);
    say!(
        "{clients} clients, {between_mb_s} MB/s between: {:.0}/s, {:.1} ms, half {:.1}, p99 {:.1}, longest \
         {:.1}; blocks of an access {:.3} ({:.3} up), between {:.2}: {share:.2} of the link",
        measured.per_s(),
        measured.answers.latencies.mean() / 1e6,
        measured.ms(0.5),
        measured.ms(0.99),
        measured.ms(1.0),
        measured.told(),
        measured.up,
        measured.between
    );
    measured
}

/// How much of the link between the clouds was used, both ways together.
fn filled(measured: &Measured, between_mb_s: u64) -> f64 {
    measured.per_s() * measured.between * 4_096.0 / (2e6 * between_mb_s as f64)
}

#[tokio::test(start_paused = true)]
async fn a_thin_link_between_two_clouds_is_filled() {
    let pair = pair(2_048).await;
    let thin = measured(&pair, 200, 10, 4.0).await;
    let (share, mean) = (filled(&thin, 10), thin.answers.latencies.mean() / 1e6);
    // Nobody is answered before a round trip, and no link carries more than it can.
    assert!((0.9..1.01).contains(&share) && mean > 50.0, "{share} {mean}");
    pair.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
#[ignore = "figures: minutes, and 10 GB of memory"]
async fn of_a_gigabyte() {
    let pair = pair(244_140).await;
    for between_mb_s in [30, 60, 200] {
        for clients in [250, 500] {
            let found = measured(&pair, clients, between_mb_s, 40.0).await;
            let (per_s, mean) = (found.per_s(), found.answers.latencies.mean() / 1e6);
            let share = filled(&found, between_mb_s);
            // A thin link is what bounds the rate; without one it is the round trip and 200 ms.
            match (between_mb_s, clients) {
                (30 | 60, _) => assert!(share >= 0.9, "{share}"),
                _ => assert!(per_s >= 1_500.0 && mean <= 250.0, "{per_s} {mean}"),
            }
            let (told, between) = (found.told(), found.between);
            assert!(told <= 2.6 && between <= 1.1 * 18.4, "{told} {between}");
        }
    }
    pair.close().await.unwrap();
}

const ROUND_TRIP: Duration = Duration::from_millis(50);
const CACHE_BYTES: u64 = 64 << 20;
const CLIENTS_MAX: usize = 500;
const QUANTUM: Duration = Duration::from_millis(1);
