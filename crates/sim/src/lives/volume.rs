//! A small store with a past: all objects that the cloud holds, and all versions of all that it
//! ever held.
//!
//! Three openings: one that was closed, one that was cut short, and one that was closed or is cut
//! short within an epoch. Each overwrites every record several times, so that there are full
//! checkpoints, deltas, journals, takeover records and buckets of every opening to take versions
//! from.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{MemoryRegister, Register, RegisterValue};
use fogbank_env::Mutex;
use fogbank_oram::BatchShape;
use fogbank_store::{
    ArrayId, ArrayShape, Call, ChunkName, ChunkWrite, PutCondition, Reply, Result, Store,
    StoreError, store_by_calls,
};
use fogbank_txn::{Key, Proxy};

use super::stopping::Stopping;
use super::world::World;
use crate::scene::{SceneError, Shape};

/// Records of the volume.
const RECORDS: u64 = 8;
/// From one full checkpoint to the next.
const FULL_EVERY: u64 = 3;

/// What the cloud holds under one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A blob.
    Blob(String),
    /// A chunk version.
    Chunk(ChunkName),
}

/// What a cloud holds.
pub(super) type Objects = BTreeMap<Object, Bytes>;

/// How the last proxy left the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In order.
    Closed,
    /// Within an epoch of which a batch was read.
    Crashed,
}

/// A store that nobody uses.
pub struct Volume {
    pub(super) objects: Objects,
    /// All bytes that every name ever stood for, in order.
    pub(super) ever: BTreeMap<Object, Vec<Bytes>>,
    pub(super) array: (ArrayId, ArrayShape),
    /// What clients know to be there.
    pub(super) records: Vec<(Key, Bytes)>,
    register: RegisterValue,
    seed: u64,
    shape: Shape,
}

impl Volume {
    /// The smallest shape with everything in it: three levels of buckets below the root.
    pub fn shape() -> Shape {
        let batch = BatchShape { capacity: 12, value_bytes: 16, read_batch: 4, write_batch: 4 };
        Shape { batch, ..Shape::small() }
    }

    /// Makes one.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn make(seed: u64, shape: Shape, end: End) -> std::result::Result<Self, String> {
        super::in_virtual_time(async move {
            let made = make(seed, shape, end).await;
            made.map_err(|error| format!("no volume of seed {seed}: {error}"))
        })
    }

    /// Bytes of all objects.
    pub fn bytes(&self) -> usize {
        self.objects.values().map(Bytes::len).sum()
    }

    /// How many objects there are of each kind: blobs by the first part of their name.
    pub fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for object in self.objects.keys() {
            *kinds.entry(object.kind()).or_default() += 1;
        }
        kinds
    }

    /// Both sides again, the cloud holding `objects`.
    pub(super) async fn world(&self, objects: &Objects) -> std::result::Result<World, SceneError> {
        let world = World::new(self.seed, self.shape.clone(), FULL_EVERY);
        let (array, shape) = self.array;
        world.cloud.create_array(array, shape).await?;
        for (object, data) in objects {
            match object {
                Object::Blob(name) => {
                    world.cloud.blob_put(name, data.clone(), PutCondition::Always).await?;
                }
                Object::Chunk(chunk) => {
                    let write = ChunkWrite { chunk: *chunk, data: data.clone() };
                    world.cloud.write_chunks(vec![write]).await?;
                }
            }
        }
        let register = Arc::new(MemoryRegister::default());
        register.write(None, self.register).await?;
        Ok(world.with_register(register))
    }
}

impl Object {
    /// What it is of: the first part of a blob's name, or `chunk`.
    pub fn kind(&self) -> &str {
        match self {
            Object::Blob(name) => name.split('/').next().unwrap_or(name),
            Object::Chunk(_) => "chunk",
        }
    }
}

async fn make(seed: u64, shape: Shape, end: End) -> std::result::Result<Volume, SceneError> {
    let world = World::new(seed, shape.clone(), FULL_EVERY);
    let archive = Arc::new(Archive { inner: world.cloud.clone(), kept: Mutex::default() });
    let mut records = Vec::new();
    for opening in 0..3 {
        let store = Arc::new(Stopping::new(archive.clone(), None));
        let running = world.open(store.clone(), opening).await?;
        for round in 0..4 {
            records = overwrite(&running.proxy, opening, round).await?;
        }
        if opening == 0 || (opening == 2 && end == End::Closed) {
            running.close().await?;
            continue;
        }
        world.sleep(0.5).await;
        store.kill();
    }
    let missing = || StoreError::Caller("the volume has no array or register".into());
    let register = world.register.read().await?.ok_or_else(missing)?;
    let kept = archive.take();
    let array = kept.array.ok_or_else(missing)?;
    let objects = held(&world, array.0).await?;
    Ok(Volume { objects, ever: kept.ever, array, records, register, seed, shape })
}

/// Writes every record anew, as many at once as an epoch takes.
async fn overwrite(
    proxy: &Proxy,
    opening: u64,
    round: u64,
) -> std::result::Result<Vec<(Key, Bytes)>, SceneError> {
    let record = |n: u64| {
        let value = Bytes::from(format!("{n} of {opening} {round}"));
        (Key::new(b"record", &n.to_le_bytes()), value)
    };
    let records: Vec<(Key, Bytes)> = (0..RECORDS).map(record).collect();
    for some in records.chunks(proxy.limits().records_written_max) {
        let put = proxy.transact(|txn| async move {
            for (key, value) in some {
                txn.put(key, value.clone(), 0).await?;
            }
            Ok(())
        });
        put.await?;
    }
    Ok(records)
}

async fn held(world: &World, array: ArrayId) -> Result<Objects> {
    let mut objects = Objects::new();
    for name in world.cloud.blob_list("").await? {
        if let Some((data, _)) = world.cloud.blob_get(&name).await? {
            objects.insert(Object::Blob(name), data);
        }
    }
    let chunks = world.cloud.list_chunks(array).await?;
    for (chunk, data) in chunks.iter().zip(world.cloud.read_chunks(&chunks).await?) {
        objects.extend(data.map(|data| (Object::Chunk(*chunk), data)));
    }
    Ok(objects)
}

/// Keeps everything that was ever put.
struct Archive<S> {
    inner: S,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    array: Option<(ArrayId, ArrayShape)>,
    ever: BTreeMap<Object, Vec<Bytes>>,
}

impl<S: Store> Archive<S> {
    fn take(&self) -> Kept {
        std::mem::take(&mut self.kept.lock())
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match &call {
            Call::CreateArray(array, shape) => self.kept.lock().array = Some((*array, *shape)),
            Call::BlobPut(name, data, _) => {
                let object = Object::Blob((*name).to_owned());
                self.kept.lock().ever.entry(object).or_default().push(data.clone());
            }
            Call::WriteChunks(writes) => {
                for write in writes {
                    let mut kept = self.kept.lock();
                    let versions = kept.ever.entry(Object::Chunk(write.chunk)).or_default();
                    versions.push(Bytes::copy_from_slice(&write.data));
                }
            }
            _ => {}
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Archive);
