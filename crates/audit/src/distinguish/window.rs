//! Cutting a run into windows: one begins with a read request and lasts until the next.
//!
//! Where a window begins is public, so windows of two histories can be laid side by side. What
//! comes before the first read (opening a store) and the window that the end of the run cuts short
//! (closing it) belong to none. Memory does not grow with the trace, but for the rows kept.
//!
//! Messages of clients and marks are not looked at: the cloud sees neither.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::trace::{Event, LogCall, Outcome, PublicConfig, Request, Sent};
use fogbank_store::{ArrayId, ArrayShape};

use super::feature::{Feature, Row};
use super::matrix::Table;
use super::moments::Moments;
use super::place::{fraction, level};
use super::reads::Reads;
use crate::engine;

/// Requests whose replies are awaited; of more, the oldest are forgotten.
const OUTSTANDING: usize = 1024;

/// Turns the events of one run into rows of features.
#[derive(Debug)]
pub struct Extractor {
    grid: Grid,
    shapes: Vec<(ArrayId, ArrayShape)>,
    outstanding: VecDeque<(u64, Nanos, bool)>,
    reads: Reads,
    table: Table,
    windows: u64,
    last_read: Option<Nanos>,
    last_sent: Option<Nanos>,
    last_done: Option<Nanos>,
    open: Option<Window>,
}

/// The points in time at which departures may fall; 0 where there are none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub interval: Nanos,
    pub quantum: Nanos,
}

/// Sums over the open window, but for its reads.
#[derive(Debug, Default)]
struct Window {
    row: Option<Row>,
    requests: u64,
    gaps: Moments,
    other_latency: f64,
    writes: u64,
    written: Moments,
    written_levels: Moments,
    written_places: Moments,
    deleted: u64,
    blobs: Moments,
    others: u64,
    reply_bytes: u64,
    not_written: u64,
    failures: u64,
}

impl Extractor {
    /// An extractor for a run under `config`; without one, only the grid is not known. It keeps
    /// rows for windows of each of `scales`, at most `rows_max` each.
    pub(super) fn keeping(
        config: Option<&PublicConfig>,
        scales: &[usize],
        rows_max: usize,
    ) -> Self {
        let known = config.and_then(|config| engine::of(config).ok());
        let grid = known.map_or(Grid { interval: 0, quantum: 0 }, |(_, engine)| engine.grid());
        Self {
            grid,
            shapes: Vec::new(),
            outstanding: VecDeque::new(),
            reads: Reads::new(),
            table: Table::new(scales, rows_max),
            windows: 0,
            last_read: None,
            last_sent: None,
            last_done: None,
            open: None,
        }
    }

    /// Takes in the next event of the run.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Sent(sent) => self.sent(sent),
            Event::Done(done) => self.done(done.id, done.at, &done.outcome),
            Event::Heard(heard) => self.heard(heard.bytes),
            Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_) => {}
        }
    }

    /// The rows of all whole windows.
    pub(super) fn into_table(self) -> Table {
        self.table
    }

    fn sent(&mut self, sent: &Sent) {
        if let Request::CreateArray { array, shape } = &sent.request {
            self.shapes.retain(|(known, _)| known != array);
            self.shapes.push((*array, *shape));
        }
        let reads = matches!(
            sent.request,
            Request::ReadCells { .. } | Request::ReadChunks { .. } | Request::ReadXor { .. }
        );
        if reads {
            self.close();
            self.begin(sent);
        }
        if self.outstanding.len() == OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back((sent.id, sent.at, reads));
        if let Some(window) = &mut self.open {
            window.requests += 1;
            let before = self.last_sent.unwrap_or(sent.at);
            window.gaps.add(log(sent.at.saturating_sub(before)));
            window.request(&sent.request, &mut self.reads);
        }
        self.read(&sent.request);
        self.last_sent = Some(sent.at);
    }

    /// Ends the open window.
    fn close(&mut self) {
        let Some(window) = self.open.take() else { return };
        let mut row = window.finish();
        self.reads.finish(&mut row);
        self.table.push(&row);
        self.windows += 1;
    }

    /// Begins a window with a read request.
    fn begin(&mut self, sent: &Sent) {
        let mut row = Row::new();
        let since = |before: Option<Nanos>| {
            before.map_or(0.0, |before| log(sent.at.saturating_sub(before)))
        };
        row.set(Feature::ReadGap, since(self.last_read));
        row.set(Feature::ReadAfterDone, since(self.last_done));
        row.set(Feature::EpochPhase, self.grid.phase(sent.at));
        row.set(Feature::PointDelay, self.grid.delay(sent.at));
        row.set(Feature::Cloud, f64::from(sent.cloud));
        row.set(Feature::Connection, f64::from(sent.connection));
        self.last_read = Some(sent.at);
        self.open = Some(Window { row: Some(row), ..Window::default() });
    }

    fn read(&mut self, request: &Request) {
        match request {
            Request::ReadCells { reads } | Request::ReadXor { reads, .. } => {
                for read in reads {
                    let width = self.width(read.chunk.array);
                    self.reads.chunk(read.chunk, &read.cells, width, self.windows);
                }
            }
            Request::ReadChunks { chunks } => {
                chunks.iter().for_each(|&chunk| self.reads.chunk(chunk, &[], 0, self.windows));
            }
            _ => {}
        }
        self.reads.close_path();
    }

    fn width(&self, array: ArrayId) -> u16 {
        let shape = self.shapes.iter().find(|(known, _)| *known == array);
        shape.map_or(0, |(_, shape)| shape.cells_per_chunk)
    }

    /// The log has told so many bytes.
    fn heard(&mut self, bytes: u64) {
        if let Some(window) = &mut self.open {
            window.reply_bytes += bytes;
        }
    }

    fn done(&mut self, id: u64, at: Nanos, outcome: &Outcome) {
        self.last_done = Some(at);
        let found = self.outstanding.iter().position(|(sent, ..)| *sent == id);
        let sent = found.and_then(|found| self.outstanding.remove(found));
        let Some(window) = &mut self.open else { return };
        if let Some((_, sent, reads)) = sent {
            window.latency(log(at.saturating_sub(sent)), reads);
        }
        window.outcome(outcome);
    }
}

impl Window {
    fn request(&mut self, request: &Request, reads: &mut Reads) {
        match request {
            Request::WriteChunks { writes } => {
                self.writes += 1;
                for (name, seen) in writes {
                    self.written.add(seen.bytes as f64);
                    self.written_levels.add(f64::from(level(name.chunk)));
                    self.written_places.add(fraction(name.chunk));
                    reads.written(name.chunk);
                }
            }
            Request::DeleteChunks { chunks } => self.deleted += chunks.len() as u64,
            Request::BlobPut { bytes, .. }
            | Request::Log(LogCall::Append { bytes, .. } | LogCall::Publish { bytes, .. }) => {
                self.blobs.add(*bytes as f64);
            }
            Request::ReadCells { .. } | Request::ReadChunks { .. } | Request::ReadXor { .. } => {}
            _ => self.others += 1,
        }
    }

    fn latency(&mut self, latency: f64, reads: bool) {
        if !reads {
            self.other_latency = self.other_latency.max(latency);
        } else if let Some(row) = &mut self.row {
            row.set(Feature::ReadLatency, latency);
        }
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Cells(seen) | Outcome::Chunks(seen) => {
                self.reply_bytes += seen.iter().flatten().map(|seen| seen.bytes).sum::<u64>();
                self.not_written += seen.iter().filter(|seen| seen.is_none()).count() as u64;
            }
            Outcome::Blob(Some(seen)) => self.reply_bytes += seen.bytes,
            Outcome::Failed(_) | Outcome::Abandoned | Outcome::Put(false) => self.failures += 1,
            _ => {}
        }
    }

    fn finish(self) -> Row {
        let mut row = self.row.unwrap_or_else(Row::new);
        let mut set = |feature, value| row.set(feature, value);
        set(Feature::OtherLatency, self.other_latency);
        set(Feature::GapMax, self.gaps.max_or(0.0));
        set(Feature::GapMean, self.gaps.mean_or(0.0));
        set(Feature::Requests, self.requests as f64);
        set(Feature::ReplyBytes, (self.reply_bytes as f64).ln_1p());
        set(Feature::NotWritten, self.not_written as f64);
        set(Feature::Writes, self.writes as f64);
        set(Feature::ChunksWritten, self.written.count());
        set(Feature::BytesWritten, (self.written.mean_or(0.0) * self.written.count()).ln_1p());
        set(Feature::BytesAChunk, self.written.mean_or(0.0).ln_1p());
        set(Feature::WrittenLevelMean, self.written_levels.mean_or(0.0));
        set(Feature::WrittenPlaceMean, self.written_places.mean_or(0.5));
        set(Feature::ChunksDeleted, self.deleted as f64);
        set(Feature::BlobsPut, self.blobs.count());
        set(Feature::BlobBytes, (self.blobs.mean_or(0.0) * self.blobs.count()).ln_1p());
        set(Feature::BlobBytesMax, self.blobs.max_or(0.0).ln_1p());
        set(Feature::OtherRequests, self.others as f64);
        set(Feature::Failures, self.failures as f64);
        row
    }
}

impl Grid {
    /// Where in the interval of the epochs `at` lies, from 0 to 1.
    fn phase(self, at: Nanos) -> f64 {
        let within = at.checked_rem(self.interval).unwrap_or(0);
        within as f64 / self.interval.max(1) as f64
    }

    /// The logarithm of the time since the last point of the finer grid.
    fn delay(self, at: Nanos) -> f64 {
        let step = if self.quantum > 0 { self.quantum } else { self.interval };
        log(at.checked_rem(step).unwrap_or(0))
    }
}

/// The logarithm of a length of time.
fn log(time: Nanos) -> f64 {
    (time as f64).ln_1p()
}
