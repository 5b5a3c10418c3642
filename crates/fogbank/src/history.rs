//! `--history`: what is asked goes to a file of the trusted side, for the auditor's picture.
//!
//! The way of a command only puts a line into a bounded queue; a thread writes. A line that finds
//! no room is left out and counted: the picture can bear that, a client need not wait for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_front::resp::Watcher;
use fogbank_picture::{Asked, HistoryLine, HistoryWriter, key_number};

use crate::error::{Error, Result};
use crate::side_check::check_new_file;

/// A history being written.
pub struct HistoryLog {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    salt: u64,
    /// `None` is the end.
    lines: SyncSender<Option<HistoryLine>>,
    left_out: AtomicU64,
    thread: Mutex<Option<JoinHandle<std::io::Result<()>>>>,
}

impl HistoryLog {
    /// Whether one can begin at `path`. Changes nothing.
    ///
    /// # Errors
    /// As [`HistoryLog::create`].
    pub fn check(path: &Path) -> Result<()> {
        check_new_file(path).map_err(|e| cannot_write(path, &e))
    }

    /// Begins a history at `path`, where there must be no file. `salt` is to be fresh randomness.
    ///
    /// # Errors
    /// [`Error::Usage`] if the file cannot be made.
    pub fn create(path: &Path, clock: Arc<dyn Clock>, salt: u64) -> Result<Arc<Self>> {
        let fault = |e| cannot_write(path, &e);
        let writer = HistoryWriter::create(path, salt).map_err(fault)?;
        let (lines, queue) = sync_channel(LINES_WAITING_MAX);
        let named = std::thread::Builder::new().name("history".into());
        let thread = named.spawn(move || write(writer, &queue)).map_err(fault)?;
        let (path, left_out) = (path.to_owned(), AtomicU64::new(0));
        Ok(Arc::new(Self { path, clock, salt, lines, left_out, thread: Mutex::new(Some(thread)) }))
    }

    /// Writes what is left; what is asked after this is in no file. Gives how many keys asked were
    /// left out.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if the disk refused a part: the history is then incomplete.
    pub fn finish(&self) -> Result<u64> {
        let thread = self.thread.lock().take();
        let Some(thread) = thread else { return Ok(0) };
        let _failed_before = self.lines.send(None);
        let written = thread.join().map_err(|_| Error::Bug("the history's thread died".into()))?;
        let path = self.path.display();
        written.map_err(|e| Error::CannotUse(format!("the history {path} is incomplete: {e}")))?;
        Ok(self.left_out.load(Ordering::Relaxed))
    }
}

impl Watcher for HistoryLog {
    fn asked(&self, changes: bool, key: &[u8]) {
        let op = if changes { Asked::Write } else { Asked::Read };
        let line = HistoryLine { at_ns: self.clock.now(), op, key: key_number(self.salt, key) };
        if self.lines.try_send(Some(line)).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn answered(&self, _: Nanos) {}
}

fn write(mut writer: HistoryWriter, queue: &Receiver<Option<HistoryLine>>) -> std::io::Result<()> {
    loop {
        match queue.recv_timeout(FLUSH_AFTER) {
            Ok(Some(line)) => writer.write(&line)?,
            Err(RecvTimeoutError::Timeout) => writer.flush()?,
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return writer.flush(),
        }
    }
}

const LINES_WAITING_MAX: usize = 1 << 16;
const FLUSH_AFTER: Duration = Duration::from_secs(1);
fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::Usage(format!("cannot write --history {}: {error}", path.display()))
}
