//! Where the two sides of a store are: the folder that is trusted, and the cloud's URL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_cloud::{Address, CloudStore, NOT_PINNED};
use fogbank_env::{Clock, FolderLock};
use fogbank_objects::{Environment, ObjectsStore, ObjectsUrl, TableUrl};
use fogbank_store::url::StoreUrl;
use fogbank_store::{Absences, Retry, RetrySchedule, Store, StoreError};

use crate::args::{OpenArgs, PlaceArgs, StoreArgs};
use crate::error::{Error, Result, no_acceptance};
use crate::fill::MARKER;
use crate::second_journal::{self, SECOND_JOURNAL_FLAG};
use crate::site::SitePlace;

/// In the folder of the trusted side of a volume in two clouds: where the second one is.
pub(crate) const SECOND_STORE: &str = "second-store";
/// Beside it: by which both sign.
pub(crate) const CLOUD_KEYS: &str = "cloud-keys";

/// Where the two sides of a store are.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder of the trusted side is `proxy` in here.
    pub data: PathBuf,
    /// The URL of the cloud side; `file://DATA/cloud` if not given.
    pub store: Option<String>,
    /// The URL of the second cloud of a volume that lies in two, if it is another than noted.
    pub second_store: Option<String>,
    /// The folder on another disk where the journal of such a volume lies a second time, if it is
    /// another than noted.
    pub second_journal: Option<PathBuf>,
    /// The list of the servers that keep the freshness register; it is in the trusted folder if not
    /// given.
    pub registers: Option<PathBuf>,
}

impl From<&StoreArgs> for Place {
    fn from(args: &StoreArgs) -> Self {
        let registers = args.registers.registers.clone();
        let (data, store) = (args.data.clone(), args.store.clone());
        Self { data, store, second_store: None, second_journal: None, registers }
    }
}

impl From<&OpenArgs> for Place {
    fn from(args: &OpenArgs) -> Self {
        let (second_store, second_journal) =
            (args.second_store.clone(), args.second_journal.clone());
        Self { second_store, second_journal, ..Self::from(&args.place) }
    }
}

impl From<&PlaceArgs> for Place {
    fn from(args: &PlaceArgs) -> Self {
        let registers = args.registers.registers.clone();
        let (data, store) = (args.data.clone(), args.store.clone());
        Self { data, store, second_store: None, second_journal: None, registers }
    }
}

impl Place {
    /// Both sides under one directory of this machine.
    pub fn local(data: impl Into<PathBuf>) -> Self {
        let data = data.into();
        Self { data, store: None, second_store: None, second_journal: None, registers: None }
    }

    /// The folder of the trusted side.
    pub fn trusted(&self) -> PathBuf {
        self.data.join("proxy")
    }

    /// The URL of the cloud side.
    pub fn store_url(&self) -> String {
        match &self.store {
            Some(url) => url.clone(),
            None => format!("file://{}", absolute(&self.data.join("cloud")).display()),
        }
    }

    /// A trusted side whose cloud folder is gone must not get an empty one in its place.
    pub(crate) fn check_sides(&self) -> Result<()> {
        self.check_whole()?;
        self.check_first_cloud()?;
        self.check_cloud_side()
    }

    /// What was not filled to its end is opened by whoever fills it alone.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.check_no_site()?;
        let trusted = self.trusted();
        match trusted.join(MARKER).exists() {
            true => Err(Error::CannotUse(self.told_if_stopped())),
            false => Ok(()),
        }
    }

    /// What is here once the making of a store is stopped.
    pub fn told_if_stopped(&self) -> String {
        let data = self.data.display();
        match self.trusted().join(MARKER).exists() {
            true => {
                format!("the store in {data} was not filled to its end; {}", self.way_to_whole())
            }
            false => format!("no store was begun in {data}"),
        }
    }

    /// What to do about a store that was not filled to its end: a load keeps a note in its marker
    /// and goes on by it, a restore does not.
    pub(crate) fn way_to_whole(&self) -> String {
        let trusted = self.trusted();
        let is_load = std::fs::metadata(trusted.join(MARKER)).is_ok_and(|found| found.len() > 0);
        let again = match is_load {
            true => "say the same fogbank load again, which goes on, or ",
            false => "a restore or a rotation does not go on: ",
        };
        format!(
            "{again}remove both sides of it, {} and {}, and {} again",
            trusted.display(),
            self.store_url(),
            if is_load { "load" } else { "say the same command" }
        )
    }

    /// What a client of a site has in its folder, its key too, opens no store.
    fn check_no_site(&self) -> Result<()> {
        if SitePlace::new(&self.data).is_there() {
            return Err(Error::Usage(format!(
                "the folder {} is that of a client of a site, which has commands of its own: \
                 fogbank site serve, status, verify, backup, restore, rotate-key; choose another \
                 --data for a store",
                self.data.display()
            )));
        }
        Ok(())
    }

    /// The same of a command that looks at both sides only.
    ///
    /// # Errors
    /// [`Error::CloudLied`]: whoever keeps a folder can lose it, by mistake or not.
    pub fn check_cloud_side(&self) -> Result<()> {
        self.check_no_site()?;
        let Some(cloud) = self.store_folder() else { return Ok(()) };
        if !self.knows_a_store() || cloud.exists() {
            return Ok(());
        }
        Err(Error::CloudLied(format!(
            "{} holds the trusted side of a store, and its cloud side {} is missing: it was \
             removed, its disk is \
             not mounted, or the store is elsewhere; put it back, say where it is with --store, \
             or choose \
             another --data for a new store",
            self.trusted().display(),
            cloud.display()
        )))
    }

    /// The folder of the cloud side, if it is one of this machine.
    pub(crate) fn store_folder(&self) -> Option<PathBuf> {
        match self.store_url().parse() {
            Ok(StoreUrl::File(folder)) => Some(folder),
            _ => None,
        }
    }

    /// Whether there was a store here, as far as the files of the trusted side tell.
    pub fn knows_a_store(&self) -> bool {
        ["key", "register"].iter().any(|file| self.trusted().join(file).exists())
    }

    /// Whether what is here is a volume in two clouds.
    pub fn is_in_two_clouds(&self) -> bool {
        [SECOND_STORE, CLOUD_KEYS].iter().any(|file| self.trusted().join(file).exists())
    }

    /// Where the journal of such a volume lies a second time, as given or noted.
    pub fn told_second_journal(&self) -> Option<PathBuf> {
        let noted = || second_journal::noted(&self.trusted()).ok().flatten();
        self.second_journal.clone().or_else(noted)
    }

    /// Refuses a second place for a journal where all of it lies in the cloud.
    pub(crate) fn check_no_second_journal(&self) -> Result<()> {
        match self.second_journal {
            None => Ok(()),
            Some(_) => Err(Error::Usage(format!(
                "{SECOND_JOURNAL_FLAG} is for volumes in two clouds, whose journal lies on your own \
                 disk; leave it out: here the cloud has it"
            ))),
        }
    }

    /// Everything that the cloud side is: one store, or two clouds.
    pub fn told_stores(&self) -> String {
        let noted = || std::fs::read_to_string(self.trusted().join(SECOND_STORE)).ok();
        match self.second_store.clone().or_else(noted) {
            Some(second) => format!("{} and {}", self.store_url(), second.trim()),
            None => self.store_url(),
        }
    }

    /// Refuses to go on from an older state where nobody can.
    ///
    /// # Errors
    /// [`Error::Usage`], with what to do instead.
    pub fn check_acceptance(&self) -> Result<()> {
        if self.is_in_two_clouds() { Err(no_acceptance()) } else { Ok(()) }
    }

    /// An error of what is here: it advises nothing that is refused here.
    pub(crate) fn advised(&self, error: Error) -> Error {
        if self.is_in_two_clouds() { error.in_two_clouds() } else { error }
    }

    /// A volume in two clouds is opened by its first one.
    fn check_first_cloud(&self) -> Result<()> {
        let file = self.trusted().join(SECOND_STORE);
        let Ok(noted) = std::fs::read_to_string(&file) else { return Ok(()) };
        let url = self.store_url();
        let tenant = |url: &str| Address::parse(url.trim()).map(|of| (of.place, of.tenant)).ok();
        let is_none = !across_a_link(&url);
        let is = |other: &str| tenant(&url).is_some_and(|of| tenant(other) == Some(of));
        let is_second = is(&noted);
        let given = self.second_store.as_deref();
        let is_both = given.is_some_and(is);
        if !self.knows_a_store() || !(is_none || is_second || is_both) {
            return Ok(());
        }
        if is_both {
            return Err(Error::Usage(format!(
                "--store and --second-store name one tenant, {url}, and the volume in {} lies in \
                 two clouds: say where each of them is",
                self.data.display()
            )));
        }
        if is_second && given.is_some() {
            return Err(Error::Usage(format!(
                "{url} is the second cloud of the volume in {}, so --store and --second-store are \
                 swapped; if the clouds have changed places, delete {}",
                self.data.display(),
                file.display()
            )));
        }
        let which = if is_second { "is the second" } else { "is none of them" };
        Err(Error::Usage(format!(
            "the volume in {} lies in two clouds, and {url} {which}: say where the first one is, \
             with --store grpc://HOST:PORT/TENANT (the second is noted in {})",
            self.data.display(),
            file.display()
        )))
    }

    /// Opens the cloud side.
    ///
    /// # Errors
    /// As [`open_store`]; [`Error::CloudLied`] if there was a store, and what held it is gone.
    pub async fn open_store(&self, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
        open_store(&self.store_url(), clock).await.map_err(|e| self.if_gone(e))
    }

    /// What a cloud says that has nothing: otherwise it could make a loss look like a mistyped URL.
    fn if_gone(&self, error: Error) -> Error {
        match error {
            Error::Usage(why) if self.knows_a_store() && fogbank_objects::is_gone(&why) => {
                let why = why.split(';').next().unwrap_or_default();
                Error::CloudLied(format!(
                    "{} holds the trusted side of a store, and at {} {why}: it was removed, or the \
                     store is elsewhere; put it back as it was, say where it is with --store, or \
                     restore a backup (fogbank restore)",
                    self.trusted().display(),
                    self.store_url()
                ))
            }
            error => error,
        }
    }

    /// What stands where a new store is to be made, of which the trusted side knows nothing:
    /// something else's, and for whoever chose the place to see to.
    pub(crate) fn in_the_way(&self, error: Error) -> Error {
        match error {
            Error::CloudLied(why) if !self.knows_a_store() && !across_a_link(&self.store_url()) => {
                Error::Usage(format!(
                    "{why}; {} holds no key of a store there, so it is something else's: choose \
                     another --store, \
                     or say where the trusted side is with --data",
                    self.trusted().display()
                ))
            }
            error if !self.knows_a_store() => of_new(error),
            error => error,
        }
    }

    /// Refuses what would be lost as soon as it is made.
    ///
    /// # Errors
    /// [`Error::Usage`] for a store that ends with the process.
    pub fn check_lasts(&self) -> Result<()> {
        match self.in_memory() {
            false => Ok(()),
            true => Err(Error::Usage(format!(
                "a store in memory ends with its process, and with it what this command is for: \
                 choose another --store than {}, or leave it out",
                self.store_url()
            ))),
        }
    }

    /// Whether the store ends with the process.
    pub fn in_memory(&self) -> bool {
        self.store.as_deref().is_some_and(|url| url.starts_with("memory:"))
    }
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Opens the cloud side at `url`. Credentials of a provider come from the environment of this
/// process.
///
/// # Errors
/// [`Error::Usage`] for a URL this build does not know or a provider's refusal, [`Error::Absent`]
/// if it does not answer.
pub async fn open_store(url: &str, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    open_telling(url, clock, &Arc::new(Absences::new("the cloud"))).await
}

/// The same; that a server is away is told with what else is asked of it.
pub(crate) async fn open_telling(
    url: &str,
    clock: &Arc<dyn Clock>,
    absences: &Arc<Absences>,
) -> Result<Arc<dyn Store>> {
    let scheme = url.split(':').next().unwrap_or_default();
    let opened = match scheme {
        "memory" | "file" => fogbank_store::url::open(url, clock).await,
        "s3" | "az" | "gs" => open_objects(url, clock).await,
        "dynamodb" => open_table(url, clock).await,
        "grpc" => open_cloud(url, clock, absences).await,
        _ => return Err(unknown(scheme)),
    };
    opened.map_err(of_store)
}

/// What a store says when it is opened, by blame.
pub(crate) fn of_store(error: StoreError) -> Error {
    match error {
        StoreError::Absent(_) => Error::Absent(error.to_string()),
        StoreError::Refused(_) => Error::Refused(error.to_string()),
        StoreError::Misbehaved(_) | StoreError::NoArray(_) => Error::CloudLied(error.to_string()),
        StoreError::Caller(reason) => Error::Usage(reason),
        StoreError::Near(reason) => Error::CannotUse(reason),
    }
}

/// The same of a store that is to be made: credentials of another server are whoever's chose them.
/// Later they were the right ones once, and somebody else may answer there.
pub(crate) fn of_new(error: Error) -> Error {
    match error {
        Error::CloudLied(why) if why.contains(NOT_PINNED) => Error::Usage(why),
        error => error,
    }
}

/// Refuses a URL that [`open_store`] would refuse for what it says. Nothing is opened.
///
/// # Errors
/// [`Error::Usage`], in the same words.
pub fn check_url(url: &str) -> Result<()> {
    let scheme = url.split(':').next().unwrap_or_default();
    let checked = match scheme {
        "memory" | "file" => url.parse().map(|_: StoreUrl| ()),
        "s3" | "az" | "gs" => url.parse().map(|_: ObjectsUrl| ()),
        "dynamodb" => url.parse().map(|_: TableUrl| ()),
        "grpc" => Address::parse(url).map(drop),
        _ => return Err(unknown(scheme)),
    };
    checked.map_err(of_store)
}

/// The same, and whatever it names on this machine: what can be told before anybody is asked.
///
/// # Errors
/// As [`open_store`].
pub fn check_access(url: &str) -> Result<()> {
    check_url(url)?;
    match across_a_link(url) {
        true => Address::parse(url).and_then(|address| address.load()).map(drop).map_err(of_store),
        false => Ok(()),
    }
}

fn unknown(scheme: &str) -> Error {
    Error::Usage(format!("{scheme:?} begins no store URL that this build knows: {STORE_URLS}"))
}

/// Whether what a store sends crosses a link that it could save bytes of: a server's does, wherever
/// it runs.
pub fn across_a_link(url: &str) -> bool {
    url.starts_with(fogbank_cloud::SCHEME)
}

async fn open_objects(url: &str, clock: &Arc<dyn Clock>) -> fogbank_store::Result<Arc<dyn Store>> {
    Ok(Arc::new(ObjectsStore::at(url, &Environment::of_process(), clock.clone()).await?))
}

/// Tries a bucket, where a store is being made in one: whether it keeps to conditions and lists
/// what it holds. Nothing but a mark is left there.
pub(crate) async fn try_bucket(url: &str, clock: &Arc<dyn Clock>) -> Result<()> {
    let Ok(at) = url.parse::<ObjectsUrl>() else { return Ok(()) };
    let environment = Environment::of_process();
    let store = ObjectsStore::open(&at, &environment, at.options(), clock.clone()).await;
    store.map_err(of_store)?.make().await.map_err(of_store)
}

#[cfg(feature = "dynamodb")]
async fn open_table(url: &str, clock: &Arc<dyn Clock>) -> fogbank_store::Result<Arc<dyn Store>> {
    let (url, environment) = (url.parse()?, Environment::of_process());
    let options = fogbank_objects::ObjectsOptions::default();
    let store =
        fogbank_objects::DynamoStore::open(&url, &environment, options, clock.clone()).await?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "dynamodb"))]
async fn open_table(url: &str, _: &Arc<dyn Clock>) -> fogbank_store::Result<Arc<dyn Store>> {
    url.parse::<TableUrl>()?;
    Err(StoreError::Caller(
        "this build does not know DynamoDB, whose library takes minutes to build; make one that \
         does: cargo build --release --locked --bin fogbank --features dynamodb"
            .into(),
    ))
}

/// What a store URL can be.
const STORE_URLS: &str = "memory:, file://DIR (with three slashes for a path such as \
    file:///srv/cloud), s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX, \
    grpc://HOST:PORT/TENANT, and dynamodb://TABLE/PREFIX in a build with the feature dynamodb";

/// A server may be started again while a proxy runs: what it did not answer is asked again, the
/// same.
async fn open_cloud(
    url: &str,
    clock: &Arc<dyn Clock>,
    absences: &Arc<Absences>,
) -> fogbank_store::Result<Arc<dyn Store>> {
    let store = CloudStore::open(url, clock).await?;
    let patient = Retry::new(store, clock.clone(), RetrySchedule::default());
    Ok(Arc::new(patient.telling(absences.clone())))
}

/// Makes the folder of the trusted side and takes its lock.
///
/// # Errors
/// [`Error::CannotUse`] if another process has it, or as the system says.
pub fn lock_trusted_side(folder: &Path) -> Result<FolderLock> {
    match FolderLock::take(folder) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Error::CannotUse(format!(
            "another fogbank process is using {}; stop it first, or choose another --data",
            folder.display()
        ))),
        Err(e) => Err(Error::CannotUse(format!("{}: {e}", folder.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store in a site's place, under its key, would stand in the way of its tables.
    #[test]
    fn the_folder_of_a_client_of_a_site_opens_no_store() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::local(folder.path());
        assert!(place.check_sides().is_ok());
        std::fs::create_dir(place.trusted()).unwrap();
        std::fs::write(place.trusted().join("site"), "{}").unwrap();
        for told in [place.check_whole(), place.check_sides(), place.check_cloud_side()] {
            assert!(matches!(told, Err(Error::Usage(why)) if why.contains("fogbank site serve")));
        }
    }
}
