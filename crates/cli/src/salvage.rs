//! What of a damaged store verifies, as a backup or as a new store, and what is lost with the rest.
//!
//! 1. The store is read as its newest commit has it and not taken over; what does not verify is
//!    passed over.
//! 2. The records of which nothing is lost become a backup, or, by way of one on the trusted side
//!    that has lost its name already, a new store ([`crate::rotate`] does the same with all of
//!    them).
//! 3. What is lost is named to whoever asked, and to nobody else, and the command ends as after
//!    every lie.
//!
//! Nothing is repaired in place. The new store has a key, an id and cells of its own, so nothing is
//! sealed twice under one nonce and no place is read under the old versions again; and a cloud that
//! lied is not asked to keep what is left (decision 0039).
//!
//! What the cloud sees: commit record, checkpoint and deltas are read, and then each bucket once,
//! whole; of the new store what a restore shows.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::path::PathBuf;

use fogbank::args::{BackupArgs, OpenArgs};
use fogbank::backup::{Lost, salvage, unread};
use fogbank::{Error, OpenOptions, Place, Result, counted};
use fogbank_durable::BackupReader;
use fogbank_env::quoted;
use fogbank_front::resp::told;
use fogbank_oram::Unverified;
use fogbank_process::say;
use fogbank_seal::MasterKey;

use crate::rotate::{nameless, of_new, passing_key};
use fogbank_terminal::{bar, show};

use crate::upkeep::{existing, flags, kept, randomness, tell_kept};

/// Writes what verifies of a store to a backup; how long that is, and what is lost.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn write(
    args: &BackupArgs,
    place: &Place,
    file: File,
    master: &MasterKey,
) -> Result<(u64, Option<Lost>)> {
    let (file, lost) = salvaged("--salvage", place, BufWriter::new(file), master).await?;
    Ok((kept(file, &args.to)?, Some(lost)))
}

/// `fogbank verify --repair`.
///
/// # Errors
/// [`Error::CloudLied`] if anything is lost, though the new store is there and whole.
pub async fn repair(store: &OpenArgs, to: PathBuf, to_store: Option<String>) -> Result<()> {
    let old = existing(store)?;
    let registers = store.place.registers.registers.clone();
    let (second_store, second_journal) = (None, None);
    let new = Place { data: to, store: to_store, second_store, second_journal, registers };
    if new.store_url() == old.store_url() {
        return Err(Error::Usage(
            "the new store would lie where the old one is; say another place with --to-store"
                .into(),
        ));
    }
    new.check_lasts()?;
    new.check_free(&[])?;
    let _ending = of_new(&new)?;
    let key = passing_key(&randomness()?);
    let copy = BufWriter::new(nameless(&old.trusted(), "repairing")?);
    let (copy, lost) = salvaged("--repair", &old, copy, &key).await?;
    let fault = |e: std::io::Error| Error::CannotUse(format!("the copy is not whole: {e}"));
    let mut copy = copy.into_inner().map_err(|e| fault(e.into_error()))?;
    copy.rewind().map_err(fault)?;
    let backup = BackupReader::open(BufReader::new(copy), &key).map_err(unread)?;
    let bar = bar("filling the new store");
    let mut progress = |done, of| show(&bar, done, of);
    let restored = OpenOptions::new(new.clone()).restore(backup, &mut progress).await;
    bar.finish_and_clear();
    restored?;
    say!("what verifies is in {}", new.store_url());
    tell_kept(&new, "new: ");
    say!("next: fogbank serve --data {}{}", quoted(&new.data), flags(&new));
    tell(&lost)
}

async fn salvaged(
    flag: &str,
    place: &Place,
    file: BufWriter<File>,
    master: &MasterKey,
) -> Result<(BufWriter<File>, Lost)> {
    let stored = OpenOptions::new(place.clone()).existing().stored(flag).await?;
    let (random, passing) = (randomness()?, passing_key(&randomness()?));
    let aside = (nameless(&place.trusted(), "salvaging")?, &passing);
    let bar = bar("salvaging");
    let mut progress = |done, of| show(&bar, done, of);
    let salvaged = salvage(stored, aside, file, (master, &random), &mut progress).await;
    bar.finish_and_clear();
    salvaged
}

/// Names what is lost, and says what it means.
///
/// # Errors
/// [`Error::CloudLied`] if there is anything that does not verify.
pub fn tell(lost: &Lost) -> Result<()> {
    for run in lost.places.chunk_by(follows) {
        match run {
            [first, .., Unverified::Cell { cell, .. }] => {
                say!("does not verify: {first} to {cell}")
            }
            run => run.iter().for_each(|place| say!("does not verify: {place}")),
        }
    }
    for key in &lost.keys {
        say!("lost: {}", told(key));
    }
    let all = counted(lost.records, "record", "records");
    if lost.places.is_empty() {
        say!("nothing is lost: {all} verified");
        return Ok(());
    }
    let records = match lost.keys.len() {
        0 => format!("nothing is lost of {all}"),
        keys => format!("the loss is {keys} of {all}, named above"),
    };
    let places = counted(lost.places.len(), "place", "places");
    Err(Error::CloudLied(format!(
        "the cloud lied: it has changed or lost what it was to keep, at {places}, and {records}. \
         What was saved is what was written, every byte of it verified. Do not trust this cloud \
         again: take the data to another one and under a new key (a restore makes one), find out \
         who could write there, and keep what is left of the old store until you have"
    )))
}

/// Whether a place is the next cell of the same bucket.
fn follows(one: &Unverified, next: &Unverified) -> bool {
    match (one, next) {
        (Unverified::Cell { chunk, cell }, Unverified::Cell { chunk: same, cell: next }) => {
            chunk == same && cell.checked_add(1) == Some(*next)
        }
        _ => false,
    }
}
