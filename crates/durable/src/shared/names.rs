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
    /// That a session may write chunks for a piece: the version of the first one. Those of the
    /// others follow from it. What it says is its name.
    Claim(u8, i64, u32, u64),
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
            Self::Claim(level, index, number, version) => {
                write!(f, "claim/{level:02x}/{index:016x}/{number:08x}/{version:016x}")
            }
        }
    }
}

impl Object {
    /// What names of objects of builds of a level begin with.
    pub(super) fn of_builds(level: u8) -> [String; 2] {
        ["piece", "claim"].map(|kind| format!("{kind}/{level:02x}/"))
    }

    /// The object of a build that has this name.
    pub(super) fn of_build(name: &str) -> Option<Self> {
        let mut fields = name.split('/');
        let kind = fields.next()?;
        let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
        let (level, index) = (number()?.try_into().ok()?, number()?.cast_signed());
        let piece = number()?.try_into().ok()?;
        match (kind, number()) {
            ("piece", None) => Some(Self::Piece(level, index, piece)),
            ("claim", Some(version)) => Some(Self::Claim(level, index, piece, version)),
            _ => None,
        }
    }

    /// What its seal binds: the name, and the mark of the history that it belongs to; zeros where
    /// it belongs to all.
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
            Object::Claim(1, 1, 1, 1),
            Object::Claim(1, 1, 1, 16),
        ];
        let bound = |mark: u8| objects.map(|object| object.bound(&[mark; 16]));
        let mut all = [bound(0), bound(1)].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 * objects.len());
    }

    #[test]
    fn objects_of_builds_are_found_by_their_names() {
        for object in [
            Object::Piece(3, 1 << 40, 7),
            Object::Claim(31, 0, 1 << 31, 1 << 63),
            Object::Claim(2, -1, 0, 1),
        ] {
            let name = object.to_string();
            let (Object::Piece(level, ..) | Object::Claim(level, ..)) = object else { panic!() };
            let prefixes = Object::of_builds(level);
            assert!(prefixes.iter().any(|prefix| name.starts_with(prefix)), "{name}");
            assert_eq!(Object::of_build(&name), Some(object));
        }
        for name in
            ["", "site", "piece/01", "piece/01/1ffffffffffffffff/01", "claim/01/01/01", "x/1/1/1"]
        {
            assert_eq!(Object::of_build(name), None, "{name}");
        }
    }
}
