//! What one client may ask of the proxy's memory. Everything is checked before it is allocated.

/// Bounds on requests, replies and connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is told so and closed.
    pub connections_max: usize,
    /// Arguments of one command, its name included.
    pub arguments_max: usize,
    /// Bytes of one argument. A longer one ends the connection, as in Redis; a value that is
    /// shorter than this but longer than the store holds gets an error.
    pub argument_bytes_max: usize,
    /// Bytes of one whole command.
    pub request_bytes_max: usize,
    /// Bytes of an inline command or of the header of an argument.
    pub inline_bytes_max: usize,
    /// Commands of one connection that wait for their epoch; beyond it the proxy stops reading.
    pub pipeline_max: usize,
    /// Commands and bytes queued between `MULTI` and `EXEC`.
    pub queued_max: usize,
    /// Bytes queued between `MULTI` and `EXEC`; also bytes of commands waiting for their epoch and
    /// of replies, encoded already, that wait behind them or for the client to read.
    pub queued_bytes_max: usize,
    /// Bytes of commands of all connections that wait for their epoch, unless three epochs of
    /// writes are more; beyond it no connection takes a further command until one of its own has
    /// been answered.
    pub waiting_bytes_max: usize,
    /// Bytes of requests of all connections that cannot be carried out yet: their end is missing,
    /// or they are queued since `MULTI`. What goes beyond ends its connection.
    pub unfinished_bytes_max: usize,
    /// Bytes of replies that a client has not yet taken; from there on its commands are refused.
    /// Also those of one reply, that of `EXEC` included: a longer one is refused before anything is
    /// done.
    pub output_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            arguments_max: 1024 * 1024,
            argument_bytes_max: 512 * 1024 * 1024,
            request_bytes_max: 1024 * 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            pipeline_max: 100_000,
            queued_max: 100_000,
            queued_bytes_max: 64 * 1024 * 1024,
            waiting_bytes_max: 16 * 1024 * 1024,
            unfinished_bytes_max: 256 * 1024 * 1024,
            output_bytes_max: 256 * 1024 * 1024,
        }
    }
}

/// Until a client has given the password it may send this many arguments ...
pub(super) const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
/// ... of this many bytes.
pub(super) const UNAUTHENTICATED_BYTES_MAX: usize = 16 * 1024;
