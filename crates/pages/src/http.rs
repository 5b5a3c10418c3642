//! A small HTTP server for viewers: GET only, few connections, gone with the server it shows.
//!
//! It runs on a thread and a runtime of its own: whoever looks takes no turn of those who drive the
//! epochs. A page that shows secrets answers only to a `Host` that is an address or `localhost`, so
//! that no name which somebody points at this machine makes a browser hand it over.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, watch};

/// What stands at a path: its type and text. `None` is no such page.
pub type Pages = Arc<dyn Fn(&str) -> Option<(&'static str, Vec<u8>)> + Send + Sync>;

/// One address and what is served there.
pub struct Site {
    /// Bound already.
    pub socket: TcpListener,
    /// By path.
    pub pages: Pages,
    /// Whether names in `Host` are refused.
    pub secret: bool,
}

/// Runs all sites until dropped.
pub struct Sites {
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sites {
    /// Begins to serve.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn start(sites: Vec<Site>) -> std::io::Result<Self> {
        let (stop, stopping) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("dashboard".into()).spawn(move || {
            runtime.block_on(async {
                for site in sites {
                    tokio::spawn(serve(site));
                }
                let mut stopping = stopping;
                let _stopped_or_gone = stopping.wait_for(|stop| *stop).await;
            });
            runtime.shutdown_background(); // ends every connection
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        let _gone = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

async fn serve(site: Site) {
    let Ok(socket) = tokio::net::TcpListener::from_std(site.socket) else { return };
    let (places, pages, secret) =
        (Arc::new(Semaphore::new(CONNECTIONS_MAX)), site.pages, site.secret);
    loop {
        // Without a place nobody is accepted: the backlog waits, and then the system refuses.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = socket.accept().await else {
            // The system has no descriptor left: it may in a moment.
            let _elapsed = tokio::time::timeout(PAUSE, std::future::pending::<()>()).await;
            continue;
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &pages, secret);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME_MAX)
                .max_buf_size(HEADER_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            let _over = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, pages: &Pages, secret: bool) -> Response<Full<Bytes>> {
    if secret && !names_no_other(request.headers()) {
        let text = "Use the address itself: this page does not answer to names.\n";
        return plain(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if request.method() != Method::GET {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only.\n");
        refusal.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET"));
        return refusal;
    }
    match pages(request.uri().path()) {
        Some((kind, text)) => response(StatusCode::OK, kind, text),
        None => plain(StatusCode::NOT_FOUND, "There is no such page.\n"),
    }
}

/// Whether the `Host` is an address or `localhost`: exactly one, and there must be one.
fn names_no_other(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    is_address_or_localhost(host)
}

fn is_address_or_localhost(host: &str) -> bool {
    if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
        return true;
    }
    let bare = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bracketed = bare.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    bare.eq_ignore_ascii_case("localhost")
        || bracketed.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.into())
}

fn response(status: StatusCode, kind: &str, text: Vec<u8>) -> Response<Full<Bytes>> {
    let built = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind)
        .header(CACHE_CONTROL, "no-store")
        .header("content-security-policy", POLICY)
        .header("cross-origin-resource-policy", "same-origin")
        .header("cross-origin-opener-policy", "same-origin")
        .header("referrer-policy", "no-referrer")
        .header("x-content-type-options", "nosniff")
        .body(Full::new(text.into()));
    built.unwrap_or_default()
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Connections at once, of each address.
const CONNECTIONS_MAX: usize = 16;
const HEADER_BYTES_MAX: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(100);
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);
/// A browser that polls comes back by itself.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_answered_to() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "localhost",
            "LOCALHOST:80",
            "[::1]",
            "[::1]:8080",
            "192.168.0.7:1",
        ] {
            assert!(is_address_or_localhost(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "localhost:99999",
            "localhost:",
            "127.0.0.1@evil",
            "[evil]:80",
            "a:b:c",
        ] {
            assert!(!is_address_or_localhost(host), "{host}");
        }
    }
}
