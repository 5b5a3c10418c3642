//! A volume over two real servers, whose processes end as they like.

#![allow(clippy::unwrap_used)] // helpers of tests, too

#[path = "../../objects/tests/server/between.rs"]
#[allow(dead_code)] // each program of tests uses its part
mod between;
#[path = "../../objects/tests/server/mod.rs"]
mod object_server;
mod spoil;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use between::{Between, Fate};
use bytesize::ByteSize;
use fogbank::args::VolumeShapeArgs;
use fogbank::backup::{back_up, check_second_store};
use fogbank::volume::{Flags, Flow, OpenedStore, Volume, VolumeConfig, VolumeEngine};
use fogbank::{Error, OpenOptions, Place, lock_trusted_side};
use fogbank_cloud::{
    Allowance, CloudServer, Keeping, MixClient, ServerSettings, Tenants, identity,
};
use fogbank_durable::BackupReader;
use fogbank_env::{Clock, Metrics, Purpose, Randomness, SystemClock};
use fogbank_mix::Seed;
use fogbank_mix::session::{MixCloud, Opening, SessionError};
use fogbank_objects::Environment;
use fogbank_oram::multicloud::MulticloudSettings;
use fogbank_oram::{Access, Address, ImmediateEngine, ImmediateShape, Scanned};
use fogbank_seal::MasterKey;
use spoil::spoil;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// A server of one tenant that mixes with another.
struct Cloud {
    folder: TempDir,
    address: SocketAddr,
    beside: Vec<String>,
    /// By which the store of its tenant is reached, if that is in a bucket.
    environment: Environment,
    serving: Option<JoinHandle<()>>,
}

impl Cloud {
    fn new(address: SocketAddr, beside: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (beside, environment) = (vec![beside.to_string()], Environment::default());
        let cloud = Self { folder, address, beside, environment, serving: None };
        cloud.allow(1 << 30);
        cloud
    }

    /// From now on, before there is anything, its tenant has its store in a bucket, which is
    /// reached at this port.
    fn stand_on(&mut self, bucket: &object_server::Server, port: u16) {
        let data = self.folder.path();
        std::fs::remove_dir_all(data.join("tenants/clinic")).unwrap();
        let (_, pin) = identity(data, None).unwrap();
        let allowed = Allowance { bytes: 1 << 30, arrays: 100 };
        let url = bucket.url("clouds/clinic").parse().unwrap();
        Tenants::add_at(data, "clinic", allowed, pin, Some(&url)).unwrap();
        self.environment = bucket.variables(port).into_iter().collect();
    }

    /// From its next start on it may keep so many bytes.
    fn allow(&self, bytes: u64) {
        self.allow_tenant("clinic", bytes);
    }

    fn allow_tenant(&self, name: &str, bytes: u64) {
        let (_, pin) = identity(self.folder.path(), None).unwrap();
        let allowed = Allowance { bytes, arrays: 100 };
        Tenants::add(self.folder.path(), name, allowed, pin).unwrap();
    }

    async fn start(&mut self) {
        self.start_until(std::future::pending()).await;
    }

    async fn start_until(&mut self, stop: impl Future<Output = ()> + Send + 'static) {
        let mut settings = ServerSettings::new(self.folder.path(), Keeping::Disk);
        settings.mixes_with.clone_from(&self.beside);
        settings.environment = self.environment.clone();
        let (clock, metrics) = (Arc::new(SystemClock::new()), Metrics::default());
        let server = CloudServer::bind(settings, self.address, clock, &metrics).await.unwrap();
        self.serving = Some(tokio::spawn(server.serve(stop)));
    }

    /// As if its process were killed.
    async fn die(&mut self) {
        let serving = self.serving.take().unwrap();
        serving.abort();
        assert!(serving.await.is_err());
    }

    fn credentials(&self) -> PathBuf {
        self.folder.path().join("tenants/clinic/credentials")
    }

    fn url(&self) -> String {
        self.url_by(&self.credentials())
    }

    fn url_by(&self, credentials: &Path) -> String {
        format!("grpc://{}/clinic?credentials={}", self.address, credentials.display())
    }
}

/// Another tenant of this server, with nothing in it.
fn other_tenant(cloud: &Cloud) -> String {
    cloud.allow_tenant("other", 1 << 30);
    let credentials = cloud.folder.path().join("tenants/other/credentials");
    format!("grpc://{}/other?credentials={}", cloud.address, credentials.display())
}

fn two_clouds() -> [Cloud; 2] {
    let ports = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, other] = ports.map(|port| port.local_addr().unwrap());
    [Cloud::new(one, other), Cloud::new(other, one)]
}

/// Both run; and a folder for a trusted side that is not there yet.
async fn running() -> ([Cloud; 2], TempDir, Place) {
    let (mut clouds, folder) = (two_clouds(), tempfile::tempdir().unwrap());
    for cloud in &mut clouds {
        cloud.start().await;
    }
    let place = Place { store: Some(clouds[0].url()), ..Place::local(folder.path().join("d")) };
    (clouds, folder, place)
}

/// The same, with a volume in them.
async fn made() -> ([Cloud; 2], TempDir, Place) {
    let (clouds, folder, place) = running().await;
    let config = config(&clouds[0], Some(clouds[1].url())).unwrap();
    Volume::create(place.clone(), &config).await.unwrap();
    (clouds, folder, place)
}

async fn open(place: &Place) -> Result<Volume, Error> {
    Volume::open(place.clone(), Flow::default()).await
}

/// Why it cannot be opened.
async fn refused(place: &Place) -> Error {
    open(place).await.err().unwrap()
}

fn config(first: &Cloud, second: Option<String>) -> Result<VolumeConfig, Error> {
    config_of((ByteSize(256 << 10), ByteSize(512)), first, second)
}

fn config_of(
    (size, block): (ByteSize, ByteSize),
    first: &Cloud,
    second: Option<String>,
) -> Result<VolumeConfig, Error> {
    let args = VolumeShapeArgs {
        size,
        block,
        engine: VolumeEngine::named("multicloud").unwrap(),
        second_store: second,
        flags: Flags::default(),
    };
    VolumeConfig::new(&args, &first.url())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => _ = std::fs::copy(entry.path(), to).unwrap(),
        }
    }
}

/// Writes a number of blocks, and gives what is to be read later.
async fn write(engine: &dyn ImmediateEngine, first: u32, byte: u8) {
    let write = |block| {
        let bytes = vec![byte ^ block as u8; 512].into();
        engine.submit(Address(block), Access::Write { offset: 0, bytes })
    };
    for ticket in (first..first + 200).map(write).collect::<Vec<_>>() {
        ticket.await.unwrap();
    }
}

async fn is_there(engine: &dyn ImmediateEngine, first: u32, byte: u8) {
    for block in first..first + 200 {
        let read = engine.submit(Address(block), Access::Read).await.unwrap();
        assert_eq!(read[..], vec![byte ^ block as u8; 512][..], "{block}");
    }
}

/// Object stores compute nothing; a server before each makes two clouds of them.
#[tokio::test(flavor = "multi_thread")]
async fn two_buckets_are_two_clouds() {
    let buckets = [0, 1].map(|_| object_server::Server::versitygw());
    let mut clouds = two_clouds();
    for (cloud, bucket) in clouds.iter_mut().zip(&buckets) {
        cloud.stand_on(bucket, bucket.port());
        cloud.start().await;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place { store: Some(clouds[0].url()), ..Place::local(folder.path().join("d")) };
    let config = config(&clouds[0], Some(clouds[1].url())).unwrap();
    Volume::create(place.clone(), &config).await.unwrap();
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    // Either server ends under the volume, and finds in its bucket what it had.
    for which in [1, 0] {
        clouds[which].die().await;
        clouds[which].start().await;
        write(&*volume.engine(), 100 + 10 * which as u32, 2).await;
    }
    is_there(&*volume.engine(), 110, 2).await;
    write(&*volume.engine(), 0, 3).await;
    volume.close().await.unwrap();
    for cloud in &mut clouds {
        cloud.die().await;
        assert!(!cloud.folder.path().join("tenants/clinic/store").exists());
        cloud.start().await;
    }
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 3).await;
    volume.close().await.unwrap();
}

/// Prints what accesses to a volume ask of the object stores under it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn what_two_buckets_are_asked() {
    let buckets = [0, 1].map(|_| object_server::Server::gofakes3());
    let (mut clouds, mut between) = (two_clouds(), Vec::new());
    for (cloud, bucket) in clouds.iter_mut().zip(&buckets) {
        let before = Between::before(bucket.port()).await;
        cloud.stand_on(bucket, before.port);
        cloud.start().await;
        between.push(before);
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place { store: Some(clouds[0].url()), ..Place::local(folder.path().join("d")) };
    let size = (ByteSize::mib(16), ByteSize::kib(4));
    let config = config_of(size, &clouds[0], Some(clouds[1].url())).unwrap();
    Volume::create(place.clone(), &config).await.unwrap();
    let volume = open(&place).await.unwrap();
    let engine = volume.engine();
    let blocks = 4096;
    let access = async |block: u32, access: Access| {
        engine.submit(Address(block), access).await.unwrap();
    };
    for block in 0..blocks {
        let bytes = vec![block as u8; 4096].into();
        access(block, Access::Write { offset: 0, bytes }).await;
    }
    between.iter().for_each(|before| before.rule(|_| Fate::Pass));
    let (clock, many) = (SystemClock::new(), 1000);
    let begun = clock.now();
    for turn in 0..many {
        access(turn * 1_237 % blocks, Access::Read).await;
    }
    let each = (clock.now() - begun) as f64 / 1e6 / f64::from(many);
    println!("{many} reads, {each:.1} ms each");
    for before in &between {
        let asked = |start: &str| before.seen(start).len() as f64 / f64::from(many);
        let of =
            ["GET /", "PUT /", "DELETE /", "POST /", "HEAD /"].map(|start| (start, asked(start)));
        println!("requests a read: {of:?}");
    }
    volume.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_any_of_the_three_ends() {
    let (mut clouds, folder, place) = made().await;
    // 1. Either cloud ends while the volume is served, and starts again.
    let volume = open(&place).await.unwrap();
    let engine = volume.engine();
    write(&*engine, 0, 1).await;
    for cloud in [1, 0] {
        clouds[cloud].die().await;
        clouds[cloud].start().await;
        write(&*engine, 100 + 10 * cloud as u32, 2).await;
    }
    write(&*engine, 0, 3).await;
    // 2. The client ends midway, twice.
    drop((engine, volume));
    for byte in [4, 5] {
        let volume = open(&place).await.unwrap();
        let engine = volume.engine();
        is_there(&*engine, 0, byte - 1).await;
        write(&*engine, 0, byte).await;
        drop((engine, volume));
    }
    // 3. It is closed, and opened again.
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 5).await;
    volume.close().await.unwrap();
    let volume = open(&place).await.unwrap();
    assert_eq!(volume.replayed(), 0);
    is_there(&*volume.engine(), 0, 5).await;
    drop(volume);
    // 4. An old copy of the whole trusted side is refused, and the newest one serves on.
    let (trusted, older, newest) = (folder.path().join("d/proxy"), "older", "newest");
    let [older, newest] = [older, newest].map(|name| folder.path().join(name));
    copy(&trusted, &older);
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 6).await;
    drop(volume);
    std::fs::rename(&trusted, &newest).unwrap();
    std::fs::rename(&older, &trusted).unwrap();
    let told = refused(&place).await;
    assert!(matches!(&told, Error::CannotUse(why) if why.contains("older")), "{told:?}");
    std::fs::rename(&trusted, &older).unwrap();
    std::fs::rename(&newest, &trusted).unwrap();
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 6).await;
    drop(volume);
    // 5. Without its journal it is refused, for its numbers would come again.
    let journal = folder.path().join("d/proxy/journal");
    std::fs::rename(&journal, folder.path().join("away")).unwrap();
    let told = refused(&place).await;
    assert!(matches!(&told, Error::CannotUse(why) if why.contains("journal")), "{told:?}");
}

/// A server that has lost what it signs by makes no other: it says what is missing, and serves when
/// that is put back.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_signs_by_is_not_made_anew() {
    let (mut clouds, folder, place) = made().await;
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    for at in [0, 1] {
        clouds[at].die().await;
        let signing = clouds[at].folder.path().join("tenants/clinic/signing");
        let copy = folder.path().join("copy");
        std::fs::rename(&signing, &copy).unwrap();
        clouds[at].start().await;
        let told = refused(&place).await.to_string();
        assert!(told.contains("put back tenants/clinic/signing"), "{told}");
        assert!(!signing.exists(), "none is made in its place");
        std::fs::rename(&copy, &signing).unwrap();
        let volume = open(&place).await.unwrap();
        is_there(&*volume.engine(), 0, 1).await;
        volume.close().await.unwrap();
    }
}

/// A session is told when its server stops, and holds nothing up.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_that_its_server_stops() {
    let [mut cloud, other] = two_clouds();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    cloud.start_until(async { _ = stopped.await }).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let way = MixClient::open(&cloud.url(), &other.url(), &clock).unwrap();
    let shape = ImmediateShape { capacity: 64, value_bytes: 512 };
    let shape = MulticloudSettings::new(shape, 1).unwrap().public().unwrap();
    let opening =
        Opening { volume: 1, shape, point: Seed::new([1; 32]), other: [1; 32], session: 1 };
    let mut session = way.open(&opening).await.unwrap();
    stop.send(()).unwrap();
    let told = session.receiver.recv().await.unwrap();
    assert!(matches!(&told, Err(SessionError::Absent(why)) if why.contains("stops")), "{told:?}");
    cloud.serving.take().unwrap().await.unwrap();
}

/// Whatever volume there can be of this block, a server takes its shape, up to the largest: none is
/// made that is refused at its first opening.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_every_volume_that_can_be() {
    let [mut cloud, other] = two_clouds();
    // The largest of all, and some others: each is made on a disk.
    let bits = (14..36).step_by(4).chain(36..=44);
    let sizes = |block: u64| {
        let sizes = bits.clone().map(|bits| 1u64 << bits);
        sizes.chain([1e12 as u64 & !(block - 1)])
    };
    let (mut shapes, mut refused) = (Vec::new(), 0);
    for block in [512, 4 << 10, 16 << 10, 512 << 10] {
        for size in sizes(block).filter(|size| *size >= 4 * block && size / block < 1 << 30) {
            let sized = (ByteSize(size), ByteSize(block));
            match config_of(sized, &cloud, Some(other.url())) {
                Ok(_) => {
                    let (capacity, value_bytes) = ((size / block) as u32, block as usize);
                    let shape = ImmediateShape { capacity, value_bytes };
                    let settings = MulticloudSettings::new(shape, 3).unwrap();
                    shapes.push((size, settings.public().unwrap()));
                }
                Err(error) => {
                    assert!(error.to_string().contains("smaller volume"), "{size}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(shapes.iter().any(|(size, shape)| *size == 1 << 40 && shape.partitions == 1 << 16));
    assert!(shapes.len() > 30 && refused > 10, "{} {refused}", shapes.len());
    for at in 0..shapes.len() {
        cloud.allow_tenant(&format!("t{at}"), 1 << 30);
    }
    cloud.start().await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for (at, (size, shape)) in shapes.into_iter().enumerate() {
        let credentials = cloud.folder.path().join(format!("tenants/t{at}/credentials"));
        let url = format!("grpc://{}/t{at}?credentials={}", cloud.address, credentials.display());
        let way = MixClient::open(&url, &other.url(), &clock).unwrap();
        let (point, other) = (Seed::new([1; 32]), [1; 32]);
        let opened = way.open(&Opening { volume: 1, shape, point, other, session: 1 }).await;
        assert!(opened.is_ok(), "{size}, {shape:?}: {:?}", opened.err());
    }
}

/// What cannot be made is refused with what to do, and leaves no folder behind.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_what_to_do() {
    let (mut clouds, folder, place) = running().await;
    let none = config(&clouds[0], None).err().unwrap().to_string();
    assert!(none.contains("--second-store"), "{none}");
    for (second, word) in
        [("file:///x".to_owned(), "fogbank-cloud"), (clouds[0].url(), "one server")]
    {
        let refused = config(&clouds[0], Some(second)).err().unwrap().to_string();
        assert!(refused.contains(word), "{refused}");
    }
    // Credentials of another server, or of nobody, by the name of their file.
    let [first, second] = [0, 1].map(|at| clouds[at].credentials());
    // Those of the first, by whatever name, are told as such: nobody has said one server twice.
    let renamed = folder.path().join("renamed");
    fogbank_env::write_secret(&renamed, &std::fs::read(&first).unwrap()).unwrap();
    for by in [&first, &renamed] {
        let config = config(&clouds[0], Some(clouds[1].url_by(by))).unwrap();
        let told = Volume::create(place.clone(), &config).await.err().unwrap();
        let (file, other) = (by.display().to_string(), clouds[1].address.to_string());
        let words = [&file, &other, "each server has its own", "?credentials=FILE"];
        let why = told.to_string();
        assert!(matches!(told, Error::Usage(_)), "{told:?}");
        assert!(words.iter().all(|word| why.contains(*word)), "{why}");
        assert!(!why.contains("one server") && !place.data.exists(), "{why}");
    }
    let unknown = folder.path().join("unknown");
    let text = std::fs::read_to_string(&second).unwrap();
    let (token, rest) = text.split_once('\n').unwrap();
    let other = format!("{}\n{rest}", token.replace(|c: char| c.is_ascii_digit(), "f"));
    fogbank_env::write_secret(&unknown, other.as_bytes()).unwrap();
    let mixed = folder.path().join("mixed");
    let pins = std::fs::read_to_string(&first).unwrap();
    let pin = pins.lines().nth(1).unwrap();
    let pin = pin.chars().rev().collect::<String>();
    let pin = format!("{token}\npin={}\n", &pin[..pin.len() - 4]);
    fogbank_env::write_secret(&mixed, pin.as_bytes()).unwrap();
    let mut of_first = place.clone();
    for (by, code) in [(&unknown, 77), (&mixed, 64)] {
        let config = config(&clouds[0], Some(clouds[1].url_by(by))).unwrap();
        let told = Volume::create(place.clone(), &config).await.err().unwrap();
        assert!(told.to_string().contains(&by.display().to_string()), "{told}");
        assert_eq!(format!("{:?}", told.exit_code()), exit_code(code), "{told}");
        assert!(!place.data.exists(), "{told} left a folder");
    }
    of_first.store = Some(clouds[0].url_by(&unknown));
    let config = config(&clouds[0], Some(clouds[1].url())).unwrap();
    let told = Volume::create(of_first, &config).await.err().unwrap();
    assert!(told.to_string().contains("unknown") && !place.data.exists(), "{told}");
    assert!(matches!(told, Error::Usage(_)), "{told}");
    // The first server's operator did not say that it may connect to the second.
    clouds[0].die().await;
    clouds[0].beside.clear();
    clouds[0].start().await;
    let told = Volume::create(place.clone(), &config).await.err().unwrap();
    assert!(matches!(&told, Error::Refused(why) if why.contains("--mixes-with")), "{told:?}");
    assert!(!place.data.exists(), "a folder is left");
}

fn exit_code(code: u8) -> String {
    format!("{:?}", std::process::ExitCode::from(code))
}

/// What of the trusted side is missing, or of the command line wrong, is told with what to do.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_or_swapped_is_told_with_what_to_do() {
    let (clouds, folder, place) = made().await;
    // 1. --store is forgotten, or names the second.
    let of = |store| Place { store, ..place.clone() };
    for (store, word) in [(None, "none of them"), (Some(clouds[1].url()), "is the second")] {
        let told = refused(&of(store)).await;
        let says = |why: &str| why.contains(word) && why.contains("--store grpc://");
        assert!(matches!(&told, Error::Usage(why) if says(why)), "{told:?}");
    }
    let second_store = Some(clouds[0].url());
    let told = refused(&Place { second_store, ..of(Some(clouds[1].url())) }).await;
    assert!(matches!(&told, Error::Usage(why) if why.contains("are swapped")), "{told:?}");
    // 2. A file is not there.
    for name in ["cloud-keys", "second-store"] {
        let (file, away) = (place.data.join("proxy").join(name), folder.path().join("away"));
        std::fs::rename(&file, &away).unwrap();
        let told = refused(&place).await;
        let says = |why: &str| why.contains(name) && why.contains("is missing; ");
        assert!(matches!(&told, Error::CannotUse(why) if says(why)), "{told:?}");
        std::fs::rename(&away, &file).unwrap();
    }
    open(&place).await.unwrap().close().await.unwrap();
}

/// A copy of the trusted side that names another second cloud is refused before anything is claimed
/// or put: the volume serves on as if nothing had been.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_second_cloud_spoils_nothing() {
    let (clouds, folder, place) = made().await;
    let other = other_tenant(&clouds[1]);
    let copied = Place { data: folder.path().join("copy"), ..place.clone() };
    copy(&place.data, &copied.data);
    fogbank_env::write_secret(&copied.data.join("proxy/second-store"), other.as_bytes()).unwrap();
    let told = refused(&copied).await;
    let says = |why: &str| why.contains("the second cloud knows nothing of this volume");
    assert!(matches!(&told, Error::CloudLied(why) if says(why)), "{told:?}");
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    // Nor was anything put there: it takes a volume.
    let first = Place { store: Some(other_tenant(&clouds[0])), ..copied };
    std::fs::remove_dir_all(&first.data).unwrap();
    Volume::create(first, &config(&clouds[0], Some(other)).unwrap()).await.unwrap();
}

/// A second server that has moved is said once, and noted when it has turned out to be the one.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_cloud_that_has_moved_is_said_once() {
    let (mut clouds, _folder, place) = made().await;
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    let note = place.data.join("proxy/second-store");
    let noted = || std::fs::read_to_string(&note).unwrap();
    let before = noted();
    for cloud in &mut clouds {
        cloud.die().await;
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    clouds[1].address = free.local_addr().unwrap();
    drop(free);
    clouds[0].beside = vec![clouds[1].address.to_string()];
    for cloud in &mut clouds {
        cloud.start().await;
    }
    // Another tenant there is not the one: it is refused, and what was noted stays.
    let at = |second: String| Place { second_store: Some(second), ..place.clone() };
    let wrong = other_tenant(&clouds[1]);
    let told = refused(&at(wrong)).await;
    let says = |why: &str| why.contains("the second cloud knows nothing of this volume");
    assert!(matches!(&told, Error::CloudLied(why) if says(why)), "{told:?}");
    let told = refused(&at(clouds[0].url())).await;
    assert!(matches!(&told, Error::Usage(why) if why.contains("name one tenant")), "{told:?}");
    assert_eq!(noted(), before);
    let moved = at(clouds[1].url());
    let opened = OpenedStore::open(OpenOptions::new(moved).existing()).await.unwrap();
    opened.rest().await.unwrap().close().await.unwrap();
    assert_eq!(noted(), clouds[1].url());
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    // Also where the note is lost.
    std::fs::remove_file(&note).unwrap();
    let told = refused(&place).await.to_string();
    assert!(told.contains("second-store is missing") && told.contains("--second-store"), "{told}");
    open(&at(clouds[1].url())).await.unwrap().close().await.unwrap();
    assert_eq!(noted(), clouds[1].url());
}

/// A volume whose second cloud is another's is not made by halves: the first takes another.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_cloud_that_is_occupied_leaves_the_first_as_it_was() {
    let (clouds, folder, place) = made().await;
    let first = Some(other_tenant(&clouds[0]));
    let next = Place { data: folder.path().join("next"), store: first, ..place };
    let occupied = config(&clouds[0], Some(clouds[1].url())).unwrap();
    let told = Volume::create(next.clone(), &occupied).await.err().unwrap();
    let says = |why: &str| why.contains("the second cloud") && why.contains("another volume");
    assert!(matches!(&told, Error::Refused(why) if says(why)), "{told:?}");
    assert!(!next.data.exists(), "a folder is left");
    // Named from this folder, it is noted so that it holds in every other.
    let free = other_tenant(&clouds[1]);
    let up = "..".to_owned() + &"/..".repeat(std::env::current_dir().unwrap().iter().count());
    let from_here = free.replace("?credentials=", &format!("?credentials={up}"));
    let config = config(&clouds[0], Some(from_here)).unwrap();
    Volume::create(next.clone(), &config).await.unwrap();
    let noted = std::fs::read_to_string(next.data.join("proxy/second-store")).unwrap();
    assert!(noted.contains("?credentials=/"), "{noted}");
    open(&next).await.unwrap().close().await.unwrap();
}

/// A server that may keep no more says so, whoever of both hears it first, and what was
/// acknowledged is there when it may.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_is_told_by_name() {
    let (mut clouds, _folder, place) = made().await;
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    clouds[1].die().await;
    clouds[1].allow(1 << 10);
    clouds[1].start().await;
    let told = match open(&place).await {
        Err(told) => told,
        Ok(volume) => {
            // So many that partitions have something to write.
            let (engine, mut asked) = (volume.engine(), Vec::new());
            for block in (0..200).cycle().take(600) {
                let bytes = vec![1 ^ block as u8; 512].into();
                asked.push(engine.submit(Address(block), Access::Write { offset: 0, bytes }));
            }
            volume.stopped().await.into()
        }
    };
    let says = |why: &str| why.contains("the second cloud") && why.contains("quota");
    assert!(matches!(&told, Error::Refused(why) if says(why)), "{told:?}");
    clouds[1].die().await;
    clouds[1].allow(1 << 30);
    clouds[1].start().await;
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
}

/// Everything of a volume is verified, backed up, and restored into two other clouds, with a key of
/// its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_goes_to_two_other_clouds() {
    let (clouds, folder, place) = made().await;
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    let opened = || OpenedStore::open(OpenOptions::new(place.clone()).existing());
    let mut resting = opened().await.unwrap().rest().await.unwrap();
    let mut unused = Randomness::repeatable(0).stream(Purpose::MasterKey);
    let key =
        fogbank_seal::load_or_create(&place.data.join("proxy/key"), &mut unused, false).unwrap();
    let random = Randomness::repeatable(1);
    let file = back_up(&mut resting, Vec::new(), &key, &random, &mut |_, _| {}).await.unwrap();
    resting.close().await.unwrap();
    // 1. Elsewhere it is the same; a second cloud is asked for.
    let (others, _elsewhere, new) = running().await;
    let restore = |second: Option<String>| {
        let backup = BackupReader::open(&file[..], &key).unwrap();
        let options = OpenOptions::new(Place { second_store: second, ..new.clone() });
        async { options.restore(backup, &mut |_, _| {}).await }
    };
    for (second, word) in [(None, "--second-store"), (Some(others[0].url()), "one server")] {
        let told = restore(second).await.unwrap_err().to_string();
        assert!(told.contains(word) && !new.data.exists(), "{told}");
    }
    restore(Some(others[1].url())).await.unwrap();
    let volume = open(&new).await.unwrap();
    is_there(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    // 2. The old one is left as it was, and a cloud that changes what it holds is found.
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    let mut clouds = clouds;
    clouds[1].die().await;
    assert!(spoil(&clouds[1].folder.path().join("tenants/clinic/store")) > 0);
    clouds[1].start().await;
    let found = match opened().await {
        Err(found) => found,
        Ok(opened) => {
            let mut resting = opened.rest().await.unwrap();
            resting.scan(&mut Nobody).await.unwrap_err()
        }
    };
    let is_named = |why: &str| why.contains("second cloud");
    assert!(matches!(&found, Error::CloudLied(why) if is_named(why)), "{found:?}");
    drop(folder);
}

/// As `fogbank rotate-key` does it: a copy under a key that goes with it, the old volume closed and
/// held, and then the new one filled. The old key opens the old volume alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_volume_is_opened_by_its_new_key_alone() {
    let (clouds, folder, place) = made().await;
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    let passing = MasterKey::from_bytes(&mut [9; 32]);
    let opened = OpenedStore::open(OpenOptions::new(place.clone()).existing()).await.unwrap();
    let mut resting = opened.rest().await.unwrap();
    let second = Some(other_tenant(&clouds[1]));
    for (second, is_enough) in [(None, false), (second.as_deref(), true)] {
        let checked = check_second_store(&resting.encoded(), "--to-second-store", second);
        assert_eq!(checked.is_ok(), is_enough);
    }
    let random = Randomness::repeatable(2);
    let file = back_up(&mut resting, Vec::new(), &passing, &random, &mut |_, _| {}).await.unwrap();
    resting.close().await.unwrap();
    let held = lock_trusted_side(&place.trusted()).unwrap();
    let data = folder.path().join("new");
    let new = Place { store: Some(other_tenant(&clouds[0])), data, ..place.clone() };
    let backup = BackupReader::open(&file[..], &passing).unwrap();
    let options = OpenOptions::new(Place { second_store: second, ..new.clone() });
    options.restore(backup, &mut |_, _| {}).await.unwrap();
    drop(held);
    let is_all_there = async |place: &Place| {
        let volume = open(place).await.unwrap();
        is_there(&*volume.engine(), 0, 1).await;
        volume.close().await.unwrap();
    };
    // The old key is not the new one's, nor the other way round.
    let keys = [&place, &new].map(|place| place.trusted().join("key"));
    let kept = keys.each_ref().map(|key| std::fs::read(key).unwrap());
    assert_ne!(kept[0], kept[1]);
    for (at, of) in [(0, &place), (1, &new)] {
        fogbank_env::write_secret(&keys[at], &kept[1 - at]).unwrap();
        let told = refused(of).await;
        let says = |why: &str| why.contains("the key is not this store's");
        assert!(matches!(&told, Error::CloudLied(why) if says(why)), "{told:?}");
        fogbank_env::write_secret(&keys[at], &kept[at]).unwrap();
        is_all_there(of).await;
    }
}

struct Nobody;

impl Scanned for Nobody {
    fn block(&mut self, _: Address, _: &[u8]) -> fogbank_oram::Result<()> {
        Ok(())
    }

    fn progress(&mut self, _: u32, _: u32) {}
}

/// The names of the journal's blobs.
fn journal_of(folder: &Path) -> Vec<String> {
    let blobs = std::fs::read_dir(folder.join("journal/blobs")).unwrap();
    let mut names: Vec<String> =
        blobs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What was acknowledged is in the second place, too, and the volume goes on with it and the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_outlives_its_trusted_disk_by_a_second_place_for_the_journal() {
    let (clouds, folder, place) = running().await;
    let [second, trusted] = ["other-disk", "d/proxy"].map(|name| folder.path().join(name));
    let new = Place { second_journal: Some(second.clone()), ..place.clone() };
    let config = config(&clouds[0], Some(clouds[1].url())).unwrap();
    Volume::create(new, &config).await.unwrap();
    // 1. It is noted; both places hold the same, and no key lies in the second.
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    drop(volume);
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 1).await;
    write(&*volume.engine(), 100, 2).await;
    volume.close().await.unwrap();
    assert_eq!(journal_of(&trusted), journal_of(&second));
    assert!(!second.join("key").exists() && second.join("second-store").exists());
    // 2. The journal alone is lost: the volume is not opened without it, and what is lost in the
    // first place is not deleted in the second.
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 3).await;
    drop(volume);
    let lost = folder.path().join("lost");
    std::fs::rename(trusted.join("journal"), &lost).unwrap();
    let before = journal_of(&second);
    let told = refused(&place).await;
    let says = format!("cp -a {}", second.display());
    assert!(matches!(&told, Error::CannotUse(why) if why.contains(&says)), "{told:?}");
    assert_eq!(journal_of(&second), before);
    std::fs::remove_dir_all(trusted.join("journal")).unwrap();
    copy(&second.join("journal"), &trusted.join("journal"));
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 3).await;
    write(&*volume.engine(), 0, 4).await;
    drop(volume);
    // 3. The whole disk is lost, but for a copy of the key that is as old as the volume.
    let key = folder.path().join("key");
    std::fs::rename(trusted.join("key"), &key).unwrap();
    std::fs::remove_dir_all(&trusted).unwrap();
    copy(&second, &trusted);
    std::fs::rename(&key, trusted.join("key")).unwrap();
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 4).await;
    volume.close().await.unwrap();
    assert_eq!(journal_of(&trusted), journal_of(&second));
}

/// An old copy of the first place is refused as ever, and takes nothing newer with it; a second
/// place that is not there, or another volume's, is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_place_is_not_spoilt_by_an_old_first_one() {
    let (_clouds, folder, place) = made().await;
    let [second, trusted, older, newest] =
        ["other-disk", "d/proxy", "older", "newest"].map(|name| folder.path().join(name));
    // 1. A volume that is there gets one, with all that it holds.
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 1).await;
    drop(volume);
    let given = Place { second_journal: Some(second.clone()), ..place.clone() };
    let volume = open(&given).await.unwrap();
    is_there(&*volume.engine(), 0, 1).await;
    volume.close().await.unwrap();
    assert_eq!(journal_of(&trusted), journal_of(&second));
    // 2. An old copy.
    copy(&trusted, &older);
    let volume = open(&place).await.unwrap();
    write(&*volume.engine(), 0, 2).await;
    drop(volume);
    std::fs::rename(&trusted, &newest).unwrap();
    std::fs::rename(&older, &trusted).unwrap();
    let before = journal_of(&second);
    let told = refused(&place).await;
    let is_told = matches!(&told, Error::CannotUse(why) if why.contains("older")
        && why.contains("The second place may have it"));
    assert!(is_told, "{told:?}");
    assert_eq!(journal_of(&second), before);
    // The second place has it.
    for name in ["journal", "register"] {
        let first = trusted.join(name);
        if first.is_dir() {
            std::fs::remove_dir_all(&first).unwrap();
            copy(&second.join(name), &first);
        } else {
            std::fs::copy(second.join(name), &first).unwrap();
        }
    }
    let volume = open(&place).await.unwrap();
    is_there(&*volume.engine(), 0, 2).await;
    volume.close().await.unwrap();
    // 3. Its disk is not mounted: nothing is begun there.
    let away = folder.path().join("away");
    std::fs::rename(&second, &away).unwrap();
    let told = refused(&place).await;
    assert!(matches!(&told, Error::CannotUse(why) if why.contains("mount its disk")), "{told:?}");
    assert!(!second.exists());
    std::fs::rename(&away, &second).unwrap();
    drop(open(&place).await.unwrap());
    // 4. Nor is it of use inside the first, or where another volume has its own.
    let inside = Place { second_journal: Some(trusted.join("second")), ..place.clone() };
    assert!(matches!(refused(&inside).await, Error::Usage(_)));
    let (clouds, _other_folder, other) = running().await;
    let other = Place { second_journal: Some(second.clone()), ..other };
    let config = config(&clouds[0], Some(clouds[1].url())).unwrap();
    let told = Volume::create(other, &config).await.unwrap_err();
    assert!(matches!(&told, Error::CannotUse(why) if why.contains("another volume")), "{told:?}");
    drop(open(&place).await.unwrap());
}
