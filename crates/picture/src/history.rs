//! What was asked: a history that the trusted side keeps of its own commands, for one picture.
//!
//! It is secret, and read by no check. `docs/history-format.md` draws it. A key stands in it as a
//! number that only tells which commands were about the same key: 32 bits of a hash under a salt
//! that is drawn for the file and kept nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fogbank_env::{Nanos, quoted};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::bands::{Band, Picture};
use crate::heat::HeatMap;

/// What a command did with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Asked {
    /// It only looked.
    Read,
    /// It may have changed something.
    Write,
}

/// One line of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// When, by the clock of the trace.
    pub at_ns: Nanos,
    /// What.
    pub op: Asked,
    /// Which key.
    pub key: u32,
}

#[derive(Serialize, Deserialize)]
struct Head {
    fogbank_history: u32,
}

/// Why a history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The operating system failed.
    #[error("cannot read the history {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// How.
        error: io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("the history {0} is no regular file")]
    NotAFile(PathBuf),
    /// Others than its owner may read it.
    #[error(
        "the history {path} has mode {mode:04o}: it says what was asked, so only its owner may \
         read it; chmod 600 {}, and think about who may have read it already",
        quoted(.path)
    )]
    NotPrivate {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is not in the format of a history.
    #[error("{path}, line {line}: {what}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What does not fit.
        what: String,
    },
}

/// The number of a key under a salt.
pub fn key_number(salt: u64, key: &[u8]) -> u32 {
    xxh3_64_with_seed(key, salt) as u32
}

/// Writes a history.
#[derive(Debug)]
pub struct HistoryWriter {
    file: BufWriter<File>,
    salt: u64,
}

impl HistoryWriter {
    /// Begins a history at `path`, where there must be no file; only the owner may read it. `salt`
    /// is to be fresh randomness.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create(path: impl AsRef<Path>, salt: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
        let mut writer = Self { file: BufWriter::new(file), salt };
        writer.line(&Head { fogbank_history: FORMAT })?;
        Ok(writer)
    }

    /// Notes that a command about `key` arrived.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn asked(&mut self, at_ns: Nanos, op: Asked, key: &[u8]) -> io::Result<()> {
        self.write(&HistoryLine { at_ns, op, key: key_number(self.salt, key) })
    }

    /// Writes a line whose key was numbered with [`key_number`] under the same salt.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write(&mut self, line: &HistoryLine) -> io::Result<()> {
        self.line(line)
    }

    /// Hands what is buffered to the operating system.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, line)?;
        self.file.write_all(b"\n")
    }
}

/// Reads a history line by line.
#[derive(Debug)]
pub struct HistoryReader {
    path: PathBuf,
    file: BufReader<File>,
    line: u64,
    text: Vec<u8>,
}

impl HistoryReader {
    /// Opens the history at `path`, if nobody but its owner may read it.
    ///
    /// # Errors
    /// [`HistoryError::NotPrivate`] if its mode is not 0600, or what does not fit.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, HistoryError> {
        let path = path.as_ref().to_owned();
        let fault = |error| HistoryError::Io { path: path.clone(), error };
        // Before it is opened: to open a pipe would wait for whoever writes to it.
        let found = path.metadata().map_err(fault)?;
        if !found.is_file() {
            return Err(HistoryError::NotAFile(path));
        }
        let file = File::open(&path).map_err(fault)?;
        let found = file.metadata().map_err(fault)?;
        let mode = found.permissions().mode() & 0o7777;
        if mode != MODE {
            return Err(HistoryError::NotPrivate { path, mode });
        }
        let mut reader = Self { path, file: BufReader::new(file), line: 0, text: Vec::new() };
        match reader.next_line::<Head>()? {
            Some(Head { fogbank_history: FORMAT }) => Ok(reader),
            Some(_) => Err(reader.malformed("a later build wrote it".into())),
            None => Err(reader.malformed("it is empty".into())),
        }
    }

    fn next_line<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<T>, HistoryError> {
        self.text.clear();
        self.line += 1;
        let bounded = &mut self.file.by_ref().take(LINE_BYTES_MAX);
        let read = bounded.read_until(b'\n', &mut self.text);
        read.map_err(|error| HistoryError::Io { path: self.path.clone(), error })?;
        if self.text.is_empty() || self.text.last() != Some(&b'\n') && self.is_at_end()? {
            return Ok(None); // a last line cut short is what a crash leaves
        }
        let parsed = serde_json::from_slice(&self.text);
        parsed.map(Some).map_err(|_| self.malformed("it is no line of a history".into()))
    }

    fn is_at_end(&mut self) -> Result<bool, HistoryError> {
        let rest = self.file.fill_buf().map(<[u8]>::is_empty);
        rest.map_err(|error| HistoryError::Io { path: self.path.clone(), error })
    }

    fn malformed(&self, what: String) -> HistoryError {
        HistoryError::Malformed { path: self.path.clone(), line: self.line, what }
    }
}

impl Iterator for HistoryReader {
    type Item = Result<HistoryLine, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().transpose()
    }
}

/// The keys of a history over time. A key's row follows from when it was first used, so a scan is a
/// slope, a favourite a line, and even use a field.
#[derive(Debug, Clone)]
pub struct Keys {
    rows: HashMap<u32, u32>,
    band: Band,
    commands: [u64; 2],
}

impl Keys {
    /// Nothing yet, on the scale of the run that it is shown beside.
    pub fn new((origin, column_ns): (Nanos, Nanos)) -> Self {
        let map = HeatMap::new(ROWS, origin, column_ns);
        let band = Band { title: "keys".into(), map };
        Self { rows: HashMap::new(), band, commands: [0; 2] }
    }

    /// Takes in the next line.
    pub fn line(&mut self, line: &HistoryLine) {
        let known = self.rows.len() as u32;
        let row = match self.rows.get(&line.key) {
            Some(row) => *row,
            None if known < KEYS_MAX => *self.rows.entry(line.key).or_insert(known),
            None => line.key % KEYS_MAX, // beyond that keys share rows
        };
        self.band.map.touch(line.at_ns, u64::from(row), 1);
        self.commands[line.op as usize] += 1;
    }

    /// How many keys there were; no more than this module tells apart.
    pub fn keys(&self) -> u64 {
        self.rows.len() as u64
    }

    /// How many commands read and wrote.
    pub fn commands(&self) -> (u64, u64) {
        (self.commands[Asked::Read as usize], self.commands[Asked::Write as usize])
    }

    /// The picture of all keys over time.
    pub fn picture(&self) -> Picture {
        Picture { bands: vec![self.band.clone()] }
    }
}

/// Nobody but the owner.
const MODE: u32 = 0o600;
const FORMAT: u32 = 1;
const LINE_BYTES_MAX: u64 = 256;
/// Rows of the picture.
const ROWS: usize = 96;
/// Keys that are told apart: 8 MB.
const KEYS_MAX: u32 = 1 << 19;
