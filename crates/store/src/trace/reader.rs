//! Reading a trace: one block in memory at a time, through all its files.
//!
//! A trace cut short is what a crash leaves: within a block, or between two and then without its
//! end. The events before are handed out and the cut is reported. Anything else that is not as it
//! was written is an error, and ends the reading.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::block::{
    BLOCK_HEAD_BYTES, BlockHead, FILE_HEAD_BYTES, FORMAT, FileHead, HeadError, OLDEST_FORMAT,
};
use super::decode::Position;
use super::event::Event;
use super::fingerprint::{Fingerprinting, Fingerprints};
use super::spare::Spare;
use super::wire::Bytes;
use super::writer::part_path;

/// Why a trace cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system failed.
    #[error("cannot read {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// How.
        error: io::Error,
    },
    /// The file is no trace.
    #[error("{0} is no trace")]
    NotATrace(PathBuf),
    /// Another build wrote it.
    #[error(
        "{path} has trace format {found}; this build reads {OLDEST_FORMAT} to {FORMAT}: record again, \
         or read it with the build that wrote it"
    )]
    OtherFormat {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Its bytes are not those that were written.
    #[error("{path} is damaged at byte {offset}: {what}")]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// What does not fit.
        what: &'static str,
    },
}

/// Where a trace was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncation {
    /// In which file.
    pub path: PathBuf,
    /// How many bytes of it are whole.
    pub offset: u64,
    /// How many bytes of a block cut short follow; 0 if it was cut between two blocks, so that only
    /// its end is missing, or whole blocks and their files too.
    pub bytes: u64,
}

/// The events of a trace, in order.
#[derive(Debug)]
pub struct TraceReader {
    path: PathBuf,
    fingerprinting: Fingerprinting,
    config: Vec<u8>,
    part: u32,
    file: Option<BufReader<File>>,
    /// Whole bytes of the file that were consumed.
    offset: u64,
    body: Vec<u8>,
    /// How far the body is read.
    read: usize,
    /// Events of the body still to come.
    events: u32,
    position: Position,
    next_block: u64,
    truncated: Option<Truncation>,
    spare: Spare,
}

impl TraceReader {
    /// Opens the trace whose first file is `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let mut reader = Self {
            path: path.as_ref().to_owned(),
            fingerprinting: Fingerprinting { cells: Fingerprints::Whole, replies: true },
            config: Vec::new(),
            part: 0,
            file: None,
            offset: 0,
            body: Vec::new(),
            read: 0,
            events: 0,
            position: Position::default(),
            next_block: 0,
            truncated: None,
            spare: Spare::default(),
        };
        let file = File::open(&reader.path).map_err(|error| reader.io(error))?;
        if !reader.begin(file)? {
            return Err(reader.corrupt("the file ends within its head"));
        }
        Ok(reader)
    }

    /// The public configuration that the trace was written under.
    pub fn config(&self) -> &[u8] {
        &self.config
    }

    /// Which fingerprints of cells are in the trace.
    pub fn fingerprinting(&self) -> Fingerprinting {
        self.fingerprinting
    }

    /// Where the trace was cut short, if it was; known once the last event is read.
    pub fn truncated(&self) -> Option<&Truncation> {
        self.truncated.as_ref()
    }

    /// Takes back an event that was looked at: its memory serves those to come. Worth it where
    /// every event of a long trace is looked at once.
    pub fn take_back(&mut self, event: Event) {
        self.spare.take_back(event);
    }

    /// The memory held for what is being read.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.body.capacity()
    }

    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        while self.events == 0 {
            if self.read < self.body.len() {
                return Err(self.corrupt("a block holds more than its events"));
            }
            if !self.next_block()? {
                return Ok(None);
            }
        }
        let mut bytes = Bytes(&self.body[self.read..]);
        let event = bytes.event(&mut self.position, &mut self.spare);
        self.read = self.body.len() - bytes.0.len();
        self.events -= 1;
        event.map(Some).ok_or_else(|| self.corrupt("a block holds what is no event"))
    }

    /// Reads the next block, in this file or the next; `false` at the end of the trace.
    fn next_block(&mut self) -> Result<bool, TraceError> {
        loop {
            let Some(mut file) = self.file.take() else { return Ok(false) };
            let mut head = [0; BLOCK_HEAD_BYTES];
            let got = fill(&mut file, &mut head).map_err(|error| self.io(error))?;
            if got == 0 {
                match self.next_file()? {
                    true => continue,
                    // The head of the next file may have been cut.
                    false if self.truncated.is_some() => return Ok(false),
                    false => return self.cut(0),
                }
            }
            if got < head.len() {
                return self.cut(got as u64);
            }
            let head_read = BlockHead::decode(&head);
            let head_read = head_read.ok_or_else(|| self.corrupt("here begins no block"))?;
            self.body.clear();
            let wanted = u64::from(head_read.body_bytes);
            let body = file.by_ref().take(wanted).read_to_end(&mut self.body);
            let got = body.map_err(|error| self.io(error))? as u64;
            if got < wanted {
                self.body.clear();
                return self.cut(BLOCK_HEAD_BYTES as u64 + got);
            }
            if !BlockHead::sound(&head, &self.body) {
                return Err(self.corrupt("the check of a block fails"));
            }
            if head_read.number != self.next_block || head_read.first_id != self.position.next_id {
                return Err(self.corrupt("a block is missing before this one"));
            }
            if head_read.is_end {
                return self.end(file);
            }
            self.file = Some(file);
            self.offset += BLOCK_HEAD_BYTES as u64 + wanted;
            self.next_block += 1;
            self.spare.begin_block();
            self.position.at = head_read.base;
            self.events = head_read.events;
            self.read = 0;
            return Ok(true);
        }
    }

    /// The end was read: nothing may follow it.
    fn end(&mut self, mut file: BufReader<File>) -> Result<bool, TraceError> {
        let followed = fill(&mut file, &mut [0]).map_err(|error| self.io(error))? > 0;
        if followed || part_path(&self.path, self.part + 1).exists() {
            return Err(self.corrupt("the trace goes on after its end"));
        }
        Ok(false)
    }

    /// Goes on to the next file, if there is one.
    fn next_file(&mut self) -> Result<bool, TraceError> {
        let next = part_path(&self.path, self.part + 1);
        let file = match File::open(&next) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(TraceError::Io { path: next, error }),
        };
        self.part += 1;
        self.begin(file)
    }

    /// Reads the head of a file; `false` if it was cut short.
    fn begin(&mut self, file: File) -> Result<bool, TraceError> {
        let mut file = BufReader::with_capacity(READ_BYTES, file);
        self.offset = 0;
        let mut head = vec![0; FILE_HEAD_BYTES];
        let got = fill(&mut file, &mut head).map_err(|error| self.io(error))?;
        head.truncate(got);
        let decoded = FileHead::decode_length(&head).and_then(|rest| {
            head.resize(FILE_HEAD_BYTES + rest, 0);
            let got =
                fill(&mut file, &mut head[FILE_HEAD_BYTES..]).map_err(|_| HeadError::Short)?;
            head.truncate(FILE_HEAD_BYTES + got);
            FileHead::decode(&head)
        });
        let path = part_path(&self.path, self.part);
        match decoded {
            Ok(decoded) if decoded.part != self.part || decoded.first_block != self.next_block => {
                return Err(self.corrupt("the file belongs elsewhere in the trace"));
            }
            Ok(decoded) if self.part > 0 && decoded.config != self.config => {
                return Err(self.corrupt("the file has another configuration than the first"));
            }
            Ok(decoded) if self.part > 0 && decoded.fingerprinting != self.fingerprinting => {
                return Err(self.corrupt("the file has other fingerprints than the first"));
            }
            Ok(decoded) => {
                self.fingerprinting = decoded.fingerprinting;
                self.config = decoded.config;
            }
            Err(HeadError::Short) => return self.cut(head.len() as u64),
            Err(HeadError::NotATrace) => return Err(TraceError::NotATrace(path)),
            Err(HeadError::OtherFormat(found)) => {
                return Err(TraceError::OtherFormat { path, found });
            }
            Err(HeadError::Corrupt) => return Err(self.corrupt("the check of the head fails")),
        }
        self.offset = head.len() as u64;
        self.file = Some(file);
        Ok(true)
    }

    /// Notes that the trace ends without its end, which only its last file may.
    fn cut(&mut self, bytes: u64) -> Result<bool, TraceError> {
        if part_path(&self.path, self.part + 1).exists() {
            return Err(self.corrupt("the file ends within a block, and another follows"));
        }
        let path = part_path(&self.path, self.part);
        self.truncated = Some(Truncation { path, offset: self.offset, bytes });
        Ok(false)
    }

    fn io(&self, error: io::Error) -> TraceError {
        TraceError::Io { path: part_path(&self.path, self.part), error }
    }

    fn corrupt(&self, what: &'static str) -> TraceError {
        let path = part_path(&self.path, self.part);
        TraceError::Corrupt { path, offset: self.offset, what }
    }
}

impl Iterator for TraceReader {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_event().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.file = None; // after an error or the end there is only the end
            self.body.clear();
            (self.events, self.read) = (0, 0);
        }
        next
    }
}

/// Reads until `buffer` is full or the file ends; how much it was.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

const READ_BYTES: usize = 256 << 10;
