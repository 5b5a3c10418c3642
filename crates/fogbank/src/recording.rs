//! The recorder of a run: a trace of everything the store saw, with the public configuration in its
//! head. Of a client of a site the trace has the query log, too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_env::Clock;

use fogbank_durable::shared::SiteParameters;
use fogbank_oram::hierarchy::{arrays_of, public_config};
use fogbank_store::trace::{Fingerprints, PublicConfig, TraceClock, TraceOptions, TraceWriter};
use fogbank_store::{ArrayId, Log, Recorded, RecordedLog, Store};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::side_check::check_new_file;

/// What the recorder goes by, if there are epochs; clients of sites have none.
#[derive(Deserialize)]
struct Epochs {
    array: u16,
    cell_bytes: usize,
    interval_ns: u64,
}

/// A trace being written.
pub struct Recording {
    path: PathBuf,
    writer: TraceWriter,
}

impl Recording {
    /// Whether a trace can begin at `path`. Changes nothing.
    ///
    /// # Errors
    /// As [`Recording::start`].
    pub(crate) fn check(path: &Path) -> Result<()> {
        let checked = TraceWriter::check_free(path).and_then(|()| check_new_file(path));
        checked.map_err(|e| cannot_record(path, &e))
    }

    /// Wraps `store` so that everything it sees goes to the trace at `path`, if one is asked for.
    /// `head` is its public configuration.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a file at `path` already, or none can be made.
    pub fn start(
        path: Option<&Path>,
        store: Arc<dyn Store>,
        head: &PublicConfig,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Arc<dyn Store>, Option<Self>)> {
        let Some(path) = path else { return Ok((store, None)) };
        let Epochs { array, cell_bytes, interval_ns } = head.tail().map_err(Error::Bug)?;
        let options = TraceOptions {
            fingerprints: Fingerprints::Tail,
            // On a grid there is time for it; back to back it would cost throughput.
            flush_requests: interval_ns > 0,
            ..TraceOptions::default()
        };
        let writer = TraceWriter::create(path, &head.encode(), clock.clone(), options)
            .map_err(|e| cannot_record(path, &e))?;
        writer.knows_array(0, ArrayId(array), cell_bytes);
        let recording = Self { path: path.to_owned(), writer: writer.clone() };
        Ok((Arc::new(Recorded::new(store, writer)), Some(recording)))
    }

    /// The recorder of a client of a site, to the trace at `path`. Every request is with the system
    /// before it leaves, so that a client that is killed has asked for nothing that is not there.
    ///
    /// # Errors
    /// As [`Recording::start`].
    pub fn of_site(
        path: &Path,
        parameters: &SiteParameters,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let head = public_config(parameters, TraceClock::Real)?;
        let options = TraceOptions {
            fingerprints: Fingerprints::Tail,
            flush_requests: true,
            ..TraceOptions::default()
        };
        let writer = TraceWriter::create(path, &head.encode(), clock.clone(), options)
            .map_err(|e| cannot_record(path, &e))?;
        let (arrays, cell_bytes) = arrays_of(parameters)?;
        arrays.into_iter().for_each(|array| writer.knows_array(0, array, cell_bytes));
        Ok(Self { path: path.to_owned(), writer })
    }

    /// The store as it is recorded.
    pub fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Recorded::new(store, self.writer.clone()))
    }

    /// The log as it is recorded, in the same trace.
    pub fn log(&self, log: Arc<dyn Log>) -> Arc<dyn Log> {
        Arc::new(RecordedLog::new(log, self.writer.clone()))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if the disk refused part of the trace: it is then incomplete.
    pub fn finish(self) -> Result<()> {
        let path = self.path.display();
        let summary = self.writer.finish();
        let summary = summary
            .map_err(|e| Error::CannotUse(format!("the trace {path} is incomplete: {e}")))?;
        tracing::info!("recorded {} events in {} bytes to {path}", summary.events, summary.bytes);
        Ok(())
    }
}

fn cannot_record(path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "; choose a new name; to audit both, give LABEL=old,new to audit --trace"
        }
        _ => "",
    };
    Error::Usage(format!("cannot record to {}: {error}{advice}", path.display()))
}
