//! What an operator watches. The server knows nothing that is secret, so every figure is public.

use fogbank_env::{Gauge, Metrics, Visibility};

/// The server's figures.
pub struct Figures {
    /// Connections that have shown a token.
    pub connections: Gauge,
    /// Connections turned away: no token, or no room.
    pub turned_away: Gauge,
    /// Calls begun, and those refused or broken off.
    pub calls: Gauge,
    /// Of those.
    pub refused: Gauge,
    /// Bytes of requests, and of answers.
    pub bytes_in: Gauge,
    /// The other way.
    pub bytes_out: Gauge,
    /// Entries appended to logs, and listeners that were let in.
    pub log_appends: Gauge,
    /// Of those.
    pub log_follows: Gauge,
}

impl Figures {
    /// Under their names in `metrics`.
    pub fn new(metrics: &Metrics) -> Self {
        let figure = |name| metrics.gauge(Visibility::Public, name);
        Self {
            connections: figure("server_connections_total"),
            turned_away: figure("server_turned_away_total"),
            calls: figure("server_calls_total"),
            refused: figure("server_calls_refused_total"),
            bytes_in: figure("server_bytes_in_total"),
            bytes_out: figure("server_bytes_out_total"),
            log_appends: figure("server_log_appends_total"),
            log_follows: figure("server_log_follows_total"),
        }
    }
}
