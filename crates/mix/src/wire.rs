//! How messages are written: fields in order, big-endian. A list takes the rest of its message, but
//! for one of sources, whose number stands before it.

use crate::shape::Generation;
use crate::{Cells, Error, Marks, Result, Seed};

/// Reads fields one after the other.
pub struct Reader<'a> {
    rest: &'a [u8],
    cell_bytes: usize,
}

impl<'a> Reader<'a> {
    /// Of a message whose cells have so many bytes.
    pub fn new(bytes: &'a [u8], cell_bytes: usize) -> Self {
        Self { rest: bytes, cell_bytes }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(TORN)?;
        self.rest = rest;
        Ok(*array)
    }

    fn list<T: Field>(&mut self) -> Result<Vec<T>> {
        let mut list = Vec::new();
        while !self.rest.is_empty() {
            list.push(T::take(self)?);
        }
        Ok(list)
    }

    /// Whether all was read.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(TORN) }
    }
}

/// A message that nobody who keeps to the protocol sends.
const TORN: Error = Error::Other("a message that has no meaning");

/// A part of a message.
pub trait Field: Sized {
    /// Puts it behind `out`.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it off a message.
    fn take(from: &mut Reader<'_>) -> Result<Self>;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_be_bytes());
            }
            fn take(from: &mut Reader<'_>) -> Result<Self> {
                from.array().map(Self::from_be_bytes)
            }
        }
    )*};
}
number!(u8, u16, u32, u64);

impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        from.array()
    }
}

impl Field for Seed {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        from.array().map(Self::new)
    }
}

impl Field for Generation {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        u64::take(from).map(Self)
    }
}

impl Field for Cells {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        Self::of(std::mem::take(&mut from.rest).to_vec(), from.cell_bytes).ok_or(TORN)
    }
}

impl Field for Marks {
    fn put(&self, out: &mut Vec<u8>) {
        self.words().iter().for_each(|word| word.put(out));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        from.list().map(Self::of)
    }
}

/// The rest of the message.
impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.put(out));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        from.list()
    }
}
