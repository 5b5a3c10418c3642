//! Records: who they are, how often they were updated, and bytes that mean nothing.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fogbank_env::Stream;
use fogbank_txn::Key;
use rand::RngExt;

use super::meaning::Group;
use crate::database::{Error, Result};

/// Bytes before the filling: group, number, counter.
pub(super) const HEAD_BYTES: u32 = 16;

/// Where a record of a group is.
pub(super) fn key(group: &Group, number: u32) -> Key {
    Key::new(group.name.as_bytes(), &number.to_be_bytes())
}

/// There is none where one has to be.
pub(super) fn missing(group: &Group, number: u32) -> Error {
    Error::broken(format!("{}: there is no record {number}", group.name))
}

/// What brings a record to so many bytes.
pub(super) fn filling(bytes: u32, stream: &mut Stream) -> Bytes {
    let mut filling = vec![0; bytes.saturating_sub(HEAD_BYTES) as usize];
    stream.fill(&mut filling[..]);
    filling.into()
}

/// A record.
pub(super) struct Row {
    place: (usize, u32),
    /// How often it was updated since it was inserted or overwritten.
    pub updates: i64,
    filling: Bytes,
}

impl Row {
    pub(super) fn new(place: (usize, u32), filling: Bytes) -> Self {
        Self { place, updates: 0, filling }
    }

    /// As it was read of a place, which it has to carry.
    pub(super) fn of(place: (usize, u32), mut record: Bytes) -> Result<Self> {
        let carries = |record: &mut Bytes| {
            let (group, number) = (record.try_get_u32_le().ok()?, record.try_get_u32_le().ok()?);
            Some(((group as usize, number), record.try_get_i64_le().ok()?))
        };
        match carries(&mut record) {
            Some((carried, updates)) if carried == place => {
                Ok(Self { place, updates, filling: record })
            }
            _ => Err(Error::broken(format!("record {} does not carry its number", place.1))),
        }
    }

    /// Once more, with another filling.
    pub(super) fn update(&mut self, filling: Bytes) {
        self.updates += 1;
        self.filling = filling;
    }

    pub(super) fn record(&self) -> Bytes {
        let mut record = BytesMut::with_capacity(HEAD_BYTES as usize + self.filling.len());
        record.put_u32_le(self.place.0 as u32);
        record.put_u32_le(self.place.1);
        record.put_i64_le(self.updates);
        record.put_slice(&self.filling);
        record.freeze()
    }
}
