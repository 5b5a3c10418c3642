//! The recorder of a run: a trace of everything the store saw, with the public configuration in its
//! head.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_env::Clock;

use fogbank_store::trace::{EngineConfig, Fingerprints, PublicConfig, TraceOptions, TraceWriter};
use fogbank_store::{ArrayId, Recorded, Store};

use crate::error::{Error, Result};

/// A trace being written.
pub struct Recording {
    path: PathBuf,
    writer: TraceWriter,
}

impl Recording {
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
        let (array, cell_bytes, on_a_grid) = match &head.engine {
            EngineConfig::Ring(ring) => (ring.array, ring.cell_bytes, ring.interval_ns > 0),
            EngineConfig::Tao(tao) => (tao.array, tao.cell_bytes, tao.rate.is_some()),
        };
        let options = TraceOptions {
            fingerprints: Fingerprints::Tail,
            // On a grid there is time for it; back to back it would cost throughput.
            flush_requests: on_a_grid,
            ..TraceOptions::default()
        };
        let writer = TraceWriter::create(path, &head.encode(), clock.clone(), options)
            .map_err(|e| cannot_record(path, &e))?;
        writer.knows_array(0, ArrayId(array), cell_bytes as usize);
        let recording = Self { path: path.to_owned(), writer: writer.clone() };
        Ok((Arc::new(Recorded::new(store, writer)), Some(recording)))
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
