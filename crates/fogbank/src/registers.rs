//! Where the freshness register of a store is kept, and moving it from one place to another.
//!
//! It is the file `proxy/register`, or at the servers that the list given with `--registers` names.
//! Then `proxy/registers` says so, with the SHA-256 of their certificates, and only those are
//! asked: neither a file that was left behind nor servers that know nothing may be taken for the
//! register.
//!
//! Moving, whatever is in between: the new place gets the value, then `proxy/registers` appears or
//! goes, which decides. What the old place holds is older from then on, and only ever replaced.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fogbank_durable::{
    FileRegister, MemoryRegister, QuorumRegister, Register, RegisterPeer, RegisterValue,
};
use fogbank_env::{Clock, FolderLock, Purpose, Randomness, quoted};
use fogbank_peer::{PeerAddress, TlsPeer, parse_list};
use fogbank_seal::{MasterKey, RegisterKey};
use fogbank_store::RetrySchedule;
use fogbank_tls::Pin;

use crate::error::{Error, Result};
use crate::place::{Place, lock_trusted_side};

/// Which part of a run's randomness ballots are drawn from.
const BALLOTS: u64 = u64::from_le_bytes(*b"register");
/// Bytes of a list of servers, at most.
const LIST_BYTES_MAX: u64 = 1 << 16;

/// Where a store's register is kept.
pub enum RegisterPlace {
    /// In memory, as the store is.
    Memory,
    /// In this file of the trusted side.
    File(PathBuf),
    /// At servers.
    Servers(Servers),
}

/// Servers, and the file that says that the register is with them.
pub struct Servers {
    list: ServerList,
    marker: PathBuf,
}

/// A register, and the lock of the trusted side for as long as anybody may write: a vault outlives
/// the handle that opened it.
pub(crate) struct Holding {
    pub register: Arc<dyn Register>,
    pub _lock: Arc<FolderLock>,
}

#[async_trait]
impl Register for Holding {
    async fn read(&self) -> fogbank_durable::Result<Option<RegisterValue>> {
        self.register.read().await
    }

    async fn take(&self) -> fogbank_durable::Result<Option<RegisterValue>> {
        self.register.take().await
    }

    async fn write(
        &self,
        from: Option<RegisterValue>,
        to: RegisterValue,
    ) -> fogbank_durable::Result<()> {
        self.register.write(from, to).await
    }

    fn place(&self) -> String {
        self.register.place()
    }
}

impl RegisterPlace {
    /// Where the register of the store at `place` is, held against what was said of it.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is elsewhere than the list of servers, or its absence, says.
    pub fn of(place: &Place) -> Result<Self> {
        let (file, marker) = (file_of(place), marker_of(place));
        let Some(list) = &place.registers else {
            return match noted(&marker)? {
                _ if place.in_memory() => Ok(Self::Memory),
                None => Ok(Self::File(file)),
                Some(pins) => Err(Error::Usage(format!(
                    "the freshness register of this store is kept by {} servers; say which with \
                     --registers FILE, one address a line",
                    pins.len()
                ))),
            };
        };
        if place.in_memory() {
            return Err(Error::Usage(
                "a store in memory ends with its process: it has no use for --registers".into(),
            ));
        }
        let servers = Servers { list: ServerList::of(list)?, marker };
        match noted(&servers.marker)? {
            Some(pins) if pins != servers.list.pins() => Err(Error::Usage(format!(
                "{} names other servers than those that keep the freshness register of this store; \
                 to go over to others, take the register back from the old ones first: fogbank \
                 recover --registers OLD --move-register file",
                list.display()
            ))),
            None if file.exists() => Err(Error::Usage(format!(
                "the freshness register of this store is the file {}; to have servers keep it from \
                 now on: fogbank recover --registers {} --move-register servers",
                file.display(),
                quoted(list)
            ))),
            _ => Ok(Self::Servers(servers)),
        }
    }

    /// Whether there was a store here, as far as can be said without its key.
    ///
    /// # Errors
    /// As [`Register::read`].
    pub async fn knows_a_store(&self) -> Result<bool> {
        Ok(match self {
            Self::Memory => false,
            Self::File(file) => FileRegister::new(file).read().await?.is_some(),
            Self::Servers(servers) => servers.marker.exists(),
        })
    }

    /// The register itself. Nothing is read or sent yet.
    ///
    /// # Errors
    /// [`Error::Bug`] if TLS cannot be spoken at all.
    pub fn register(
        &self,
        master: &MasterKey,
        random: &Randomness,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<dyn Register>> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryRegister::default()),
            Self::File(file) => Arc::new(FileRegister::new(file)),
            Self::Servers(servers) => Arc::new(servers.list.register(master, random, clock)?),
        })
    }

    /// Notes, before it is written the first time, that the register is at servers. Not for a store
    /// that they know nothing of: nothing has been decided about that one yet.
    ///
    /// # Errors
    /// As [`Register::read`]; [`Error::CannotUse`] if it cannot be noted.
    pub async fn note(&self, register: &dyn Register, is_new: bool) -> Result<()> {
        let Self::Servers(servers) = self else { return Ok(()) };
        if servers.marker.exists() || !(is_new || register.read().await?.is_some()) {
            return Ok(());
        }
        servers.note()
    }

    /// Where it is, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Memory => "register in memory".into(),
            Self::File(_) => "register".into(),
            Self::Servers(servers) => format!("register at {} servers", servers.list.count()),
        }
    }
}

impl Servers {
    fn note(&self) -> Result<()> {
        let mut text =
            "# the freshness register of this store is kept by these servers\n".to_owned();
        self.list.pins().iter().for_each(|pin| text += &format!("{pin}\n"));
        fogbank_env::write_secret(&self.marker, text.as_bytes())
            .map_err(|e| unusable(&self.marker, e))
    }
}

/// The servers that a list names: those of a store's register, or of the witness of a site.
pub(crate) struct ServerList {
    text: String,
    addresses: Vec<PeerAddress>,
}

impl ServerList {
    /// Those that a file names.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no list, or others can read it.
    pub fn of(path: &Path) -> Result<Self> {
        let unread = |why: String| Error::Usage(format!("--registers {}: {why}", path.display()));
        let file = File::open(path).map_err(|e| unread(e.to_string()))?;
        if let Some(mode) = fogbank_env::open_to_others(&file).map_err(|e| unread(e.to_string()))? {
            return Err(unread(format!(
                "others can read the secrets in it (mode {mode:04o}); run: chmod 600 {}",
                quoted(path)
            )));
        }
        let mut text = String::new();
        file.take(LIST_BYTES_MAX).read_to_string(&mut text).map_err(|e| unread(e.to_string()))?;
        let addresses = parse_list(&text).map_err(|e| unread(e.to_string()))?;
        Ok(Self { text, addresses })
    }

    /// The list as it was written. It has secrets.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.addresses.len()
    }

    fn pins(&self) -> Vec<Pin> {
        let mut pins: Vec<Pin> = self.addresses.iter().map(|address| address.pin).collect();
        pins.sort();
        pins
    }

    /// The register that they keep under a name that follows from the key. Nothing is read or sent
    /// yet.
    ///
    /// # Errors
    /// [`Error::Bug`] if TLS cannot be spoken at all.
    pub fn register(
        &self,
        master: &MasterKey,
        random: &Randomness,
        clock: &Arc<dyn Clock>,
    ) -> Result<QuorumRegister> {
        let name = RegisterKey::name(master);
        let peer = |address: &PeerAddress| {
            let peer = TlsPeer::new(address.clone(), name, clock.clone());
            let peer = peer.map_err(|e| Error::Bug(e.to_string()))?;
            Ok(Arc::new(peer) as Arc<dyn RegisterPeer>)
        };
        let peers = self.addresses.iter().map(peer).collect::<Result<_>>()?;
        let ballots = random.split(BALLOTS).stream(Purpose::Incarnation);
        // As long as a cloud that does not answer is waited for.
        let register = QuorumRegister::new(peers, master, ballots);
        Ok(register.patient(clock.clone(), RetrySchedule::default()))
    }
}

/// Has servers keep the register that was a file, or the other way round, as `place.registers` and
/// `to_servers` say. Says what was done.
///
/// # Errors
/// [`Error::Usage`] if it is not where it is to be taken from, [`Error::CannotUse`] if what is
/// there is an old copy.
pub async fn move_register(
    place: &Place,
    to_servers: bool,
    random: &Randomness,
    clock: &Arc<dyn Clock>,
) -> Result<String> {
    let Some(list) = &place.registers else {
        return Err(Error::Usage("--move-register needs the servers: --registers FILE".into()));
    };
    let _lock = lock_trusted_side(&place.trusted())?;
    let mut unused = random.stream(Purpose::MasterKey);
    let master = fogbank_seal::load_or_create(&place.trusted().join("key"), &mut unused, false)
        .map_err(|e| Error::CannotUse(e.to_string()))?;
    let (file, marker) = (file_of(place), marker_of(place));
    let servers = Servers { list: ServerList::of(list)?, marker };
    let count = servers.list.count();
    let quorum = servers.list.register(&master, random, clock)?;
    let noted = noted(&servers.marker)?;
    match (to_servers, noted) {
        (true, Some(pins)) if pins == servers.list.pins() => {
            Ok(format!("the register is at these {count} servers already"))
        }
        (true, Some(_)) | (false, None) => Err(Error::Usage(format!(
            "the freshness register of this store is not {}",
            if to_servers {
                "a file: take it back from the other servers first"
            } else {
                "at servers"
            }
        ))),
        (true, None) => {
            carry(&FileRegister::new(&file), &quorum).await?;
            servers.note()?;
            remove(&file)?;
            Ok(format!("the register is at {count} servers now; give --registers from now on"))
        }
        (false, Some(pins)) if pins != servers.list.pins() => Err(Error::Usage(format!(
            "{} names other servers than those that keep the register",
            list.display()
        ))),
        (false, Some(_)) => {
            carry(&quorum, &FileRegister::new(&file)).await?;
            remove(&servers.marker)?;
            Ok(format!("the register is the file {} now", file.display()))
        }
    }
}

/// Takes the value from one register to another, unless the other knows more.
async fn carry(from: &dyn Register, to: &dyn Register) -> Result<()> {
    let Some(value) = from.take().await? else {
        return Err(Error::CannotUse(format!("there is no freshness register {}", from.place())));
    };
    let there = to.take().await?;
    if there.is_some_and(|there| there.store != value.store || rank(there) > rank(value)) {
        return Err(Error::CannotUse(format!(
            "the freshness register {} is an old copy or another store's: {} knows more; nothing \
             was moved",
            from.place(),
            to.place()
        )));
    }
    Ok(to.write(there, value).await?)
}

/// What rises whenever a store's register is bumped.
fn rank(value: RegisterValue) -> (u64, u64) {
    (value.sequence, value.place)
}

fn file_of(place: &Place) -> PathBuf {
    place.trusted().join("register")
}

fn marker_of(place: &Place) -> PathBuf {
    place.trusted().join("registers")
}

/// The certificates of the servers that keep the register; `None` if a file does.
fn noted(marker: &Path) -> Result<Option<Vec<Pin>>> {
    let text = match std::fs::read_to_string(marker) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|e| unusable(marker, e))?,
    };
    let pins: Option<Vec<Pin>> =
        text.lines().filter(|line| !line.starts_with('#')).map(Pin::parse).collect();
    match pins {
        Some(pins) if !pins.is_empty() => Ok(Some(pins)),
        _ => Err(unusable(marker, "it is damaged; restore it from your backup")),
    }
}

/// Removes a file; that it is gone is durable when this returns.
fn remove(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::remove_file(path)
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|e| unusable(path, e))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::CannotUse(format!("{}: {why}", path.display()))
}
