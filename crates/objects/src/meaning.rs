//! What an answer that is no success means: by its status, and the provider's word for the error.
//!
//! 1. *Absent*: not now. It is sent again if that cannot do harm.
//! 2. *Denied*: not you, or not this. Again would bring the same.
//! 3. *Gone*: what was opened is not there any more.
//! 4. *Misbehaved*: an answer that there is not to what was asked.
//! 5. Or it is an answer: no such object, or a condition that does not hold.
//!
//! A deletion of many is answered with a success and an error for some of them in the body; what
//! such an error would mean by itself it means there, too.

use bytes::Bytes;
use http::StatusCode;
use http::response::Parts;

use crate::error::{self, Failure};
use crate::retry::{self, Attempt};

/// What was asked, as far as the answer depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Under a condition.
    pub conditional: bool,
}

/// Whether the library may have this answer; otherwise what it means.
pub(crate) fn of_answer(status: StatusCode, code: &str, asked: Asked) -> Result<(), Attempt> {
    let said = said(status, code);
    if let Some(trouble) = retry::of_status(status, code, asked.conditional) {
        let words = format!("the object store answered {said}");
        return Err(Attempt::Failed(trouble, Failure::absent(words)));
    }
    let words = format!("the object store answered {said}");
    let failure = match status.as_u16() {
        404 if NO_OBJECT.contains(&code) => return Ok(()),
        412 if asked.conditional => return Ok(()),
        409 if asked.conditional && code == EXISTS => return Ok(()),
        404 if NO_BUCKET.contains(&code) => Failure::gone(format!(
            "{}; create it first, or correct the store URL",
            error::NO_BUCKET
        )),
        // Some servers answer so to a key that they do not know, and that does not mean no such
        // object.
        401 | 403 | 404 => Failure::denied(format!(
            "the object store refused the credentials ({said}): check the key in the environment, \
             the machine's clock, and that the key may read, write, list and delete in that bucket"
        )),
        402 => Failure::denied(format!("{words}: it wants to be paid")),
        405 | 501 => Failure::denied(format!(
            "the object store does not know how to do what it was asked ({said}): it is unsuitable"
        )),
        // S3 redirects whoever has the wrong region, so to redirect is not to lie. Nobody follows
        // it.
        300..=303 | 305..=399 => Failure::elsewhere(format!(
            "the object store does not take the request ({said}): check region (AWS_REGION) and \
             endpoint"
        )),
        400 if code == NO_NAME => Failure::elsewhere(format!(
            "the object store has no buckets of such a name ({said}): correct the store URL"
        )),
        304 | 412 => Failure::misbehaved(format!("{words} where no condition was asked for")),
        409 if code == EXISTS => {
            Failure::misbehaved(format!("{words} where no condition was asked for"))
        }
        416 => Failure::misbehaved("an object is shorter than what was written"),
        409 | 423 | 425 => Failure::absent(words),
        100..=299 => Failure::misbehaved(words),
        _ => Failure::denied(format!(
            "the object store does not take the request ({said}): check region (AWS_REGION) and \
             endpoint"
        )),
    };
    Err(Attempt::Over(failure))
}

/// What a successful reply to a post says: a deletion of many fails object by object in it, the end
/// of an upload as a whole. What the library is to have of it: never an error that it would look
/// for among what it asked about.
pub(crate) fn of_post(body: Bytes, is_deletion: bool) -> Result<Bytes, Attempt> {
    let text = String::from_utf8_lossy(&body);
    if is_deletion && !text.contains("<DeleteResult") && text.contains("HTTP/1.") {
        return of_parts(&text);
    }
    for code in errors(&text) {
        let status = match code {
            "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => StatusCode::FORBIDDEN,
            "NotImplemented" | "MethodNotAllowed" => StatusCode::NOT_IMPLEMENTED,
            "NoSuchBucket" | "NoSuchKey" => StatusCode::NOT_FOUND,
            "SlowDown" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        of_answer(status, code, Asked::default())?;
    }
    match is_deletion && text.contains("<DeleteResult") {
        true => Ok(Bytes::from_static(ALL_DELETED)),
        false => Ok(body),
    }
}

/// Azure's reply to a deletion of many: an answer a part, with its status. What was not there is as
/// good as deleted.
fn of_parts(text: &str) -> Result<Bytes, Attempt> {
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let Some((version, rest)) =
            line.split_once(' ').filter(|(version, _)| version.starts_with("HTTP/1."))
        else {
            kept += line;
            continue;
        };
        let digits = rest.get(..3).unwrap_or_default().as_bytes();
        let none = |_| Failure::misbehaved("a reply to a deletion that is none");
        let status = StatusCode::from_bytes(digits).map_err(|e| Attempt::Over(none(e)))?;
        if !status.is_success() {
            of_answer(status, "", Asked::default())?;
        }
        kept += version;
        kept += " 202 Accepted\r\n";
    }
    Ok(kept.into())
}

/// The codes of the errors in a reply.
fn errors(text: &str) -> impl Iterator<Item = &str> {
    let elements =
        text.split("<Error").skip(1).filter(|rest| !rest.starts_with(char::is_alphabetic));
    elements.map(|rest| {
        let code = rest.split_once("<Code>").and_then(|(_, code)| code.split_once('<'));
        code.map_or("", |(code, _)| code.trim())
    })
}

/// The provider's word for an error: all of them send `<Code>`, Azure also a header.
pub(crate) fn error_code(parts: &Parts, body: &[u8]) -> String {
    let header = parts.headers.get("x-ms-error-code").and_then(|value| value.to_str().ok());
    let text = String::from_utf8_lossy(body);
    let element = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    plain(header.or(element.map(|(code, _)| code)).unwrap_or_default())
}

fn said(status: StatusCode, code: &str) -> String {
    format!("{} {}", status.as_u16(), plain(code)).trim_end().to_owned()
}

/// A word without anything else that a server may put there.
fn plain(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).take(40).collect()
}

/// A reply without a body says nothing more.
const NO_OBJECT: [&str; 4] = ["", "NoSuchKey", "BlobNotFound", "NoSuchUpload"];
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// Azure's word for a condition that does not hold; another conflict is no answer.
/// Of a bucket that cannot be.
const NO_NAME: &str = "InvalidBucketName";
const EXISTS: &str = "BlobAlreadyExists";
/// What the library understands as that nothing has failed.
const ALL_DELETED: &[u8] =
    b"<DeleteResult><Deleted><Key>all of them</Key></Deleted></DeleteResult>";

#[cfg(test)]
mod tests {
    use fogbank_store::StoreError;

    use super::*;
    use crate::error::at_opening;

    /// By whom, while a store is open and when it is opened.
    fn blamed(attempt: Result<(), Attempt>) -> [&'static str; 2] {
        let (failure, again) = match attempt {
            Ok(()) => return ["answer"; 2],
            Err(Attempt::Failed(_, failure)) => (failure, true),
            Err(Attempt::Over(failure)) => (failure, false),
        };
        [StoreError::from(failure.clone()), at_opening(failure)].map(|error| match error {
            StoreError::Absent(_) if again => "absent, again",
            StoreError::Absent(_) => "absent",
            StoreError::Refused(_) => "refusing",
            StoreError::Misbehaved(_) => "lying",
            StoreError::Caller(_) => "settings",
            StoreError::NoArray(_) | StoreError::Near(_) => "none",
        })
    }

    #[test]
    fn every_status_and_word_has_somebody_to_blame() {
        const LATER: [&str; 2] = ["absent, again"; 2];
        const LIE: [&str; 2] = ["lying"; 2];
        const ANSWER: [&str; 2] = ["answer"; 2];
        const REFUSED: [&str; 2] = ["refusing"; 2];
        // Status, word; without a condition, and with one.
        let table: &[(u16, &str, [&str; 2], [&str; 2])] = &[
            (301, "PermanentRedirect", ["absent", "settings"], ["absent", "settings"]),
            (307, "TemporaryRedirect", ["absent", "settings"], ["absent", "settings"]),
            (304, "", LIE, LIE),
            (400, "InvalidRequest", REFUSED, REFUSED),
            (400, "ExpiredToken", REFUSED, REFUSED),
            (400, "RequestTimeout", LATER, LATER),
            (400, "IncompleteBody", LATER, LATER),
            (400, "BadDigest", LATER, LATER),
            (401, "", REFUSED, REFUSED),
            (402, "", REFUSED, REFUSED),
            (403, "AccessDenied", REFUSED, REFUSED),
            (403, "QuotaExceeded", REFUSED, REFUSED),
            (403, "RequestTimeTooSkewed", REFUSED, REFUSED),
            (404, "", ANSWER, ANSWER),
            (404, "NoSuchKey", ANSWER, ANSWER),
            (404, "BlobNotFound", ANSWER, ANSWER),
            (404, "NoSuchBucket", ["lying", "settings"], ["lying", "settings"]),
            (404, "ContainerNotFound", ["lying", "settings"], ["lying", "settings"]),
            (404, "InvalidAccessKeyId", REFUSED, REFUSED),
            (405, "MethodNotAllowed", REFUSED, REFUSED),
            (408, "", LATER, LATER),
            (409, "ConditionalRequestConflict", ["absent"; 2], LATER),
            (409, "OperationAborted", ["absent"; 2], LATER),
            (409, "ContainerBeingDeleted", ["absent"; 2], ["absent"; 2]),
            (409, "BlobAlreadyExists", LIE, ANSWER),
            (412, "PreconditionFailed", LIE, ANSWER),
            (413, "EntityTooLarge", REFUSED, REFUSED),
            (416, "InvalidRange", LIE, LIE),
            (423, "", ["absent"; 2], ["absent"; 2]),
            (429, "", LATER, LATER),
            (451, "", REFUSED, REFUSED),
            (500, "InternalError", LATER, LATER),
            (501, "NotImplemented", REFUSED, REFUSED),
            (502, "", LATER, LATER),
            (503, "SlowDown", LATER, LATER),
            (503, "ServiceUnavailable", LATER, LATER),
            (507, "XMinioStorageFull", LATER, LATER),
        ];
        for (status, code, without, with) in table {
            let status = StatusCode::from_u16(*status).unwrap();
            let of = |conditional| blamed(of_answer(status, code, Asked { conditional }));
            assert_eq!((of(false), of(true)), (*without, *with), "{status} {code}");
        }
        // What is not in the table is somebody's, too.
        for status in 100..600 {
            let status = StatusCode::from_u16(status).unwrap();
            let of = |conditional| blamed(of_answer(status, "Other", Asked { conditional }));
            assert!(of(false) != ANSWER, "{status}");
            assert!(of(true) != ANSWER || status.as_u16() == 412, "{status}");
        }
    }

    #[test]
    fn what_a_deletion_of_many_says_of_one_is_what_it_would_say_of_it_alone() {
        let reply = |code: &str| {
            format!(
                "<?xml version=\"1.0\"?><DeleteResult xmlns=\"x\"><Deleted><Key>a</Key></Deleted>\
                 <Error><Key>b</Key><Code>{code}</Code><Message>m</Message></Error></DeleteResult>"
            )
        };
        let of = |body: String| blamed(of_post(body.into(), true).map(drop));
        for (code, blame) in [
            ("AccessDenied", "refusing"),
            ("NotImplemented", "refusing"),
            ("NoSuchBucket", "lying"),
            ("InternalError", "absent, again"),
            ("SlowDown", "absent, again"),
            ("SomethingNew", "absent, again"),
            ("", "absent, again"),
            ("NoSuchKey", "answer"),
        ] {
            assert_eq!(of(reply(code))[0], blame, "{code}");
        }
        let kept = of_post(reply("NoSuchKey").into(), true);
        assert!(kept.is_ok_and(|kept| kept == ALL_DELETED), "no key of the server's choice");
        let part = |status: &str| {
            format!(
                "--b\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n--b\r\nContent-ID: 999\r\n\r\nHTTP/1.1 {status}\r\n\r\n--b--\r\n"
            )
        };
        for (status, blame) in [
            ("202 Accepted", "answer"),
            ("404 Not Found\r\n\r\n<Error><Code>BlobNotFound</Code></Error>", "answer"),
            ("403 Forbidden", "refusing"),
            ("503 Busy", "absent, again"),
            ("xyz", "lying"),
        ] {
            assert_eq!(of(part(status))[0], blame, "{status}");
        }
        let kept = of_post(part("404 Not Found").into(), true);
        assert!(kept.is_ok_and(|kept| !kept.windows(4).any(|w| w == b" 404")));
        // The end of an upload in parts: a success that is none.
        let ended =
            |code: &str| of_post(format!("<Error><Code>{code}</Code></Error>").into(), false);
        assert_eq!(blamed(ended("InternalError").map(drop))[0], "absent, again");
        assert_eq!(blamed(ended("AccessDenied").map(drop))[0], "refusing");
        let whole = Bytes::from_static(b"<CompleteMultipartUploadResult><ETag>x</ETag>");
        assert!(of_post(whole.clone(), false).is_ok_and(|kept| kept == whole));
    }
}
