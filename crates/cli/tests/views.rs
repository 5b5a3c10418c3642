//! The live view over real HTTP: what it shows, to whom it does not answer, and that nothing the
//! cloud sees depends on it.
#![allow(clippy::disallowed_methods)] // real sockets in real time

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank::args::{ShapeArgs, ViewArgs};
use fogbank::dashboard::{Live, Viewing, Views};
use fogbank::history::HistoryLog;
use fogbank::{Error, Key, OpenOptions, Opened, Place};
use fogbank_env::{Clock, Metrics, SystemClock, Visibility};
use fogbank_front::resp::Watcher;
use fogbank_picture::{Asked, HistoryReader};

struct World {
    live: Arc<Live>,
    metrics: Metrics,
    dashboard: String,
    public: String,
    secret: String,
    viewing: Option<Viewing>,
}

impl World {
    fn new() -> Self {
        let (metrics, clock) = (Metrics::default(), Arc::new(SystemClock::new()));
        let live = Live::new(clock, 7, &metrics);
        let any = Some("127.0.0.1:0".to_owned());
        let args = ViewArgs {
            dashboard: any.clone(),
            metrics: any.clone(),
            secret_metrics_address: any,
            secrets_anywhere: false,
        };
        let views = Views::bind(&args).expect("free addresses");
        let mut told = views.greeting().into_iter().map(|line| address_in(&line));
        let mut next = || told.next().expect("an address");
        let (dashboard, public, secret) = (next(), next(), next());
        let viewing = Some(views.start(live.clone(), metrics.clone()).expect("a thread"));
        Self { live, metrics, dashboard, public, secret, viewing }
    }

    fn dashboard(&self, path: &str) -> Reply {
        ask(&self.dashboard, &get(path, &self.dashboard))
    }
}

/// The address that a line tells the user.
fn address_in(line: &str) -> String {
    let after = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    after.expect("an address in the line").to_owned()
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn ask(address: &str, request: &str) -> Reply {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let _refused_early = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("{e}"),
        _ => {}
    }
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_ascii_lowercase(), body: body.into() }
}

fn shape() -> ShapeArgs {
    ShapeArgs {
        capacity: Some(200),
        cache: Some(bytesize::ByteSize::b(0)),
        bucket_reals: Some(4),
        interval_ms: Some(10),
        ..ShapeArgs::default()
    }
}

async fn open(data: &Path, seed: u64, live: Option<Arc<Live>>, record: Option<&Path>) -> Opened {
    let place = Place { store: Some("memory:".into()), ..Place::local(data) };
    let options = OpenOptions::new(place).shape(shape()).repeatable(seed).live(live);
    options.record(record.map(Into::into)).open().await.expect("a store in memory opens")
}

async fn touch(opened: &Opened, times: usize) {
    for time in 0..times {
        let key = Key::new(b"patient", format!("{}", time % 3).as_bytes());
        let put = opened.proxy().transact(|txn| {
            let key = key.clone();
            async move { txn.put(&key, Bytes::from_static(b"x"), 0).await }
        });
        put.await.expect("a transaction commits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_what_is_asked_and_what_the_cloud_sees() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new();
    assert_eq!(world.dashboard("/live.json").body, "{}", "before the store is open");
    let opened = open(folder.path(), 3, Some(world.live.clone()), None).await;
    for _ in 0..50 {
        world.live.asked(true, b"favourite");
        world.live.answered(5_000_000);
    }
    touch(&opened, 10).await;
    tokio::time::sleep(Duration::from_millis(600)).await; // a column is 200 ms, a look 250 ms
    let look: serde_json::Value =
        serde_json::from_str(&world.dashboard("/live.json").body).unwrap();
    let sum = |values: &serde_json::Value| -> u64 {
        values.as_array().unwrap().iter().filter_map(|n| n.as_u64()).sum()
    };
    assert_eq!((sum(&look["asked"]), sum(&look["answered"])), (50, 50));
    assert!(sum(&look["touched"]) > 100 && sum(&look["bytes"]["up"]) > 1_000);
    assert!(sum(&look["beat"]["kinds"][0]) > 0);
    assert_eq!(look["beat"]["interval_ms"], 10.0);
    let p50 = look["latency_ms"]["p50"].as_array().unwrap().iter().find_map(|ms| ms.as_f64());
    assert!((4.5..5.5).contains(&p50.unwrap()));
    assert_eq!(look["figures"]["secret"]["keys_asked_to_write"], 50);
    let titles: Vec<_> = look["places"].as_array().unwrap().iter().map(|b| &b["title"]).collect();
    assert_eq!(
        (titles[0].as_str(), titles.last().unwrap().as_str()),
        (Some("level 0"), Some("blobs"))
    );
    assert!(!world.dashboard("/live.json").body.contains("favourite"));
    opened.close().await.unwrap();
}

#[test]
fn the_page_loads_from_itself_only() {
    let world = World::new();
    let (page, css, js) =
        (world.dashboard("/"), world.dashboard("/page.css"), world.dashboard("/page.js"));
    for reply in [&page, &css, &js] {
        assert_eq!(reply.status, 200);
        for foreign in ["http:", "https:", "\"//", "@import", "url("] {
            assert!(!reply.body.contains(foreign), "{foreign}");
        }
        for guard in
            ["default-src 'none'", "script-src 'self'", "nosniff", "no-store", "same-origin"]
        {
            assert!(reply.head.contains(guard), "{guard}");
        }
    }
    assert!(
        !page.body.contains("style=") && !page.body.contains("<script>"),
        "its policy bars them"
    );
}

#[test]
fn only_what_is_meant_for_it_is_answered() {
    let world = World::new();
    let World { dashboard, public, secret, .. } = &world;
    for (address, path) in [(dashboard, "/live.json"), (secret, "/metrics")] {
        for host in ["evil.example", "evil.example:80", ""] {
            assert_eq!(ask(address, &get(path, host)).status, 421, "{host}");
        }
        let twice = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n");
        assert!([400, 421].contains(
            &ask(address, &twice.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).status
        ));
        assert_eq!(ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).status, 421);
        assert_eq!(ask(address, &get(path, "localhost")).status, 200);
    }
    assert_eq!(ask(public, &get("/metrics", "prometheus.example")).status, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let request = get("/", dashboard).replacen("GET", method, 1);
        let reply = ask(dashboard, &request);
        assert_eq!(reply.status, 405);
        assert!(reply.head.contains("allow: get"));
    }
    assert_eq!(ask(dashboard, &get("/metrics", dashboard)).status, 404);
    assert_eq!(ask(public, &get("/live.json", public)).status, 404);
    assert_eq!(ask(public, &get("/", public)).status, 404);
    let long =
        get("/", dashboard).replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "x".repeat(100_000)));
    assert!([0, 431].contains(&ask(dashboard, &long).status));
    assert_eq!(ask(dashboard, "\u{1}\u{2}\r\n\r\n").status, 400);
}

#[test]
fn prometheus_gets_the_public_figures_and_the_trusted_one_the_others() {
    let world = World::new();
    world.metrics.gauge(Visibility::Public, "epochs").set(12);
    world.metrics.gauge(Visibility::Secret, "stash_max").set(34);
    let [public, secret] =
        [&world.public, &world.secret].map(|address| ask(address, &get("/metrics", address)).body);
    assert!(
        public.contains("\nfogbank_epochs 12\n") && secret.contains("\nfogbank_stash_max 34\n")
    );
    assert!(!public.contains("stash") && !public.contains("answers") && !public.contains("asked"));
    assert!(!secret.contains("epochs") && !secret.contains("cloud"));
}

#[test]
fn secrets_stay_on_this_machine_unless_told_otherwise() {
    for everywhere in ["0.0.0.0:0", "[::]:0"] {
        let mut args = ViewArgs { dashboard: Some(everywhere.into()), ..ViewArgs::default() };
        let refused = Views::bind(&args).err().unwrap();
        assert!(matches!(&refused, Error::Usage(why) if why.contains("--secrets-anywhere")));
        args.secrets_anywhere = true;
        if let Ok(views) = Views::bind(&args) {
            assert!(views.greeting()[0].contains("WARNING"));
        }
        let secret = Some(everywhere.into());
        let args = ViewArgs { secret_metrics_address: secret.clone(), ..ViewArgs::default() };
        assert!(Views::bind(&args).is_err());
    }
    let args = ViewArgs { metrics: Some("0.0.0.0:0".into()), ..ViewArgs::default() };
    assert!(!Views::bind(&args).unwrap().greeting()[0].contains("WARNING"), "it shows no secret");
    let args = ViewArgs { dashboard: Some("nonsense".into()), ..ViewArgs::default() };
    assert!(matches!(Views::bind(&args), Err(Error::Usage(_))));
}

/// Another program may be given the port at once, but hardly three times.
#[test]
fn it_ends_with_the_server_and_with_it_every_connection() {
    assert!((0..3).any(|_| nobody_listens_where_it_ended()));
}

fn nobody_listens_where_it_ended() -> bool {
    let mut world = World::new();
    let address: SocketAddr = world.dashboard.parse().expect("an address");
    let mut idle = TcpStream::connect(address).expect("it listens");
    assert_eq!(world.dashboard("/").status, 200);
    world.viewing = None;
    let refused = TcpStream::connect(address).is_err();
    let ended = idle.read(&mut [0; 1]);
    assert!(matches!(ended, Ok(0)) || ended.is_err());
    refused
}

/// The trace of one run in virtual time.
async fn trace(folder: &Path, seed: u64, live: Option<Arc<Live>>, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    let opened = open(&folder.join(format!("{name}.data")), seed, live, Some(&path)).await;
    touch(&opened, 30).await;
    opened.close().await.expect("it closes");
    std::fs::read(path).expect("a trace")
}

/// Rule 1 of the design: the trace is a function of public data, and who looks is not.
#[tokio::test(start_paused = true)]
async fn the_cloud_sees_the_same_whether_or_not_anybody_looks() {
    let folder = tempfile::tempdir().unwrap();
    let plain = trace(folder.path(), 3, None, "plain").await;
    let world = World::new();
    let address = world.dashboard.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let looker = std::thread::spawn(move || {
        let mut looks = 0;
        while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            looks += u32::from(ask(&address, &get("/live.json", &address)).status == 200);
        }
        looks
    });
    let watched = trace(folder.path(), 3, Some(world.live.clone()), "watched").await;
    drop(stop);
    assert!(looker.join().unwrap() > 0);
    assert!(plain.len() > 10_000);
    assert!(plain == watched);
    let other = trace(folder.path(), 4, None, "other").await;
    assert!(plain != other, "the comparison can fail");
}

#[test]
fn a_history_holds_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let log = HistoryLog::create(&path, clock.clone(), 9).unwrap();
    assert!(HistoryLog::create(&path, clock, 9).is_err(), "none is overwritten");
    log.asked(true, b"patient:17");
    log.asked(false, b"patient:17");
    log.finish().unwrap();
    log.asked(false, b"too late");
    let lines: Vec<_> = HistoryReader::open(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!((lines.len(), lines[0].op, lines[1].op), (2, Asked::Write, Asked::Read));
    assert_eq!(lines[0].key, lines[1].key);
}

/// Kills what is left of it.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn serve(data: &Path, options: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
    command.args("--capacity 200 --interval-ms 10 --store memory:".split(' ')).args(options);
    command
}

#[test]
fn the_binary_shows_and_records_what_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let options = ["--dashboard", "127.0.0.1:0", "--history", history.to_str().unwrap()];
    let child = serve(folder.path(), &options).stdout(std::process::Stdio::piped()).spawn();
    let mut child = Child(child.unwrap());
    let said = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (mut dashboard, mut redis) = (String::new(), String::new());
    for line in said {
        if line.contains("dashboard") {
            dashboard = address_in(&line);
        }
        if let Some(address) = line.strip_prefix("listening on ") {
            redis = address.into();
            break;
        }
    }
    assert!(ask(&redis, "SET a 1\r\nGET a\r\nQUIT\r\n").head.starts_with("+ok"));
    let asked = || {
        let look = ask(&dashboard, &get("/live.json", &dashboard)).body;
        let look: serde_json::Value = serde_json::from_str(&look).unwrap();
        look["asked"].as_array().unwrap().iter().filter_map(|n| n.as_u64()).sum::<u64>()
    };
    let shown = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        asked() == 2
    });
    assert!(shown);
    let pid = child.0.id().to_string();
    assert!(std::process::Command::new("kill").arg(pid).status().unwrap().success());
    assert!(child.0.wait().unwrap().success());
    assert_eq!(HistoryReader::open(&history).unwrap().count(), 2);
}

#[test]
fn the_binary_refuses_to_show_secrets_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let output = serve(folder.path(), &["--dashboard", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--secrets-anywhere"));
    assert!(!folder.path().join("proxy").exists(), "nothing was opened");
}
