//! Tables as they lie at the server: an array a level, of cells that are sealed one by one.
//!
//! 1. *Write*: chunk after chunk, then the index, then the manifest, which says by versions what
//!    counts. Two that write one table write different versions; the first manifest counts.
//! 2. *Install*: the manifest is read; from then on its cells can be.
//! 3. *Touch*: some cells, all in one request; every one is opened before any is used.
//! 4. *Read whole*: every cell in the order of the array, for whoever builds another table of it.
//! 5. *Remove*: the chunks that the manifest names, by their versions, so whoever comes late
//!    removes nothing of a later table.
//!
//! # Invariants
//! - A cell is bound to its table, slot and history: none passes for another.
//! - What is read and written of a table depends on which table it is, alone.
//!
//! Sections 3, 6 and 8 of the protocol (module).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::shared::{Object, Site};
use fogbank_env::{Mutex, compute};
use fogbank_seal::{Digest, Mark, Sealer, SessionKey, TAG_BYTES, TICK_BITS};
use fogbank_store::{ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, Store};

use super::schedule::{Schedule, Table};
use super::table::{Body, Index};
use crate::{Error, Result, blame, blame_making, lied, miscounted};

/// Cells of a chunk, at most.
const CHUNK_CELLS: u32 = 64;
/// Bytes that are read or written in one call of a build, about.
const PIECE_BYTES: usize = 4 << 20;
/// Stands for an address where there is none.
const NOBODY: u32 = u32::MAX;
const ADDRESS_BYTES: usize = 4;

/// See the module.
pub struct Cells {
    site: Arc<Site>,
    /// For touches, which leave at a point already.
    bare: Arc<dyn Store>,
    schedule: Schedule,
    block_bytes: usize,
    installed: Mutex<BTreeMap<Table, Arc<Installed>>>,
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
    pub fn new(site: Arc<Site>, bare: Arc<dyn Store>, schedule: Schedule) -> Self {
        let block_bytes = site.parameters().block_bytes as usize;
        Self { site, bare, schedule, block_bytes, installed: Mutex::default() }
    }

    /// Opens the cells of these slots: `None` if the server does not have all of them.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if one is not what it has to be.
    pub async fn touch(&self, slots: &[(Table, u32)]) -> Result<Option<Vec<Body>>> {
        let (mut reads, mut tables) = (CellReads::default(), Vec::new());
        for (table, slot) in slots {
            let Some(installed) = self.get(*table) else { return Ok(None) };
            let cells = u32::from(self.shape(*table).cells_per_chunk);
            let chunk = self.chunk(*table, slot / cells, &installed)?;
            reads.push(chunk, [(slot % cells) as u16]);
            tables.push((installed, chunk.version));
        }
        let cells = match self.bare.read_cells(&reads).await {
            // Its array has been dropped; who asks finds out whether it may be.
            Err(fogbank_store::StoreError::NoArray(_)) => return Ok(None),
            cells => cells.map_err(blame)?,
        };
        if cells.len() != slots.len() {
            return Err(miscounted(cells.len(), slots.len()));
        }
        let mut bodies = Vec::with_capacity(slots.len());
        for (((table, slot), (installed, version)), cell) in slots.iter().zip(tables).zip(&cells) {
            let Cell::Bytes(sealed) = cell else { return Ok(None) };
            let key = self.site.key_of((version >> TICK_BITS) as u32).await?;
            bodies.push(self.open(&key, (*table, *slot, &installed.start), version, sealed)?);
        }
        Ok(Some(bodies))
    }

    /// The whole content of an installed table, slot by slot. `None` if it is no longer there.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if a cell is not what it has to be.
    pub async fn read_whole(&self, table: Table) -> Result<Option<Vec<Body>>> {
        let Some(installed) = self.get(table) else { return Ok(None) };
        let (slots, shape) = (self.schedule.slots(table), self.shape(table));
        let mut bodies = Vec::with_capacity(slots as usize);
        let names: Vec<ChunkName> = (0..self.chunks(table))
            .map(|chunk| self.chunk(table, chunk, &installed))
            .collect::<Result<_>>()?;
        for names in names.chunks(self.piece(table)) {
            let chunks = self.site.store().read_chunks(names).await.map_err(blame)?;
            if chunks.len() != names.len() {
                return Err(miscounted(chunks.len(), names.len()));
            }
            for (name, chunk) in names.iter().zip(chunks) {
                let Some(chunk) = chunk else { return Ok(None) };
                if chunk.len() != shape.chunk_bytes() {
                    return Err(lied("a chunk has another length"));
                }
                let key = self.site.key_of((name.version >> TICK_BITS) as u32).await?;
                let first = name.chunk * u32::from(shape.cells_per_chunk);
                let cells = (first..slots).zip(chunk.chunks(shape.cell_bytes as usize));
                for (slot, sealed) in cells {
                    let of = (table, slot, &installed.start);
                    bodies.push(self.open(&key, of, name.version, sealed)?);
                }
            }
        }
        Ok(Some(bodies))
    }

    /// Writes a table, whose content slot by slot this is. If another was first, what was written
    /// here is removed again.
    ///
    /// # Errors
    /// By blame.
    pub async fn write(&self, index: &Index, bodies: &[Body]) -> Result<()> {
        let (table, shape) = (index.table, self.shape(index.table));
        let (array, store) = (array(table), self.site.store().clone());
        store.create_array(array, shape).await.map_err(blame_making)?;
        let cells = usize::from(shape.cells_per_chunk);
        let chunks: Vec<&[Body]> = bodies.chunks(cells).collect();
        let mut names = Vec::new();
        for (at, some) in chunks.chunks(self.piece(table)).enumerate() {
            let first = at * self.piece(table);
            let writes: Result<Vec<ChunkWrite>> = compute(|| {
                let some = some.iter().enumerate();
                some.map(|(at, bodies)| self.seal(index, (first + at) as u32, bodies)).collect()
            });
            let writes = writes?;
            names.extend(writes.iter().map(|write| write.chunk));
            store.write_chunks(writes).await.map_err(blame)?;
        }
        store.barrier().await.map_err(blame)?;
        let Table { level, index: of_level } = table;
        let (index_name, manifest) =
            (Object::Index(level, of_level), Object::Manifest(level, of_level));
        let mut addresses = Vec::new();
        index.addresses().iter().for_each(|address| addresses.extend(address.to_le_bytes()));
        let padded = self.schedule.reals(level) as usize * ADDRESS_BYTES;
        addresses.resize(padded, u8::MAX);
        self.site.put(index_name, &index.start, &addresses).await?;
        let mut versions = Vec::new();
        names.iter().for_each(|name| versions.extend(name.version.to_le_bytes()));
        if !self.site.put(manifest, &index.start, &versions).await? {
            store.delete_chunks(&names).await.map_err(blame)?;
        }
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
        let Some((plain, manifest)) = self.site.get(object, start).await? else { return Ok(None) };
        let versions: Vec<u64> = plain
            .chunks_exact(8)
            .map(|version| version.try_into().map(u64::from_le_bytes).unwrap_or_default())
            .collect();
        if versions.len() as u32 != self.chunks(table) || plain.len() != 8 * versions.len() {
            return Err(Error::Bug("a manifest of another version of this program".into()));
        }
        let shape = self.shape(table);
        self.site.store().expect_array(array(table), shape).map_err(blame_making)?;
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

    /// Deletes what an installed table has at the server, but for its index and manifest.
    ///
    /// # Errors
    /// By blame.
    pub async fn remove(&self, table: Table) -> Result<()> {
        let Some(installed) = self.get(table) else { return Ok(()) };
        let names: Vec<ChunkName> = (0..self.chunks(table))
            .map(|chunk| self.chunk(table, chunk, &installed))
            .collect::<Result<_>>()?;
        self.site.store().delete_chunks(&names).await.map_err(blame)
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
    fn shape(&self, table: Table) -> ArrayShape {
        let slots = self.schedule.slots_of(table.level);
        let cells = CHUNK_CELLS.min(slots);
        ArrayShape {
            chunks: slots.div_ceil(cells),
            cells_per_chunk: cells as u16,
            cell_bytes: (ADDRESS_BYTES + self.block_bytes + TAG_BYTES) as u32,
        }
    }

    fn chunks(&self, table: Table) -> u32 {
        self.schedule.slots(table).div_ceil(self.shape(table).cells_per_chunk.into())
    }

    /// Chunks that are read or written in one call of a build.
    fn piece(&self, table: Table) -> usize {
        (PIECE_BYTES / self.shape(table).chunk_bytes()).max(1)
    }

    fn chunk(&self, table: Table, chunk: u32, installed: &Installed) -> Result<ChunkName> {
        let version = installed.versions.get(chunk as usize).copied();
        let version = version.ok_or_else(|| Error::Bug("a slot beyond its table".into()))?;
        Ok(ChunkName { array: array(table), chunk, version })
    }

    fn seal(&self, index: &Index, chunk: u32, bodies: &[Body]) -> Result<ChunkWrite> {
        let shape = self.shape(index.table);
        let sealer = self.site.take(shape.cells_per_chunk.into())?;
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
            let bound = bound(index.table, first + at as u32, &index.start);
            let tag = self.site.own().seal_cell(sealer, &bound, &mut data[start..]);
            data.extend_from_slice(&tag);
        }
        data.resize(shape.chunk_bytes(), 0);
        let chunk = ChunkName { array: array(index.table), chunk, version: sealer.version() };
        Ok(ChunkWrite { chunk, data: data.into() })
    }

    fn open(
        &self,
        key: &SessionKey,
        (table, slot, start): (Table, u32, &Mark),
        version: u64,
        sealed: &[u8],
    ) -> Result<Body> {
        let at = u64::from(slot % u32::from(self.shape(table).cells_per_chunk));
        let session = (version >> TICK_BITS) as u32;
        let tick = (version & ((1 << TICK_BITS) - 1)) + at;
        let forged = || lied("a cell is forged, or of another place");
        let plain = key
            .open_cell(Sealer { session, tick }, &bound(table, slot, start), sealed)
            .map_err(|_| forged())?;
        match plain.split_first_chunk::<ADDRESS_BYTES>() {
            Some((address, value)) if value.len() == self.block_bytes => {
                let address = u32::from_le_bytes(*address);
                Ok((address != NOBODY).then(|| (address, Bytes::copy_from_slice(value))))
            }
            _ => Err(forged()),
        }
    }
}

fn array(table: Table) -> ArrayId {
    // One for all tables of a level: versions tell them apart.
    ArrayId(table.level.into())
}

fn bound(table: Table, slot: u32, start: &Mark) -> Vec<u8> {
    let Table { level, index } = table;
    [&b"cell\0"[..], &[level], &index.to_le_bytes(), &slot.to_le_bytes(), start].concat()
}
