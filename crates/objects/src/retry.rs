//! When a request is sent again, and when it must not be.
//!
//! Three things can become of a request: it was answered; it was *refused*, which is certain to
//! have changed nothing (no connection, too many requests, a conflict with another one under way);
//! or its outcome is *unknown* (the connection broke, the server failed). A refused request is sent
//! again whatever it is; one of unknown outcome only if doing it twice is as good as once. A put
//! under a condition is that only if its caller reads back: the second finds the first one's object
//! in its way, and would take its own work for another's.
//!
//! Again means the same bytes, after a wait that depends on the number of tries alone, in the place
//! that the request holds among those under way: so the cloud sees nothing but its own failures.
//! The library's own retries are off: they wait for random times, and read nothing back after a put
//! under a condition that they repeat.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Nanos};
use fogbank_store::{Absences, RetrySchedule};
use http::{Method, StatusCode, header};
use object_store::client::{HttpErrorKind, HttpRequest};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::Failure;

/// What is known of a request that brought no answer to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody took it.
    Refused,
    /// Too much is asked at once.
    Throttled,
    /// It may have been done.
    Unknown,
}

/// What doing a request a second time would mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twice {
    /// As good as once.
    Harmless,
    /// Another outcome.
    Harmful,
}

/// How long to wait, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Waits {
    absent: Vec<Duration>,
    throttled: Vec<Duration>,
    /// Tries so far that ended one way and the other.
    tried: [usize; 2],
}

impl Waits {
    pub(crate) fn new(absent: &RetrySchedule, throttled: &RetrySchedule) -> Self {
        Self { absent: absent.waits.clone(), throttled: throttled.waits.clone(), tried: [0, 0] }
    }

    /// How long to wait before the same request is sent again; `None` if it must not be, or no
    /// more.
    pub(crate) fn after(&mut self, trouble: Trouble, twice: Twice) -> Option<Duration> {
        let (waits, tried) = match (trouble, twice) {
            (Trouble::Unknown, Twice::Harmful) => return None,
            (Trouble::Throttled, _) => (&self.throttled, &mut self.tried[1]),
            (Trouble::Refused | Trouble::Unknown, _) => (&self.absent, &mut self.tried[0]),
        };
        let wait = waits.get(*tried).copied();
        *tried += 1;
        wait
    }
}

/// Why a try brought no answer.
pub(crate) enum Attempt {
    /// Another may.
    Failed(Trouble, Failure),
    /// Another would not.
    Over(Failure),
}

/// The places of requests under way, and the rule for sending one again: what all requests of a
/// store share.
pub(crate) struct Tries {
    places: Semaphore,
    clock: Arc<dyn Clock>,
    absent: RetrySchedule,
    throttled: RetrySchedule,
    absences: Absences,
}

/// A request with its place among those under way, kept over all its tries.
pub(crate) struct Place<'a> {
    tries: &'a Tries,
    waits: Waits,
    twice: Twice,
    is_doubtful: bool,
    /// When the try that is under way was begun.
    began: Nanos,
    _place: Option<SemaphorePermit<'a>>,
}

impl Tries {
    pub(crate) fn new(
        requests_max: usize,
        clock: Arc<dyn Clock>,
        absent: RetrySchedule,
        throttled: RetrySchedule,
    ) -> Self {
        let places = Semaphore::new(requests_max.clamp(1, Semaphore::MAX_PERMITS));
        let absences = Absences::new("the cloud");
        Self { places, clock, absent, throttled, absences }
    }

    /// Waits for a place, first come first served.
    pub(crate) async fn place(&self, twice: Twice) -> Place<'_> {
        let waits = Waits::new(&self.absent, &self.throttled);
        let place = self.places.acquire().await.ok();
        Place {
            tries: self,
            waits,
            twice,
            is_doubtful: false,
            began: self.clock.now(),
            _place: place,
        }
    }
}

impl Place<'_> {
    /// Returns when the same request is to be sent again after this `attempt`; what failed if it is
    /// not.
    pub(crate) async fn again(&mut self, attempt: Attempt, what: &str) -> Result<(), Failure> {
        let (trouble, failure) = match attempt {
            Attempt::Over(failure) => {
                self.answered();
                return Err(failure);
            }
            Attempt::Failed(trouble, failure) => (trouble, failure),
        };
        self.is_doubtful |= trouble == Trouble::Unknown;
        let Some(wait) = self.waits.after(trouble, self.twice) else { return Err(failure) };
        let clock = &self.tries.clock;
        self.tries.absences.failed((self.began, clock.now()), what, &failure.words);
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        clock.sleep_until(clock.now().saturating_add(wait)).await;
        self.began = clock.now();
        Ok(())
    }

    /// Whether a try that failed may have been done.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// The store has answered.
    pub(crate) fn answered(&self) {
        self.tries.absences.answered(self.tries.clock.now());
    }
}

/// Throttling is waited out for about a minute.
pub(crate) fn throttled_schedule() -> RetrySchedule {
    let waits = [200, 400, 800, 1600, 3200].into_iter().chain([6400; 8]);
    RetrySchedule { waits: waits.map(Duration::from_millis).collect() }
}

/// What `request` means when it is done twice, as far as it shows that.
pub(crate) fn twice(request: &HttpRequest) -> Twice {
    if is_conditional(request) {
        return Twice::Harmful;
    }
    match *request.method() {
        Method::GET | Method::HEAD | Method::PUT | Method::DELETE => Twice::Harmless,
        // What else is posted starts or ends a multipart upload.
        _ if deletes(request) => Twice::Harmless,
        _ => Twice::Harmful,
    }
}

/// Whether `request` is to be done under a condition only.
pub(crate) fn is_conditional(request: &HttpRequest) -> bool {
    let names = [header::IF_MATCH.as_str(), header::IF_NONE_MATCH.as_str(), IF_GENERATION];
    names.iter().any(|&name| request.headers().contains_key(name))
}

/// Whether `request` is a deletion of many.
pub(crate) fn deletes(request: &HttpRequest) -> bool {
    let one = |part| ["delete", "delete=", "comp=batch"].contains(&part);
    *request.method() == Method::POST
        && request.uri().query().is_some_and(|query| query.split('&').any(one))
}

/// What an error status means; `None` if it is an answer.
pub(crate) fn of_status(status: StatusCode, code: &str, conditional: bool) -> Option<Trouble> {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(Trouble::Throttled),
        StatusCode::SERVICE_UNAVAILABLE if REFUSALS.contains(&code) => Some(Trouble::Throttled),
        StatusCode::REQUEST_TIMEOUT => Some(Trouble::Unknown),
        // What came there was not what was sent.
        StatusCode::BAD_REQUEST if BROKEN.contains(&code) => Some(Trouble::Unknown),
        // It knows no such thing, and will not learn it.
        StatusCode::NOT_IMPLEMENTED => None,
        // Another conditional request was under way, and this one was not done.
        StatusCode::CONFLICT if conditional && CONFLICTS.contains(&code) => Some(Trouble::Refused),
        _ if status.is_server_error() => Some(Trouble::Unknown),
        _ => None,
    }
}

/// What a failure of the transport means.
pub(crate) fn of_transport(kind: HttpErrorKind) -> Trouble {
    // The library calls a connection that broke before the answer "request not sent". It may have
    // been.
    if kind == HttpErrorKind::Connect { Trouble::Refused } else { Trouble::Unknown }
}

const IF_GENERATION: &str = "x-goog-if-generation-match";
/// With 503, these say that nothing was done: S3's, then Azure's.
const REFUSALS: [&str; 3] = ["SlowDown", "RequestLimitExceeded", "ServerBusy"];
const BROKEN: [&str; 4] =
    ["RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"];
const CONFLICTS: [&str; 2] = ["ConditionalRequestConflict", "OperationAborted"];

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;

    use super::*;

    fn request(method: &str, uri: &str, header: Option<&str>) -> HttpRequest {
        let mut builder = http::Request::builder().method(method).uri(uri);
        if let Some(name) = header {
            builder = builder.header(name, "*");
        }
        builder.body(HttpRequestBody::empty()).unwrap()
    }

    #[test]
    fn only_what_may_be_done_twice_is_repeated_blindly() {
        let harmless = [
            request("GET", "http://h/b/k", None),
            request("PUT", "http://h/b/k", None),
            request("PUT", "http://h/b/k?partNumber=1&uploadId=x", None),
            request("DELETE", "http://h/b/k", None),
            request("POST", "http://h/b?delete", None),
            request("POST", "http://h/b?restype=container&comp=batch", None),
        ];
        let harmful = [
            request("PUT", "http://h/b/k", Some("if-none-match")),
            request("PUT", "http://h/b/k", Some("If-Match")),
            request("PUT", "http://h/b/k", Some("x-goog-if-generation-match")),
            request("POST", "http://h/b/k?uploads=", None),
            request("POST", "http://h/b/k?uploadId=delete", None),
        ];
        assert!(harmless.iter().all(|request| twice(request) == Twice::Harmless));
        assert!(harmful.iter().all(|request| twice(request) == Twice::Harmful));
    }

    #[test]
    fn what_may_have_been_done_is_not_refused() {
        let unknown = [(500, ""), (502, ""), (503, ""), (503, "ServiceUnavailable"), (504, "")];
        for (status, code) in unknown {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(of_status(status, code, true), Some(Trouble::Unknown));
        }
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        assert_eq!(of_status(busy, "SlowDown", true), Some(Trouble::Throttled));
        let conflict = |code| of_status(StatusCode::CONFLICT, code, true);
        assert_eq!(conflict("ConditionalRequestConflict"), Some(Trouble::Refused));
        assert_eq!(conflict("BlobAlreadyExists"), None);
        assert_eq!(of_status(StatusCode::PRECONDITION_FAILED, "", true), None);
        assert_eq!(of_transport(HttpErrorKind::Request), Trouble::Unknown);
    }

    #[test]
    fn waits_follow_the_count_of_tries() {
        let schedule = |waits: &[u64]| RetrySchedule {
            waits: waits.iter().copied().map(Duration::from_millis).collect(),
        };
        let mut waits = Waits::new(&schedule(&[1, 2]), &schedule(&[5]));
        let ms = |wait: Option<Duration>| wait.map(|wait| wait.as_millis());
        assert_eq!(ms(waits.after(Trouble::Unknown, Twice::Harmful)), None);
        assert_eq!(ms(waits.after(Trouble::Refused, Twice::Harmful)), Some(1));
        assert_eq!(ms(waits.after(Trouble::Throttled, Twice::Harmful)), Some(5));
        assert_eq!(ms(waits.after(Trouble::Unknown, Twice::Harmless)), Some(2));
        assert_eq!(ms(waits.after(Trouble::Throttled, Twice::Harmless)), None);
        assert_eq!(ms(waits.after(Trouble::Refused, Twice::Harmless)), None);
        assert_eq!(throttled_schedule().waits.iter().sum::<Duration>().as_secs(), 57);
    }
}
