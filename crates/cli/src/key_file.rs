//! Keys that are not in their own folder: from a file, perhaps under a passphrase.
//!
//! A passphrase comes from a file that nobody else can read, or from the terminal, where it is not
//! shown; never from the command line, which others can see. What was typed is read byte by byte
//! into memory that is erased. A signal meanwhile ends the command, and the terminal shows again
//! what is typed.

use std::fs::File;
use std::io::{self, ErrorKind, Read, stdin};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use fogbank::args::KeyFileArgs;
use fogbank::{Error, Result};
use fogbank_process::say_error;
use fogbank_seal::{
    KeyFile, KeyFileError, LONGEST, MasterKey, Passphrase, PassphraseError, read_key_file,
};
use fogbank_terminal::{end_at_once_at_another_signal, stop_signal};
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// The file of a site's key.
pub const OF_SITE: &str =
    "what fogbank site invite wrote, or of a copy of the file proxy/key of a client";
/// The file of the key of a store or a volume.
pub const OF_STORE: &str = "a copy of the file proxy/key of what was backed up";

/// The key in a file, which is to be `what`; asks for its passphrase if it has one.
///
/// # Errors
/// [`Error::Usage`] if there is none, or the passphrase is another one; [`Error::CannotUse`] if it
/// cannot be used; [`Error::Interrupted`] after a signal.
pub async fn key(args: &KeyFileArgs, what: &str) -> Result<MasterKey> {
    let given = args.passphrase_file.as_deref();
    match read_key_file(&args.key).map_err(|e| not_there(&args.key, what, e))? {
        KeyFile::Plain(_) if given.is_some() => Err(Error::Usage(format!(
            "{} is under no passphrase: leave --passphrase-file out",
            args.key.display()
        ))),
        KeyFile::Plain(master) => Ok(master),
        KeyFile::Wrapped(wrapped) => {
            let words = match given {
                Some(path) => Passphrase::read(path),
                None => {
                    let words = ask(&format!("passphrase of {}", args.key.display())).await?;
                    end_at_once_at_another_signal()?; // they are watched: none ends it by itself
                    words
                }
            };
            wrapped.open(&words.map_err(unfit)?).map_err(cannot_use)
        }
    }
}

/// A passphrase for a new file: typed twice, if it is typed.
///
/// # Errors
/// [`Error::Usage`] if there is none; [`Error::CannotUse`] if its file cannot be used;
/// [`Error::Interrupted`] after a signal.
pub async fn new_passphrase(file: Option<&Path>) -> Result<Passphrase> {
    if let Some(path) = file {
        return Passphrase::read(path).map_err(unfit);
    }
    let words = ask("a new passphrase").await?.map_err(unfit)?;
    let is_same = ask("the same again").await?.is_ok_and(|again| again.is(&words));
    end_at_once_at_another_signal()?; // only now: it would not give the terminal back
    let differs = || Error::Usage("the two passphrases differ: nothing was written".into());
    is_same.then_some(words).ok_or_else(differs)
}

/// By whom it is that a key file cannot be used.
pub fn cannot_use(error: KeyFileError) -> Error {
    match error {
        KeyFileError::WrongPassphrase { .. } => Error::Usage(error.to_string()),
        error => Error::CannotUse(error.to_string()),
    }
}

/// A file that is named and is not there is a mistake in the command line.
fn not_there(path: &Path, what: &str, error: KeyFileError) -> Error {
    match error {
        KeyFileError::Io { source, .. } if is_absent(&source) => {
            Error::Usage(format!("--key {}: {source}; give the path of {what}", path.display()))
        }
        error => cannot_use(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

fn unfit(error: PassphraseError) -> Error {
    use PassphraseError::{Empty, Io, NotText, ReadableByOthers, Short};
    match error {
        Empty | Short(_) | NotText => Error::Usage(error.to_string()),
        Io { ref source, .. } if is_absent(source) => {
            Error::Usage(format!("{error}; give the path of its file: --passphrase-file FILE"))
        }
        ReadableByOthers { .. } | Io { .. } => Error::CannotUse(error.to_string()),
    }
}

/// What is typed at the terminal.
async fn ask(what: &str) -> Result<std::result::Result<Passphrase, PassphraseError>> {
    let terminal = stdin();
    if !isatty(&terminal) {
        return Err(Error::Usage(format!(
            "{what}: there is no terminal to ask at; say --passphrase-file FILE"
        )));
    }
    let cannot = |e| Error::CannotUse(format!("the terminal: {e}"));
    // Not by the buffer that all share, which nobody erases.
    let typed = File::from(terminal.as_fd().try_clone_to_owned().map_err(cannot)?);
    let stop = stop_signal()?; // before the terminal is silent, so that it is not left so
    let _silent = Silent::new().map_err(|e| cannot(e.into()))?;
    say_error!("{what}:");
    let (sender, line) = oneshot::channel();
    // Nothing waits for this thread: it may read until the process ends.
    thread::spawn(move || sender.send(read_line(typed)));
    let line = tokio::select! { biased;
        () = stop => return Err(Error::Interrupted),
        line = line => line.map_err(|e| Error::Bug(e.to_string()))?.map_err(cannot)?,
    };
    Ok(Passphrase::of_line(&line))
}

fn read_line(mut typed: File) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(LONGEST + 2));
    let mut byte = Zeroizing::new([0]);
    while line.len() < LONGEST + 2 && typed.read(&mut *byte)? == 1 {
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Ok(line)
}

/// While it is there, the terminal shows nothing that is typed.
struct Silent(Termios);

impl Silent {
    fn new() -> rustix::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _gone = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}
