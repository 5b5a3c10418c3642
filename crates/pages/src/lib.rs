//! What a running process shows to whoever looks: a small HTTP server, and figures for Prometheus.
//!
//! It knows nothing of what it shows; the proxy and the storage server both use it. Whoever looks
//! takes no thread of those who work.

mod http;
mod prometheus;

use std::sync::Arc;

use fogbank_env::{Metrics, Visibility};

pub use http::{Pages, Site, Sites};
pub use prometheus::exposition;

/// The page `/metrics`: all figures of one visibility.
pub fn figures(metrics: Metrics, visibility: Visibility) -> Pages {
    Arc::new(move |path| {
        let text = || exposition(&metrics, visibility).into_bytes();
        (path == "/metrics").then(|| ("text/plain; version=0.0.4; charset=utf-8", text()))
    })
}
