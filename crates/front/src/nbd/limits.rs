//! What one client may ask of the proxy. Everything is checked before it is allocated.

/// Bounds on requests, connections and the engine's work.
///
/// The memory of a connection is its own: `waiting_bytes_max` times `connections_max` is what all
/// clients together can take, and none of them can take another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is closed.
    pub connections_max: usize,
    /// Requests of one connection that wait for their replies; beyond it the proxy stops reading.
    pub requests_max: u32,
    /// Bytes of one read or write; the client is told. A longer write ends the connection.
    pub payload_bytes_max: u32,
    /// Bytes of one connection's requests that wait, and of replies that it has not taken; beyond
    /// it the proxy stops reading. One request may always wait.
    pub waiting_bytes_max: u32,
    /// Blocks of a request that are submitted at once; then others have their turn.
    pub piece_blocks: u32,
    /// Accesses of one connection under way in the engine.
    pub accesses_max: u32,
    /// Accesses of all connections under way in the engine.
    pub all_accesses_max: u32,
    /// Bytes of one option.
    pub option_bytes_max: u32,
    /// Options of one handshake.
    pub options_max: u32,
    /// A client that has not taken a disk by then is let go.
    pub greeting_nanos_max: u64,
    /// A client that is in the middle of a request, or has replies to take, and does not go on for
    /// so long is let go. Between requests it may be idle as long as it likes.
    pub stall_nanos_max: u64,
    /// How long a connection may last once the server stops.
    pub drain_nanos_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 32,
            requests_max: 256,
            payload_bytes_max: 32 * 1024 * 1024,
            waiting_bytes_max: 40 * 1024 * 1024,
            piece_blocks: 32,
            accesses_max: 256,
            all_accesses_max: 1024,
            option_bytes_max: 16 * 1024,
            options_max: 256,
            greeting_nanos_max: 30_000_000_000,
            stall_nanos_max: 60_000_000_000,
            drain_nanos_max: 10_000_000_000,
        }
    }
}
