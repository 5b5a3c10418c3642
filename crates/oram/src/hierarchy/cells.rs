//! Tables as they lie at the server: an array a level, of cells that are sealed one by one; and
//! what is dealt for them, in an array beside each.
//!
//! 1. *Claim*: whoever does a piece of a build puts which versions its chunks will have.
//!    *Write*: some chunks in one call. Their versions are put when the piece is done. Two that do
//!    one piece write different versions; those that were put first count.
//! 2. *Install*: the manifest is read, which has the versions of all; from then on cells can be.
//! 3. *Touch*: some cells, all in one request; every one is opened before any is used.
//! 4. *Read*: some chunks in one call, for whoever builds another table of it.
//! 5. *Remove*: the chunks of a claim, by their versions, so whoever comes late removes nothing of
//!    another table (`sweep`).
//!
//! # Invariants
//! - A cell is bound to its table, slot and history: none passes for another.
//! - What is read and written of a table depends on which table it is, alone.
//!
//! Sections 3, 6 and 8 of the protocol (module).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::shared::{Object, Site};
use fogbank_env::{Mutex, compute};
use fogbank_seal::{Digest, Mark, Sealer, SessionKey, TAG_BYTES, TICK_BITS};
use fogbank_store::{
    ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, DepartureGrid, Store, StoreError,
};

use super::lane::{Lane, Turn};
use super::pieces::Pieces;
use super::schedule::{Schedule, Table};
use super::table::{Body, Index};
use crate::{Error, Result, blame, blame_new, lied, miscounted};

/// Bytes that are read or written in one call of a build, about; no less than a chunk.
pub const REQUEST_BYTES: usize = 256 << 10;
/// From the array of a level's tables to that of what is dealt for them.
const DEALT: u16 = 64;

/// The level whose tables, or what is dealt for them, lie in this array.
pub fn level_of(array: ArrayId) -> u8 {
    (array.0 % DEALT) as u8
}
/// Stands for an address where there is none.
const NOBODY: u32 = u32::MAX;
const ADDRESS_BYTES: usize = 4;
/// Of what says which versions a piece has written: 8 for each of its chunks, about.
const VERSIONS_BYTES: usize = 16 << 10;

/// See the module.
pub struct Cells {
    site: Arc<Site>,
    /// For touches, which leave at a point already.
    bare: Arc<dyn Store>,
    pub schedule: Schedule,
    block_bytes: usize,
    /// By level: cells of what is dealt for a table, at most.
    dealt: Vec<u32>,
    installed: Mutex<BTreeMap<Table, Arc<Installed>>>,
    /// Levels whose arrays this client has made.
    made: Mutex<BTreeSet<u8>>,
    /// Of builds: one for requests that read, and one for those that write.
    lanes: [Lane; 2],
}

/// What a request of a build does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Reads,
    Writes,
}

/// A table that can be read.
struct Installed {
    start: Mark,
    /// By chunk.
    versions: Vec<u64>,
    /// Of the manifest as stored.
    manifest: Digest,
}

impl Cells {
    /// Those of a site, of which none is installed yet. All calls but touches go to its own store.
    pub fn new(
        site: Arc<Site>,
        bare: Arc<dyn Store>,
        schedule: Schedule,
        grid: &DepartureGrid,
    ) -> Self {
        let block_bytes = site.parameters().block_bytes as usize;
        let dealt = (0..=schedule.bottom()).map(|level| {
            let cells = schedule.kinds_of(level).filter(|table| table.index >= 0);
            cells.map(|table| Pieces::new(&schedule, table).bucket_cells()).max().unwrap_or(0)
        });
        let dealt = dealt.collect();
        let (installed, made) = Default::default();
        let lanes = [Lane::new(grid), Lane::new(grid)];
        Self { site, bare, schedule, block_bytes, dealt, installed, made, lanes }
    }

    /// Waits for the turn of a request of a build, for so many cells of a level's table.
    ///
    /// # Errors
    /// None while there are builds.
    pub async fn turn(&self, way: Way, (level, cells): (u8, usize)) -> Result<Turn<'_>> {
        let run = Run { table: Table { level, index: 0 }, is_dealt: false, start: Mark::default() };
        self.lane(way).turn(cells * self.shape_of(&run).cell_bytes as usize).await
    }

    fn lane(&self, way: Way) -> &Lane {
        &self.lanes[way as usize]
    }

    /// Opens the cells of these slots: `None` if the server does not have all of them.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if one is not what it has to be.
    pub async fn touch(&self, slots: &[(Table, u32)]) -> Result<Option<Vec<Body>>> {
        let (mut reads, mut tables) = (CellReads::default(), Vec::new());
        for (table, slot) in slots {
            let Some(installed) = self.get(*table) else { return Ok(None) };
            let cells = self.schedule.chunk_cells(table.level);
            let chunk = self.chunk(*table, slot / cells, &installed)?;
            reads.push(chunk, [(slot % cells) as u16]);
            tables.push((installed, chunk.version));
        }
        let cells = match self.bare.read_cells(&reads).await {
            // Its array has been dropped; who asks finds out whether it may be.
            Err(StoreError::NoArray(_)) => return Ok(None),
            cells => cells.map_err(blame)?,
        };
        if cells.len() != slots.len() {
            return Err(miscounted(cells.len(), slots.len()));
        }
        let mut bodies = Vec::with_capacity(slots.len());
        for (((table, slot), (installed, version)), cell) in slots.iter().zip(tables).zip(&cells) {
            let Cell::Bytes(sealed) = cell else { return Ok(None) };
            let key = self.site.key_of((version >> TICK_BITS) as u32).await?;
            let run = Run { table: *table, is_dealt: false, start: installed.start };
            bodies.push(self.open(&key, (&run, *slot), version, sealed)?);
        }
        Ok(Some(bodies))
    }

    /// The whole content of an installed table, slot by slot. `None` if it is no longer there.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if a cell is not what it has to be.
    pub async fn read_whole(&self, table: Table) -> Result<Option<Vec<Body>>> {
        let (slots, request) = (self.schedule.slots(table), self.request(table.level));
        let mut bodies = Vec::with_capacity(slots as usize);
        for first in (0..slots).step_by(request as usize) {
            match self.read_slots(table, first..(first + request).min(slots)).await? {
                Some(some) => bodies.extend(some),
                None => return Ok(None),
            }
        }
        Ok(Some(bodies))
    }

    /// Slots of an installed table, from the first of a chunk on. `None` if it is no longer there.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if a cell is not what it has to be.
    pub async fn read_slots(&self, table: Table, slots: Range<u32>) -> Result<Option<Vec<Body>>> {
        let Some(installed) = self.get(table) else { return Ok(None) };
        let run = Run { table, is_dealt: false, start: installed.start };
        let first = slots.start / self.schedule.chunk_cells(table.level);
        let versions = installed.versions.get(first as usize..).unwrap_or_default();
        self.read(&run, slots, versions).await
    }

    /// Cells of a run, from the first of a chunk on, whose chunks have these versions from there
    /// on. `None` if one is no longer there.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if a cell is not what it has to be.
    pub async fn read(
        &self,
        run: &Run,
        cells: Range<u32>,
        versions: &[u64],
    ) -> Result<Option<Vec<Body>>> {
        let shape = self.shape_of(run);
        let a_chunk = u32::from(shape.cells_per_chunk);
        let first = cells.start / a_chunk;
        let names: Vec<ChunkName> = run.names(first, versions);
        let names = names.get(..cells.len().div_ceil(a_chunk as usize));
        let names = names.ok_or_else(|| Error::Bug("cells beyond a run".into()))?;
        if run.is_dealt {
            self.site.store().expect_array(run.array(), shape).map_err(blame_new)?;
        }
        let chunks = match self.site.store().read_chunks(names).await {
            Err(StoreError::NoArray(_)) => return Ok(None),
            chunks => chunks.map_err(blame)?,
        };
        if chunks.len() != names.len() {
            return Err(miscounted(chunks.len(), names.len()));
        }
        let mut bodies = Vec::with_capacity(cells.len());
        for (name, chunk) in names.iter().zip(chunks) {
            let Some(chunk) = chunk else { return Ok(None) };
            if chunk.len() != shape.chunk_bytes() {
                return Err(lied("a chunk has another length"));
            }
            let key = self.site.key_of((name.version >> TICK_BITS) as u32).await?;
            let of_chunk = name.chunk * a_chunk..cells.end;
            let sealed = of_chunk.zip(chunk.chunks(shape.cell_bytes as usize));
            let opened = compute(|| {
                let open = |(cell, sealed)| self.open(&key, (run, cell), name.version, sealed);
                sealed.map(open).collect::<Result<Vec<Body>>>()
            });
            bodies.extend(opened?);
        }
        Ok(Some(bodies))
    }

    /// Makes the arrays of a level, unless they are there.
    ///
    /// # Errors
    /// By blame.
    async fn make_arrays(&self, level: u8) -> Result<()> {
        let table = Table { level, index: 0 };
        if self.made.lock().contains(&level) {
            return Ok(());
        }
        for is_dealt in [false, true] {
            let run = Run { table, is_dealt, start: Mark::default() };
            let shape = self.shape_of(&run);
            if shape.chunks > 0 {
                let made = self.site.store().create_array(run.array(), shape).await;
                made.map_err(blame_new)?;
            }
        }
        self.made.lock().insert(level);
        Ok(())
    }

    /// Deletes all chunks of a level's tables, where nobody has read any yet.
    ///
    /// # Errors
    /// By blame.
    pub async fn clear(&self, level: u8) -> Result<()> {
        self.make_arrays(level).await?;
        let table = Table { level, index: 0 };
        let run = Run { table, is_dealt: false, start: Mark::default() };
        let names = self.site.store().list_chunks(run.array()).await.map_err(blame)?;
        if names.is_empty() {
            return Ok(());
        }
        self.site.store().delete_chunks(&names).await.map_err(blame)
    }

    /// Writes cells of a run from one on, the first of a chunk, sealed from a tick on. The versions
    /// of the chunks.
    ///
    /// # Errors
    /// By blame.
    pub async fn write(
        &self,
        run: &Run,
        first: u32,
        bodies: &[Body],
        sealer: Sealer,
    ) -> Result<Vec<u64>> {
        let cells = self.schedule.chunk_cells(run.table.level);
        let writes: Vec<ChunkWrite> = compute(|| {
            let chunks = (first / cells..).zip(bodies.chunks(cells as usize));
            let ticks = (sealer.tick..).step_by(cells as usize);
            chunks
                .zip(ticks)
                .map(|((chunk, bodies), tick)| {
                    self.seal(run, chunk, bodies, Sealer { tick, ..sealer })
                })
                .collect()
        });
        let versions = writes.iter().map(|write| write.chunk.version).collect();
        self.site.store().write_chunks(writes).await.map_err(blame)?;
        Ok(versions)
    }

    /// Deletes cells of a run from one on, whose chunks have these versions; but for those of them
    /// that `kept` names in the same place.
    ///
    /// # Errors
    /// By blame.
    pub async fn delete(
        &self,
        run: &Run,
        first: u32,
        versions: &[u64],
        kept: &[u64],
    ) -> Result<()> {
        let mut names = run.names(first / self.schedule.chunk_cells(run.table.level), versions);
        names.retain(|name| kept.get(name.chunk as usize) != Some(&name.version));
        if names.is_empty() {
            return Ok(());
        }
        self.site.store().delete_chunks(&names).await.map_err(blame)
    }

    /// Puts which versions the chunks will have that are written from a tick on, of so many cells,
    /// so that whoever comes later finds them. Returns the tick.
    ///
    /// # Errors
    /// By blame.
    pub async fn claim(&self, table: Table, piece: u32, cells: u64) -> Result<Sealer> {
        self.make_arrays(table.level).await?;
        let a_chunk = u64::from(self.schedule.chunk_cells(table.level));
        let sealer = self.site.take(cells.next_multiple_of(a_chunk))?;
        let object = Object::Claim(table.level, table.index, piece, sealer.version());
        self.site.put(object, &Mark::default(), &[]).await?;
        Ok(sealer)
    }

    /// The versions that the manifest of an installed table names, by chunk.
    pub fn named(&self, table: Table) -> Option<Vec<u64>> {
        self.get(table).map(|installed| installed.versions.clone())
    }

    /// Waits until all that was written is durable.
    ///
    /// # Errors
    /// By blame.
    pub async fn are_durable(&self) -> Result<()> {
        self.site.store().barrier().await.map_err(blame)
    }

    /// Puts which versions count, all of which are durable; the digest of what was sealed, if it
    /// did.
    ///
    /// # Errors
    /// By blame.
    pub async fn put_versions(
        &self,
        of: Object,
        start: &Mark,
        versions: &[u64],
    ) -> Result<Option<Digest>> {
        let plain: Vec<u8> = versions.iter().flat_map(|version| version.to_le_bytes()).collect();
        let _turn = self.lane(Way::Writes).turn(plain.len()).await?;
        Ok(self.site.stored(of, start, &plain).await?)
    }

    /// Which versions of what a piece has written count, for another piece: in its turn.
    ///
    /// # Errors
    /// As [`Cells::versions`].
    pub async fn paced_versions(&self, of: Object, start: &Mark) -> Result<Option<Vec<u64>>> {
        // How many there are is known by the answer.
        let _turn = self.lane(Way::Reads).turn(VERSIONS_BYTES).await?;
        Ok(self.versions(of, start).await?.map(|(versions, _)| versions))
    }

    /// Which versions count, and the digest of what says so; `None` if nobody has said it yet.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is of another history.
    pub async fn versions(&self, of: Object, start: &Mark) -> Result<Option<(Vec<u64>, Digest)>> {
        let Some((plain, stored)) = self.site.get(of, start).await? else { return Ok(None) };
        let (versions, []) = plain.as_chunks() else {
            return Err(Error::Bug("versions of another version of this program".into()));
        };
        Ok(Some((versions.iter().map(|version| u64::from_le_bytes(*version)).collect(), stored)))
    }

    /// Puts the addresses that a table holds.
    ///
    /// # Errors
    /// By blame.
    pub async fn put_addresses(&self, index: &Index) -> Result<()> {
        let Table { level, index: of_level } = index.table;
        let mut addresses = Vec::new();
        index.addresses().iter().for_each(|address: u32| addresses.extend(address.to_le_bytes()));
        addresses.resize(self.schedule.reals(level) as usize * ADDRESS_BYTES, u8::MAX);
        let _turn = self.lane(Way::Writes).turn(addresses.len()).await?;
        self.site.put(Object::Index(level, of_level), &index.start, &addresses).await?;
        Ok(())
    }

    /// Reads the manifest of a table whose build started after the history of this mark. Its digest
    /// as stored; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is of another history.
    pub async fn install(&self, table: Table, start: &Mark) -> Result<Option<Digest>> {
        if let Some(installed) = self.get(table) {
            return Ok(Some(installed.manifest));
        }
        let object = Object::Manifest(table.level, table.index);
        let Some((versions, manifest)) = self.versions(object, start).await? else {
            return Ok(None);
        };
        if versions.len() as u32 != self.chunks(table) {
            return Err(Error::Bug("a manifest of another version of this program".into()));
        }
        let run = Run { table, is_dealt: false, start: *start };
        let shape = self.shape_of(&run);
        self.site.store().expect_array(run.array(), shape).map_err(blame_new)?;
        let installed = Installed { start: *start, versions, manifest };
        self.installed.lock().insert(table, Arc::new(installed));
        Ok(Some(manifest))
    }

    /// The addresses that a table holds, as its builder put them down; `None` if it has not.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if they are of another history.
    pub async fn addresses(&self, table: Table, start: &Mark) -> Result<Option<Vec<u32>>> {
        let object = Object::Index(table.level, table.index);
        let Some((plain, _)) = self.site.get(object, start).await? else { return Ok(None) };
        let addresses = plain
            .chunks_exact(ADDRESS_BYTES)
            .map(|address| address.try_into().map(u32::from_le_bytes).unwrap_or(NOBODY))
            .take_while(|address| *address != NOBODY);
        Ok(Some(addresses.collect()))
    }

    /// Forgets tables that no query of an epoch from `epoch` on touches.
    pub fn forget(&self, epoch: u64) {
        let schedule = self.schedule;
        self.installed.lock().retain(|table, _| schedule.superseded(*table) > epoch);
    }

    fn get(&self, table: Table) -> Option<Arc<Installed>> {
        self.installed.lock().get(&table).cloned()
    }

    /// The same for all tables of a level, so a name can be used again.
    fn shape_of(&self, run: &Run) -> ArrayShape {
        let (level, schedule) = (run.table.level, &self.schedule);
        let cells = schedule.chunk_cells(level);
        let needed =
            if run.is_dealt { self.dealt[usize::from(level)] } else { schedule.slots_of(level) };
        ArrayShape {
            chunks: needed.div_ceil(cells),
            cells_per_chunk: cells as u16,
            cell_bytes: cell_bytes(self.block_bytes) as u32,
        }
    }

    fn chunks(&self, table: Table) -> u32 {
        self.schedule.slots(table).div_ceil(self.schedule.chunk_cells(table.level))
    }

    /// Cells that are read or written in one call of a build: whole chunks.
    pub fn request(&self, level: u8) -> u32 {
        let run = Run { table: Table { level, index: 0 }, is_dealt: false, start: Mark::default() };
        let shape = self.shape_of(&run);
        let chunks = (REQUEST_BYTES / shape.chunk_bytes()).max(1) as u32;
        chunks * u32::from(shape.cells_per_chunk)
    }

    fn chunk(&self, table: Table, chunk: u32, installed: &Installed) -> Result<ChunkName> {
        let version = installed.versions.get(chunk as usize).copied();
        let version = version.ok_or_else(|| Error::Bug("a slot beyond its table".into()))?;
        let run = Run { table, is_dealt: false, start: installed.start };
        Ok(ChunkName { array: run.array(), chunk, version })
    }

    fn seal(&self, run: &Run, chunk: u32, bodies: &[Body], sealer: Sealer) -> ChunkWrite {
        let shape = self.shape_of(run);
        let first = chunk * u32::from(shape.cells_per_chunk);
        let mut data = Vec::with_capacity(shape.chunk_bytes());
        for (at, body) in bodies.iter().enumerate() {
            let start = data.len();
            match body {
                Some((address, value)) => {
                    data.extend_from_slice(&address.to_le_bytes());
                    data.extend_from_slice(value);
                }
                None => {
                    data.extend_from_slice(&NOBODY.to_le_bytes());
                    data.resize(start + ADDRESS_BYTES + self.block_bytes, 0);
                }
            }
            let sealer = Sealer { tick: sealer.tick + at as u64, ..sealer };
            let bound = run.bound(first + at as u32);
            let tag = self.site.own().seal_cell(sealer, &bound, &mut data[start..]);
            data.extend_from_slice(&tag);
        }
        data.resize(shape.chunk_bytes(), 0);
        let chunk = ChunkName { array: run.array(), chunk, version: sealer.version() };
        ChunkWrite { chunk, data: data.into() }
    }

    fn open(
        &self,
        key: &SessionKey,
        (run, cell): (&Run, u32),
        version: u64,
        sealed: &[u8],
    ) -> Result<Body> {
        let at = u64::from(cell % self.schedule.chunk_cells(run.table.level));
        let session = (version >> TICK_BITS) as u32;
        let tick = (version & ((1 << TICK_BITS) - 1)) + at;
        let forged = || lied("a cell is forged, or of another place");
        let plain = key
            .open_cell(Sealer { session, tick }, &run.bound(cell), sealed)
            .map_err(|_| forged())?;
        match plain.first_chunk::<ADDRESS_BYTES>() {
            Some(address) if plain.len() == ADDRESS_BYTES + self.block_bytes => {
                let address = u32::from_le_bytes(*address);
                let value = || Bytes::from(plain).slice(ADDRESS_BYTES..);
                Ok((address != NOBODY).then(|| (address, value())))
            }
            _ => Err(forged()),
        }
    }
}

/// Bytes of a cell of blocks of so many.
pub fn cell_bytes(block_bytes: usize) -> usize {
    ADDRESS_BYTES + block_bytes + TAG_BYTES
}

/// The arrays of a level: of its tables, and of what is dealt for them.
pub fn arrays(level: u8) -> [ArrayId; 2] {
    [ArrayId(level.into()), ArrayId(u16::from(level) + DEALT)]
}

/// Cells that lie one behind the other: of a table, or of what is dealt for it.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub table: Table,
    pub is_dealt: bool,
    /// The mark of the history when its build starts.
    pub start: Mark,
}

impl Run {
    fn array(&self) -> ArrayId {
        // One for all of a level: versions tell them apart.
        arrays(self.table.level)[usize::from(self.is_dealt)]
    }

    fn names(&self, first: u32, versions: &[u64]) -> Vec<ChunkName> {
        let array = self.array();
        let name = |(chunk, version): (u32, &u64)| ChunkName { array, chunk, version: *version };
        (first..).zip(versions).map(name).collect()
    }

    fn bound(&self, cell: u32) -> Vec<u8> {
        let Table { level, index } = self.table;
        let kind: &[u8] = if self.is_dealt { b"dealt\0" } else { b"cell\0" };
        [kind, &[level], &index.to_le_bytes(), &cell.to_le_bytes(), &self.start].concat()
    }
}
