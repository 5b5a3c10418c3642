//! What a client is told of the disk: the name, the size, and what can be asked of it.

use super::request::Rules;

const HAS_FLAGS: u16 = 1;
const READ_ONLY: u16 = 1 << 1;
const SEND_FLUSH: u16 = 1 << 2;
const SEND_FUA: u16 = 1 << 3;
const SEND_TRIM: u16 = 1 << 5;
const SEND_WRITE_ZEROES: u16 = 1 << 6;
const SEND_DF: u16 = 1 << 7;
const CAN_MULTI_CONN: u16 = 1 << 8;

/// The disk as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name. The empty name is always that of the disk, too.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of a read or write.
    pub payload_bytes_max: u32,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether anything may be trimmed.
    pub trim: bool,
}

impl Export {
    /// Whether a client that says `name` means this disk.
    pub fn is_named(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// What is offered. Zeros are never promised to be fast: they cost what other writes cost.
    pub fn flags(&self, structured: bool) -> u16 {
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        flags |= if self.read_only { READ_ONLY } else { SEND_WRITE_ZEROES };
        if self.trim && !self.read_only {
            flags |= SEND_TRIM;
        }
        if structured {
            flags |= SEND_DF;
        }
        flags
    }

    /// The length of request that is best: a block, or what comes next to it, since the protocol
    /// wants a power of two and not less than an old disk's sector.
    pub fn preferred_bytes(&self) -> u32 {
        let power = self.block_bytes.clamp(512, 1 << 31).next_power_of_two();
        (power as u32).min(self.payload_bytes_max.max(512))
    }

    /// What a request is held against.
    pub fn rules(&self, structured: bool) -> Rules {
        Rules {
            size: self.size,
            payload_bytes_max: self.payload_bytes_max,
            read_only: self.read_only,
            trim: self.trim,
            structured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(block_bytes: u64, read_only: bool, trim: bool) -> Export {
        let name = "disk".into();
        Export { name, size: 1 << 20, block_bytes, payload_bytes_max: 1 << 25, read_only, trim }
    }

    #[test]
    fn what_is_offered_follows_from_the_settings() {
        assert_eq!(export(4096, false, false).flags(false), 0b1_0100_1101);
        assert_eq!(export(4096, false, true).flags(true), 0b1_1110_1101);
        assert_eq!(export(4096, true, true).flags(false), 0b1_0000_1111);
    }

    #[test]
    fn the_preferred_length_is_a_power_of_two() {
        let preferred = |block| export(block, false, false).preferred_bytes();
        let all = [1, 512, 4096, 5000, 1 << 25, 1 << 40].map(preferred);
        assert_eq!(all, [512, 512, 4096, 8192, 1 << 25, 1 << 25]);
    }

    #[test]
    fn the_empty_name_is_the_disk() {
        let named = |name: &[u8]| export(4096, false, false).is_named(name);
        assert!(named(b"") && named(b"disk") && !named(b"dis"));
    }
}
