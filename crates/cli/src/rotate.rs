//! `fogbank rotate-key`: the same data in a new store under a new key, in one step.
//!
//! 1. The store is opened and its epochs end, as for a backup.
//! 2. What a backup holds goes through a pipe, sealed by a key that exists only while this runs, to
//!    what a restore does: a store with a key, an id, salts and cells of its own.
//! 3. Both are closed. The old store stays until its owner deletes it: a rotation that is cut short
//!    loses nothing.
//!
//! What the cloud sees: a backup of the one and, beside it, a restore into the other. If both are in one
//! cloud it sees that one took the place of the other.

use std::io::{BufReader, BufWriter, PipeReader, Write};
use std::thread::JoinHandle;

use fogbank::args::RotateKeyArgs;
use fogbank::backup::{back_up, unread};
use fogbank::{Error, OpenOptions, Place, Result};
use fogbank_durable::BackupReader;
use fogbank_env::{Purpose, Randomness};
use fogbank_seal::MasterKey;
use rand_core::Rng;

use crate::upkeep::{bar, existing, flags, open, randomness, show};

/// Runs the rotation.
///
/// # Errors
/// [`Error::Usage`] if there is a store at the new place, [`Error::CheckFailed`] if the old one does not
/// verify. By then a new store may have been begun; it is not opened later.
pub async fn run(args: RotateKeyArgs) -> Result<()> {
    let old = existing(&args.place)?;
    let registers = args.place.registers.registers.clone();
    let new = Place { data: args.to.clone(), store: args.to_store.clone(), registers };
    if new.store_url() == old.store_url() {
        return Err(Error::Usage(
            "the new store would lie where the old one is; say another place with --to-store"
                .into(),
        ));
    }
    let random = randomness()?;
    let (seals, opens) = key_of_the_pipe(&random);
    let (from, to) = std::io::pipe().map_err(|e| Error::CannotUse(format!("no pipe: {e}")))?;
    let mut resting = open(&args.place).await?.rest().await?;
    let restoring = restore_elsewhere(new.clone(), from, opens);
    let bar = bar("rotating");
    let mut progress = |done, of| show(&bar, done, of);
    let copied = back_up(&mut resting, BufWriter::new(to), &seals, &random, &mut progress).await;
    // The end of the pipe is the end of the backup: it goes before the other side is waited for.
    let copied = copied.and_then(|mut pipe| {
        pipe.flush().map_err(|e| Error::CannotUse(format!("the copy was cut short: {e}")))
    });
    let joined = tokio::task::spawn_blocking(|| restoring.join()).await;
    bar.finish_and_clear();
    let restored = joined
        .map_err(|e| Error::Bug(e.to_string()))?
        .unwrap_or_else(|_| Err(Error::Bug("the restore has panicked".into())));
    match (copied, restored) {
        // A pipe breaks because the other side has given up, and that one knows why.
        (Err(Error::CannotUse(_)), Err(why)) | (Ok(()), Err(why)) | (Err(why), _) => Err(why),
        (Ok(()), Ok(())) => {
            resting.close().await?;
            tell(&old, &new);
            Ok(())
        }
    }
}

fn tell(old: &Place, new: &Place) {
    println!("the same data is in {}", new.store_url());
    println!("its key is new: {}; keep and back up", new.trusted().join("key").display());
    println!("next: fogbank serve --data {}{}", new.data.display(), flags(new));
    println!(
        "then delete the old store, {} and {}: its key still opens it",
        old.trusted().display(),
        old.store_url()
    );
}

fn key_of_the_pipe(random: &Randomness) -> (MasterKey, MasterKey) {
    let mut bytes = [0; 32];
    random.split(1).stream(Purpose::MasterKey).fill_bytes(&mut bytes);
    let mut again = bytes;
    (MasterKey::from_bytes(&mut bytes), MasterKey::from_bytes(&mut again))
}

/// Restores on a thread of its own, for it waits for the pipe.
fn restore_elsewhere(place: Place, from: PipeReader, key: MasterKey) -> JoinHandle<Result<()>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::CannotUse(e.to_string()))?;
        runtime.block_on(async {
            let backup = BackupReader::open(BufReader::new(from), &key).map_err(unread)?;
            OpenOptions::new(place).restore(backup, &mut |_, _| ()).await
        })
    })
}
