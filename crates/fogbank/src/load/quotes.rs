//! The quotes of a CSV file. What reads CSV takes any text for a table: a quote in the midst of a
//! field as it stands, what follows a closing quote as more of the field, and a quote that nothing
//! ends as one field to the end of the file. Each time keys and values come out that nobody wrote.
//!
//! 1. The file is read through [`Quotes`], which follows the quotes of RFC 4180 byte by byte.
//! 2. A quote opens a field at its beginning only, two within it stand for one, and behind the
//!    closing one comes a comma or the end of the line. All else is refused, with the line.

use std::io::{Error, ErrorKind, Read, Result};

/// Text that passes through as it is, unless its quotes stand where none may.
pub(super) struct Quotes<R> {
    text: R,
    at: At,
    /// The line that the next byte stands on, and that on which the quoted field began.
    line: u64,
    begun: u64,
}

/// What comes before the next byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    FieldBegin,
    Unquoted,
    Quoted,
    /// A quote within a quoted field: its end, or the first of two.
    Quote,
}

impl<R: Read> Quotes<R> {
    /// `text` stands behind the byte-order mark, if there is one.
    pub(super) fn of(text: R) -> Self {
        Self { text, at: At::FieldBegin, line: 1, begun: 1 }
    }

    fn follow(&mut self, byte: u8) -> Result<()> {
        self.at = match (self.at, byte) {
            (At::Quoted, b'"') => At::Quote,
            (At::Quoted, _) => At::Quoted,
            (At::Quote, b'"') => At::Quoted,
            (At::FieldBegin, b'"') => {
                self.begun = self.line;
                At::Quoted
            }
            (_, b',' | b'\r' | b'\n') => At::FieldBegin,
            (At::Quote, _) => {
                return Err(self.refused(
                    "something follows the quote that closes a field; a quote within one is \
                     written twice",
                ));
            }
            (At::Unquoted, b'"') => {
                return Err(self.refused(
                    "a quote stands in the midst of a field; a field with a quote stands in \
                     quotes, and its own are written twice",
                ));
            }
            (At::FieldBegin | At::Unquoted, _) => At::Unquoted,
        };
        self.line += u64::from(byte == b'\n');
        Ok(())
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(ErrorKind::InvalidData, format!("line {}: {why}", self.line))
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let bytes = self.text.read(into)?;
        if bytes == 0 && !into.is_empty() && self.at == At::Quoted {
            let begun = self.begun;
            let why = "nothing ends the quote that begins here; was the file cut short?";
            return Err(Error::new(ErrorKind::InvalidData, format!("line {begun}: {why}")));
        }
        into.iter().take(bytes).try_for_each(|byte| self.follow(*byte))?;
        Ok(bytes)
    }
}
