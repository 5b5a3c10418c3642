//! What the name of an object says, and how many bytes it has.

use super::layout::{Layout, Table};

/// An object of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Named {
    Header,
    Session(u32),
    Superblock(u64),
    Marks(u64),
    Index(Table),
    Manifest(Table),
    /// What a piece of a build has written.
    Piece(Table, u32),
    /// That chunks of these versions may be written for a piece, from this one on.
    Claim(Table, u32, u64),
}

/// Bytes in front of what a session seals first.
const SALT_BYTES: u64 = 32;
/// What a session's object has more of one that builds.
pub const BUILDS_BYTES: u64 = 1;
/// Of a superblock: number, two digests, a count; and a digest for each table.
const SUPERBLOCK_BYTES: u64 = 76;
const DIGEST_BYTES: u64 = 32;
const MARK_BYTES: u64 = 16;

impl Named {
    /// What has this name; `None` if no object of a site has it.
    pub fn of(name: &str) -> Option<Self> {
        let mut fields = name.split('/');
        let kind = fields.next()?;
        let mut number = |digits: usize| {
            let field = fields.next().filter(|field| field.len() == digits)?;
            let is_plain = field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            is_plain.then(|| u64::from_str_radix(field, 16).ok()).flatten()
        };
        let mut table = || {
            let level = number(2)?.try_into().ok()?;
            Some(Table { level, index: number(16)?.cast_signed() })
        };
        let named = match kind {
            "site" => Self::Header,
            "index" => Self::Index(table()?),
            "manifest" => Self::Manifest(table()?),
            "piece" => {
                let table = table()?;
                Self::Piece(table, number(8)?.try_into().ok()?)
            }
            "claim" => {
                let table = table()?;
                Self::Claim(table, number(8)?.try_into().ok()?, number(16)?)
            }
            "session" => Self::Session(number(8)?.try_into().ok()?),
            "superblock" => Self::Superblock(number(16)?),
            "marks" => Self::Marks(number(16)?),
            _ => return None,
        };
        fields.next().is_none().then_some(named)
    }

    /// Bytes of what stands under it, but that of a session that builds. Public, as all of this is.
    pub fn bytes(&self, layout: &Layout) -> u64 {
        let versions = |cells: u64, level| 8 * cells.div_ceil(layout.chunk_cells(level).into());
        let plain = match *self {
            Self::Header | Self::Claim(..) => 0,
            Self::Session(_) => SALT_BYTES,
            Self::Superblock(number) => {
                let image = Table { level: layout.bottom, index: -1 };
                let names_image = layout.of.has_image && layout.superseded(image) > number;
                let named = layout.installing(number).len() as u64 + u64::from(names_image);
                SUPERBLOCK_BYTES + DIGEST_BYTES * named
            }
            Self::Marks(_) => MARK_BYTES * u64::from(layout.of.epoch / layout.of.draw),
            Self::Index(table) => 4 * u64::from(layout.reals(table.level)),
            Self::Manifest(table) => versions(layout.slots(table).into(), table.level),
            Self::Piece(table, number) => {
                let piece = layout.piece(table, number);
                let writes = piece.map(|piece| piece.writes).unwrap_or_default();
                8 * writes.iter().map(|of| u64::from(of.count)).sum::<u64>()
            }
        };
        plain + layout.of.sealed_bytes
    }

    /// Whether there can be such an object.
    pub fn can_be(&self, layout: &Layout) -> bool {
        let is_table = |table: &Table| {
            let is_image = table.level == layout.bottom && table.index == -1 && layout.of.has_image;
            table.level <= layout.bottom && ((0..1 << 40).contains(&table.index) || is_image)
        };
        match self {
            Self::Header | Self::Session(_) => true,
            Self::Superblock(number) | Self::Marks(number) => *number < 1 << 49,
            Self::Index(table) | Self::Manifest(table) => is_table(table),
            Self::Piece(table, number) | Self::Claim(table, number, _) => {
                is_table(table) && (table.index < 0 || *number < layout.cut(*table).count())
            }
        }
    }
}
