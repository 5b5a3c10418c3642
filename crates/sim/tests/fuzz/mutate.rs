//! Mutations of valid inputs. The engine knows nothing of coverage; what makes up for it is that
//! inputs start out valid and are damaged in ways that a parser's branches care about.

use bolero::TypeGenerator;

/// One damage.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Edit {
    /// Changes bits of a byte.
    Flip { at: u16, mask: u8 },
    /// Puts a byte in.
    Insert { at: u16, byte: u8 },
    /// Puts in a piece that means something to a parser.
    Piece { at: u16, which: u8 },
    /// Takes some bytes out.
    Remove { at: u16, length: u8 },
    /// Says some bytes again.
    Repeat { at: u16, length: u8 },
    /// Ends here.
    Truncate { at: u16 },
    /// Goes on with another valid input.
    Join { other: u8 },
}

/// Applies `edits` to `bytes`; `pieces` and `others` are what the format and its examples offer.
pub fn damage(bytes: &mut Vec<u8>, edits: &[Edit], pieces: &[&[u8]], others: &[&[u8]]) {
    for edit in edits {
        match *edit {
            Edit::Flip { at, mask } => {
                let at = inside(bytes, at);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= mask;
                }
            }
            Edit::Insert { at, byte } => bytes.insert(inside(bytes, at), byte),
            Edit::Piece { at, which } => splice(bytes, at, pick(pieces, which)),
            Edit::Remove { at, length } => drop(bytes.drain(stretch(bytes, at, length))),
            Edit::Repeat { at, length } => {
                let said = bytes[stretch(bytes, at, length)].to_vec();
                splice(bytes, at, &said);
            }
            Edit::Truncate { at } => bytes.truncate(inside(bytes, at)),
            Edit::Join { other } => bytes.extend_from_slice(pick(others, other)),
        }
    }
}

/// One of some, whatever the number.
pub fn pick<'a>(all: &[&'a [u8]], which: u8) -> &'a [u8] {
    all.get(usize::from(which) % all.len().max(1)).copied().unwrap_or_default()
}

fn inside(bytes: &[u8], at: u16) -> usize {
    usize::from(at) % (bytes.len() + 1)
}

fn stretch(bytes: &[u8], at: u16, length: u8) -> std::ops::Range<usize> {
    let from = inside(bytes, at);
    from..bytes.len().min(from + usize::from(length))
}

fn splice(bytes: &mut Vec<u8>, at: u16, piece: &[u8]) {
    let at = inside(bytes, at);
    bytes.splice(at..at, piece.iter().copied());
}
