//! The HTTP client under everything that goes to a cloud. It follows no redirect.
//!
//! The library's own client follows ten of them. So whoever answers could send a request of the
//! proxy's, with its body if that is in one piece, to any address in the network that trusts the
//! proxy. A redirect is a reply like any other: it says that this place does not take the request
//! (`requests`).
//!
//! The library cannot be asked for less, so this builds the same client from the same options:
//! those that [`credentials`](crate::credentials) sets and those that the library changes for the
//! services that give out credentials. Authorities come beside the options, which do not show
//! theirs. The proxies of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are found by
//! reqwest, as before.
//!
//! What the cloud sees: connections go to the addresses of its name in turn, so which one is next
//! follows from how many were made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object_store::client::HttpClient;
use object_store::{ClientConfigKey, ClientOptions, Error, Result};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::tls::Certificate;

/// A client for `options` that trusts `authorities` beside the system's.
pub(crate) fn client(options: &ClientOptions, authorities: &[Certificate]) -> Result<HttpClient> {
    let value = |key| options.get_config_value(&key);
    let mut builder = reqwest::Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("fogbank/", env!("CARGO_PKG_VERSION")))
        .https_only(value(ClientConfigKey::AllowHttp).as_deref() != Some("true"))
        .tls_certs_merge(authorities.iter().cloned())
        .dns_resolver(Arc::new(InTurn::default()))
        .http1_only(); // many short requests go no faster over one connection
    for (key, set) in TIMEOUTS {
        if let Some(words) = value(key) {
            builder = set(builder, humantime::parse_duration(&words).map_err(unusable)?);
        }
    }
    if let Some(words) = value(ClientConfigKey::PoolMaxIdlePerHost) {
        builder = builder.pool_max_idle_per_host(words.parse().map_err(unusable)?);
    }
    Ok(HttpClient::new(builder.build().map_err(unusable)?))
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic { store: "HTTP client", source: Box::new(error) }
}

type Set = fn(reqwest::ClientBuilder, Duration) -> reqwest::ClientBuilder;

const TIMEOUTS: [(ClientConfigKey, Set); 2] = [
    (ClientConfigKey::ConnectTimeout, reqwest::ClientBuilder::connect_timeout),
    (ClientConfigKey::Timeout, reqwest::ClientBuilder::timeout),
];

/// A provider's name has several addresses, and each connection begins with the next of them, so
/// the load is spread.
#[derive(Default)]
struct InTurn(AtomicUsize);

impl Resolve for InTurn {
    fn resolve(&self, name: Name) -> Resolving {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut found: Vec<SocketAddr> = found.collect();
            let turn = turn % found.len().max(1);
            found.rotate_left(turn);
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
