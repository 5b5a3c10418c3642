//! A process at a site: its session, and everything that it seals and opens.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_seal::{
    Digest, Forged, Mark, MasterKey, Sealer, SessionKey, SiteKeys, StoreId, Ticks, digest,
};
use fogbank_store::{PutCondition, PutOutcome, Store};
use rand_core::Rng;

use super::header::SiteParameters;
use super::names::Object;
use super::{Superblock, lied};
use crate::{Error, Result, Suspicion};

/// The salt in front of what a session seals first.
const SALT_BYTES: usize = 32;
/// The number under which the header is sealed: no session has it.
const NOBODY: u32 = u32::MAX;
/// So that the number fits in front of a tick.
const SESSIONS_MAX: u32 = 1 << 24;
/// What a session's object says of one that builds; of others it says nothing, and versions of this
/// program from before there were builders do not read it. So its length shows which it is.
const BUILDS: &[u8] = &[1];

/// A site, as one process has it.
pub struct Site {
    store: Arc<dyn Store>,
    keys: Arc<SiteKeys>,
    parameters: SiteParameters,
    header: Digest,
    session: u32,
    own: Session,
    coming: Coming,
    ticks: Ticks,
    others: Mutex<HashMap<u32, Session>>,
}

/// What a session is there for. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coming {
    /// To ask and to answer, and to build as all do.
    Work,
    /// To do for all what there is to do for all; its object says so.
    Build,
    /// To read.
    Read,
    /// To move the site elsewhere: by its first entry all others that are there end, and who comes
    /// later to work does so at once.
    Move,
    /// To say, by its first entry, that nothing came of a move.
    Stay,
}

/// What a session's object says.
#[derive(Debug, Clone)]
struct Session {
    key: Arc<SessionKey>,
    builds: bool,
}

impl Site {
    /// Whether a site was ever finished there.
    ///
    /// # Errors
    /// By blame.
    pub async fn is_absent(store: &Arc<dyn Store>) -> Result<bool> {
        Ok(store.blob_get(&Object::Superblock(1).to_string()).await?.is_none())
    }

    /// Whether a site was ever begun there, by whatever key.
    ///
    /// # Errors
    /// By blame.
    pub async fn is_begun(store: &(impl Store + ?Sized)) -> Result<bool> {
        Ok(store.blob_get(&Object::Header.to_string()).await?.is_some())
    }

    /// Takes back what was begun and not finished.
    ///
    /// # Errors
    /// By blame.
    pub async fn withdraw(&self) -> Result<()> {
        let (session, header) = (Object::Session(self.session()), Object::Header);
        Ok(self.store.blob_delete(&[&session.to_string(), &header.to_string()]).await?)
    }

    /// Makes a site, all of whose blocks hold zeros.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one; by blame.
    pub async fn create(
        store: &Arc<dyn Store>,
        keys: (&MasterKey, StoreId),
        parameters: SiteParameters,
        random: &mut (impl Rng + Send),
    ) -> Result<()> {
        Self::begin(store, keys, parameters, random).await?.finish(Vec::new()).await
    }

    /// Begins to make a site: nobody can join it before it is finished.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one; by blame.
    pub async fn begin(
        store: &Arc<dyn Store>,
        (master, id): (&MasterKey, StoreId),
        parameters: SiteParameters,
        random: &mut (impl Rng + Send),
    ) -> Result<Self> {
        let keys = SiteKeys::derive(master, id);
        let sealed = seal_first(&keys, NOBODY, Object::Header, &parameters.encode(), random);
        let name = Object::Header.to_string();
        let put = store.blob_put(&name, sealed.into(), PutCondition::IfAbsent).await?;
        if put == PutOutcome::ConditionFailed && store.blob_get(&name).await?.is_some() {
            // What a stop has left of a site that was never finished is gone on with.
            let is_same = match Self::read(store, master, id).await {
                Ok((_, found, _)) => found == parameters,
                // Nobody knows what is there.
                Err(error @ (Error::Absent(_) | Error::Refused(_))) => return Err(error),
                Err(_) => false,
            };
            if !(is_same && Self::is_absent(store).await?) {
                return Err(Error::Exists);
            }
        }
        Self::join(store.clone(), (master, id), random).await
    }

    /// What was begun can be joined from now on. `manifests`: of what is there from the first query
    /// on, as stored.
    ///
    /// # Errors
    /// By blame.
    pub async fn finish(&self, manifests: Vec<Digest>) -> Result<()> {
        Superblock::first(self, manifests).put(self).await.map(|_| ())
    }

    /// Reads the header of a site, and takes the next free session.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none; [`Suspicion::SiteHeader`] if it is of another key or
    /// id; by blame.
    pub async fn join(
        store: Arc<dyn Store>,
        keys: (&MasterKey, StoreId),
        random: &mut (impl Rng + Send),
    ) -> Result<Self> {
        Self::join_as(store, keys, Coming::Work, random).await
    }

    /// The same of one that comes for `coming`.
    ///
    /// # Errors
    /// As [`Site::join`].
    pub async fn join_as(
        store: Arc<dyn Store>,
        (master, id): (&MasterKey, StoreId),
        coming: Coming,
        random: &mut (impl Rng + Send),
    ) -> Result<Self> {
        let (keys, parameters, header) = Self::read(&store, master, id).await?;
        let mut session = first_absent(&store, |number| Object::Session(number as u32)).await?;
        loop {
            if session >= u64::from(SESSIONS_MAX) {
                return Err(Error::Refused("the site has had all the sessions it can".into()));
            }
            let number = session as u32;
            let object = Object::Session(number);
            let builds = coming == Coming::Build;
            let says = if builds { BUILDS } else { &[] };
            let (salt, sealed) = sealed_first(&keys, number, object, says, random);
            let name = object.to_string();
            match store.blob_put(&name, sealed.into(), PutCondition::IfAbsent).await? {
                PutOutcome::ConditionFailed => session += 1,
                PutOutcome::Done(_) => {
                    let own = Session { key: Arc::new(keys.session(number, &salt)), builds };
                    let others = Mutex::new(HashMap::from([(number, own.clone())]));
                    let ticks = Ticks::new(number);
                    ticks.take(1); // for its salt
                    return Ok(Self {
                        store,
                        keys: Arc::new(keys),
                        parameters,
                        header,
                        session: number,
                        own,
                        coming,
                        ticks,
                        others,
                    });
                }
            }
        }
    }

    /// Reads the header of a site, for whoever only looks: what it seals nobody can open.
    ///
    /// # Errors
    /// As [`Site::join`].
    pub async fn look(store: Arc<dyn Store>, (master, id): (&MasterKey, StoreId)) -> Result<Self> {
        let (keys, parameters, header) = Self::read(&store, master, id).await?;
        let key = Arc::new(keys.session(NOBODY, &[0; SALT_BYTES]));
        let own = Session { key, builds: false };
        Ok(Self {
            store,
            keys: Arc::new(keys),
            parameters,
            header,
            session: NOBODY,
            own,
            coming: Coming::Work,
            ticks: Ticks::new(NOBODY),
            others: Mutex::default(),
        })
    }

    async fn read(
        store: &Arc<dyn Store>,
        master: &MasterKey,
        id: StoreId,
    ) -> Result<(SiteKeys, SiteParameters, Digest)> {
        let keys = SiteKeys::derive(master, id);
        let found = store.blob_get(&Object::Header.to_string()).await?;
        let (bytes, _) = found.ok_or(Error::NoStore)?;
        let wrong = |_| Error::CloudLied(Suspicion::SiteHeader);
        let (_, plain) = open_first(&keys, NOBODY, Object::Header, &bytes).map_err(wrong)?;
        Ok((keys, SiteParameters::decode(&plain)?, digest(&[&bytes])))
    }

    /// What everybody at the site has in common.
    pub fn parameters(&self) -> SiteParameters {
        self.parameters
    }

    /// The digest of the header, with which the history begins.
    pub fn header(&self) -> Digest {
        self.header
    }

    /// The number of this process's session.
    pub fn session(&self) -> u32 {
        self.session
    }

    /// What this process's session is there for.
    pub fn coming(&self) -> Coming {
        self.coming
    }

    /// Whether this process's session builds.
    pub fn builds(&self) -> bool {
        self.own.builds
    }

    /// What everybody derives from the secret.
    pub fn keys(&self) -> &Arc<SiteKeys> {
        &self.keys
    }

    /// Where everything lies.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The key of this session.
    pub fn own(&self) -> &Arc<SessionKey> {
        &self.own.key
    }

    /// Takes ticks of this session; the first of them.
    ///
    /// # Errors
    /// [`Error::Refused`] if the session has used up its own.
    pub fn take(&self, count: u64) -> Result<Sealer> {
        let used_up = || Error::Refused("this session has sealed all it can: start again".into());
        self.ticks.take(count).ok_or_else(used_up)
    }

    /// The same session, whose calls go to another way to the store.
    pub fn by_way_of(self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self }
    }

    /// Seals something of this session's, bound to `bound`.
    ///
    /// # Errors
    /// As [`Site::take`].
    pub fn seal(&self, bound: &[u8], plaintext: &[u8]) -> Result<Vec<u8>> {
        Ok(self.own.key.seal(self.take(1)?, bound, plaintext))
    }

    /// The key of a session; asked for once.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if there is no such session.
    pub async fn key_of(&self, session: u32) -> Result<Arc<SessionKey>> {
        Ok(self.said(session).await?.key)
    }

    /// Whether a session builds; asked for once.
    ///
    /// # Errors
    /// As [`Site::key_of`].
    pub async fn is_builder(&self, session: u32) -> Result<bool> {
        Ok(self.said(session).await?.builds)
    }

    async fn said(&self, session: u32) -> Result<Session> {
        if let Some(said) = self.others.lock().get(&session) {
            return Ok(said.clone());
        }
        let object = Object::Session(session);
        let found = self.store.blob_get(&object.to_string()).await?;
        let (bytes, _) = found.ok_or_else(|| lied("a session is hidden"))?;
        let opened = open_first(&self.keys, session, object, &bytes);
        let (key, says) = opened.map_err(|_| lied("a session is forged"))?;
        let said = Session { key: Arc::new(key), builds: says == BUILDS };
        self.others.lock().insert(session, said.clone());
        Ok(said)
    }

    /// Opens what some session sealed, bound to `bound`.
    ///
    /// # Errors
    /// [`Error::CloudLied`] for anything else.
    pub async fn open(&self, bound: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let forged = |_| lied("an object is forged, or stands under another's name");
        let sealer = Sealer::of(sealed).map_err(forged)?;
        self.key_of(sealer.session).await?.open(bound, sealed).map_err(forged)
    }

    /// Puts an object, of the history of this mark, if there is none. Whether it did.
    ///
    /// # Errors
    /// By blame.
    pub async fn put(&self, object: Object, mark: &Mark, plaintext: &[u8]) -> Result<bool> {
        Ok(self.stored(object, mark, plaintext).await?.is_some())
    }

    /// The same; the digest of what is stored if it did.
    ///
    /// # Errors
    /// By blame.
    pub async fn stored(
        &self,
        object: Object,
        mark: &Mark,
        plaintext: &[u8],
    ) -> Result<Option<Digest>> {
        let sealed = Bytes::from(self.seal(&object.bound(mark), plaintext)?);
        let (name, stored) = (object.to_string(), digest(&[&sealed]));
        let put = self.store.blob_put(&name, sealed, PutCondition::IfAbsent).await?;
        Ok((put != PutOutcome::ConditionFailed).then_some(stored))
    }

    /// An object, and the digest of it as it is stored; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is of another history.
    pub async fn get(&self, object: Object, mark: &Mark) -> Result<Option<(Vec<u8>, Digest)>> {
        let Some(bytes) = self.fetch(object).await? else { return Ok(None) };
        let plain = self.opened(object, mark, &bytes).await?;
        Ok(Some((plain, digest(&[&bytes]))))
    }

    /// An object as it is stored.
    ///
    /// # Errors
    /// By blame.
    pub async fn fetch(&self, object: Object) -> Result<Option<Bytes>> {
        Ok(self.store.blob_get(&object.to_string()).await?.map(|(bytes, _)| bytes))
    }

    /// What an object holds that is stored so.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is of another history.
    pub async fn opened(&self, object: Object, mark: &Mark, bytes: &[u8]) -> Result<Vec<u8>> {
        self.open(&object.bound(mark), bytes).await
    }

    /// Pieces and claims of builds of a level. The server's word: nothing is sealed in a name.
    ///
    /// # Errors
    /// By blame.
    pub async fn of_builds(&self, level: u8) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        for prefix in Object::of_builds(level) {
            let names = self.store.blob_list(&prefix).await?;
            found.extend(names.iter().filter_map(|name| Object::of_build(name)));
        }
        Ok(found)
    }

    /// Removes objects that are no longer wanted.
    ///
    /// # Errors
    /// By blame.
    pub async fn delete(&self, objects: &[Object]) -> Result<()> {
        let names: Vec<String> = objects.iter().map(Object::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(self.store.blob_delete(&names).await?)
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Site(session {})", self.session)
    }
}

/// The first number of which there is no object, where those below it are all there: doubling, then
/// halving. A liar makes it any number; what is put there is put if absent.
pub(super) async fn first_absent(
    store: &Arc<dyn Store>,
    object: impl Fn(u64) -> Object,
) -> Result<u64> {
    let (mut there, mut absent) = (0, 1);
    if store.blob_get(&object(0).to_string()).await?.is_none() {
        return Ok(0);
    }
    while store.blob_get(&object(absent).to_string()).await?.is_some() {
        (there, absent) = (absent, 2 * absent);
        if absent > 1 << 48 {
            return Err(lied("it has an object of every number"));
        }
    }
    while absent - there > 1 {
        let middle = there + (absent - there) / 2;
        match store.blob_get(&object(middle).to_string()).await? {
            Some(_) => there = middle,
            None => absent = middle,
        }
    }
    Ok(absent)
}

fn sealed_first(
    keys: &SiteKeys,
    number: u32,
    object: Object,
    plaintext: &[u8],
    random: &mut impl Rng,
) -> ([u8; SALT_BYTES], Vec<u8>) {
    let mut salt = [0; SALT_BYTES];
    random.fill_bytes(&mut salt);
    let key = keys.session(number, &salt);
    let sealer = Sealer { session: number, tick: 0 };
    let sealed = key.seal(sealer, &object.bound(&Mark::default()), plaintext);
    (salt, [&salt[..], &sealed].concat())
}

fn seal_first(
    keys: &SiteKeys,
    number: u32,
    object: Object,
    plaintext: &[u8],
    random: &mut impl Rng,
) -> Vec<u8> {
    sealed_first(keys, number, object, plaintext, random).1
}

/// The key of a session whose salt stands in front of what it sealed first, and that.
fn open_first(
    keys: &SiteKeys,
    number: u32,
    object: Object,
    bytes: &[u8],
) -> Result<(SessionKey, Vec<u8>), Forged> {
    let (salt, sealed) = bytes.split_first_chunk::<SALT_BYTES>().ok_or(Forged)?;
    let key = keys.session(number, salt);
    if (Sealer { session: number, tick: 0 }) != Sealer::of(sealed)? {
        return Err(Forged);
    }
    let plain = key.open(&object.bound(&Mark::default()), sealed)?;
    Ok((key, plain))
}
