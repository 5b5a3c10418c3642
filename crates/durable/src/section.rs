//! Sections: named pieces of trusted state, each padded to a public length.

use fogbank_seal::Digest;

use crate::{Error, Result};

/// A piece of trusted state as it goes into a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Which piece; unique within a checkpoint.
    pub tag: u16,
    /// The public length to pad to, in bytes; at least `data.len()`.
    pub padded_len: usize,
    /// The bytes.
    pub data: Vec<u8>,
}

/// Sections in their order, each made when it is asked for: a full checkpoint as a whole would
/// double what the proxy keeps in memory.
pub type Sections<'a> = Box<dyn Iterator<Item = Result<Section>> + Send + 'a>;

impl Section {
    /// Sections that are in memory already, for whoever takes them one by one.
    pub fn each(sections: Vec<Section>) -> Sections<'static> {
        Box::new(sections.into_iter().map(Ok))
    }
}

/// The section with `tag`, which a checkpoint of ours must hold.
///
/// # Errors
/// [`Error::Bug`] if there is none: the checkpoint verified, so it is what we wrote.
pub fn take(sections: &[Section], tag: u16) -> Result<&[u8]> {
    let found = sections.iter().find(|s| s.tag == tag);
    found.map(|s| &s.data[..]).ok_or_else(|| Error::Bug(format!("no section {tag} in checkpoint")))
}

/// Appends little-endian fields to a section.
#[derive(Debug, Default)]
pub struct SectionWriter(pub Vec<u8>);

impl SectionWriter {
    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends `bytes` without their length.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends the length as four bytes, then `bytes`.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }
}

/// Reads back what a [`SectionWriter`] wrote; every read is checked.
#[derive(Debug)]
pub struct SectionReader<'a>(pub &'a [u8]);

impl<'a> SectionReader<'a> {
    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`Error::Bug`] if fewer are left.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.0.len() {
            return Err(Error::Bug("a section ends early".into()));
        }
        let (head, tail) = self.0.split_at(length);
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.raw(N)?);
        Ok(out)
    }

    /// One byte.
    ///
    /// # Errors
    /// As [`SectionReader::raw`].
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    ///
    /// # Errors
    /// As [`SectionReader::raw`].
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// As [`SectionReader::raw`].
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// As [`SectionReader::raw`].
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The 32 bytes of a digest.
    ///
    /// # Errors
    /// As [`SectionReader::raw`].
    pub fn digest(&mut self) -> Result<Digest> {
        self.array()
    }

    /// A length, then that many bytes.
    ///
    /// # Errors
    /// As [`SectionReader::raw`].
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()? as usize;
        self.raw(length)
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
