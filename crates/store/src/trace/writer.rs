//! Writing a trace: encoded on the calling task, written by a thread of its own.
//!
//! 1. The caller encodes arguments and fingerprints into scratch memory, beside everybody else.
//! 2. Under a lock it reads the clock, gives the request its id and appends to the open block:
//!    times and ids therefore never decrease through the trace.
//! 3. A full block goes to the thread through a bounded channel, and its memory comes back. If the
//!    channel is full the caller waits, holding everyone up: a trace with gaps would be worthless,
//!    and a recorder that falls behind is said aloud and counted ([`TraceSummary::waits`]).
//! 4. The thread seals the block, begins a new file when the last is full, and writes.
//!
//! 5. The end is a block of its own. After it nothing is recorded, and without it a reader knows
//!    that something is missing.
//!
//! An error of the disk is kept: from then on nothing is recorded, so nothing is forwarded either.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, MutexGuard, RwLockReadGuard};
use std::thread::JoinHandle;

use fogbank_env::{Clock, Mutex, RwLock};

use super::block::{BLOCK_HEAD_BYTES, BlockHead, CONFIG_BYTES_MAX, FileHead};
use super::encode::{
    Cells, KIND_CLIENT_REPLY, KIND_CLIENT_REQUEST, KIND_DONE, KIND_HEARD, KIND_MARK,
    OUTCOME_ABANDONED, Placed, kind, log_kind, put_call, put_log_call, put_log_reply, put_reply,
    put_shown,
};
use super::event::LogCall;
use super::fingerprint::{Fingerprinting, Fingerprints};
use super::split::Shown;
use super::wire::{put_bytes, put_varint};
use crate::{ArrayId, Call, ChunkName, LogEvent, PlaceMap, Reply, Result, StoreError};

/// Settings of a [`TraceWriter`].
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// A file longer than this is followed by another: `trace`, `trace.1`, `trace.2`.
    pub file_bytes: u64,
    /// A block longer than this goes to the disk; what is in the open block is lost in a crash,
    /// unless [`TraceWriter::flush`] came before.
    pub block_bytes: usize,
    /// What of a cell is fingerprinted.
    pub fingerprints: Fingerprints,
    /// Whether cells in replies are fingerprinted too. Those written always are.
    pub reply_fingerprints: bool,
    /// Whether every request is with the operating system before it is forwarded: then the trace of
    /// a process that was killed lacks nothing that the cloud was asked.
    pub flush_requests: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            file_bytes: 1 << 30,
            block_bytes: 64 << 10,
            fingerprints: Fingerprints::Whole,
            reply_fingerprints: true,
            flush_requests: false,
        }
    }
}

/// What became of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSummary {
    /// Events written.
    pub events: u64,
    /// Bytes written, heads included.
    pub bytes: u64,
    /// Files begun.
    pub files: u32,
    /// How often a caller had to wait for the disk.
    pub waits: u64,
}

/// A trace being written; clones write to the same one. What is left is written, with the end of
/// the trace, and the thread ends, when the last clone is dropped.
#[derive(Clone)]
pub struct TraceWriter(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    options: TraceOptions,
    open: Mutex<OpenBlock>,
    /// Bytes of a cell of each array seen being made.
    shapes: RwLock<PlaceMap<(u8, ArrayId), usize>>,
    scratch: Mutex<Vec<Vec<u8>>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// Where events are gathered.
struct OpenBlock {
    /// Room for the head, then the events.
    bytes: Vec<u8>,
    events: u32,
    number: u64,
    first_id: u64,
    next_id: u64,
    base: u64,
    last: u64,
    /// Whether the end of the trace was written.
    ended: bool,
    /// `None` once the writer is being dropped.
    thread: Option<SyncSender<Message>>,
}

#[derive(Default)]
struct Counts {
    events: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
    waits: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
    /// Memory of written blocks, to be filled again.
    spare: Mutex<Vec<Vec<u8>>>,
}

enum Message {
    Block(Vec<u8>, BlockHead),
    /// Answers once everything before is with the operating system, or on the disk.
    Flush {
        durable: bool,
        done: SyncSender<()>,
    },
}

impl TraceWriter {
    /// Whether nothing is in the way of the later parts of a trace that begins at `path`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is.
    pub fn check_free(path: &Path) -> io::Result<()> {
        let Some(part) = left_over_part(path) else { return Ok(()) };
        let words = format!("{} is left over from another trace", part.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, words))
    }

    /// Begins a trace at `path`, where there must be no file, nor any of a later part. `config` is
    /// the public configuration, as the auditor is to read it.
    ///
    /// # Errors
    /// Those of the operating system; [`io::ErrorKind::AlreadyExists`] if a file is in the way.
    pub fn create(
        path: impl AsRef<Path>,
        config: &[u8],
        clock: Arc<dyn Clock>,
        options: TraceOptions,
    ) -> io::Result<Self> {
        if config.len() > CONFIG_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the configuration is too long",
            ));
        }
        Self::check_free(path.as_ref())?;
        let counts = Arc::new(Counts::default());
        let mut files = Files {
            path: path.as_ref().to_owned(),
            fingerprinting: Fingerprinting {
                cells: options.fingerprints,
                replies: options.reply_fingerprints,
            },
            config: config.to_owned(),
            part: 0,
            file: None,
            bytes: 0,
            bytes_max: options.file_bytes,
            counts: counts.clone(),
        };
        files.begin(0)?;
        let (sender, receiver) = sync_channel(BLOCKS_WAITING_MAX);
        let thread =
            std::thread::Builder::new().name("trace".into()).spawn(move || files.run(&receiver))?;
        let now = clock.now();
        let open = OpenBlock {
            bytes: vec![0; BLOCK_HEAD_BYTES],
            events: 0,
            number: 0,
            first_id: 0,
            next_id: 0,
            base: now,
            last: now,
            ended: false,
            thread: Some(sender),
        };
        Ok(Self(Arc::new(Shared {
            clock,
            options,
            open: Mutex::new(open),
            shapes: RwLock::default(),
            scratch: Mutex::default(),
            counts,
            thread: Some(thread),
        })))
    }

    /// Tells the shape of an array of a cloud that was made before the trace began, so that what is
    /// written to it is fingerprinted cell by cell.
    pub fn knows_array(&self, cloud: u8, array: ArrayId, cell_bytes: usize) {
        let mut shapes = self.0.shapes.write();
        shapes.insert((cloud, array), cell_bytes);
    }

    /// Records a public moment: an opening, a claim, a crash.
    pub fn mark(&self, label: &str, number: u64) -> Result<()> {
        let mut body = Vec::new();
        put_varint(&mut body, number);
        put_bytes(&mut body, label.as_bytes());
        self.append(KIND_MARK, |out, _| out.extend_from_slice(&body)).map(|_| ())
    }

    /// Records a message of a client, for engines whose arrivals are public.
    pub fn client_request(&self, connection: u32, number: u64, bytes: u64) -> Result<()> {
        self.client(KIND_CLIENT_REQUEST, connection, number, bytes)
    }

    /// Records the answer to the client's message of the same number.
    pub fn client_reply(&self, connection: u32, number: u64, bytes: u64) -> Result<()> {
        self.client(KIND_CLIENT_REPLY, connection, number, bytes)
    }

    /// Waits until everything recorded before is with the operating system: it survives the end of
    /// this process.
    pub fn flush(&self) -> Result<()> {
        self.wait_for_thread(false)
    }

    /// Bytes that are written so far.
    pub fn bytes(&self) -> u64 {
        self.0.counts.bytes.load(Ordering::Acquire)
    }

    /// Ends the trace: nothing can be recorded any more. Waits until it is on the disk, and says
    /// how much it is.
    pub fn finish(&self) -> Result<TraceSummary> {
        self.wait_for_thread(true)?;
        let counts = &self.0.counts;
        Ok(TraceSummary {
            events: counts.events.load(Ordering::Acquire),
            bytes: counts.bytes.load(Ordering::Acquire),
            files: counts.files.load(Ordering::Acquire) as u32,
            waits: counts.waits.load(Ordering::Acquire),
        })
    }

    /// Records what came to one cloud of two, of the client (0) or of the other cloud (1), before
    /// anything is done of it.
    ///
    /// # Errors
    /// [`StoreError::Caller`] if the trace cannot be written, or was ended.
    pub fn comes(&self, from: u8, shown: &Shown) -> Result<()> {
        let mut body = Vec::new();
        put_shown(&mut body, shown);
        self.append_sent(kind(shown.operation()), (from, 0), &body).map(|_| ())
    }

    /// Records a request about to be forwarded; returns its id.
    pub(crate) fn sent(&self, cloud: u8, connection: u32, call: &Call<'_>) -> Result<u64> {
        if let Call::CreateArray(array, shape) = call {
            self.knows_array(cloud, *array, shape.cell_bytes as usize);
        }
        let mut body = self.scratch();
        put_call(&mut body, call, &self.shapes(cloud));
        let id = self.append_sent(kind(call.operation()), (cloud, connection), &body);
        self.give_back(body);
        id
    }

    /// Records a call to the log that is about to be forwarded; returns its id.
    pub(crate) fn log_sent(&self, call: &LogCall) -> Result<u64> {
        let mut body = Vec::new();
        put_log_call(&mut body, call);
        self.append_sent(log_kind(call), (0, 0), &body)
    }

    /// Records the end of call `id` to the log.
    pub(crate) fn log_done(&self, id: u64, reply: &Result<Placed>) -> Result<()> {
        let mut body = Vec::new();
        put_log_reply(&mut body, reply);
        self.append_done(id, &body)
    }

    /// Records what came to request `id`, which follows the log.
    pub(crate) fn heard(&self, id: u64, event: &LogEvent) -> Result<()> {
        let (LogEvent::Entry(place, bytes) | LogEvent::Result(place, bytes)) = event;
        let appended = self.append(KIND_HEARD, |out, open| {
            put_varint(out, open.next_id - id);
            put_varint(out, *place);
            out.push(u8::from(matches!(event, LogEvent::Result(..))));
            put_varint(out, bytes.len() as u64);
            out.extend_from_slice(&Fingerprints::Whole.of(bytes).to_le_bytes());
        });
        appended.map(|_| ())
    }

    fn append_sent(&self, kind: u8, (cloud, connection): (u8, u32), body: &[u8]) -> Result<u64> {
        let id = self.append(kind, |out, open| {
            out.push(cloud);
            put_varint(out, u64::from(connection));
            out.extend_from_slice(body);
            open.next_id += 1;
        });
        if self.0.options.flush_requests {
            self.flush()?;
        }
        id
    }

    /// Records the end of request `id`, which asked for `chunks` if it read whole ones.
    pub(crate) fn done(
        &self,
        id: u64,
        cloud: u8,
        chunks: &[ChunkName],
        reply: &Result<Reply>,
    ) -> Result<()> {
        let mut body = self.scratch();
        let shapes = self.0.options.reply_fingerprints.then(|| self.shapes(cloud));
        put_reply(&mut body, reply, chunks, shapes.as_ref());
        drop(shapes);
        let recorded = self.append_done(id, &body);
        self.give_back(body);
        recorded
    }

    /// Records that nobody waits for the end of request `id` any more.
    pub(crate) fn abandoned(&self, id: u64) -> Result<()> {
        self.append_done(id, &[OUTCOME_ABANDONED])
    }

    fn append_done(&self, id: u64, outcome: &[u8]) -> Result<()> {
        let appended = self.append(KIND_DONE, |out, open| {
            put_varint(out, open.next_id - id);
            out.extend_from_slice(outcome);
        });
        appended.map(|_| ())
    }

    fn client(&self, kind: u8, connection: u32, number: u64, bytes: u64) -> Result<()> {
        let appended = self.append(kind, |out, _| {
            put_varint(out, u64::from(connection));
            put_varint(out, number);
            put_varint(out, bytes);
        });
        appended.map(|_| ())
    }

    /// Appends an event; returns the id that a request sent by it has.
    fn append(&self, kind: u8, put: impl FnOnce(&mut Vec<u8>, &mut OpenBlock)) -> Result<u64> {
        self.check()?;
        let shared = &*self.0;
        let mut open = shared.open.lock();
        if open.ended {
            return Err(StoreError::Caller("the trace was ended".into()));
        }
        let now = shared.clock.now().max(open.last);
        let id = open.next_id;
        let mut bytes = std::mem::take(&mut open.bytes);
        bytes.push(kind);
        put_varint(&mut bytes, now - open.last);
        open.last = now;
        open.events += 1;
        put(&mut bytes, &mut open);
        open.bytes = bytes;
        if open.bytes.len() >= shared.options.block_bytes || open.events == u32::MAX {
            self.close_block(&mut open)?;
        }
        Ok(id)
    }

    /// Hands the open block to the thread and opens the next.
    fn close_block(&self, open: &mut MutexGuard<'_, OpenBlock>) -> Result<()> {
        let counts = &self.0.counts;
        let mut next = counts.spare.lock().pop();
        let next = next.get_or_insert_with(Vec::new);
        next.clear();
        next.resize(BLOCK_HEAD_BYTES, 0);
        let message = open.take_block(std::mem::take(next), false);
        self.send(open, message)
    }

    fn send(&self, open: &OpenBlock, message: Message) -> Result<()> {
        let Some(thread) = &open.thread else { return Ok(()) };
        let sent = match thread.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => {
                if self.0.counts.waits.fetch_add(1, Ordering::AcqRel) == 0 {
                    tracing::warn!(
                        "the trace is written slower than it grows: requests wait for it"
                    );
                }
                thread.send(message).map_err(|_| ())
            }
            Err(TrySendError::Disconnected(_)) => Err(()),
        };
        sent.map_err(|()| StoreError::Caller("the trace's thread has ended".into()))
    }

    fn wait_for_thread(&self, to_end: bool) -> Result<()> {
        let (done, wait) = sync_channel(1);
        let mut open = self.0.open.lock();
        if open.events > 0 {
            self.close_block(&mut open)?;
        }
        if to_end && !open.ended {
            let end = open.take_block(Vec::new(), true);
            self.send(&open, end)?;
        }
        self.send(&open, Message::Flush { durable: to_end, done })?;
        drop(open);
        let _ = wait.recv(); // a thread that ended left its failure behind
        self.check()
    }

    fn check(&self) -> Result<()> {
        if !self.0.counts.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = self.0.counts.failure.lock();
        let failure = failure.as_deref().unwrap_or("unknown");
        Err(StoreError::Caller(format!("the trace cannot be written: {failure}")))
    }

    fn shapes(&self, cloud: u8) -> Shapes<'_> {
        let all = self.0.shapes.read();
        Shapes { cloud, kind: self.0.options.fingerprints, all }
    }

    fn scratch(&self) -> Vec<u8> {
        let kept = self.0.scratch.lock().pop();
        kept.unwrap_or_default()
    }

    fn give_back(&self, mut scratch: Vec<u8>) {
        scratch.clear();
        let mut kept = self.0.scratch.lock();
        if kept.len() < SCRATCH_KEPT_MAX {
            kept.push(scratch);
        }
    }
}

impl OpenBlock {
    /// The events gathered, as a message; `next` is where the following ones go. The end of the
    /// trace is a block without events.
    fn take_block(&mut self, next: Vec<u8>, is_end: bool) -> Message {
        let bytes = std::mem::replace(&mut self.bytes, next);
        self.ended = is_end;
        let head = BlockHead {
            is_end,
            body_bytes: (bytes.len() - BLOCK_HEAD_BYTES) as u32,
            events: self.events,
            number: self.number,
            first_id: self.first_id,
            base: self.base,
        };
        self.number += 1;
        self.events = 0;
        self.first_id = self.next_id;
        self.base = self.last;
        Message::Block(bytes, head)
    }
}

struct Shapes<'a> {
    cloud: u8,
    kind: Fingerprints,
    all: RwLockReadGuard<'a, PlaceMap<(u8, ArrayId), usize>>,
}

impl Cells for Shapes<'_> {
    fn cell_bytes(&self, array: ArrayId) -> Option<usize> {
        self.all.get(&(self.cloud, array)).copied()
    }

    fn fingerprints(&self) -> Fingerprints {
        self.kind
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let open = self.open.get_mut();
        if let Some(thread) = open.thread.take()
            && !open.ended
        {
            let room = || vec![0; BLOCK_HEAD_BYTES];
            if open.events > 0 {
                let _ = thread.send(open.take_block(room(), false)); // it may have ended
            }
            let _ = thread.send(open.take_block(room(), true));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The files of a trace, owned by the thread.
struct Files {
    path: PathBuf,
    fingerprinting: Fingerprinting,
    config: Vec<u8>,
    part: u32,
    file: Option<File>,
    bytes: u64,
    bytes_max: u64,
    counts: Arc<Counts>,
}

impl Files {
    fn run(mut self, messages: &Receiver<Message>) {
        for message in messages {
            let done = match message {
                Message::Block(mut bytes, head) => {
                    head.seal(&mut bytes);
                    let written = self.write(&bytes, head);
                    let mut spare = self.counts.spare.lock();
                    if spare.len() < BLOCKS_WAITING_MAX {
                        spare.push(bytes);
                    }
                    written
                }
                Message::Flush { durable, done } => {
                    let synced = match &self.file {
                        Some(file) if durable => file.sync_data(),
                        _ => Ok(()),
                    };
                    self.note(synced);
                    let _ = done.send(()); // whoever asked may have gone
                    continue;
                }
            };
            self.note(done);
        }
    }

    fn write(&mut self, block: &[u8], head: BlockHead) -> io::Result<()> {
        if self.counts.failed.load(Ordering::Acquire) {
            return Ok(()); // after a gap nothing more is worth writing
        }
        if self.bytes > self.bytes_max && !head.is_end {
            self.part += 1;
            self.begin(head.number)?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(block)?;
        }
        self.bytes += block.len() as u64;
        self.counts.bytes.fetch_add(block.len() as u64, Ordering::AcqRel);
        self.counts.events.fetch_add(u64::from(head.events), Ordering::AcqRel);
        Ok(())
    }

    /// Begins the file of this part.
    fn begin(&mut self, first_block: u64) -> io::Result<()> {
        let head = FileHead {
            part: self.part,
            first_block,
            fingerprinting: self.fingerprinting,
            config: self.config.clone(),
        };
        let head = head.encode();
        let path = part_path(&self.path, self.part);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&head)?;
        let next = part_path(&self.path, self.part + 1);
        if next.symlink_metadata().is_ok() {
            tracing::warn!(
                "{} is in the way of the trace: move it before {} is full",
                next.display(),
                part_path(&self.path, self.part).display()
            );
        }
        self.file = Some(file);
        self.bytes = head.len() as u64;
        self.counts.bytes.fetch_add(self.bytes, Ordering::AcqRel);
        self.counts.files.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let mut failure = self.counts.failure.lock();
            failure.get_or_insert_with(|| error.to_string());
            self.counts.failed.store(true, Ordering::Release);
        }
    }
}

/// The file of a part: the path itself, then the path with `.1`, `.2` and so on.
pub(super) fn part_path(path: &Path, part: u32) -> PathBuf {
    if part == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{part}"));
    PathBuf::from(name)
}

/// A file that bears the name of a later part of the trace at `path`: the trace could not go on
/// there, or would be read on into another.
fn left_over_part(path: &Path) -> Option<PathBuf> {
    let next = part_path(path, 1);
    if next.symlink_metadata().is_ok() {
        return Some(next);
    }
    let name = path.file_name()?.as_bytes();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let is_part = |other: &[u8]| {
        let number = other.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    entries.flatten().find(|entry| is_part(entry.file_name().as_bytes())).map(|entry| entry.path())
}

/// Full blocks on their way to the disk, and memory kept for more.
const BLOCKS_WAITING_MAX: usize = 64;
const SCRATCH_KEPT_MAX: usize = 64;
