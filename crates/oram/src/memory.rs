//! What an immediate engine keeps in memory, reckoned from its public settings.

/// Bytes of memory of a proxy, without what any process takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProxyMemory {
    /// Positions, and what is known of what the cloud keeps.
    pub state: f64,
    /// Blocks with their values, and messages under way, at most.
    pub values: f64,
    /// A checkpoint while it is written, but for the values in it.
    pub checkpoint: f64,
    /// All of it while a checkpoint is read, before anything is served.
    pub opening: f64,
    /// The longest journal: a recovery holds it before it reads again what that names. Of one that
    /// stays near it holds the names of records, and a few of them.
    pub journal: f64,
}

/// What a block costs in memory beside its bytes: its entry in a table that is half full, the
/// counter of who holds it, and what an allocator rounds up.
pub(crate) const BESIDE_A_VALUE: f64 = 128.0;
/// A piece of a checkpoint that is under way: it is sealed and kept until it is acknowledged.
pub(crate) const SEALED_PIECES_BYTES: f64 = 4e6;

impl ProxyMemory {
    /// The most of it at once.
    pub fn total(&self) -> f64 {
        let serving = self.state + self.values + self.checkpoint.max(self.journal);
        serving.max(self.opening + self.journal)
    }
}
