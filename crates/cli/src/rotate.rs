//! `fogbank rotate-key`: the same data in a new store under a new key, in one step.
//!
//! 1. A backup goes to a file on the trusted side that has lost its name already, sealed by a key
//!    that exists only while this runs. The old store is closed.
//! 2. Only then is the new store made and filled from it: with a key, an id, salts and cells of its
//!    own.
//!
//! That is also how a store gets another capacity. The old store stays until its owner deletes it:
//! a rotation that is cut short loses nothing.
//!
//! Invariant: nothing is sent to the new store before the last message to the old one. Were the two
//! filled and read side by side, the epochs of the one between the reads of the other would tell
//! how many blocks lie in what was read.
//!
//! What the cloud sees: a backup of the one, then a restore into the other. If both are in one
//! cloud it sees that one took the place of the other.

use std::fs::{File, OpenOptions as FileOptions};
use std::io::{BufReader, BufWriter, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fogbank::args::{OpenArgs, RotateKeyArgs, ShapeArgs};
use fogbank::backup::{back_up, check_second_store, unread};
use fogbank::{Error, OpenOptions, Place, Result, check_access, lock_trusted_side};
use fogbank_durable::BackupReader;
use fogbank_env::{Purpose, Randomness, quoted};
use fogbank_process::say;
use fogbank_seal::MasterKey;
use rand_core::Rng;

use fogbank_terminal::{Ending, bar, show};

use crate::upkeep::{existing, flags, open, randomness, serves, tell_kept};

/// Runs the rotation.
///
/// # Errors
/// [`Error::Usage`] if there is a store at the new place, [`Error::CloudLied`] if the old one does
/// not verify. A new store that was not filled to its end is not opened later.
pub async fn run(args: RotateKeyArgs) -> Result<()> {
    let old = existing(&args.place)?;
    let registers = args.place.place.registers.registers.clone();
    let (data, store) = (args.to.clone(), args.to_store.clone());
    let second_store = args.to_second_store.clone();
    let new = Place { data, store, second_store, second_journal: None, registers };
    if new.store_url() == old.store_url() {
        return Err(Error::Usage(
            "the new store would lie where the old one is; say another place with --to-store"
                .into(),
        ));
    }
    new.check_lasts()?;
    new.check_free(&[])?;
    let _ending = of_new(&new)?;
    check_access(&new.store_url())?;
    let (random, key) = (randomness()?, passing_key(&randomness()?));
    let second = args.to_second_store.as_deref();
    let file = nameless(&old.trusted(), "rotating")?;
    let copy = copy_to(file, &args.place, second, &key, &random).await?;
    // Whoever serves it must not go on in the old one meanwhile.
    let _held = lock_trusted_side(&old.trusted())?;
    let backup = BackupReader::open(BufReader::new(copy), &key).map_err(unread)?;
    let bar = bar("filling the new store");
    let mut progress = |done, of| show(&bar, done, of);
    let shape = ShapeArgs { capacity: args.capacity, ..ShapeArgs::default() };
    let serve = serves(backup.config());
    let options = OpenOptions::new(new.clone()).shape(shape);
    let restored = options.restore(backup, &mut progress).await;
    bar.finish_and_clear();
    restored?;
    tell(&old, &new, serve);
    Ok(())
}

/// What a signal leaves of a store that is copied into a `new` one.
///
/// # Errors
/// As [`Ending::telling`].
pub fn of_new(new: &Place) -> Result<Ending> {
    let new = new.clone();
    let words = move || format!("the old store is as it was; {}", new.told_if_stopped());
    Ending::telling(words, None)
}

/// Writes a backup of the store to `file` and closes the store; the file, to be read. Nothing of
/// either if the new one would need another `second` cloud.
async fn copy_to(
    file: File,
    store: &OpenArgs,
    second: Option<&str>,
    key: &MasterKey,
    random: &Randomness,
) -> Result<File> {
    let unwritten = |e: std::io::Error| Error::CannotUse(format!("the copy is not whole: {e}"));
    let mut resting = open(store).await?;
    if let Err(refused) = check_second_store(&resting.encoded(), "--to-second-store", second) {
        resting.close().await?;
        return Err(refused);
    }
    let bar = bar("reading the old store");
    let mut progress = |done, of| show(&bar, done, of);
    let written = back_up(&mut resting, BufWriter::new(file), key, random, &mut progress).await;
    bar.finish_and_clear();
    let mut file = written?.into_inner().map_err(|e| unwritten(e.into_error()))?;
    resting.close().await?;
    file.rewind().map_err(unwritten)?;
    Ok(file)
}

/// A file in the folder of a trusted side that goes with the process, however that ends.
///
/// # Errors
/// [`Error::CannotUse`] if it cannot be made.
pub fn nameless(trusted: &Path, name: &str) -> Result<File> {
    let path = trusted.join(name);
    let fault = |e| Error::CannotUse(format!("{}: {e}", path.display()));
    let mut options = FileOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let file = file.open(&path).map_err(fault)?;
    std::fs::remove_file(&path).map_err(fault)?;
    Ok(file)
}

/// A key that goes with the process.
pub fn passing_key(random: &Randomness) -> MasterKey {
    let mut bytes = [0; 32];
    random.stream(Purpose::MasterKey).fill_bytes(&mut bytes);
    MasterKey::from_bytes(&mut bytes)
}

fn tell(old: &Place, new: &Place, serve: &str) {
    say!("the same data is in {}", new.told_stores());
    tell_kept(new, "new: ");
    say!("next: {serve} --data {}{}", quoted(&new.data), flags(new));
    say!("have nothing serve the old one: what it takes from now on is in no other");
    say!(
        "then delete the old store, {} and {}: its key still opens it",
        old.trusted().display(),
        old.told_stores()
    );
}
