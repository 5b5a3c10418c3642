//! A new store made of a file of records.
//!
//! 1. The file is read once from end to end: every record has to be one that can be stored, and all
//!    of them have to fit. Nothing is made before that is known.
//! 2. What the file is known again by goes to the trusted side ([`note`]).
//! 3. The store is made and filled ([`crate::fill`]); every record gets random addresses. The file
//!    is read a second time, and has to be what it was.
//!
//! After the end the trusted side remembers what the file is known by: the same command says that
//! it is done, and does nothing. After a stop in 3, the same command goes on: the file has to be
//! the same, every record gets the addresses it had, and of the blocks, which come in the same
//! order, those are left out that committed epochs hold. The file is read up to there before the
//! cloud hears of it.
//!
//! What the cloud sees: that a store of this capacity was made and filled, and that a process
//! stopped and another went on; neither how many records there were nor how long they are.

mod dump;
mod note;
mod quotes;
mod source;

use std::collections::HashMap;

use fogbank_front::resp::Filled;
use fogbank_txn::Filling;

pub use source::{Fingerprint, Format, LeftOut, Reading, Record, Source};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::fill::{Fill, Progress, blocks_noted};
use crate::open::OpenOptions;
use note::Note;

/// What a load came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Keys that are in the store now.
    pub keys: usize,
    /// What was left out.
    pub left_out: LeftOut,
    /// Whether it went on with what an earlier one had begun.
    pub went_on: bool,
    /// Whether an earlier one had done it all: then nothing was done.
    pub was_finished: bool,
}

impl OpenOptions {
    /// Makes a new store of the records in `source`, or goes on making it. `records_of` says what
    /// the front end keeps for a key.
    ///
    /// # Errors
    /// [`Error::Usage`] if a record is none, a key comes twice, not all of them fit, or the file is
    /// not the one that an earlier load began with: then nothing was made. Otherwise as for
    /// [`OpenOptions::open`].
    pub async fn load(
        self,
        source: &Source,
        records_of: impl Fn(Record) -> Vec<Filled> + Send,
        progress: &mut Progress<'_>,
    ) -> Result<Loaded> {
        let link = self.across_a_link();
        let config = StoreConfig::derive_at(&self.new_shape()?, link, link)?;
        let begun = Note::read(&self.place().trusted())?;
        let (keys, reading) = check(source, &config, &records_of, &self)?;
        let new = Note::new(reading.fingerprint, source.skips(), &self.randomness()?);
        let trusted = self.place().trusted();
        if begun.is_none() && new.is_finished(&trusted) {
            return Ok(Loaded {
                keys,
                left_out: reading.left_out,
                went_on: false,
                was_finished: true,
            });
        }
        let note = match &begun {
            None => new,
            Some(note) if (&note.file, note.skip_unsupported) == (&new.file, source.skips()) => {
                note.clone()
            }
            Some(_) => {
                return Err(Error::Usage(format!(
                    "{} is not the file (or not with the flags) that the load into {} was begun \
                     with; go on with that one, or remove both sides of the store and load again",
                    source.path().display(),
                    self.place().data.display()
                )));
            }
        };
        let mut filling = empty(&config, &note.randomness());
        let went_on = begun.is_some();
        let noted = if went_on { blocks_noted(&self.place().trusted()) } else { 0 };
        // Records are read and blocks written in turn, so that neither is ever all in memory.
        let (records, mut taken) = tokio::sync::mpsc::channel(RECORDS_AHEAD);
        let reader = source.clone();
        let reading = tokio::task::spawn_blocking(move || {
            reader.each(|record| {
                let gone = |_| Error::Usage("the store took no more records".into());
                records.blocking_send(record).map_err(gone)
            })
        });
        let mut blocks_of = |record: Record| {
            let number = record.number;
            let mut blocks = Vec::new();
            for (key, value, attr) in records_of(record) {
                let put = filling.put(&key, &value, attr);
                blocks.append(&mut put.map_err(|e| source.wrong(number, &e.to_string()))?);
            }
            Ok::<_, Error>(blocks)
        };
        // What is in the store already is passed over before the cloud hears anything of it.
        let (mut passed, mut coming) = (0, Vec::new());
        while passed < noted {
            let Some(record) = taken.recv().await else { break };
            let mut blocks = blocks_of(record)?;
            let over = blocks.len().min(usize::try_from(noted - passed).unwrap_or(usize::MAX));
            coming = blocks.split_off(over);
            passed += over as u64;
        }
        if passed < noted {
            reading.await.map_err(|e| Error::Bug(e.to_string()))??;
            return Err(changed(source));
        }
        let mut new =
            Fill::begin(self, &config, &note.encode()?, went_on, passed, progress).await?;
        new.write(coming).await?;
        while let Some(record) = taken.recv().await {
            new.write(blocks_of(record)?).await?;
        }
        let read = reading.await.map_err(|e| Error::Bug(e.to_string()))??;
        if read.fingerprint != note.file {
            return Err(changed(source));
        }
        note.keep_as_finished(&trusted)?;
        new.finish(filling.sections()).await?;
        Ok(Loaded { keys, left_out: read.left_out, went_on, was_finished: false })
    }
}

/// Why a record cannot be stored, and in which store it could be.
fn told(error: &fogbank_txn::Error, config: &StoreConfig) -> String {
    match config.advice(error) {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}

fn changed(source: &Source) -> Error {
    Error::Usage(format!(
        "{} changed while it was read; remove both sides of the store and load again",
        source.path().display()
    ))
}

/// Records that are read before their blocks are written.
const RECORDS_AHEAD: usize = 1024;

fn empty(config: &StoreConfig, randomness: &fogbank_env::Randomness) -> Filling {
    Filling::new(&config.proxy_settings(), config.ring_settings().shape, randomness)
}

/// Whether every record can be stored and all of them fit; how many keys there are.
fn check(
    source: &Source,
    config: &StoreConfig,
    records_of: &impl Fn(Record) -> Vec<Filled>,
    options: &OpenOptions,
) -> Result<(usize, Reading)> {
    let mut filling = empty(config, &options.randomness()?);
    let mut seen: HashMap<Vec<u8>, u64> = HashMap::new();
    let (mut keys, mut fitting, mut is_full) = (0_usize, 0, false);
    let (mut needed, mut key_bytes) = (0_usize, 0);
    let reading = source.each(|record| {
        let number = record.number;
        keys += 1;
        if let Some(before) = seen.insert(record.name.clone(), number) {
            let why = format!("its key is that of {}", source.place(before));
            return Err(source.wrong(number, &why));
        }
        for (key, value, attr) in records_of(record) {
            key_bytes += key.encoded_len();
            needed += value.len().div_ceil(config.value_size).max(1);
            match filling.put(&key, &value, attr) {
                Err(fogbank_txn::Error::OutOfSpace) => is_full = true,
                Err(error) => return Err(source.wrong(number, &told(&error, config))),
                Ok(_) => {}
            }
        }
        fitting += usize::from(!is_full);
        Ok(())
    })?;
    if is_full {
        let enough = needed.max(key_bytes.div_ceil(config.key_budget)) * 5 / 4 + 1;
        return Err(Error::Usage(format!(
            "{} does not fit: of its {keys} records a store of --capacity {} holds the first \
             {fitting}. All of them need {needed} blocks of {} bytes, and room for their keys; \
             choose a --capacity with room to spare, such as {enough}",
            source.path().display(),
            config.capacity,
            config.value_size,
        )));
    }
    Ok((keys, reading))
}
