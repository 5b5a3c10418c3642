//! An engine that hides nothing and keeps blocks in memory: what transactions are observed on.
//! Nothing leaves the process, so there is nobody to hide from, and it does not hold up what is
//! observed.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_oram::{Address, BatchEngine, BatchShape, Result, Section, Sections};

/// Blocks by address.
pub struct Memory {
    shape: BatchShape,
    blocks: BTreeMap<Address, Bytes>,
}

impl Memory {
    /// Without blocks.
    pub fn new(shape: BatchShape) -> Self {
        Self { shape, blocks: BTreeMap::new() }
    }
}

#[async_trait]
impl BatchEngine for Memory {
    fn shape(&self) -> BatchShape {
        self.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        Ok(addresses.iter().map(|address| self.blocks.get(address).cloned()).collect())
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        for (address, value) in writes {
            match value {
                Some(value) => drop(self.blocks.insert(address, value)),
                None => drop(self.blocks.remove(&address)),
            }
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        Ok(Vec::new())
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        Ok(Box::new(std::iter::empty()))
    }
}
