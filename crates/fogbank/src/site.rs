//! A client of a site: many processes that share a key work on one disk, and no proxy is between.
//!
//! ```text
//! DIR/proxy/key     the secret that all clients of the site share
//! DIR/proxy/site    the id of the site and where it is, as JSON
//! DIR/proxy/seen    what this client has seen of it
//! ```
//! 1. *Create*: a key and an id are drawn and noted, then the site is made at the server.
//! 2. *Join*: the key and the id come from whoever has them, not from the server. The header has to
//!    open by them.
//! 3. *Open*: a session is taken, and the client joins where the site is by now.
//!
//! From the first two on the client keeps what it has seen: whatever comes later has to go on from
//! there. A copy of the folder is a client of its own, which knows what the original had seen when
//! it was made: every start takes a session, and so a key, that no other has.
//!
//! What the cloud sees is the engine's (`fogbank_oram::hierarchy`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use fogbank_durable::Suspicion;
use fogbank_durable::shared::{
    Compared, FileSeen, Seen, SeenRegister, Site, SiteParameters, Superblock,
};
use fogbank_env::{Clock, FolderLock, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::{HierarchyEngine, schedule_of};
use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::url::StoreUrl;
use fogbank_store::{BlobLog, DepartureGrid, Log, Retry, RetrySchedule, Store};
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::place::{lock_trusted_side, of_store, open_store};
use crate::side_check::check_apart;
use crate::volume::VolumeShape;

/// What `DIR/proxy/site` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    /// The format of this file.
    format: u16,
    /// 32 hexadecimal digits.
    id: String,
    /// The URL.
    store: String,
}

const FORMAT: u16 = 1;
const SITE: &str = "site";
const SEEN: &str = "seen";
const KEY: &str = "key";

/// How a site is made, where its maker says nothing else.
const USUAL: SiteParameters = SiteParameters {
    blocks: 0,
    block_bytes: 0,
    epoch: 256,
    growth: 2,
    draw: 8,
    piece: 0,
    kept_epochs: 64,
    public_ms: 1_000,
    quantum_us: 1_000,
};

/// Bytes of the log that a server keeps in memory, at most, with room to spare.
const LOG_BYTES: u64 = 128 << 20;
/// Beside a block, of an entry and of a result.
const PLACE_BYTES: u64 = 700;
/// R, at most and at least: a client that is away for longer has to be started again.
const KEPT_EPOCHS: [u64; 2] = [8, 64];
/// What a client knows of where blocks lie takes some 80 bytes a block: 320 MiB for the largest
/// site.
const BLOCKS_MAX: u64 = 1 << 22;
/// A piece has no fewer slots than so many times the root of those that the bottom has at least, or
/// most of what is dealt would be padding.
const PIECE_ROOTS: u64 = 32;
/// Bytes of a table that a builder has before it at once, about.
const PIECE_BYTES: u64 = 128 << 20;
/// And at most: a builder holds one of each level.
const PIECE_BYTES_MAX: u64 = 512 << 20;
/// Blocks above it have shorter epochs, so that the log keeps enough of them.
const LARGE_BLOCK: u64 = 16 << 10;
/// Blocks have at most so many bytes, or the log could not keep enough epochs.
const LARGEST_BLOCK_LOG: u32 = 15;

/// The parameters of a site of such a size and such blocks.
///
/// # Errors
/// [`Error::Usage`] if there is no such site.
pub fn parameters_of(size: u64, block: u64) -> Result<SiteParameters> {
    let VolumeShape { blocks, block_bytes } = VolumeShape::new(size, block)?;
    let epoch = if block > LARGE_BLOCK { USUAL.epoch / 2 } else { USUAL.epoch };
    let [least, most] = KEPT_EPOCHS;
    let kept = LOG_BYTES / (u64::from(epoch) * (2 * block + PLACE_BYTES));
    if kept < least {
        return Err(Error::Usage(format!(
            "--block {block}: every query takes an entry and a result of a block to all clients; \
             blocks of a site have at most 32KiB"
        )));
    }
    if u64::from(blocks) > blocks_max(block) {
        return Err(too_large(size, block));
    }
    let piece = (PIECE_BYTES / block).max(PIECE_ROOTS * (2 * u64::from(blocks)).isqrt());
    Ok(SiteParameters {
        blocks,
        block_bytes: block_bytes as u32,
        epoch,
        piece: piece.next_multiple_of(64) as u32,
        kept_epochs: kept.min(most) as u32,
        ..USUAL
    })
}

/// Blocks of such a size that a site can have: a client knows where each lies, and whoever builds
/// has pieces in memory.
fn blocks_max(block: u64) -> u64 {
    let root = PIECE_BYTES_MAX / (PIECE_ROOTS * block);
    BLOCKS_MAX.min(((root + 1) * (root + 1) - 1) / 2)
}

/// Says how large a site can be, and with which blocks it can be so large.
fn too_large(size: u64, block: u64) -> Error {
    let said = |bytes: u64| ByteSize::b(bytes).display().iec().to_string();
    let usual = || (9..=LARGEST_BLOCK_LOG).map(|log| 1 << log);
    let fits = |block: &u64| size <= block * blocks_max(*block);
    let fitting = usual().filter(fits).map(|block| format!("--block {block}"));
    let way_on = match fitting.collect::<Vec<_>>().join(" or ") {
        none if none.is_empty() => {
            let most = usual().map(|block| block * blocks_max(block)).max().unwrap_or_default();
            format!(
                "no site has more than {}, and a volume may (fogbank volume create)",
                said(most)
            )
        }
        blocks => format!("take {blocks}"),
    };
    Error::Usage(format!(
        "--size {size}: a site with blocks of {} has at most {}, for every client knows where each \
         block lies and builds tables in memory; {way_on}",
        said(block),
        said(block * blocks_max(block))
    ))
}

/// Where a client of a site has its own side.
#[derive(Debug, Clone)]
pub struct SitePlace(PathBuf);

/// What is known of a site.
#[derive(Debug, Clone)]
pub struct SiteStatus {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Where it is.
    pub store: String,
    /// What everybody has in common.
    pub parameters: SiteParameters,
    /// The number of the newest superblock: epochs that the site has come to.
    pub superblock: u64,
    /// That of the newest one that this client has seen before.
    pub seen: u64,
}

impl SitePlace {
    /// In the folder `data`.
    pub fn new(data: &Path) -> Self {
        Self(data.join("proxy"))
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.0.join(SITE).exists()
    }

    /// The file of the secret.
    pub fn key(&self) -> PathBuf {
        self.0.join(KEY)
    }

    /// Makes a site at `store`, of such a shape, and this folder its first client.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a site or something else already; by blame.
    pub async fn create(&self, store: &str, size: u64, block: u64) -> Result<()> {
        let parameters = parameters_of(size, block)?;
        schedule_of(&parameters)?;
        let (_lock, random) = self.begin(store)?;
        let mut stream = random.stream(Purpose::MasterKey);
        let (noted, is_new) = match self.noted() {
            // What a stop has left of one that was never finished is gone on with.
            Ok(noted) if noted.store == store => (noted, false),
            _ if self.is_there() || self.key().exists() => return Err(self.is_taken()),
            _ => {
                let id = StoreId::draw(&mut random.stream(Purpose::Incarnation));
                (Noted { format: FORMAT, id: hex(&id), store: store.to_owned() }, true)
            }
        };
        self.note(&noted)?;
        let master = fogbank_seal::load_or_create(&self.key(), &mut stream, true)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let (at, _) = open_site_store(store).await?;
        let mut salts = random.split(1).stream(Purpose::Incarnation);
        let made = Site::create(&at, (&master, noted.id()?), parameters, &mut salts).await;
        if is_new && matches!(made, Err(fogbank_durable::Error::Exists)) {
            // There is another's: this key and this id are of no site.
            for file in [SITE, KEY] {
                let path = self.0.join(file);
                let cannot = |e| Error::CannotUse(format!("{}: {e}", path.display()));
                std::fs::remove_file(&path).map_err(cannot)?;
            }
        }
        made?;
        self.sees(&at, &master, &noted).await
    }

    /// Makes this folder a client of the site `id` at `store`, whose key is in the file `key`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is something in the folder already, or the site is not that of the
    /// key and the id.
    pub async fn join(&self, store: &str, key: &Path, id: &str) -> Result<SiteStatus> {
        let noted = Noted { format: FORMAT, id: id.to_owned(), store: store.to_owned() };
        let of_site = noted.id()?;
        let (_lock, random) = self.begin(store)?;
        if self.is_there() || self.key().exists() {
            return Err(self.is_taken());
        }
        let master = self.load(key, &random)?;
        let (at, _) = open_site_store(store).await?;
        Site::look(at.clone(), (&master, of_site)).await.map_err(of_another)?;
        let text = std::fs::read(key);
        let text = text.map_err(|e| Error::CannotUse(format!("{}: {e}", key.display())))?;
        let cannot = |e| Error::CannotUse(format!("{}: {e}", self.key().display()));
        fogbank_env::write_secret(&self.key(), &text).map_err(cannot)?;
        self.note(&noted)?;
        self.sees(&at, &master, &noted).await?;
        self.status().await
    }

    /// What is known of the site, as the server shows it, held against the superblocks that this
    /// client has seen. Nothing is written.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if the server shows another site, or an older one; by blame.
    pub async fn status(&self) -> Result<SiteStatus> {
        let (noted, site, seen) = self.look().await?;
        let newest = Superblock::newest(&site, 1, seen.as_ref()).await?;
        Ok(SiteStatus {
            id: noted.id,
            store: noted.store,
            parameters: site.parameters(),
            superblock: newest.first().map_or(0, |(superblock, _)| superblock.number),
            seen: seen.map_or(0, |seen| seen.superblock),
        })
    }

    /// A code of what this client has seen up to an epoch, or so far, to be compared with
    /// another's. Nothing is written; it may be served meanwhile.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if the server shows something else by now; by blame.
    pub async fn compare(&self, at: Option<u64>) -> Result<Compared> {
        let (_, site, seen) = self.look().await?;
        let nothing = || Error::Usage("this client has seen nothing yet: serve it first".into());
        Ok(Compared::of(&site, &seen.ok_or_else(nothing)?, at).await?)
    }

    /// Joins the site with a session of its own, as far as it has come by now.
    ///
    /// # Errors
    /// By blame.
    pub async fn open(&self) -> Result<Disk> {
        let (noted, random) = (self.noted()?, randomness()?);
        let lock = lock_trusted_side(&self.0)?;
        let master = self.load(&self.key(), &random)?;
        let alone = lock_folder(&noted.store)?;
        let (at, clock) = open_site_store(&noted.store).await?;
        let mut salts = random.stream(Purpose::Incarnation);
        let seen = Arc::new(FileSeen::new(&self.0.join(SEEN)));
        let has_seen = seen.read().await?.is_some();
        let site = Site::join(at.clone(), (&master, noted.id()?), &mut salts).await;
        let site = site.map_err(|error| gone(error, has_seen))?;
        let quantum = Duration::from_micros(site.parameters().quantum_us.into());
        let log = open_log(&noted.store, at, &clock, &site.parameters()).await?;
        let grid = DepartureGrid::new(clock.clone(), quantum);
        let engine = HierarchyEngine::open(site, log, seen, grid).await?;
        Ok(Disk::new(Arc::new(engine), clock, (lock, alone)))
    }

    /// The site, for whoever only looks, and what this client has seen of it.
    async fn look(&self) -> Result<(Noted, Arc<Site>, Option<Seen>)> {
        let (noted, random) = (self.noted()?, randomness()?);
        let master = self.load(&self.key(), &random)?;
        let seen = FileSeen::new(&self.0.join(SEEN)).read().await?;
        let (store, _) = open_site_store(&noted.store).await?;
        let site = Site::look(store, (&master, noted.id()?)).await;
        let site = site.map_err(|error| gone(error, seen.is_some()))?;
        Ok((noted, Arc::new(site), seen))
    }

    /// Keeps what the server shows now, where nothing was seen before.
    async fn sees(&self, at: &Arc<dyn Store>, master: &MasterKey, noted: &Noted) -> Result<()> {
        let register = FileSeen::new(&self.0.join(SEEN));
        if register.read().await?.is_none() {
            let site = Arc::new(Site::look(at.clone(), (master, noted.id()?)).await?);
            register.save(&Seen::at_first(&site).await?).await?;
        }
        Ok(())
    }

    fn begin(&self, store: &str) -> Result<(FolderLock, Randomness)> {
        check(store)?;
        check_apart("--data", Some(&self.0), store)?;
        Ok((lock_trusted_side(&self.0)?, randomness()?))
    }

    fn load(&self, key: &Path, random: &Randomness) -> Result<MasterKey> {
        let mut unused = random.stream(Purpose::MasterKey);
        fogbank_seal::load_or_create(key, &mut unused, false)
            .map_err(|e| Error::CannotUse(e.to_string()))
    }

    fn note(&self, noted: &Noted) -> Result<()> {
        let path = self.0.join(SITE);
        let text = serde_json::to_vec(noted).map_err(|e| Error::Bug(e.to_string()))?;
        fogbank_env::write_secret(&path, &text)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", path.display())))
    }

    fn noted(&self) -> Result<Noted> {
        let path = self.0.join(SITE);
        let text = std::fs::read(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::Usage(format!(
                "{} is no client of a site: make one with fogbank site create, or fogbank site join",
                self.0.parent().unwrap_or(&self.0).display()
            )),
            _ => Error::CannotUse(format!("{}: {e}", path.display())),
        })?;
        let noted: Noted = serde_json::from_slice(&text)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", path.display())))?;
        match noted.format {
            FORMAT => Ok(noted),
            found => Err(Error::Usage(format!(
                "{} has format {found}, which this version does not know",
                path.display()
            ))),
        }
    }

    fn is_taken(&self) -> Error {
        Error::Usage(format!(
            "{} holds a store or a client of a site already; choose another --data",
            self.0.display()
        ))
    }
}

impl Noted {
    fn id(&self) -> Result<StoreId> {
        let wrong = || {
            Error::Usage(
                "the id of a site has 32 hexadecimal digits; fogbank site status tells it".into(),
            )
        };
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(wrong);
        let digits = self.id.as_bytes();
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut id = StoreId([0; 16]);
        for (byte, pair) in id.0.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(id)
    }
}

impl SiteStatus {
    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        u64::from(self.parameters.blocks) * u64::from(self.parameters.block_bytes)
    }
}

/// What it means for a client that comes anew that a site does not open.
fn of_another(error: fogbank_durable::Error) -> Error {
    match error {
        fogbank_durable::Error::CloudLied(Suspicion::SiteHeader) => Error::Usage(
            "the site there does not open by this --key and this --id: is the key another site's, or \
             the id mistyped? fogbank site status of another client tells it. If both are right, the \
             server shows another site"
                .into(),
        ),
        error => error.into(),
    }
}

/// What it means that there is no site, where this client may have seen one.
fn gone(error: fogbank_durable::Error, has_seen: bool) -> Error {
    match error {
        fogbank_durable::Error::NoStore if has_seen => fogbank_durable::Error::CloudEmpty.into(),
        error => error.into(),
    }
}

fn hex(id: &StoreId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn randomness() -> Result<Randomness> {
    let seed = fogbank_seal::system_seed();
    let none = |_| Error::CannotUse("the system has no randomness to give".into());
    Ok(Randomness::from_seed(seed.map_err(none)?))
}

async fn open_site_store(url: &str) -> Result<(Arc<dyn Store>, Arc<dyn Clock>)> {
    check(url)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = open_store(url, &clock).await?;
    // A server that is started again may take a minute, as its log may.
    let schedule = RetrySchedule { waits: [Duration::from_secs(10); 5].to_vec() };
    Ok((Arc::new(Retry::new(store, clock.clone(), schedule)), clock))
}

/// Refuses a store where clients cannot meet.
fn check(url: &str) -> Result<()> {
    if url.starts_with(fogbank_cloud::SCHEME) || url.starts_with("file:") {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "clients of a site cannot meet at {url:?}: give a fogbank-cloud server, as grpc://HOST:PORT/TENANT, \
         or for one client alone a folder, as file:///DIR"
    )))
}

/// In a folder one process alone may append: its lock. A server sees to that itself.
fn lock_folder(url: &str) -> Result<Option<FolderLock>> {
    let Ok(StoreUrl::File(folder)) = url.parse() else { return Ok(None) };
    let cannot = |e| Error::CannotUse(format!("{}: {e}", folder.display()));
    match FolderLock::take(&folder.join("one-client")).map_err(cannot)? {
        Some(lock) => Ok(Some(lock)),
        None => Err(Error::CannotUse(format!(
            "another client has this site open, and in a folder there can be one at a time: {}; several              meet at a fogbank-cloud",
            folder.display()
        ))),
    }
}

/// The log of the site. In a folder this process alone appends.
async fn open_log(
    url: &str,
    store: Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    parameters: &SiteParameters,
) -> Result<Arc<dyn Log>> {
    if url.starts_with(fogbank_cloud::SCHEME) {
        let log = fogbank_cloud::LogClient::open(url, clock).await.map_err(of_store)?;
        return Ok(Arc::new(log));
    }
    let SiteParameters { epoch, kept_epochs, block_bytes, .. } = *parameters;
    let places = u64::from(epoch) * (u64::from(kept_epochs) + 8);
    let kept_bytes = 4 * places * (u64::from(block_bytes) + 512);
    let log = BlobLog::open(store, clock.clone(), kept_bytes).await.map_err(of_store)?;
    Ok(Arc::new(log))
}

#[cfg(test)]
mod tests {
    use fogbank_oram::{Access, Address};

    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test(flavor = "multi_thread")]
    async fn clients_of_a_folder_write_and_read_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| SitePlace::new(&folder.path().join(name));
        let url = format!("file://{}", folder.path().join("cloud").display());
        let (one, two) = (place("one"), place("two"));
        one.create(&url, MIB, 4096).await.unwrap();
        let status = one.status().await.unwrap();
        assert_eq!((status.bytes(), status.superblock), (MIB, 1));
        // Where there is a site no other is made, and nothing is left of the attempt.
        let again = two.create(&url, MIB, 4096).await.unwrap_err();
        assert!(matches!(again, Error::Usage(_)), "{again}");
        assert!(!two.is_there() && !two.key().exists());
        // A key and an id that do not belong together open nothing.
        let wrong = "0".repeat(32);
        let error = two.join(&url, &one.key(), &wrong).await.unwrap_err();
        assert!(matches!(error, Error::Usage(_)) && error.to_string().contains("--id"), "{error}");
        for id in ["", "12", "zz"] {
            let error = two.join(&url, &one.key(), id).await.unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
        }
        two.join(&url, &one.key(), &status.id).await.unwrap();
        let taken = two.join(&url, &one.key(), &status.id).await.unwrap_err();
        assert!(matches!(taken, Error::Usage(_)), "{taken}");
        // In a folder one client at a time.
        let disk = one.open().await.unwrap();
        let bytes: bytes::Bytes = vec![7; 4096].into();
        let write = Access::Write { offset: 0, bytes: bytes.clone() };
        disk.engine().submit(Address(3), write).await.unwrap();
        let second = two.open().await.err().unwrap();
        assert!(matches!(second, Error::CannotUse(_)), "{second}");
        disk.close().await.unwrap();
        let disk = two.open().await.unwrap();
        let read = disk.engine().submit(Address(3), Access::Read).await.unwrap();
        assert_eq!(read, bytes);
        disk.close().await.unwrap();
        // Both have seen the same.
        let code = one.compare(None).await.unwrap();
        assert_eq!(two.compare(Some(code.number)).await.unwrap(), code);
        let beyond = two.compare(Some(9)).await.unwrap_err();
        let is_usage = matches!(beyond, Error::Usage(_));
        assert!(is_usage && beyond.to_string().contains("epoch 1"), "{beyond}");
    }

    /// So many reads, some at once.
    async fn reads(place: &SitePlace, count: u32) {
        let disk = place.open().await.unwrap();
        let asked: Vec<_> =
            (0..count).map(|n| disk.engine().submit(Address(n % 256), Access::Read)).collect();
        for ticket in asked {
            ticket.await.unwrap();
        }
        disk.close().await.unwrap();
    }

    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy(&entry.path(), &to),
                false => _ = std::fs::copy(entry.path(), to).unwrap(),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_only_looks_notices_a_server_that_went_back() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let url = format!("file://{}", at("cloud").display());
        let (one, two) = (SitePlace::new(&at("one")), SitePlace::new(&at("two")));
        one.create(&url, MIB, 4096).await.unwrap();
        copy(&at("cloud"), &at("old"));
        reads(&one, 600).await;
        let status = one.status().await.unwrap();
        assert!(status.superblock > 1 && status.seen == status.superblock, "{status:?}");
        // Who joins has seen what it was shown then, before it ever asks.
        two.join(&url, &one.key(), &status.id).await.unwrap();
        assert_eq!(two.status().await.unwrap().seen, status.superblock);
        assert_eq!(two.compare(None).await.unwrap(), one.compare(None).await.unwrap());
        // A copy of a client's folder is one more client, from where the original was.
        copy(&at("one"), &at("three"));
        let three = SitePlace::new(&at("three"));
        for place in [&three, &one, &three] {
            reads(place, 3).await;
        }
        for shown in [Some("old"), None] {
            std::fs::rename(at("cloud"), at("newest")).unwrap();
            if let Some(old) = shown {
                copy(&at(old), &at("cloud"));
            }
            for place in [&one, &two, &three] {
                let looked = place.status().await.unwrap_err();
                assert!(matches!(looked, Error::CloudLied(_)), "{shown:?}: {looked}");
                let compared = place.compare(None).await.unwrap_err();
                assert!(matches!(compared, Error::CloudLied(_)), "{shown:?}: {compared}");
                let opened = place.open().await.err().unwrap();
                assert!(matches!(opened, Error::CloudLied(_)), "{shown:?}: {opened}");
            }
            let _none = std::fs::remove_dir_all(at("cloud"));
            std::fs::rename(at("newest"), at("cloud")).unwrap();
        }
        one.status().await.unwrap();
    }

    /// Whatever is said to be too large, what is proposed in its place is not.
    #[test]
    fn what_is_proposed_for_a_size_that_is_refused_fits() {
        for log in 20..=38 {
            for size in [1 << log, 3 << (log - 1)] {
                for block in [512, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10] {
                    let Err(refused) = parameters_of(size, block) else { continue };
                    let words = refused.to_string();
                    let proposed: Vec<u64> = words
                        .split("take --block ")
                        .nth(1)
                        .into_iter()
                        .flat_map(|blocks| blocks.split(" or --block "))
                        .map(|block| block.parse().unwrap())
                        .collect();
                    assert!(proposed.iter().all(|block| parameters_of(size, *block).is_ok()));
                    let fits = size <= 16 << 30 || block > 32 << 10;
                    assert!(fits != (proposed.is_empty() && block <= 32 << 10), "{size}: {words}");
                }
            }
        }
    }

    #[test]
    fn what_a_log_or_memory_cannot_hold_is_refused() {
        let of = |size, block| parameters_of(size, block).unwrap();
        assert_eq!((of(MIB, 512).kept_epochs, of(MIB, 4096).kept_epochs), (64, 58));
        assert_eq!((of(MIB, 16 << 10).epoch, of(MIB, 32 << 10).epoch), (256, 128));
        assert!(of(MIB, 16 << 10).kept_epochs >= 8 && of(MIB, 32 << 10).kept_epochs >= 8);
        let largest = [(16 << 30, 4), (16 << 30, 8), (8 << 30, 16), (4 << 30, 32)];
        for (size, block) in
            largest.map(|(size, kib)| (size, kib << 10)).into_iter().chain([(MIB, 512)])
        {
            let parameters = of(size, block);
            schedule_of(&parameters).unwrap();
            assert!(u64::from(parameters.piece) * block <= PIECE_BYTES_MAX, "{parameters:?}");
            let more = parameters_of(size + 256 * MIB, block);
            assert!(size == MIB || matches!(more, Err(Error::Usage(_))), "{size} {block}");
        }
        for (size, block) in [(64 * MIB, 64 << 10), (128 << 30, 32 << 10)] {
            assert!(matches!(parameters_of(size, block), Err(Error::Usage(_))));
        }
    }
}
