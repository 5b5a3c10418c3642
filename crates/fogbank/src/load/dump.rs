//! A dump of Redis (RDB): strings, hashes and sorted sets of database 0, with the times at which
//! they expire.
//!
//! Those are the types that the front end serves. What else there is (lists, sets, streams, values
//! of modules, hashes with fields that expire one by one, other databases; functions, and what
//! modules keep beside keys) is an error that names the first such key and its type, or is left out
//! and told. What Redis keeps for itself (how often a key was used, cached scripts) is passed over.
//! A key that has expired already is taken in, and is as absent as it was.
//!
//! A dump that ends too early, whose checksum is wrong, that holds what no Redis can or that
//! something follows is an error: none of it may be lost in silence. So the structure of all that a
//! dump can hold is known here, also of what cannot be stored ([`parts`]).

mod bytes;
mod entries;
mod fault;
mod packed;
mod parts;
mod strings;
mod values;

use std::io::Read;

use fogbank_front::resp::Content;

use super::source::{LeftOut, Record};
use crate::error::{Error, Result};
use bytes::{Bytes, End};
use entries::{Entries, Entry};
use fault::{Fault, quoted};

/// Calls `take` with every key that can be stored; what else there was, if that may be left out.
/// `refused` makes an error of what is wrong with the file.
pub(super) fn each(
    file: impl Read,
    skip_unsupported: bool,
    refused: impl Fn(&str) -> Error,
    mut take: impl FnMut(Record) -> Result<()>,
) -> Result<LeftOut> {
    let unread = |fault: Fault| refused(&of_file(&fault));
    let mut bytes = Bytes::new(file);
    if bytes.begins_with(b"*").map_err(unread)? {
        return Err(refused(
            "this is an append-only file without a dump before its commands: pipe it into a \
             running fogbank serve, with redis-cli --pipe",
        ));
    }
    let mut entries = Entries::begin(bytes).map_err(unread)?;
    let (mut number, mut left_out) = (0, LeftOut::default());
    loop {
        let key = match entries.next().map_err(unread)? {
            Entry::Key(key) => key,
            Entry::Beside(what) if skip_unsupported => {
                left_out.others.insert(what);
                continue;
            }
            Entry::Beside(what) => {
                return Err(refused(&format!(
                    "it holds {what}, and only strings, hashes and sorted sets can be stored; \
                     --skip-unsupported leaves out all else"
                )));
            }
            Entry::End(end) => {
                return told(&end).map_or(Ok(left_out), |why| Err(refused(&why)));
            }
        };
        number += 1;
        let named = || format!("key number {number}, {}", quoted(&key.name));
        let damaged = |fault: Fault| match fault {
            Fault::Damaged(what) => refused(&of_key(&named(), &what)),
            other => unread(other),
        };
        let what = match key.kind.stored {
            Some(stored) if key.database == 0 => {
                let content = entries.bytes.content(stored).map_err(damaged)?;
                if !is_empty(&content) {
                    let (name, deadline_ms) = (key.name, key.deadline_ms);
                    take(Record { number, name, content, deadline_ms })?;
                    continue;
                }
                // Some versions of Redis wrote these; later ones pass over them.
                "a collection of nothing".to_owned()
            }
            other => {
                entries.bytes.skip_parts(key.kind.parts).map_err(damaged)?;
                match other {
                    None => key.kind.is.to_owned(),
                    Some(_) => format!("in database {}", key.database),
                }
            }
        };
        left_out.keys += 1;
        if !skip_unsupported {
            return Err(refused(&format!(
                "{}, is {what}, and only strings, hashes and sorted sets of database 0 can be \
                 stored; --skip-unsupported leaves such keys out",
                named()
            )));
        }
    }
}

/// What is said of a file with a fault.
fn of_file(fault: &Fault) -> String {
    match fault {
        Fault::CutOff => CUT_OFF.into(),
        Fault::Unreadable(error) => format!("it cannot be read: {error}"),
        Fault::Damaged(what) => format!("the dump is damaged: {what}"),
        Fault::Unknown(what) => {
            format!("this is no dump of Redis that is known, or a damaged one: {what}")
        }
    }
}

/// What is said of a key with this wrong.
fn of_key(named: &str, what: &str) -> String {
    format!("{named}: {what}; no Redis writes such a dump: it is damaged")
}

/// What is wrong with the end of a dump, if anything is.
fn told(end: &End) -> Option<String> {
    Some(match end {
        End::Whole => return None,
        End::Damaged => {
            "the dump is damaged: its checksum is that of something else; redis-check-rdb looks \
             closer"
                .into()
        }
        End::Followed { at, by_commands: true } => format!(
            "commands follow the dump, as in an append-only file; they are no part of it. Load its \
             first {at} bytes (head -c {at}), and then pipe the rest into fogbank serve (tail -c \
             +{}, redis-cli --pipe)",
            at + 1
        ),
        End::Followed { at, by_commands: false } => {
            format!("something follows the dump, whose last byte is number {at}")
        }
    })
}

const CUT_OFF: &str = "the dump is cut off: the file ends before it does";

fn is_empty(content: &Content) -> bool {
    match content {
        Content::String(_) => false,
        Content::Hash(fields) => fields.is_empty(),
        Content::SortedSet(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests;
