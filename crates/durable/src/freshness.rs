//! Whether what the cloud shows is what the register knows.
//!
//! The commit record is the register's, or its successor by the one put that a stop may have kept
//! from the register. The journal passes through every place that register and record know, and
//! goes on from the last of them by as many records as may be under way at once.

use crate::commit::{CommitRecord, LogEnd};
use crate::error::Suspicion;
use crate::journal::Log;
use crate::{Error, RegisterValue, Result};
use fogbank_seal::Digest;

/// Places that the journal has to pass through.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    places: Vec<LogEnd>,
    /// Whether the journal may go on as far as it likes: the register was lost and the risk
    /// accepted.
    any_length: bool,
}

impl Known {
    /// Holds `record` against the register's value; `None` if the register was lost and the
    /// operator has accepted what follows from it.
    ///
    /// # Errors
    /// [`Error::CloudLied`] unless the record is the register's or its successor.
    pub(crate) fn check(
        record: &CommitRecord,
        digest: Digest,
        known: Option<RegisterValue>,
    ) -> Result<Self> {
        let end = record.log_end(digest);
        let Some(known) = known else { return Ok(Self { places: vec![end], any_length: true }) };
        let registered = LogEnd { place: known.place, digest: known.journal };
        let suspicion = match record.public.sequence.checked_sub(known.sequence) {
            _ if known.store != record.public.store => Suspicion::OtherStore,
            None => Suspicion::RolledBack,
            Some(0) if known.commit == digest => return Ok(Self::through(vec![end, registered])),
            Some(1) if known.commit == record.previous && known.epoch == record.epoch => {
                let places = if known.sequence == 0 { vec![end] } else { vec![registered, end] };
                return Ok(Self::through(places));
            }
            Some(1) if known.commit == record.previous => return Ok(Self::through(vec![end])),
            _ => Suspicion::Unknown,
        };
        Err(Error::CloudLied(suspicion))
    }

    fn through(places: Vec<LogEnd>) -> Self {
        Self { places, any_length: false }
    }

    /// Where a journal has to come through.
    pub(crate) fn places(&self) -> &[LogEnd] {
        &self.places
    }

    /// Holds a journal that was read to its end, and told of these places, against what is known of
    /// it.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is cut, another one, or too long.
    pub(crate) fn check_log(&self, log: &Log, at_once: u64) -> Result<()> {
        let last = self.places.iter().map(|end| end.place).max().unwrap_or(0);
        let end = log.end().place;
        let suspicion = match log.missed() {
            _ if end < last => Suspicion::JournalCut(log.record(end)),
            // What is known of a place is the record before it.
            Some(place) => Suspicion::Journal(log.before(place)),
            None if end > last + at_once && !self.any_length => {
                Suspicion::JournalLong(log.before(end))
            }
            None => return Ok(()),
        };
        Err(Error::CloudLied(suspicion))
    }
}
