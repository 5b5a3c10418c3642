//! What the user decides about a `multicloud` volume: fixed when it is created.

use fogbank_mix::Shape;

use crate::partition::Layout;
use crate::{Error, ImmediateShape, Result};

/// s: reads of a partition while a list of it is out, at most.
const SPARE: u16 = 16;
/// e: with 8 one access in a thousand finds a level that has borne its reads if a job lasts 0.3 s.
const EXTRA: u16 = 8;
/// R: with 32 the client's link carries some 2.5 blocks an access.
const REFRESH_EVERY: u16 = 32;

/// Settings of a volume in two clouds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticloudSettings {
    /// Blocks and their length.
    pub shape: ImmediateShape,
    /// Partitions and levels, as of `partition`.
    pub layout: Layout,
    /// s: dummies of a level for reads while a list of it is out.
    pub spare: u16,
    /// e: dummies of a level below the top beyond those that its evictions ask for.
    pub extra: u16,
    /// R: every so many rebuilds of the top one is a refresh.
    pub refresh_every: u16,
}

impl MulticloudSettings {
    /// The usual settings of a volume of this shape, of whose partitions `kept_levels` levels stay
    /// with the client.
    ///
    /// # Errors
    /// [`Error::Caller`] if there are no blocks, or too many.
    pub fn new(shape: ImmediateShape, kept_levels: u8) -> Result<Self> {
        let layout = Layout::new(shape.capacity, kept_levels)?;
        let (spare, extra, refresh_every) = (SPARE, EXTRA, REFRESH_EVERY);
        let settings = Self { shape, layout, spare, extra, refresh_every };
        settings.public().map(|_| settings)
    }

    /// Blocks that a checkpoint has room for: twice those that wait for the jobs of all partitions.
    pub(super) fn saved_blocks_max(&self) -> usize {
        (2 * self.layout.partitions as usize) << self.layout.kept_levels
    }

    /// What both clouds are told of it. A block is padded to whole blocks of the cipher.
    ///
    /// # Errors
    /// [`Error::Caller`] if there is no such volume.
    pub fn public(&self) -> Result<Shape> {
        let too_many = |_| Error::Caller("so many partitions are too many for two clouds".into());
        let block_bytes = self.shape.value_bytes.next_multiple_of(16);
        let shape = Shape {
            partitions: self.layout.partitions.try_into().map_err(too_many)?,
            levels: self.layout.levels,
            kept_levels: self.layout.kept_levels,
            top_blocks: self.layout.top_blocks,
            spare: self.spare,
            extra: self.extra,
            refresh_every: self.refresh_every,
            block_bytes: block_bytes
                .try_into()
                .map_err(|_| Error::Caller("a block is too long".into()))?,
        };
        shape.check().map_err(|error| Error::Caller(error.to_string()))?;
        Ok(shape)
    }
}
