//! The tenants of a server: each has a token, a quota, a folder, and sees nothing of the others.
//!
//! ```text
//! DATA/tenants/NAME/token          64 hexadecimal digits                     0600
//! DATA/tenants/NAME/signing        by which it signs for the other of two clouds  0600, when it is opened,
//!                                  and never anew when a volume of two clouds is there
//! DATA/tenants/NAME/quota          bytes=N and arrays=N, a line each
//! DATA/tenants/NAME/credentials    what the client needs: token and pin      0600, at every start
//! DATA/tenants/NAME/store/         what it keeps (`fogbank_store::FileStore`)
//! DATA/tenants/NAME/store-url      instead of that, the bucket in which it keeps it (`bucket`)
//! DATA/tenants/NAME/registers/     freshness registers held for it (`fogbank_peer`), if that is asked for
//! DATA/tenants/NAME/register       the line for the proxy of where they are        0600, at every start
//! ```
//! A tenant is opened when somebody first shows its token. Its calls, the bytes of requests that
//! are being received, its connections and its rate are bounded apart from those of others: who
//! overdoes it waits, and only he. What all use together is bounded, too, and shared out (`pool`).

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_env::{Clock, Mutex, Nanos, compute, write_secret};
use fogbank_mix::server::MixServer;
use fogbank_mix::signed::Signer;
use fogbank_mix::{Elsewhere, KeptRoom, Seed};
use fogbank_objects::{Environment, ObjectsUrl};
use fogbank_peer::Desk;
use fogbank_store::{
    ArrayId, ArrayShape, FileOptions, FileStore, MemoryStore, PlaceHashing, Result, Store,
    StoreError,
};
use fogbank_tls::{Pin, Token};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinHandle;

use crate::bucket;
use crate::cache::TopCache;
use crate::credentials::Credentials;
use crate::log::TenantLog;
use crate::mix::Mixing;
use crate::pool::{Account, Pool};
use crate::quota::{Allowance, Quota};

/// What a tenant may use at once, and what of its chunks is kept in memory.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Calls under way.
    pub calls_max: usize,
    /// Calls a second, after a burst of as many.
    pub calls_per_s: u64,
    /// Bytes of requests being received.
    pub request_bytes_max: usize,
    /// Connections.
    pub connections_max: usize,
    /// Bytes of the cache of what is near the top.
    pub cache_bytes: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            calls_max: 64,
            calls_per_s: 20_000,
            request_bytes_max: 512 << 20,
            connections_max: 64,
            cache_bytes: 0,
        }
    }
}

/// Where tenants keep what they keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// In their folders, or in the buckets that these name.
    Disk,
    /// Until the server ends. A tenant with a bucket is not opened.
    Memory,
}

/// What lies over the store of every tenant, where a server is measured that nobody has filled.
pub trait Overlay: std::fmt::Debug + Send + Sync {
    /// `store`, with what lies over it.
    fn over(self: Arc<Self>, store: Box<dyn Store>) -> Box<dyn Store>;

    /// Levels of a volume in two clouds that a shuffler can ask for.
    fn elsewhere(self: Arc<Self>) -> Arc<dyn Elsewhere>;
}

/// What all tenants share.
#[derive(Clone)]
pub struct Common {
    /// How the places of chunks are hashed. Tenants choose them, so it is to be keyed.
    pub hashing: PlaceHashing,
    /// Memory for connections and calls, in bytes.
    pub memory: Arc<Pool>,
    /// Connections.
    pub connections: Arc<Pool>,
    /// Memory for levels that shufflers keep.
    pub kept: Arc<KeptRoom>,
    /// What lies over their stores, if anything does.
    pub overlay: Option<Arc<dyn Overlay>>,
    /// The credentials for the buckets of those that have one.
    pub environment: Environment,
    /// By which what a bucket did not answer is asked again.
    pub clock: Arc<dyn Clock>,
}

/// One tenant, open.
pub struct Tenant {
    /// What it is called.
    pub name: String,
    /// Its store, behind its quota.
    pub store: Arc<Quota<Box<dyn Store>>>,
    /// By which it signs for the other of two clouds.
    signer: Arc<Signer>,
    /// The volume that it holds for two clouds, once somebody has asked for it.
    mixing: std::sync::OnceLock<Arc<Mixing>>,
    /// Where its shuffler finds levels that it has not kept, if anywhere.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Memory for what that keeps, of all tenants.
    kept: Arc<KeptRoom>,
    /// Its query log, likewise.
    log: OnceCell<TenantLog>,
    /// A permit a call.
    pub calls: Arc<Semaphore>,
    /// A permit a KiB of a request.
    pub request_kib: Arc<Semaphore>,
    /// A permit a connection.
    pub connections: Arc<Semaphore>,
    /// Of what all tenants share: memory.
    pub memory: Arc<Account>,
    /// Connections.
    pub places: Arc<Account>,
    /// When the next call may begin.
    next_call: Mutex<Nanos>,
    share: Share,
}

/// All tenants of a server.
pub struct Tenants {
    folder: PathBuf,
    opener: Arc<Opener>,
    known: Mutex<BTreeMap<String, Arc<Known>>>,
}

/// What opens tenants.
struct Opener {
    keeping: Keeping,
    share: Share,
    common: Common,
}

/// A tenant that is there, whether open or not.
struct Known {
    token: Token,
    folder: PathBuf,
    open: OnceCell<Arc<Tenant>>,
    /// What opens it, and goes on when whoever asked has gone: the lists of a bucket can take
    /// longer than he waits. His next try waits for the same.
    opening: tokio::sync::Mutex<Option<JoinHandle<Result<Tenant>>>>,
}

impl Tenants {
    /// Those under `data`.
    pub fn new(data: &Path, keeping: Keeping, share: Share, common: Common) -> Self {
        let opener = Arc::new(Opener { keeping, share, common });
        Self { folder: data.join("tenants"), opener, known: Mutex::default() }
    }

    /// Makes a tenant, or gives one that is there another quota. Whoever is connected keeps the old
    /// one until the server is started again.
    ///
    /// # Errors
    /// As the system says; [`ErrorKind::InvalidInput`] for a name that cannot be.
    pub fn add(data: &Path, name: &str, allowed: Allowance, pin: Pin) -> io::Result<PathBuf> {
        Self::add_at(data, name, allowed, pin, None)
    }

    /// The same of one whose store is in a bucket; `None` leaves it where it is.
    ///
    /// # Errors
    /// As [`Tenants::add`]; [`ErrorKind::InvalidInput`] also if it has another place, or another
    /// tenant has that one.
    pub fn add_at(
        data: &Path,
        name: &str,
        allowed: Allowance,
        pin: Pin,
        store: Option<&ObjectsUrl>,
    ) -> io::Result<PathBuf> {
        if !is_name(name) {
            let why = "a tenant's name is 1 to 32 of a-z, 0-9 and -";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let folder = data.join("tenants").join(name);
        // Before the token, by which a tenant is there: none is ever opened in the wrong place.
        match store {
            Some(url) => bucket::settle(data, name, url)?,
            None => DirBuilder::new().recursive(true).mode(0o700).create(&folder)?,
        }
        let token = Token::load_or_create(&folder.join("token"))?;
        let Allowance { bytes, arrays } = allowed;
        write_secret(
            &folder.join("quota"),
            format!("bytes={bytes}\narrays={arrays}\n").as_bytes(),
        )?;
        write_credentials(&folder, token, pin)
    }

    /// Writes for every tenant what its client needs.
    ///
    /// # Errors
    /// As the system says.
    pub fn announce(&self, pin: Pin) -> io::Result<Announced> {
        let mut announced = Announced::default();
        for known in self.all()? {
            let before = Credentials::load(&known.folder.join("credentials"));
            announced.tenants += 1;
            announced.by_another_pin += usize::from(before.is_ok_and(|it| it.pin != pin));
            write_credentials(&known.folder, known.token.clone(), pin)?;
        }
        Ok(announced)
    }

    fn all(&self) -> io::Result<Vec<Arc<Known>>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            if let Some(known) = name.to_str().and_then(|name| self.find(name).transpose()) {
                found.push(known?);
            }
        }
        Ok(found)
    }

    /// What is held for each tenant that is there, for whoever shows its token, with the file that
    /// is to say where.
    ///
    /// # Errors
    /// As the system says.
    pub fn registers(&self) -> io::Result<Vec<(Token, PathBuf, Desk)>> {
        let mut found = Vec::new();
        for known in self.all()? {
            let (token, folder) = (known.token.clone(), known.folder.join("registers"));
            let desk = Desk::open(&folder, token.clone(), REGISTERS_MAX, REGISTER_CONNECTIONS_MAX)?;
            found.push((token, known.folder.join("register"), desk));
        }
        Ok(found)
    }

    /// The tenant `name`, if `shown` is its token, or `to_mix` the one that follows from it.
    ///
    /// # Errors
    /// Those of its store.
    pub async fn enter(
        &self,
        name: &str,
        shown: &[u8],
        to_mix: bool,
    ) -> Result<Option<Arc<Tenant>>> {
        let absent = |e: io::Error| StoreError::Absent(format!("the tenant's folder: {e}"));
        let known = match self.known(name) {
            None => compute(|| self.find(name)).map_err(absent)?,
            known => known,
        };
        let Some(known) = known else { return Ok(None) };
        let is_it = match to_mix {
            true => known.token.for_mixing().is(shown),
            false => known.token.is(shown),
        };
        if !is_it {
            return Ok(None);
        }
        let open = || async {
            let mut opening = known.opening.lock().await;
            let begin = || tokio::spawn(self.opener.clone().open(known.folder.clone()));
            let opened = opening.get_or_insert_with(begin).await;
            *opening = None;
            let ended = |e| StoreError::Absent(format!("the opening of the tenant ended: {e}"));
            opened.map_err(ended)?.map(Arc::new)
        };
        known.open.get_or_try_init(open).await.cloned().map(Some)
    }

    fn known(&self, name: &str) -> Option<Arc<Known>> {
        self.known.lock().get(name).cloned()
    }

    fn find(&self, name: &str) -> io::Result<Option<Arc<Known>>> {
        if let Some(found) = self.known(name) {
            return Ok(Some(found));
        }
        let folder = self.folder.join(name);
        if !is_name(name) || !folder.join("token").try_exists()? {
            return Ok(None);
        }
        let token = Token::load_or_create(&folder.join("token"))?;
        // Nobody waits for the disk with the lock. Of two that came at once one is known.
        let (open, opening) = (OnceCell::new(), tokio::sync::Mutex::default());
        let found = || Arc::new(Known { token, folder, open, opening });
        let mut known = self.known.lock();
        Ok(Some(known.entry(name.to_owned()).or_insert_with(found).clone()))
    }
}

impl Opener {
    async fn open(self: Arc<Self>, folder: PathBuf) -> Result<Tenant> {
        let allowed = compute(|| read_quota(&folder.join("quota")))?;
        let name = folder.file_name().unwrap_or_default().display().to_string();
        let (bare, arrays, blobs) = self.bare(&name, &folder).await?;
        let bare = match self.common.overlay.clone() {
            Some(overlay) => overlay.over(bare),
            None => bare,
        };
        let cached: Box<dyn Store> = match self.share.cache_bytes {
            0 => bare,
            bytes => Box::new(TopCache::new(bare, arrays.clone(), bytes)),
        };
        let signing = folder.join("signing");
        let cannot = |e: io::Error| StoreError::Absent(format!("what it signs by: {e}"));
        // A new one in its place would be one that nobody knows: the other cloud would take
        // nothing.
        let is_there = compute(|| signing.try_exists()).map_err(cannot)?;
        if !is_there && MixServer::has_volume(&*cached).await? {
            return Err(StoreError::Refused(format!(
                "a volume of two clouds lies here, and the file by which this server signs for it \
                 is missing: its operator has to put back tenants/{name}/signing"
            )));
        }
        let secret = compute(|| Token::load_or_create(&signing));
        let secret = secret.map_err(cannot)?;
        Ok(Tenant {
            name,
            signer: Arc::new(Signer::new(&Seed::new(*secret.bytes()))),
            store: Arc::new(Quota::new(cached, arrays, blobs, allowed).await?),
            mixing: std::sync::OnceLock::new(),
            elsewhere: self.common.overlay.clone().map(|of| of.elsewhere()),
            kept: self.common.kept.clone(),
            log: OnceCell::new(),
            calls: Arc::new(Semaphore::new(self.share.calls_max)),
            request_kib: Arc::new(Semaphore::new(self.share.request_bytes_max >> 10)),
            connections: Arc::new(Semaphore::new(self.share.connections_max)),
            memory: self.common.memory.account(),
            places: self.common.connections.account(),
            next_call: Mutex::default(),
            share: self.share,
        })
    }

    /// Its store as it lies there, and what is in it.
    async fn bare(&self, name: &str, folder: &Path) -> Result<(Box<dyn Store>, Arrays, Blobs)> {
        let Common { hashing, environment, clock, .. } = &self.common;
        let place = compute(|| bucket::noted(folder));
        let place = place.map_err(|e| StoreError::Absent(format!("the tenant's folder: {e}")))?;
        match (self.keeping, place) {
            (Keeping::Memory, Some(url)) => Err(StoreError::Refused(format!(
                "the tenant's store is at {url}, and this server keeps what is stored in memory: \
                 its operator has to start it without --memory"
            ))),
            (Keeping::Memory, None) => {
                Ok((Box::new(MemoryStore::hashed(*hashing)), Vec::new(), None))
            }
            (Keeping::Disk, Some(url)) => {
                let (store, found) = bucket::open(name, &url, environment, clock).await?;
                Ok((store, found.arrays, Some(found.blobs)))
            }
            (Keeping::Disk, None) => {
                let opened = compute(|| open_folder(&folder.join("store"), *hashing));
                opened.map(|(store, arrays)| (store, arrays, None))
            }
        }
    }
}

impl Tenant {
    /// The volume that it holds for two clouds. What comes to it goes into a file in the folder
    /// `record`, if there is one.
    pub fn mixing(&self, clock: &Arc<dyn Clock>, record: Option<&Path>) -> Arc<Mixing> {
        let open = || {
            let trace = record.map(|folder| folder.join(format!("{}.trace", self.name)));
            let (store, signer) = (self.store.clone(), self.signer.clone());
            let kept = (self.kept.clone(), self.elsewhere.clone());
            Arc::new(Mixing::new(store, signer, clock, trace, kept))
        };
        self.mixing.get_or_init(open).clone()
    }

    /// Its query log.
    ///
    /// # Errors
    /// Those of its store.
    pub async fn log(&self, clock: &Arc<dyn Clock>) -> Result<&TenantLog> {
        let open = || TenantLog::open(self.store.clone(), self.memory.clone(), clock);
        self.log.get_or_try_init(open).await
    }

    /// Bytes of a request, at most.
    pub fn request_bytes_max(&self) -> u64 {
        self.memory.most_of_one().min(self.share.request_bytes_max as u64)
    }

    /// Waits until the rate allows one more call.
    pub async fn turn(&self, clock: &dyn Clock) {
        let at = {
            let mut next = self.next_call.lock();
            let at = (*next).max(clock.now());
            *next = at + SECOND_NANOS / self.share.calls_per_s.max(1);
            at.saturating_sub(BURST_NANOS)
        };
        clock.sleep_until(at).await;
    }
}

type Arrays = Vec<(ArrayId, ArrayShape)>;
/// With the bytes of each, where they are told without reading them.
type Blobs = Option<Vec<(String, u64)>>;

fn open_folder(folder: &Path, hashing: PlaceHashing) -> Result<(Box<dyn Store>, Arrays)> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| StoreError::Absent(format!("the tenant's folder: {e}")))?;
    let store = FileStore::open_with(folder, &FileOptions { hashing, ..FileOptions::default() })?;
    let arrays = store.arrays()?;
    Ok((Box::new(store), arrays))
}

pub(crate) fn read_quota(path: &Path) -> Result<Allowance> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| StoreError::Absent(format!("the tenant's quota cannot be read: {e}")))?;
    let number = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line?.parse().ok()
    };
    let read = || Some(Allowance { bytes: number("bytes")?, arrays: number("arrays")? as usize });
    read().ok_or_else(|| StoreError::Absent("the tenant's quota says nothing".into()))
}

/// To how many tenants a server said how it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// All.
    pub tenants: usize,
    /// Those that had been told another pin: copies of their credentials elsewhere are of no use.
    pub by_another_pin: usize,
}

fn write_credentials(folder: &Path, token: Token, pin: Pin) -> io::Result<PathBuf> {
    let path = folder.join("credentials");
    write_secret(&path, Credentials { token, pin, file: None }.text().as_bytes())?;
    Ok(path)
}

/// Whether it can be a tenant's name: it becomes a folder's.
pub(crate) fn is_name(name: &str) -> bool {
    let fit = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=32).contains(&name.len()) && name.bytes().all(fit)
}

/// Stores of a tenant whose register is held, and connections over which they are reached.
const REGISTERS_MAX: usize = 16;
const REGISTER_CONNECTIONS_MAX: usize = 32;
const SECOND_NANOS: Nanos = 1_000_000_000;
/// Calls of so much time may come at once.
const BURST_NANOS: Nanos = SECOND_NANOS;

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;

    fn common() -> Common {
        let (memory, connections) = (Pool::new(1 << 30), Pool::new(100));
        let (hashing, kept) = (PlaceHashing::default(), KeptRoom::unbounded());
        let (environment, clock) = (Environment::default(), Arc::new(SystemClock::new()));
        Common { hashing, memory, connections, kept, overlay: None, environment, clock }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_come_at_their_rate_after_a_burst() {
        let data = tempfile::tempdir().unwrap();
        let allowed = Allowance { bytes: 1, arrays: 1 };
        Tenants::add(data.path(), "a", allowed, Pin([0; 32])).unwrap();
        let share = Share { calls_per_s: 100, ..Share::default() };
        let tenants = Tenants::new(data.path(), Keeping::Memory, share, common());
        let token = Token::load_or_create(&data.path().join("tenants/a/token")).unwrap();
        let tenant = tenants.enter("a", token.bytes(), false).await.unwrap().unwrap();
        let clock = SystemClock::new();
        clock.sleep_until(5 * SECOND_NANOS).await;
        for _ in 0..401 {
            tenant.turn(&clock).await;
        }
        assert!((7 * SECOND_NANOS..9 * SECOND_NANOS).contains(&clock.now()), "{}", clock.now());
    }

    #[tokio::test]
    async fn a_name_is_no_way_out_and_a_token_opens_one_tenant() {
        let data = tempfile::tempdir().unwrap();
        let allowed = Allowance { bytes: 1, arrays: 1 };
        for name in ["", ".", "..", "a/b", "A", "../a", &"x".repeat(33)] {
            assert!(Tenants::add(data.path(), name, allowed, Pin([0; 32])).is_err(), "{name}");
        }
        let tokens = ["a", "b"].map(|name| {
            Tenants::add(data.path(), name, allowed, Pin([0; 32])).unwrap();
            Token::load_or_create(&data.path().join("tenants").join(name).join("token")).unwrap()
        });
        let tenants = Tenants::new(data.path(), Keeping::Memory, Share::default(), common());
        for by_another_pin in [2, 0] {
            let told = Announced { tenants: 2, by_another_pin };
            assert_eq!(tenants.announce(Pin([1; 32])).unwrap(), told);
        }
        assert!(tenants.enter("a", tokens[0].bytes(), false).await.unwrap().is_some());
        assert!(tenants.enter("b", tokens[0].bytes(), false).await.unwrap().is_none());
        assert!(tenants.enter("a", &[], false).await.unwrap().is_none());
        // What may mix may do nothing else, and the other way round.
        let to_mix = tokens[0].for_mixing();
        assert!(tenants.enter("a", to_mix.bytes(), true).await.unwrap().is_some());
        assert!(tenants.enter("a", to_mix.bytes(), false).await.unwrap().is_none());
        assert!(tenants.enter("a", tokens[0].bytes(), true).await.unwrap().is_none());
        assert!(tenants.enter("../tenants/a", tokens[0].bytes(), false).await.unwrap().is_none());
        assert!(tenants.enter("c", tokens[0].bytes(), false).await.unwrap().is_none());
    }
}
