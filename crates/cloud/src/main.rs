//! `fogbank-cloud`: the storage server, its tenants, and how fast it is.

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when nobody reads: say!

mod bench;
mod limits;

use std::io::{ErrorKind, IsTerminal};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};
use fogbank_cloud::{
    Allowance, Announced, CloudServer, Keeping, ServerError, ServerSettings, Share, Tenants,
    identity, roster,
};
use fogbank_env::{Metrics, SystemClock, Visibility, cannot_listen, counted, quoted, within};
use fogbank_objects::ObjectsUrl;
use fogbank_pages::{Site, Sites, figures};
use fogbank_process::{say, say_error};
use fogbank_store::StoreError;
use fogbank_tls::TlsFiles;
use tokio::signal::unix::{SignalKind, signal};

/// A storage server for Fogbank that need not be trusted: it sees only what any cloud would see.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve tenants' stores until SIGTERM or SIGINT.
    Serve(ServeArgs),
    /// Who may use the server.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Measure: payload of batches over loopback, beside a plain TCP copy, as a line of JSON.
    Bench(bench::BenchArgs),
    #[command(hide = true)]
    TcpSource(bench::SourceArgs),
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
    /// Make a tenant, or change the quota of one, and say where its client's credentials are.
    ///
    /// A server that is running finds a new tenant by itself. Of one that is there, the token and
    /// what it keeps stay, and so does what is not said of its quota; a changed quota counts from
    /// the server's next start.
    Add(TenantArgs),
    /// Say who there is, what each may keep and what it keeps.
    List(ListArgs),
    /// Delete a tenant with everything that it keeps, and the freshness registers held for it. The
    /// server must not be running. What it has in a bucket stays, and is said.
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Directory of what the server keeps.
    #[arg(long, value_name = "DIR", default_value = "fogbank-cloud-data")]
    data: PathBuf,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Whom.
    name: String,
    /// Directory of what the server keeps.
    #[arg(long, value_name = "DIR", default_value = "fogbank-cloud-data")]
    data: PathBuf,
    /// Says that you mean it: what the tenant keeps cannot be had back.
    #[arg(long)]
    delete_its_data: bool,
}

#[derive(Debug, Args)]
struct DataArgs {
    /// Directory of what it keeps: certificate, tenants and their stores.
    #[arg(long, value_name = "DIR", default_value = "fogbank-cloud-data")]
    data: PathBuf,
    /// Certificate to show instead of one of its own (PEM); needs --tls-key.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM), mode 0600.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Keep what tenants store in memory: it is gone with the server.
    #[arg(long)]
    memory: bool,
    /// Where proxies connect.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7443")]
    listen: String,
    /// Memory of each tenant for the chunks near the top of its trees.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = within(limits::MEMORY))]
    cache: ByteSize,
    /// Calls a second of each tenant, after a burst of one second.
    #[arg(long, value_name = "N", default_value_t = Share::default().calls_per_s, value_parser = within(limits::RATE))]
    rate: u64,
    /// Calls of each tenant at once.
    #[arg(long, value_name = "N", default_value_t = Share::default().calls_max, value_parser = within(limits::CALLS))]
    calls: usize,
    /// Bytes of requests of each tenant that are being received, so also of one request.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = within(limits::REQUESTS))]
    requests: ByteSize,
    /// Memory for connections, requests and answers of all tenants together. What each keeps in
    /// memory (--cache, --memory, and 24 bytes or so for every chunk version) comes on top of it,
    /// and so does --kept-memory.
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = within(limits::WORK_MEMORY))]
    work_memory: ByteSize,
    /// Memory for levels of volumes that lie in two clouds, of all tenants together: what this
    /// server has put into order for the other, and needs again. What finds no room in it goes
    /// into the tenant's store, counts for its quota, and is read from there: twice its bytes,
    /// written and read once.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = within(limits::MEMORY))]
    kept_memory: ByteSize,
    /// Connections at once.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = within(limits::CONNECTIONS))]
    connections: usize,
    /// Hold freshness registers for tenants, too, and where: `fogbank serve --registers` elsewhere
    /// takes the line in DIR/tenants/NAME/register, beside those of two servers or more that others
    /// run.
    #[arg(long, value_name = "HOST:PORT")]
    register_listen: Option<String>,
    /// Another fogbank-cloud with which it mixes, for volumes that lie in both: as their owners
    /// name it. May be said more than once.
    #[arg(long, value_name = "HOST:PORT")]
    mixes_with: Vec<String>,
    /// Write what comes to volumes that lie in two clouds: a trace of each tenant, for fogbank
    /// audit, into this new folder. Each message waits until it is written. Of what the first of
    /// the two keeps as a store, the commit record of a volume, nothing is written.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Serve figures for Prometheus at http://HOST:PORT/metrics.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
}

#[derive(Debug, Args)]
struct TenantArgs {
    /// 1 to 32 of a-z, 0-9 and -.
    name: String,
    #[command(flatten)]
    data: DataArgs,
    /// Bytes that it may keep [new tenants: 100GiB].
    #[arg(long, value_name = "SIZE", value_parser = within(limits::QUOTA))]
    bytes: Option<ByteSize>,
    /// Where its store is, instead of in the server's folder: s3://BUCKET/PREFIX,
    /// az://CONTAINER/PREFIX or gs://BUCKET/PREFIX, with nothing of anybody else under it. The
    /// server that is started needs the credentials in its environment. Of a tenant that is there
    /// it cannot be changed.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Arrays that it may keep [new tenants: 1000].
    #[arg(long, value_name = "N", value_parser = within(limits::ARRAYS))]
    arrays: Option<usize>,
}

impl DataArgs {
    fn tls(&self) -> Option<TlsFiles> {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        files.map(|(certificate, key)| TlsFiles { certificate, key })
    }
}

/// What went wrong, in words, and the exit code.
pub(crate) type Failure = (String, u8);

const USAGE: u8 = 64;
const CANNOT: u8 = 73;

fn main() -> ExitCode {
    fogbank_process::keep_large_buffers();
    let cli: Cli = match fogbank_process::typed() {
        Ok(cli) => cli,
        Err(end) => return end,
    };
    let done = match cli.command {
        Command::Serve(args) => in_runtime(serve(args)),
        Command::Tenant(TenantCommand::Add(args)) => add(&args),
        Command::Tenant(TenantCommand::List(args)) => list(&args),
        Command::Tenant(TenantCommand::Remove(args)) => remove(&args),
        Command::Bench(args) => in_runtime(bench::run(args)),
        Command::TcpSource(args) => bench::source(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((why, code)) => {
            say_error!("fogbank-cloud: {why}");
            ExitCode::from(code)
        }
    }
}

fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|e| (format!("cannot start: {e}"), 71))?.block_on(work)
}

fn add(args: &TenantArgs) -> Result<(), Failure> {
    let store = args.store.as_deref().map(bucket).transpose()?;
    let (_, pin) = identity(&args.data.data, args.data.tls().as_ref()).map_err(explain)?;
    let before = roster::allowance(&args.data.data, &args.name);
    let Allowance { bytes, arrays } = before.unwrap_or(NEW_TENANTS);
    let allowed = Allowance {
        bytes: args.bytes.map_or(bytes, |bytes| bytes.as_u64()),
        arrays: args.arrays.unwrap_or(arrays),
    };
    let file = Tenants::add_at(&args.data.data, &args.name, allowed, pin, store.as_ref());
    let failed = |e: std::io::Error| {
        let code = if e.kind() == ErrorKind::InvalidInput { USAGE } else { CANNOT };
        (format!("tenant {}: {e}", args.name), code)
    };
    let file = file.map_err(failed)?;
    let place = roster::store_of(&args.data.data, &args.name).map_err(failed)?;
    say!("tenant       {} (at most {})", args.name, words(&allowed));
    match before {
        None => {}
        Some(before) if before == allowed => {
            say!("             was there already, and nothing has changed");
        }
        Some(before) => say!(
            "             was there already, with at most {}; its token and what it keeps stay{}",
            words(&before),
            match roster::is_served(&args.data.data) {
                Ok(false) => "; no server runs here, and the next one goes by it",
                _ =>
                    "; the server that is running has to be started again for the new quota to \
                     count",
            }
        ),
    }
    if let Some(place) = place {
        say!("store        {place} (the server needs the bucket's credentials in its environment)");
    }
    say!("credentials  {} (a secret: token and pin)", file.display());
    say!("next         copy that file to the proxy, mode 0600, then one of:");
    let url = quoted(format!("grpc://HOST:PORT/{}?credentials=FILE", args.name));
    for (what, command) in [
        ("for Redis", "serve"),
        ("a disk", "volume create --size SIZE"),
        ("one that many share", "site create --size SIZE"),
    ] {
        say!("             fogbank {command} --store {url}    ({what})");
    }
    say!(
        "             fogbank volume create --engine multicloud --size SIZE --store {url} \
         --second-store URL    (a disk in two clouds; the server is started with --mixes-with)"
    );
    Ok(())
}

/// The place of a tenant's store, as it was typed.
fn bucket(typed: &str) -> Result<ObjectsUrl, Failure> {
    typed.parse().map_err(|e| {
        let wrong = match e {
            StoreError::Caller(why) => why,
            e => e.to_string(),
        };
        let why = format!(
            "--store: {wrong}; give s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or \
             gs://BUCKET/PREFIX, or leave --store out: then it is in the server's folder"
        );
        (why, USAGE)
    })
}

const NEW_TENANTS: Allowance = Allowance { bytes: 100 << 30, arrays: 1000 };

fn words(allowed: &Allowance) -> String {
    let arrays = counted(allowed.arrays, "array", "arrays");
    format!("{}, {arrays}", ByteSize::b(allowed.bytes))
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let all = roster::list(&args.data);
    let all = all.map_err(|e| (format!("{}: {e}", args.data.display()), CANNOT))?;
    if all.is_empty() {
        say!("no tenants in {}", args.data.display());
    }
    for listed in all {
        let allowed = listed.allowed.as_ref().map_or("a quota that cannot be read".into(), words);
        match listed.store {
            None => {
                let bytes = ByteSize::b(listed.bytes);
                say!("{:<32} {bytes} on disk of at most {allowed}", listed.name);
            }
            Some(store) => {
                say!("{:<32} at {store}, not counted here, at most {allowed}", listed.name);
            }
        }
    }
    Ok(())
}

fn remove(args: &RemoveArgs) -> Result<(), Failure> {
    let name = &args.name;
    let store = roster::store_of(&args.data, name);
    let store = store.map_err(|e| (format!("tenant {name}: {e}"), CANNOT))?;
    if !args.delete_its_data {
        let why = match store {
            None => "everything that it keeps".to_owned(),
            Some(store) => format!(
                "its token and the file by which this server signs for it (not its objects at \
                 {store}, which stay)"
            ),
        };
        let why =
            format!("{why} would be deleted for good; say --delete-its-data if you mean that");
        return Err((format!("tenant {name}: {why}"), USAGE));
    }
    roster::remove(&args.data, name).map_err(|e| {
        let code = if e.kind() == ErrorKind::NotFound { USAGE } else { CANNOT };
        (format!("tenant {name}: {e}"), code)
    })?;
    match store {
        None => say!("tenant       {name} is gone, with everything that it kept"),
        Some(store) => {
            say!("tenant       {name} is gone from this server");
            say!("its objects  stay at {store}: delete them with the provider's own tools");
        }
    }
    Ok(())
}

async fn serve(args: ServeArgs) -> Result<(), Failure> {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    let level = tracing_subscriber::filter::LevelFilter::INFO;
    log.with_max_level(level).with_ansi(std::io::stderr().is_terminal()).init();
    let (listen, metrics) = (address("--listen", &args.listen)?, Metrics::default());
    let keeping = if args.memory { Keeping::Memory } else { Keeping::Disk };
    let mut settings = ServerSettings::new(&args.data.data, keeping);
    settings.tls = args.data.tls();
    settings.connections_max = args.connections;
    settings.work_bytes_max = args.work_memory.as_u64();
    settings.kept_bytes_max = args.kept_memory.as_u64();
    settings.share.cache_bytes = args.cache.as_u64() as usize;
    settings.share.calls_per_s = args.rate;
    settings.share.calls_max = args.calls;
    settings.share.request_bytes_max = args.requests.as_u64() as usize;
    for other in &args.mixes_with {
        let is_place = other.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !is_place {
            return Err((format!("--mixes-with {other}: give HOST:PORT"), USAGE));
        }
    }
    settings.mixes_with.clone_from(&args.mixes_with);
    settings.record.clone_from(&args.record);
    let _viewing = args.metrics.as_deref().map(|at| view(at, &metrics)).transpose()?;
    let stop = stop_signal().map_err(|e| (format!("cannot watch signals: {e}"), 71))?;
    let clock = Arc::new(SystemClock::new());
    let at =
        args.register_listen.as_deref().map(|at| address("--register-listen", at)).transpose()?;
    // Before the folder: a port that is taken leaves nothing behind.
    let socket = bound("--listen", listen).await?;
    let beside = match at {
        Some(at) => Some(bound("--register-listen", at).await?),
        None => None,
    };
    let server = CloudServer::on(settings, socket, clock.clone(), &metrics).map_err(explain)?;
    let registers = beside.map(|socket| server.registers(socket)).transpose();
    let registers = registers.map_err(|e| (e.to_string(), CANNOT))?;
    if let Some(registers) = &registers {
        say!("registers on {}", registers.address());
    }
    greet(&server, &args);
    let (stopping, stopped) = tokio::sync::watch::channel(false);
    let until = |mut stopped: tokio::sync::watch::Receiver<bool>| async move {
        let _ended = stopped.wait_for(|stop| *stop).await;
    };
    let hold = async {
        if let Some(registers) = registers {
            registers.serve(clock, until(stopped.clone())).await;
        }
    };
    let signalled = async {
        stop.await;
        stopping.send_replace(true);
    };
    tokio::join!(server.serve(until(stopped.clone())), hold, signalled);
    say_error!(
        "stopped; everything acknowledged is kept{}",
        match keeping {
            Keeping::Disk => "",
            Keeping::Memory => " nowhere: it was in memory",
        }
    );
    Ok(())
}

fn greet(server: &CloudServer, args: &ServeArgs) {
    say!("fogbank-cloud {}", fogbank_process::VERSION);
    let keeps = if args.memory { "in memory: gone with this process" } else { "on its disk" };
    say!("  data     {} ({keeps})", args.data.data.display());
    say!("  pin      {} (of its certificate)", server.pin());
    let Announced { tenants, by_another_pin } = server.tenants();
    match tenants {
        0 => say!(
            "  tenants  none yet: fogbank-cloud tenant add NAME --data {}",
            quoted(&args.data.data)
        ),
        many => match roster::in_buckets(&args.data.data).unwrap_or_default().len() {
            0 => say!("  tenants  {many}"),
            some => say!("  tenants  {many}, {some} of them in a bucket"),
        },
    }
    if by_another_pin > 0 {
        say_error!(
            "the pin is another than at the last start: {by_another_pin} files of credentials \
             under {}/tenants are written anew, and copies of the old ones connect no longer; hand \
             the new ones out, or start with the certificate of before (--tls-cert, --tls-key)",
            args.data.data.display()
        );
    }
    if let Some(metrics) = &args.metrics {
        say!("  metrics  http://{metrics}/metrics");
    }
    say!("  stop     Ctrl-C or SIGTERM: what was begun is answered");
    say!("listening on {}", server.address());
}

fn view(at: &str, metrics: &Metrics) -> Result<Sites, Failure> {
    let wrong = |e: std::io::Error| (format!("--metrics {at}: {e}"), USAGE);
    let wanted = address("--metrics", at)?;
    let socket = TcpListener::bind(wanted);
    let socket = socket.map_err(|e| (cannot_listen("--metrics", wanted, &e), USAGE))?;
    socket.set_nonblocking(true).map_err(wrong)?;
    let pages = figures(metrics.clone(), Visibility::Public);
    Sites::start(vec![Site { socket, pages, secret: false }]).map_err(wrong)
}

async fn bound(flag: &str, at: SocketAddr) -> Result<tokio::net::TcpListener, Failure> {
    let socket = tokio::net::TcpListener::bind(at).await;
    socket.map_err(|e| (cannot_listen(flag, at, &e), USAGE))
}

fn address(flag: &str, given: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| (format!("{flag} {given}: {why}; give HOST:PORT"), USAGE);
    let mut found = given.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("no such host".into()))
}

fn explain(error: ServerError) -> Failure {
    let is_mistake = matches!(error, ServerError::Recorded(_) | ServerError::InBucket { .. });
    (error.to_string(), if is_mistake { USAGE } else { CANNOT })
}

/// Completes on SIGTERM or SIGINT.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
