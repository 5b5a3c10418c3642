//! Names of the objects of a site, and what is bound to them.

use fogbank_seal::Mark;

/// An object that is put once, if absent. Its [`std::fmt::Display`] is its name, which is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// The parameters of the site.
    Header,
    /// The salt of a session.
    Session(u32),
    /// The superblock of this number, from 1.
    Superblock(u64),
    /// The marks of the histories in an epoch.
    Marks(u64),
    /// The addresses that a table holds: its level, and which of the level's.
    Index(u8, i64),
    /// The versions of a table's chunks that count.
    Manifest(u8, i64),
    /// Of a table that is being built: the versions of the chunks that a piece of the build, by its
    /// number, has written.
    Piece(u8, i64, u32),
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header => write!(f, "site"),
            Self::Session(number) => write!(f, "session/{number:08x}"),
            Self::Superblock(number) => write!(f, "superblock/{number:016x}"),
            Self::Marks(epoch) => write!(f, "marks/{epoch:016x}"),
            Self::Index(level, index) => write!(f, "index/{level:02x}/{index:016x}"),
            Self::Manifest(level, index) => write!(f, "manifest/{level:02x}/{index:016x}"),
            Self::Piece(level, index, number) => {
                write!(f, "piece/{level:02x}/{index:016x}/{number:08x}")
            }
        }
    }
}

impl Object {
    /// What its seal binds: the name, and the mark of the history that it belongs to; zeros where it
    /// belongs to all.
    pub(super) fn bound(&self, mark: &Mark) -> Vec<u8> {
        [self.to_string().as_bytes(), &[0], mark].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_objects_share_a_name_or_what_is_bound() {
        let objects = [
            Object::Header,
            Object::Session(1),
            Object::Session(16),
            Object::Superblock(1),
            Object::Marks(1),
            Object::Index(1, 1),
            Object::Index(1, -1),
            Object::Index(17, 1),
            Object::Manifest(1, 1),
            Object::Piece(1, 1, 1),
            Object::Piece(1, 1, 16),
        ];
        let bound = |mark: u8| objects.map(|object| object.bound(&[mark; 16]));
        let mut all = [bound(0), bound(1)].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 * objects.len());
    }
}
