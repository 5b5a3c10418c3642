//! A client of a site: many processes that share a key work on one disk, and no proxy is between.
//!
//! ```text
//! DIR/proxy/key     the secret that all clients of the site share
//! DIR/proxy/site    the id of the site and where it is, as JSON
//! DIR/proxy/seen    what this client has seen of it
//! DIR/proxy/witness the list of servers that keep its witness, if it has one
//! ```
//! 1. *Create*: a key and an id are drawn and noted, then the site is made where clients meet: at a
//!    server, in a bucket, or, for one client at a time, in a folder.
//! 2. *Join*: the key and the id come from whoever has them, not from the server. The header has to
//!    open by them.
//! 3. *Open*: a session is taken, and the client joins where the site is by now.
//!
//! From the first two on the client keeps what it has seen: whatever comes later has to go on from
//! there. A copy of the folder is a client of its own, which knows what the original had seen when
//! it was made: every start takes a session, and so a key, that no other has.
//!
//! What the cloud sees is the engine's (`fogbank_oram::hierarchy`); in a bucket, that each client
//! looks at a fixed interval for what others have logged (`fogbank_store::BlobLog`), too.

mod filling;
mod reading;
mod shape;
mod witness;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::Suspicion;
use fogbank_durable::shared::{
    Coming, Compared, FileSeen, Seen, SeenRegister, Site, SiteParameters, Superblock,
};
use fogbank_env::{Clock, FolderLock, Nanos, Purpose, Randomness, SystemClock, quoted};
use fogbank_objects::ObjectsUrl;
use fogbank_oram::ImmediateEngine;
use fogbank_oram::hierarchy::{HierarchyEngine, schedule_of};
use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::url::StoreUrl;
use fogbank_store::{
    Absences, BlobLog, DepartureGrid, Log, Retry, RetrySchedule, Store, StoreError, ToldLog,
};
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::new_folder::NewFolders;
use crate::place::{
    Place, across_a_link, check_access, check_url, lock_trusted_side, of_new, of_store,
    open_telling, try_bucket,
};
use crate::recording::Recording;
use crate::second_journal::SECOND_JOURNAL_FLAG;
use crate::side_check::check_apart;
use crate::volume::Flow;
pub use reading::SiteShape;
pub use shape::parameters_of;

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

/// Nanoseconds from one look of a client into a bucket to the next, for what others have logged: it
/// is waited for on average half as long, and each look asks for two objects at least.
pub(crate) const LOOK: Nanos = 200_000_000;

/// Where a client of a site has its own side.
#[derive(Debug, Clone)]
pub struct SitePlace(PathBuf);

/// A site that is joined.
struct Joined {
    engine: HierarchyEngine,
    parameters: SiteParameters,
    master: MasterKey,
    clock: Arc<dyn Clock>,
    recording: Option<Recording>,
    held: (FolderLock, Option<FolderLock>),
}

impl Joined {
    fn shape(&self) -> SiteShape {
        let SiteParameters { blocks, block_bytes, .. } = self.parameters;
        SiteShape { blocks, block_bytes }
    }

    fn into_disk(self) -> Disk {
        Disk::new(Arc::new(self.engine), self.clock, self.held).recorded(self.recording)
    }

    async fn close(self) -> Result<()> {
        Ok(self.engine.close().await?)
    }
}

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
    /// Whether somebody had said an epoch before it that the site moves, and nobody that it stays.
    pub has_moved: bool,
    /// How many servers keep its witness for this client, if any do.
    pub witness: Option<usize>,
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

    /// Refuses what is said of a volume and a site does not have: nobody shall believe that its
    /// messages leave at a rate that it does not know.
    ///
    /// # Errors
    /// [`Error::Usage`], with the flag.
    pub fn check_mounted(&self, place: &Place, flow: &Flow) -> Result<()> {
        let places = [
            ("--store", place.store.is_some()),
            ("--second-store", place.second_store.is_some()),
            (SECOND_JOURNAL_FLAG, place.second_journal.is_some()),
            ("--registers", place.registers.is_some()),
        ];
        let places = places.into_iter().filter_map(|(flag, given)| given.then_some(flag));
        match places.chain(flow.given()).next() {
            None => Ok(()),
            Some(flag) => Err(Error::Usage(format!(
                "{flag} is for volumes, and {} is a client of a site, which has noted where that \
                 is and sends as all its clients do; leave {flag} out",
                self.data().display()
            ))),
        }
    }

    /// The folder of this client's own side.
    pub fn trusted(&self) -> &Path {
        &self.0
    }

    /// The file of the secret.
    pub fn key(&self) -> PathBuf {
        self.0.join(KEY)
    }

    /// The folder that holds it.
    pub fn data(&self) -> &Path {
        self.0.parent().unwrap_or(&self.0)
    }

    /// The key of the site.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if its file cannot be used.
    pub fn master(&self) -> Result<MasterKey> {
        let mut unused = randomness()?.stream(Purpose::MasterKey);
        fogbank_seal::load_or_create(&self.key(), &mut unused, false)
            .map_err(|e| Error::CannotUse(e.to_string()))
    }

    /// Refuses a folder that has something already.
    ///
    /// # Errors
    /// [`Error::Usage`] if it has.
    pub fn check_new(&self) -> Result<()> {
        if self.is_there() || self.key().exists() { Err(self.is_taken()) } else { Ok(()) }
    }

    /// The id of the site: 32 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no client here.
    pub fn id(&self) -> Result<String> {
        Ok(self.noted()?.id)
    }

    /// Where the site is, by its URL.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no client here.
    pub fn store(&self) -> Result<String> {
        Ok(self.noted()?.store)
    }

    /// Makes a site at `store`, of such a shape, and this folder its first client.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a site or something else already; by blame.
    pub async fn create(&self, store: &str, size: u64, block: u64) -> Result<()> {
        let parameters = parameters_of(size, block)?;
        let finish = async |site: Site, _: &DepartureGrid| Ok(site.finish(Vec::new()).await?);
        self.make(store, parameters, finish).await
    }

    /// Begins a site and has it finished; what a stop has left is gone on with. What is refused
    /// before there is anything at `store` leaves nothing here.
    async fn make(
        &self,
        store: &str,
        parameters: SiteParameters,
        finish: impl AsyncFnOnce(Site, &DepartureGrid) -> Result<()>,
    ) -> Result<()> {
        schedule_of(&parameters)?;
        let (folders, mut is_of_nothing) = (self.folders(store), false);
        let made = self.make_in(store, parameters, finish, &mut is_of_nothing).await;
        made.inspect_err(|_| folders.go(is_of_nothing))
    }

    /// The same; says of a key that it made whether nothing was made by it.
    async fn make_in(
        &self,
        store: &str,
        parameters: SiteParameters,
        finish: impl AsyncFnOnce(Site, &DepartureGrid) -> Result<()>,
        is_of_nothing: &mut bool,
    ) -> Result<()> {
        let (_lock, random) = self.begin(store)?;
        let begun = self.begun_at(store)?;
        let (at, clock) = open_site_store(store).await.map_err(of_new)?;
        let is_new = begun.is_none();
        if is_new {
            check_is_empty(&at, store).await?;
        }
        let noted = begun.unwrap_or_else(|| {
            let id = StoreId::draw(&mut random.stream(Purpose::Incarnation));
            Noted { format: FORMAT, id: hex(&id), store: store.to_owned() }
        });
        self.note(&noted)?;
        let mut stream = random.stream(Purpose::MasterKey);
        let master = fogbank_seal::load_or_create(&self.key(), &mut stream, true)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let mut salts = random.split(1).stream(Purpose::Incarnation);
        let site = match Site::begin(&at, (&master, noted.id()?), parameters, &mut salts).await {
            Ok(site) => site,
            Err(error) => {
                *is_of_nothing = is_new
                    && match error {
                        // Another was faster.
                        fogbank_durable::Error::Exists => true,
                        // Nobody knows what is there, and the same command goes on.
                        fogbank_durable::Error::Absent(_) => false,
                        _ => Site::is_begun(&at).await.is_ok_and(|is_begun| !is_begun),
                    };
                return Err(match error {
                    fogbank_durable::Error::Exists if !is_new => self.is_another(store),
                    fogbank_durable::Error::Exists => is_used(store),
                    error => error.into(),
                });
            }
        };
        if let Err(error) = try_bucket(store, &clock).await {
            // Nobody has joined what nobody has finished.
            *is_of_nothing = is_new && site.withdraw().await.is_ok();
            return Err(error);
        }
        let quantum = Duration::from_micros(parameters.quantum_us.into());
        finish(site, &DepartureGrid::new(clock, quantum)).await?;
        self.sees(&at, &master, &noted).await
    }

    /// Refuses a place where no site can be made. A server is asked whether it holds one; nothing
    /// is changed.
    ///
    /// # Errors
    /// As [`SitePlace::create`] has them.
    pub async fn check_free(&self, store: &str) -> Result<()> {
        check_store(store)?;
        check_access(store)?;
        check_apart("--data", Some(&self.0), store)?;
        let begun = self.begun_at(store)?;
        if (across_a_link(store) || is_in_bucket(store)) && begun.is_none() {
            let (at, _) = open_site_store(store).await.map_err(of_new)?;
            check_is_empty(&at, store).await?;
        }
        Ok(())
    }

    /// What a stop has left of a site at `store` that was never finished, if there is any.
    fn begun_at(&self, store: &str) -> Result<Option<Noted>> {
        let data = self.data().display();
        match self.noted() {
            Ok(noted) if self.0.join(SEEN).exists() => Err(Error::Usage(format!(
                "{data} is a client of the site {} already: fogbank site serve --data {} serves \
                 it; for a new site choose another --data, and a tenant or prefix that holds none",
                noted.id,
                quoted(self.data())
            ))),
            Ok(noted) if noted.store == store => Ok(Some(noted)),
            Ok(noted) => Err(Error::Usage(format!(
                "a site at {} was begun in {data} and not finished: say that --store again, which \
                 goes on, or choose another --data",
                noted.store
            ))),
            _ => self.check_new().map(|()| None),
        }
    }

    /// What a command makes here that makes a client.
    fn folders(&self, store: &str) -> NewFolders {
        let folder = match store.parse() {
            Ok(StoreUrl::File(folder)) => Some(folder),
            _ => None,
        };
        NewFolders::at(self.data(), folder)
    }

    /// Makes this folder a client of the site `id` at `store`, whose key is `master`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is something in the folder already, or the site is not that of the
    /// key and the id.
    pub async fn join(&self, store: &str, master: &MasterKey, id: &str) -> Result<SiteStatus> {
        let noted = Noted { format: FORMAT, id: id.to_owned(), store: store.to_owned() };
        let (folders, mut is_new) = (self.folders(store), false);
        let joined = self.join_in(noted, master, &mut is_new).await;
        // The key is a copy, and what was noted is what was said.
        joined.inspect_err(|_| folders.go(is_new))
    }

    async fn join_in(
        &self,
        noted: Noted,
        master: &MasterKey,
        is_new: &mut bool,
    ) -> Result<SiteStatus> {
        let of_site = noted.id()?;
        let (_lock, _) = self.begin(&noted.store)?;
        let is_begun = !self.is_there() && self.has_key(master);
        if !is_begun {
            self.check_new()?;
        }
        *is_new = true;
        let (at, _) = open_site_store(&noted.store).await.map_err(of_new)?;
        Site::look(at.clone(), (master, of_site)).await.map_err(of_another)?;
        if !is_begun {
            fogbank_seal::write_key(&self.key(), master)
                .map_err(|e| Error::CannotUse(e.to_string()))?;
        }
        self.note(&noted)?;
        self.sees(&at, master, &noted).await?;
        self.status().await
    }

    /// Whether a stop has left this key here, and nothing by which it would be another's.
    fn has_key(&self, master: &MasterKey) -> bool {
        !self.0.join(SEEN).exists() && self.master().is_ok_and(|here| here.is(master))
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
            has_moved: newest.first().is_some_and(|(superblock, _)| superblock.has_moved),
            seen: seen.map_or(0, |seen| seen.superblock),
            witness: self.witness()?.map(|servers| servers.count()),
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
        self.open_recorded(None).await
    }

    /// The same, and a trace of everything that the server sees of this client goes to a new file,
    /// if one is given.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is such a file already; by blame.
    pub async fn open_recorded(&self, record: Option<&Path>) -> Result<Disk> {
        Ok(self.join_engine(record, Coming::Work).await?.into_disk())
    }

    /// The same for a machine that is there to build for others (`fogbank_oram::hierarchy`,
    /// `whose`).
    ///
    /// # Errors
    /// [`Error::Usage`] if there can be no others; as [`SitePlace::open_recorded`].
    pub async fn open_to_build(&self, record: Option<&Path>) -> Result<Disk> {
        if self.store()?.starts_with("file:") {
            return Err(Error::Usage(
                "this site lies in a folder, where one client can be at a time, so there is nobody \
                 to build for; several meet at a fogbank-cloud or in a bucket"
                    .into(),
            ));
        }
        Ok(self.join_engine(record, Coming::Build).await?.into_disk())
    }

    async fn join_engine(&self, record: Option<&Path>, coming: Coming) -> Result<Joined> {
        let (noted, random) = (self.noted()?, randomness()?);
        check_apart("--record", record, &noted.store)?;
        let lock = lock_trusted_side(&self.0)?;
        let master = self.master()?;
        let alone = lock_folder(&noted.store)?;
        let at = open_bare(&noted.store).await.map_err(|error| self.if_gone(error))?;
        let (bare, clock) = (at.store.clone(), at.clock.clone());
        let mut salts = random.stream(Purpose::Incarnation);
        let register = Arc::new(FileSeen::new(&self.0.join(SEEN)));
        let seen_length = register.read().await?.map(|seen| seen.length);
        let has_seen = seen_length.is_some();
        let keys = (&master, noted.id()?);
        let recording = match record {
            // What a trace begins with is in the header, which is read twice then.
            Some(path) => {
                let looked = Site::look(at.patient(bare.clone()), keys).await;
                let looked = looked.map_err(|error| gone(error, has_seen))?;
                Some(Recording::of_site(path, &looked.parameters(), &clock)?)
            }
            None => None,
        };
        let seen = recording.as_ref().map_or(bare.clone(), |of| of.store(bare.clone()));
        let site = Site::join_as(at.patient(seen), keys, coming, &mut salts).await;
        let site = site.map_err(|error| gone(error, has_seen))?;
        let parameters = site.parameters();
        // A log in a folder has blobs of its own, which nobody else sees.
        let log = open_log(&noted.store, &at, &parameters, seen_length).await?;
        let log = recording.as_ref().map_or(log.clone(), |recording| recording.log(log));
        let quantum = Duration::from_micros(parameters.quantum_us.into());
        let grid = DepartureGrid::new(clock.clone(), quantum);
        let seen = self.witnessed(register, keys, (&at, &grid), &random).await?;
        let engine = HierarchyEngine::open(site, log, seen, grid).await;
        let engine = engine.map_err(|error| self.told_if_moved(error))?;
        Ok(Joined { engine, parameters, master, clock, recording, held: (lock, alone) })
    }

    /// What it means for a client that comes to work that its site has moved.
    fn told_if_moved(&self, error: fogbank_oram::Error) -> Error {
        match error {
            fogbank_oram::Error::Moved => Error::Moved(format!(
                "this site was moved to a new one that has another key (fogbank site rotate-key): \
                 what is written here would be in no other place. Join the new one with another \
                 --data (fogbank site join); nothing but a failed move is a reason to go on here, \
                 which fogbank site stay --data {} says to all clients",
                quoted(self.data())
            )),
            error => error.into(),
        }
    }

    /// The site, for whoever only looks, and what this client has seen of it.
    async fn look(&self) -> Result<(Noted, Arc<Site>, Option<Seen>)> {
        let noted = self.noted()?;
        let master = self.master()?;
        let seen = FileSeen::new(&self.0.join(SEEN)).read().await?;
        let opened = open_site_store(&noted.store).await;
        let (store, _) = opened.map_err(|error| self.if_gone(error))?;
        let site = Site::look(store, (&master, noted.id()?)).await;
        let site = site.map_err(|error| gone(error, seen.is_some()))?;
        Ok((noted, Arc::new(site), seen))
    }

    /// What it means that what held the site is gone: a loss, and no mistyped URL.
    fn if_gone(&self, error: Error) -> Error {
        match error {
            Error::Usage(why) if self.0.join(SEEN).exists() && fogbank_objects::is_gone(&why) => {
                let why = why.split(';').next().unwrap_or_default();
                Error::CloudLied(format!(
                    "{} has seen a site, and {why}: it was removed, or another provider answers; \
                     put it back as it was, or restore a backup (fogbank site restore)",
                    self.data().display()
                ))
            }
            error => error,
        }
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
        check_store(store)?;
        check_apart("--data", Some(&self.0), store)?;
        Ok((lock_trusted_side(&self.0)?, randomness()?))
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
            std::io::ErrorKind::NotFound if self.0.join("register").exists() => {
                Error::Usage(format!(
                    "{} holds a store or a volume, and is no client of a site: its commands have \
                     no \"site\" before them",
                    self.data().display()
                ))
            }
            std::io::ErrorKind::NotFound => Error::Usage(format!(
                "{} is no client of a site: make one with fogbank site create, or fogbank site \
                 join",
                self.data().display()
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

    /// Of the key that is here, and not what was to be gone on with.
    fn is_another(&self, store: &str) -> Error {
        Error::Usage(format!(
            "what was begun in {0} at {store} is finished, or was begun with another size: fogbank \
             site status --data {1} tells; for a new site choose another --data, and a tenant or \
             prefix that holds none",
            self.data().display(),
            quoted(self.data())
        ))
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
            "the site there does not open by this --key and this --id: is the key another site's, \
             or the id mistyped? fogbank site status of another client tells it. If both are \
             right, the server shows another site"
                .into(),
        ),
        error => error.into(),
    }
}

/// Where a site was to be made, there is one, or the beginning of one.
fn is_used(store: &str) -> Error {
    Error::Usage(format!(
        "there is a site already at {store}, of another key than any here: to become a client of \
         it, have one of its clients invite you (fogbank site invite) and say fogbank site join; \
         for a new site take a tenant (fogbank-cloud tenant add NAME) or a prefix that holds none"
    ))
}

/// Refuses a place for a new site where anything of that kind is.
async fn check_is_empty(at: &Arc<dyn Store>, store: &str) -> Result<()> {
    if at.blob_list("").await.map_err(of_store)?.is_empty() {
        return Ok(());
    }
    match Site::is_begun(at).await {
        Ok(true) => Err(is_used(store)),
        // Somebody else's `site` is none of a store's blobs.
        Ok(false) | Err(fogbank_durable::Error::CloudLied(_)) => Err(Error::Usage(format!(
            "there is something at {store} already, and it is no site: a store, a volume, or \
             somebody's files. Choose a prefix or a tenant that holds nothing"
        ))),
        Err(error) => Err(error.into()),
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
    let at = open_bare(url).await?;
    Ok((at.patient(at.store.clone()), at.clock))
}

/// Where clients meet. Store and log are at one server, which is away for both.
struct At {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    absences: Arc<Absences>,
    is_bucket: bool,
}

async fn open_bare(url: &str) -> Result<At> {
    check_store(url)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let absences = Arc::new(Absences::new("the cloud"));
    let store = open_telling(url, &clock, &absences).await?;
    Ok(At { store, clock, absences, is_bucket: is_in_bucket(url) })
}

impl At {
    /// A server that is started again may take a minute, as its log may. Each try at a bucket is
    /// some tries of its own, six seconds long.
    fn patient(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let waits = if self.is_bucket { 3 } else { 5 };
        let schedule = RetrySchedule { waits: vec![Duration::from_secs(10); waits] };
        let patient = Retry::new(store, self.clock.clone(), schedule);
        Arc::new(patient.telling(self.absences.clone()))
    }
}

/// Refuses a store where clients cannot meet.
pub fn check_store(url: &str) -> Result<()> {
    if ["s3://", "az://", "gs://"].iter().any(|scheme| url.starts_with(scheme)) {
        return check_url(url);
    }
    if across_a_link(url) || url.starts_with("file:") {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "clients of a site cannot meet at {url:?}: give a fogbank-cloud server, as \
         grpc://HOST:PORT/TENANT, a bucket, as s3://BUCKET/PREFIX, or for one client alone a \
         folder, as file:///DIR"
    )))
}

/// Whether no server of ours is between there.
pub fn is_in_bucket(url: &str) -> bool {
    url.parse::<ObjectsUrl>().is_ok()
}

/// In a folder one process alone may append: its lock. A server sees to that itself.
fn lock_folder(url: &str) -> Result<Option<FolderLock>> {
    let Ok(StoreUrl::File(folder)) = url.parse() else { return Ok(None) };
    let cannot = |e| Error::CannotUse(format!("{}: {e}", folder.display()));
    match FolderLock::take(&folder.join("one-client")).map_err(cannot)? {
        Some(lock) => Ok(Some(lock)),
        None => Err(Error::CannotUse(format!(
            "another client has this site open, and in a folder there can be one at a time: {}; \
             several meet at a fogbank-cloud or in a bucket",
            folder.display()
        ))),
    }
}

/// The log of the site, of which this client has seen so many places. In a folder this process
/// alone appends; in a bucket nobody is between.
async fn open_log(
    url: &str,
    at: &At,
    parameters: &SiteParameters,
    seen: Option<u64>,
) -> Result<Arc<dyn Log>> {
    let (clock, absences) = (&at.clock, || at.absences.clone());
    if across_a_link(url) {
        let log = fogbank_cloud::LogClient::open(url, clock).await.map_err(of_store)?;
        return Ok(Arc::new(ToldLog::new(log, clock.clone(), absences())));
    }
    let SiteParameters { epoch, kept_epochs, block_bytes, .. } = *parameters;
    let places = u64::from(epoch) * (u64::from(kept_epochs) + 8);
    let kept_bytes = 4 * places * (u64::from(block_bytes) + 512);
    if !is_in_bucket(url) {
        let log = BlobLog::open(at.patient(at.store.clone()), clock.clone(), kept_bytes).await;
        return Ok(Arc::new(log.map_err(of_store)?));
    }
    // Whoever calls it is patient.
    let log = BlobLog::open_beside_others(at.store.clone(), clock.clone(), kept_bytes, LOOK).await;
    let log = log.map_err(of_log)?;
    if seen.is_some_and(|seen| log.end() < seen) {
        let why = "the newest entries of the log that this client has seen are gone".into();
        return Err(of_log(StoreError::Misbehaved(why)));
    }
    Ok(Arc::new(ToldLog::new(log, clock.clone(), absences())))
}

/// Before anything is put: what is there is as the cloud left it.
fn of_log(error: StoreError) -> Error {
    match of_store(error) {
        Error::CloudLied(why) => Error::CloudLied(format!(
            "{why}: it was deleted, or the bucket is an older one; put back what the cloud held \
             before, or restore a backup (fogbank site restore)"
        )),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use fogbank_oram::{Access, Address};
    use fogbank_store::trace::{Event, LogCall, Request, TraceReader};

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
        let error = two.join(&url, &one.master().unwrap(), &wrong).await.unwrap_err();
        assert!(matches!(error, Error::Usage(_)) && error.to_string().contains("--id"), "{error}");
        for id in ["", "12", "zz"] {
            let error = two.join(&url, &one.master().unwrap(), id).await.unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
        }
        two.join(&url, &one.master().unwrap(), &status.id).await.unwrap();
        let taken = two.join(&url, &one.master().unwrap(), &status.id).await.unwrap_err();
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
        assert_eq!(two.compare(Some(code.epoch)).await.unwrap(), code);
        let beyond = two.compare(Some(9)).await.unwrap_err();
        let is_usage = matches!(beyond, Error::Usage(_));
        assert!(is_usage && beyond.to_string().contains("epoch 0"), "{beyond}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_place_that_holds_something_else_takes_no_site() {
        let folder = tempfile::tempdir().unwrap();
        let (url, one) = (
            format!("file://{}", folder.path().join("cloud").display()),
            SitePlace::new(&folder.path().join("one")),
        );
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = fogbank_store::url::open(&url, &clock).await.unwrap();
        for name in ["commit", "site"] {
            let bytes = bytes::Bytes::from_static(b"somebody's");
            store.blob_put(name, bytes, fogbank_store::PutCondition::Always).await.unwrap();
            let refused = one.create(&url, MIB, 4096).await.unwrap_err();
            assert!(matches!(refused, Error::Usage(_)), "{name}: {refused}");
            assert!(!one.is_there() && !one.key().exists(), "{name}");
            store.blob_delete(&[name]).await.unwrap();
        }
        drop(store);
        one.create(&url, MIB, 4096).await.unwrap();
        // Nor is a site's place another store's.
        let data = folder.path().join("volume");
        let place = Place { store: Some(url), ..Place::local(data) };
        let (store, clock) = open_site_store(&one.store().unwrap()).await.unwrap();
        let shown = crate::OpenOptions::new(place).config_shown(&*store, &clock).await;
        assert!(matches!(shown, Err(Error::Usage(_))), "{shown:?}");
    }

    /// A stop has left the key, and not what says of which site it is.
    #[tokio::test(flavor = "multi_thread")]
    async fn who_was_stopped_while_it_joined_joins_by_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| SitePlace::new(&folder.path().join(name));
        let url = format!("file://{}", folder.path().join("cloud").display());
        let (one, two) = (place("one"), place("two"));
        one.create(&url, MIB, 4096).await.unwrap();
        let (master, id) = (one.master().unwrap(), one.id().unwrap());
        std::fs::create_dir_all(two.trusted()).unwrap();
        for (name, goes_on) in [("another", false), ("two", true)] {
            let key = match goes_on {
                true => fogbank_seal::write_key(&two.key(), &master),
                false => fogbank_seal::write_key(&two.key(), &MasterKey::from_bytes(&mut [1; 32])),
            };
            key.unwrap();
            let joined = two.join(&url, &master, &id).await;
            assert_eq!(joined.is_ok(), goes_on, "{name}");
            if !goes_on {
                std::fs::remove_file(two.key()).unwrap();
            }
        }
        assert_eq!(two.status().await.unwrap().id, id);
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
    async fn what_the_server_sees_of_a_client_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let url = format!("file://{}", at("cloud").display());
        let one = SitePlace::new(&at("one"));
        one.create(&url, MIB, 4096).await.unwrap();
        let disk = one.open_recorded(Some(&at("trace"))).await.unwrap();
        for block in 0..20 {
            disk.engine().submit(Address(block), Access::Read).await.unwrap();
        }
        disk.close().await.unwrap();
        let mut reader = TraceReader::open(at("trace")).unwrap();
        let [mut appends, mut touches, mut heard, mut sessions] = [0; 4];
        for event in reader.by_ref().map(|event| event.unwrap()) {
            match event {
                Event::Heard(_) => heard += 1,
                Event::Sent(sent) => match sent.request {
                    Request::Log(LogCall::Append { .. }) => appends += 1,
                    Request::ReadCells { .. } => touches += 1,
                    Request::BlobPut { name, .. } => {
                        sessions += u32::from(name.starts_with("session/"));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        assert!(reader.truncated().is_none());
        // It greets and leaves, too; of each place it hears the entry and the result.
        assert_eq!((appends, sessions), (22, 1));
        assert!(touches >= 20 && heard >= 40, "{touches} {heard}");
        for taken in [at("trace"), at("cloud").join("trace")] {
            let refused = one.open_recorded(Some(&taken)).await.err().unwrap();
            assert!(matches!(refused, Error::Usage(_)), "{refused}");
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
        two.join(&url, &one.master().unwrap(), &status.id).await.unwrap();
        assert_eq!(two.status().await.unwrap().seen, status.superblock);
        assert_eq!(two.compare(None).await.unwrap(), one.compare(None).await.unwrap());
        // A copy of a client's folder is one more client, from where the original was.
        copy(&at("one"), &at("three"));
        let three = SitePlace::new(&at("three"));
        for place in [&three, &one, &three] {
            reads(place, 3).await;
        }
        // It shows the header, and hides every superblock.
        copy(&at("cloud"), &at("bare"));
        let blobs = std::fs::read_dir(at("bare").join("blobs")).unwrap().map(|blob| blob.unwrap());
        let of_superblocks = |name: &str| name.contains("superblock");
        let hidden = blobs.filter(|blob| of_superblocks(&blob.file_name().to_string_lossy()));
        let hidden = hidden.map(|blob| std::fs::remove_file(blob.path()).unwrap()).count();
        assert!(hidden > 1);
        for shown in [Some("old"), Some("bare"), None] {
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
}
