//! Blobs as the cloud knows them: names, lengths, fingerprints.
//!
//! ```text
//! commit                                the commit record
//! checkpoint/OPENING-SEQUENCE/PIECE     a piece of a full checkpoint; 8, 16 and 6 digits
//! delta/OPENING-EPOCH/PIECE             a piece of what an epoch changed
//! journal/EPOCH-PLACE                   a journal record; 16 and 6 digits
//! ```

use fogbank_store::trace::{Condition, VaultConfig};

use super::fault::{Step, fault};

/// The commit record.
pub(super) const COMMIT: &str = "commit";
/// What the names of journal records begin with, and those of full checkpoints and deltas.
pub(super) const JOURNAL: &str = "journal/";
pub(super) const FULL: &str = "checkpoint/";
pub(super) const DELTA: &str = "delta/";

/// What a blob holds, as far as a trace tells: what a get of it has to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub bytes: u64,
    pub fingerprint: u64,
}

/// The records of an epoch begin with this.
pub(super) fn epoch_prefix(epoch: u64) -> String {
    format!("{JOURNAL}{epoch:016x}-")
}

pub(super) fn record_name(epoch: u64, place: u32) -> String {
    format!("{}{place:06x}", epoch_prefix(epoch))
}

pub(super) fn container_name(prefix: &str, (opening, number): (u32, u64)) -> String {
    format!("{prefix}{opening:08x}-{number:016x}/")
}

pub(super) fn piece_name(prefix: &str, container: (u32, u64), piece: u32) -> String {
    format!("{}{piece:06}", container_name(prefix, container))
}

/// The opening in the name of a piece.
pub(super) fn opening_of(prefix: &str, name: &str) -> Option<u32> {
    let (opening, _) = name.strip_prefix(prefix)?.split_once('-')?;
    u32::from_str_radix(opening, 16).ok()
}

/// Bytes of the commit record of an opening.
pub(super) fn commit_bytes(config: &VaultConfig, opening: u32) -> u64 {
    let grown = config.commit_bytes_an_opening.saturating_mul(opening.saturating_sub(1).into());
    config.commit_bytes.saturating_add(grown)
}

/// The opening whose commit record has so many bytes; `None` if none has.
pub(super) fn opening_by_bytes(config: &VaultConfig, bytes: u64) -> Option<u32> {
    let grown = bytes.checked_sub(config.commit_bytes)?;
    let further = match config.commit_bytes_an_opening {
        0 => return None,
        each => grown.is_multiple_of(each).then(|| grown / each)?,
    };
    u32::try_from(further).ok()?.checked_add(1)
}

pub(super) fn check_size(rule: &'static str, expected: u64, bytes: u64) -> Step {
    if expected == bytes {
        return Ok(());
    }
    fault(rule, format!("{expected} bytes"), format!("{bytes} bytes"))
}

/// Holds name and condition of a put against those that are due.
pub(super) fn check_put(
    expected: (&str, &Condition),
    seen: (&str, &Condition),
    rule: &'static str,
) -> Step {
    if seen == expected {
        return Ok(());
    }
    let words = |(name, condition)| format!("put {name}, {condition:?}");
    fault(rule, words(expected), words(seen))
}

/// Holds a put of the commit record against whether there is one.
///
/// Which tag an `if unchanged` names is not checked: a trace has no tags in its replies, so nothing
/// says which is right. The cloud does: it refuses any other, the refusal is in the trace, and what
/// may follow one is checked.
pub(super) fn check_replaces(there: bool, condition: &Condition) -> Step {
    match (there, condition) {
        (false, Condition::IfAbsent) | (true, Condition::IfUnchanged(_)) => Ok(()),
        (false, _) => fault("blob-order", "put commit if absent", format!("{condition:?}")),
        (true, _) => fault("blob-order", "put commit if unchanged", format!("{condition:?}")),
    }
}

/// Holds the names of a deletion against those that are due; says which is the first that is not.
pub(super) fn check_names(rule: &'static str, due: &[String], names: &[String]) -> Step {
    if names == due {
        return Ok(());
    }
    let at = due.iter().zip(names).take_while(|(due, name)| due == name).count();
    let word = |name: Option<&String>| match name {
        Some(name) => format!("delete {name}, number {at} of the call"),
        None => format!("a call that ends after {at} names"),
    };
    fault(rule, word(due.get(at)), word(names.get(at)))
}

#[cfg(test)]
mod tests {
    use fogbank_store::trace::JournalConfig;

    use super::*;

    #[test]
    fn the_length_of_a_commit_record_tells_its_opening() {
        let config = VaultConfig {
            commit_bytes: 900,
            commit_bytes_an_opening: 16,
            piece_bytes: 1,
            pieces: 1,
            last_piece_bytes: 1,
            pieces_at_once: 1,
            journal: JournalConfig {
                record_bytes: 1,
                delta_piece_bytes: 1,
                delta_pieces: 1,
                delta_last_piece_bytes: 1,
                full_every: 1,
            },
        };
        assert!((1..50).all(|opening| {
            opening_by_bytes(&config, commit_bytes(&config, opening)) == Some(opening)
        }));
        assert_eq!([899, 901, 917].map(|bytes| opening_by_bytes(&config, bytes)), [None; 3]);
    }
}
