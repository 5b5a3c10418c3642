//! `multicloud` beside the others: a client and two real `fogbank-cloud` processes on this machine,
//! each with TLS, and links that are played between them (`relay`).
//!
//! 1. Two servers begin, beside this program's binary; they end with the run.
//! 2. Every block is written once, and a quarter more, over links that take everything at once.
//! 3. The client's link is what `--rtt-ms`, `--up-mb-s` and `--down-mb-s` say, both servers sharing
//!    it; what the servers send each other has `--between-mb-s` each way. Then clients run.
//!
//! Messages are counted by what they are for (`parts`), checkpoints at the store, and on the links
//! every byte: what is left is framing, TLS among it.

mod parts;
mod relay;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fogbank::{Error, Result, open_store};
use fogbank_cloud::{Allowance, MixClient, Tenants, identity};
use fogbank_durable::{JOURNAL_PREFIX, MemoryRegister, Opening, Recovered};
use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
use fogbank_mix::session::MixCloud;
use fogbank_oram::ImmediateEngine;
use fogbank_oram::immediate::Parts as OfEngine;
use fogbank_oram::multicloud::{MulticloudEngine, MulticloudSettings, WitnessedRegister, signers};
use fogbank_process::{say, say_error};
use fogbank_seal::MasterKey;
use fogbank_store::{BlobsApart, DepartureGrid, GridStore, Store};
use fogbank_terminal::bar;
use serde_json::json;
use tempfile::TempDir;

use self::parts::{CountedCloud, PARTS, Parts};
use self::relay::{Pipe, Relay};
use super::asked::Asked;
use super::clients::{Field, Span};
use crate::bench::counted::Counted;

/// c0, as of a volume.
const KEPT_LEVELS: u8 = 3;
/// Accesses under way while loading.
const LOAD_UNDER_WAY: usize = 512;
/// How long a server may take until it listens.
const BEGIN_NANOS_MAX: Nanos = 20_000_000_000;

/// A server and its folder; it ends when this is dropped.
struct Server {
    process: Child,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Server {
    /// One that listens at `at` and mixes with whoever is at `beside`.
    async fn new(at: SocketAddr, beside: SocketAddr, clock: &dyn Clock) -> Result<Self> {
        let cannot = |what: &str, e: std::io::Error| Error::CannotUse(format!("{what}: {e}"));
        let folder = tempfile::tempdir().map_err(|e| cannot("no folder for a run", e))?;
        let (_, pin) =
            identity(folder.path(), None).map_err(|e| Error::CannotUse(e.to_string()))?;
        let allowed = Allowance { bytes: 1 << 42, arrays: 1_000 };
        Tenants::add(folder.path(), TENANT, allowed, pin).map_err(|e| cannot("no tenant", e))?;
        let program = std::env::current_exe().map_err(|e| cannot("this program", e))?;
        let program = program.with_file_name("fogbank-cloud");
        let process = Command::new(&program)
            .args(["serve", "--memory", "--rate", "1000000", "--calls", "4096", "--data"])
            .arg(folder.path())
            .args(["--listen", &at.to_string(), "--mixes-with", &beside.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| cannot(&program.display().to_string(), e))?;
        let server = Self { process, folder }; // from here on it ends whatever goes wrong
        let until = clock.now() + BEGIN_NANOS_MAX;
        while tokio::net::TcpStream::connect(at).await.is_err() {
            if clock.now() > until {
                return Err(Error::CannotUse(format!("{}: it does not listen", program.display())));
            }
            clock.sleep_until(clock.now() + 50_000_000).await;
        }
        Ok(server)
    }

    /// The URL of its tenant, by way of `relay`.
    fn url(&self, relay: &Relay) -> String {
        let file: PathBuf = self.folder.path().join("tenants").join(TENANT).join("credentials");
        format!("grpc://{}/{TENANT}?credentials={}", relay.place, file.display())
    }
}

const TENANT: &str = "bench";

/// What has passed so far.
#[derive(Clone, Copy)]
struct Passed {
    parts: [u64; PARTS.len()],
    checkpoints: u64,
    up: u64,
    down: u64,
    between: u64,
}

/// Measures it with every number of clients.
///
/// # Errors
/// [`Error::Usage`] for what it cannot be measured with; [`Error::CannotUse`] if servers cannot be
/// begun; those of accesses.
pub async fn measure(asked: &Asked) -> Result<()> {
    if asked.site.is_sparse || asked.site.disks.is_some() {
        let why = "--sparse and --disks are not for multicloud, whose clouds are real servers";
        return Err(Error::Usage(why.into()));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let random = Randomness::repeatable(asked.args.seed);
    // 1. Servers, and links to each and between them.
    let ports = [free_port()?, free_port()?];
    let pipe = || Pipe::new(&clock);
    let (client, between) = ([pipe(), pipe()], [pipe(), pipe()]);
    let back = [between[1].clone(), between[0].clone()];
    let to_client = |at: usize| Relay::new(ports[at], client.clone());
    let ways = [to_client(0).await?, to_client(1).await?];
    // The way to the first is the second's, and the other way round.
    let across = [Relay::new(ports[0], back).await?, Relay::new(ports[1], between.clone()).await?];
    let servers = [
        Server::new(ports[0], across[1].place, &*clock).await?,
        Server::new(ports[1], across[0].place, &*clock).await?,
    ];
    let counts = Arc::<Parts>::default();
    let way = |at: usize| -> Result<Arc<dyn MixCloud>> {
        let (own, other) = (servers[at].url(&ways[at]), servers[1 - at].url(&across[1 - at]));
        let inner = MixClient::open(&own, &other, &clock);
        let inner = inner.map_err(|e| Error::CannotUse(e.to_string()))?;
        Ok(Arc::new(CountedCloud { inner, parts: counts.clone() }))
    };
    let clouds = [way(0)?, way(1)?];
    // 2. The volume.
    let usual = MulticloudSettings::new(asked.shape, KEPT_LEVELS)?;
    let under_way = asked.clients.iter().copied().max().unwrap_or(0).max(LOAD_UNDER_WAY);
    let settings = MulticloudSettings {
        quantum: Duration::from_micros(asked.args.quantum_us),
        under_way_max: under_way,
        signers: signers(&clouds, usual.public()?).await?,
        ..usual
    };
    let trusted = tempfile::tempdir();
    let trusted = trusted.map_err(|e| Error::CannotUse(format!("no folder for a run: {e}")))?;
    let journal = open_store(&format!("file://{}", trusted.path().display()), &clock).await?;
    let store = open_store(&servers[0].url(&ways[0]), &clock).await?;
    let store = Arc::new(Counted::new(store));
    let grid = DepartureGrid::new(clock.clone(), settings.quantum);
    let paced = Arc::new(GridStore::new(store.clone() as Arc<dyn Store>, grid.clone()));
    let register = Arc::new(MemoryRegister::default());
    let opening = Opening {
        store: Arc::new(BlobsApart::new(paced, journal, JOURNAL_PREFIX)),
        register: Arc::new(WitnessedRegister::new(
            register,
            clouds.clone(),
            settings.public()?,
            grid.clone(),
        )),
        master: &MasterKey::from_bytes(&mut [7; 32]),
        random: &random,
        settings: settings.vault()?,
        accept_rollback_risk: false,
    };
    let vault = opening.create(b"bench".to_vec()).await?;
    let parts = OfEngine {
        store: store.clone(),
        vault,
        recovered: Recovered::default(),
        random: &random,
        grid,
        progress: &|_, _| {},
    };
    let engine = MulticloudEngine::open(settings, parts, clouds).await?;
    let field = Field::new(engine, clock.clone(), Arc::default());
    say_error!("multicloud: loading {} blocks", asked.shape.capacity);
    let (loading, began) = (bar("loading"), clock.now());
    field.load(&mut random.stream(Purpose::Workload), LOAD_UNDER_WAY, &loading).await?;
    loading.finish_and_clear();
    let loaded = (clock.now() - began) as f64 / 1e9;
    say_error!("multicloud: loaded in {loaded:.0} s, without links");
    // 3. Clients, across the links.
    let passed = || Passed {
        parts: counts.bytes(),
        checkpoints: store.traffic().checkpoints,
        up: client[0].bytes(),
        down: client[1].bytes(),
        between: between[0].bytes() + between[1].bytes(),
    };
    for (number, clients) in (1..).zip(&asked.clients) {
        let delay = asked.link.round_trip.as_nanos() as Nanos / 2;
        client[0].set(asked.link.up_bytes_per_s, delay);
        client[1].set(asked.link.down_bytes_per_s, delay);
        let rate = asked.args.between_mb_s.map(|mb| (mb * 1e6) as u64);
        between.iter().for_each(|pipe| pipe.set(rate, 0));
        let (bar, span) = (bar("measuring"), Span::of(&*clock, asked.args.seconds));
        let mut running = field.start(*clients, &random.split(number));
        running.go_on(span.from, &bar).await?;
        let before = passed();
        running.go_on(span.to, &bar).await?;
        let after = passed();
        bar.finish_and_clear();
        client.iter().chain(&between).for_each(|pipe| pipe.set(None, 0));
        let answers = running.end(span).await?;
        say_point(asked, *clients, &answers, (before, after))?;
    }
    Ok(field.engine.close().await?)
}

/// Prints a point: blocks of an access, by parts, and on the wire.
fn say_point(
    asked: &Asked,
    clients: usize,
    answers: &super::clients::Answers,
    (before, after): (Passed, Passed),
) -> Result<()> {
    let (latencies, seconds) = (&answers.latencies, answers.seconds);
    if latencies.is_empty() {
        return Err(Error::TooFewData("nobody was answered: give more --seconds".into()));
    }
    let (accesses, block) = (latencies.len() as f64, asked.shape.value_bytes as f64);
    let blocks = |after: u64, before: u64| (after - before) as f64 / accesses / block;
    let parts: Vec<f64> =
        after.parts.iter().zip(before.parts).map(|(now, then)| blocks(*now, then)).collect();
    let told: f64 = parts.iter().sum();
    let checkpoints = blocks(after.checkpoints, before.checkpoints);
    let (up, down) = (blocks(after.up, before.up), blocks(after.down, before.down));
    let framing = up + down - told - checkpoints;
    let between = blocks(after.between, before.between);
    let (per_s, mean) = (accesses / seconds, latencies.mean() / 1e6);
    let quantile = |share| latencies.value_at_quantile(share) as f64 / 1e6;
    let (p99, max) = (quantile(0.99), quantile(1.0));
    say!(
        "{:<11} {clients:>7} {per_s:>11.1} {:>8.2} {mean:>9.1} {p99:>9.1} {max:>9.1}",
        "multicloud",
        per_s * block / 1e6
    );
    let of_parts: Vec<String> =
        PARTS.iter().zip(&parts).map(|(name, blocks)| format!("{name} {blocks:.3}")).collect();
    say!("            blocks of an access, client: {told:.3} ({})", of_parts.join(", "));
    say!(
        "            with checkpoints {checkpoints:.3} and framing {framing:.3}, on the wire: {:.3} \
         ({up:.3} up, {down:.3} down); between the clouds: {between:.2}",
        up + down
    );
    if asked.args.json {
        let parts: serde_json::Map<_, _> = PARTS
            .iter()
            .zip(&parts)
            .map(|(name, blocks)| ((*name).into(), json!(blocks)))
            .collect();
        let figures = json!({
            "engine": "multicloud", "block_bytes": block, "clients": clients, "seconds": seconds,
            "ops_per_s": per_s, "latency_ms_mean": mean, "latency_ms_p99": p99,
            "latency_ms_max": max, "client_blocks_per_op": told, "parts_blocks_per_op": parts,
            "checkpoint_blocks_per_op": checkpoints, "framing_blocks_per_op": framing,
            "wire_up_blocks_per_op": up, "wire_down_blocks_per_op": down,
            "between_blocks_per_op": between, "link": asked.args.link.words(),
            "between_mb_s": asked.args.between_mb_s, "blocks": asked.shape.capacity,
        });
        say!("{figures}");
    }
    Ok(())
}

fn free_port() -> Result<SocketAddr> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    port.map_err(|e| Error::CannotUse(format!("no port for a server: {e}")))
}
