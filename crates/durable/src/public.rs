//! What the head of a trace says of a vault: the sizes of all its objects.

use fogbank_store::trace::{JournalConfig, VaultConfig};

use crate::{Pieces, VaultSettings, commit_bytes, journal_bytes};

impl VaultSettings {
    /// The sizes of the objects of a store whose configuration has `config_bytes`, whose full
    /// checkpoints are `full` and whose deltas are `delta`.
    pub fn public(&self, config_bytes: usize, full: Pieces, delta: Pieces) -> VaultConfig {
        let [first, second] = [1, 2].map(|openings| commit_bytes(config_bytes, openings));
        VaultConfig {
            commit_bytes: first,
            commit_bytes_an_opening: second - first,
            piece_bytes: full.bytes,
            pieces: full.count,
            last_piece_bytes: full.last_bytes,
            pieces_at_once: self.pieces.at_once as u32,
            journal: JournalConfig {
                record_bytes: journal_bytes(self.record_bytes),
                delta_piece_bytes: delta.bytes,
                delta_pieces: delta.count,
                delta_last_piece_bytes: delta.last_bytes,
                full_every: self.full_every,
            },
        }
    }
}
