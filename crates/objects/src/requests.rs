//! One request at a time on its way: how many are, how much of a reply is read, when it is sent
//! again.
//!
//! 1. A request waits for one of the places (`requests_max`), first come first served, and keeps it
//!    over all its tries: while a server throttles, less is under way.
//! 2. Its reply is read whole before anybody sees it, and no further than the request allows: a
//!    reply that is longer, of another range, or of an object of another length is a server that
//!    misbehaves.
//! 3. What is no answer is tried again or given up (`retry`).
//!
//! This sits below the library, as its HTTP service, so nothing that it sends goes past.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use fogbank_env::Clock;
use fogbank_store::RetrySchedule;
use http::{Method, StatusCode, header};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::tls::Certificate;

use crate::error::Failure;
use crate::meaning::{self, Asked, error_code};
use crate::retry::{self, Attempt, Tries, Twice};
use crate::transport;

/// What the caller of a request knows of it and the library does not. Travels with the request.
#[derive(Debug, Clone)]
pub(crate) struct Expect {
    /// No reply is longer.
    pub body_bytes_max: u64,
    /// The range asked for, and the length that the whole object must have.
    pub range: Option<(Range<u64>, u64)>,
    /// Of a put under a condition whose caller reads back, so that it may be sent twice: becomes
    /// true when nobody knows whether an earlier try was done.
    pub doubt: Option<Arc<AtomicBool>>,
}

impl Default for Expect {
    fn default() -> Self {
        Self { body_bytes_max: REPLY_BYTES_MAX, range: None, doubt: None }
    }
}

/// How many requests were sent, tries counted singly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // each is the kind of request
pub struct RequestCount {
    pub gets: u64,
    pub puts: u64,
    pub lists: u64,
    pub deletes: u64,
}

/// What all requests of a store share.
pub(crate) struct Requests {
    tries: Tries,
    counts: [AtomicU64; 4],
}

impl Requests {
    pub(crate) fn new(
        requests_max: usize,
        clock: Arc<dyn Clock>,
        absent: RetrySchedule,
        throttled: RetrySchedule,
    ) -> Arc<Self> {
        let tries = Tries::new(requests_max, clock, absent, throttled);
        Arc::new(Self { tries, counts: Default::default() })
    }

    pub(crate) fn count(&self) -> RequestCount {
        let [gets, puts, lists, deletes] =
            [0, 1, 2, 3].map(|kind: usize| self.counts[kind].load(Ordering::Relaxed));
        RequestCount { gets, puts, lists, deletes }
    }

    fn counted(&self, request: &HttpRequest) {
        let query = request.uri().query().unwrap_or_default();
        let kind = match *request.method() {
            Method::GET if query.contains("list-type=") || query.contains("comp=list") => 2,
            Method::GET | Method::HEAD => 0,
            Method::DELETE => 3,
            Method::POST if retry::twice(request) == Twice::Harmless => 3,
            _ => 1,
        };
        self.counts[kind].fetch_add(1, Ordering::Relaxed);
    }

    async fn send(
        &self,
        client: &HttpClient,
        request: HttpRequest,
    ) -> Result<HttpResponse, Failure> {
        let expect = request.extensions().get::<Expect>().cloned().unwrap_or_default();
        let read_back = expect.doubt.is_some();
        let twice = if read_back { Twice::Harmless } else { retry::twice(&request) };
        let mut place = self.tries.place(twice).await;
        loop {
            self.counted(&request);
            match attempt(client, request.clone(), &expect).await {
                Ok(answer) => {
                    place.answered();
                    if let Some(doubt) = expect.doubt.filter(|_| place.is_doubtful()) {
                        doubt.store(true, Ordering::Relaxed);
                    }
                    return Ok(answer);
                }
                Err(_) if asks_who_we_are(&request) => return Err(no_credentials()),
                Err(failed) => place.again(failed, request.method().as_str()).await?,
            }
        }
    }
}

async fn attempt(
    client: &HttpClient,
    request: HttpRequest,
    expect: &Expect,
) -> Result<HttpResponse, Attempt> {
    let method = request.method().clone();
    let conditional = retry::is_conditional(&request);
    let is_deletion = retry::deletes(&request);
    let (parts, body) = client.execute(request).await.map_err(broken)?.into_parts();
    if parts.status.is_success() {
        if method != Method::HEAD {
            check_range(&parts, expect).map_err(Attempt::Over)?;
        }
        let body = match read(body, expect.body_bytes_max).await {
            Ok(body) => body,
            // That it was done stands in the head; nobody reads the rest of a put's reply.
            Err(Attempt::Failed(..)) if method == Method::PUT => Bytes::new(),
            Err(failed) => return Err(failed),
        };
        if let Some((range, _)) = &expect.range
            && body.len() as u64 != range.end - range.start
        {
            return Err(Attempt::Over(Failure::misbehaved("a reply shorter than was asked for")));
        }
        let body = match method {
            Method::POST => meaning::of_post(body, is_deletion)?,
            _ => body,
        };
        return Ok(HttpResponse::from_parts(parts, body.into()));
    }
    let body = read_start(body).await;
    meaning::of_answer(parts.status, &error_code(&parts, &body), Asked { conditional })?;
    Ok(HttpResponse::from_parts(parts, body.into()))
}

/// Whether the head of the reply is that of the range asked for, of an object of the right length.
fn check_range(parts: &http::response::Parts, expect: &Expect) -> Result<(), Failure> {
    let Some((range, length)) = &expect.range else { return Ok(()) };
    let wanted = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
    let found = parts.headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    if parts.status == StatusCode::PARTIAL_CONTENT && found == Some(wanted.as_str()) {
        return Ok(());
    }
    let found: String = found.unwrap_or("no range").chars().take(60).collect();
    Err(Failure::misbehaved(format!("a reply with {found} where {wanted} was asked for")))
}

/// A body of at most `bytes_max`, whole.
pub(crate) async fn read(mut body: HttpResponseBody, bytes_max: u64) -> Result<Bytes, Attempt> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if (first.len() + whole.len() + data.len()) as u64 > bytes_max {
            let words = format!("a reply longer than the {bytes_max} bytes it may have");
            return Err(Attempt::Over(Failure::misbehaved(words)));
        }
        if first.is_empty() && whole.is_empty() {
            first = data; // most replies come in one piece, which need not be copied
        } else {
            if !first.is_empty() {
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(if first.is_empty() { whole.freeze() } else { first })
}

/// As much of an error's text as anybody looks at.
async fn read_start(mut body: HttpResponseBody) -> Bytes {
    let mut start = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let room = ERROR_BYTES_MAX.saturating_sub(start.len());
        start.extend_from_slice(&data[..data.len().min(room)]);
        if start.len() == ERROR_BYTES_MAX {
            break;
        }
    }
    start.freeze()
}

pub(crate) fn broken(error: HttpError) -> Attempt {
    let trouble = retry::of_transport(error.kind());
    let mut words = format!("no answer from the object store: {error}");
    let mut cause = std::error::Error::source(&error).and_then(std::error::Error::source);
    while let Some(found) = cause {
        words = format!("{words}: {found}");
        cause = found.source();
    }
    Attempt::Failed(trouble, Failure::absent(words))
}

/// Whether a machine's own service is asked for a role's credentials: where there is none, waiting
/// for it would not help.
fn asks_who_we_are(request: &HttpRequest) -> bool {
    request.uri().host().is_some_and(|host| METADATA_HOSTS.contains(&host))
}

fn no_credentials() -> Failure {
    Failure::unset(
        "there are no credentials in the environment, and no instance role answers on this \
         machine: set those of your cloud's own tools (AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, \
         GOOGLE_APPLICATION_CREDENTIALS)",
    )
}

/// Puts [`Requests`] between the library and the network.
#[derive(Clone)]
pub(crate) struct Connector {
    pub requests: Arc<Requests>,
    /// Trusted beside the system's.
    pub authorities: Vec<Certificate>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = transport::client(options, &self.authorities)?;
        Ok(HttpClient::new(Service { client, requests: self.requests.clone() }))
    }
}

struct Service {
    client: HttpClient,
    requests: Arc<Requests>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.requests.send(&self.client, request).await;
        answer.map_err(|failure| HttpError::new(HttpErrorKind::Unknown, failure))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

/// A page of a list, or what became of as many deletions: a thousand names of 4 KiB with what is
/// said of each.
const REPLY_BYTES_MAX: u64 = 4 << 20;
const ERROR_BYTES_MAX: usize = 16 << 10;
const METADATA_HOSTS: [&str; 4] =
    ["169.254.169.254", "169.254.170.2", "metadata.google.internal", "metadata"];
