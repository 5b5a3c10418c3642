//! Records of fields: numbers and texts one after the other, little-endian, texts with their length
//! before them.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::database::{Error, Result};

/// Writes fields.
#[derive(Debug, Default)]
pub struct Fields(BytesMut);

impl Fields {
    /// No fields yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A number of 32 bits.
    pub fn u32(mut self, number: u32) -> Self {
        self.0.put_u32_le(number);
        self
    }

    /// A number of 64 bits.
    pub fn i64(mut self, number: i64) -> Self {
        self.0.put_i64_le(number);
        self
    }

    /// A text of at most 65,535 bytes; longer ones are cut.
    pub fn text(mut self, text: &[u8]) -> Self {
        let text = &text[..text.len().min(usize::from(u16::MAX))];
        self.0.put_u16_le(text.len() as u16);
        self.0.put_slice(text);
        self
    }

    /// A list of numbers: how many, then each. At most 65,535 are kept.
    pub fn list(mut self, numbers: &[u32]) -> Self {
        let numbers = &numbers[..numbers.len().min(usize::from(u16::MAX))];
        self.0.put_u16_le(numbers.len() as u16);
        numbers.iter().for_each(|number| self.0.put_u32_le(*number));
        self
    }

    /// The record.
    pub fn done(self) -> Bytes {
        self.0.freeze()
    }
}

/// Reads fields in the order in which they were written.
#[derive(Debug)]
pub struct Reader(Bytes);

impl Reader {
    /// Of a record.
    pub fn of(record: Bytes) -> Self {
        Self(record)
    }

    /// Of a record that has to be there.
    ///
    /// # Errors
    /// [`Error::Broken`] with `what` if it is not.
    pub fn must(record: Option<Bytes>, what: &str) -> Result<Self> {
        record.map(Self).ok_or_else(|| Error::broken(format!("there is no {what}")))
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// [`Error::Broken`] if the record ends before; so for the others.
    pub fn u32(&mut self) -> Result<u32> {
        self.0.try_get_u32_le().map_err(|_| short())
    }

    /// A number of 64 bits.
    pub fn i64(&mut self) -> Result<i64> {
        self.0.try_get_i64_le().map_err(|_| short())
    }

    /// A text.
    pub fn text(&mut self) -> Result<Bytes> {
        let len = usize::from(self.0.try_get_u16_le().map_err(|_| short())?);
        if len > self.0.len() {
            return Err(short());
        }
        Ok(self.0.split_to(len))
    }

    /// A list of numbers.
    pub fn list(&mut self) -> Result<Vec<u32>> {
        let len = self.0.try_get_u16_le().map_err(|_| short())?;
        (0..len).map(|_| self.u32()).collect()
    }
}

fn short() -> Error {
    Error::broken("a record is shorter than its fields")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_in_their_order() {
        let record = Fields::new().u32(7).text(b"name").i64(-3).list(&[1, 2]).done();
        let mut reader = Reader::of(record.clone());
        assert_eq!(reader.u32().unwrap(), 7);
        assert_eq!(&reader.text().unwrap()[..], b"name");
        assert_eq!(reader.i64().unwrap(), -3);
        assert_eq!(reader.list().unwrap(), [1, 2]);
        assert!(matches!(reader.u32(), Err(Error::Broken(_))));
        // Cut anywhere, something is missed.
        for len in 0..record.len() {
            let mut reader = Reader::of(record.slice(..len));
            let mut read = || -> Result<()> {
                let _ = (reader.u32()?, reader.text()?, reader.i64()?, reader.list()?);
                Ok(())
            };
            assert!(read().is_err(), "{len}");
        }
        assert!(Reader::must(None, "drug").unwrap_err().to_string().contains("drug"));
    }
}
