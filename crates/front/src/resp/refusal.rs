//! What a client reads when a program could not be done.

use std::fmt::Debug;

use fogbank_txn::Error;

use super::reply::Reply;

/// Somebody who knows how stores are made: front ends know no flags.
pub trait Advisor: Debug + Send + Sync {
    /// Which store would do what this one refuses with `error`, and how it is made; nothing if that
    /// does not lie in its shape. Clients read it.
    fn advice(&self, error: &Error) -> Option<String>;
}

/// The reply that tells `error`, and what `advisor` knows about it.
pub fn refusal(error: &Error, advisor: Option<&dyn Advisor>) -> Reply {
    let (code, told) = told(error);
    match advisor.and_then(|advisor| advisor.advice(error)) {
        Some(advice) => Reply::error_with_code(code, format!("{told}; {advice}")),
        None => Reply::error_with_code(code, told),
    }
}

fn told(error: &Error) -> (&'static str, String) {
    match error {
        Error::TooLarge { what, needed, limit } => (
            "ERR",
            format!(
                "the command is too large: it needs at least {needed} {what}, the \
                 limit is {limit}"
            ),
        ),
        Error::ValueTooLong { bytes, limit } => (
            "ERR",
            format!(
                "string exceeds maximum allowed size (proto-max-bulk-len): it has {bytes} bytes, \
                 the limit is {limit}"
            ),
        ),
        Error::KeyTooLong { bytes, limit } => (
            "ERR",
            format!(
                "the key is longer than the store allows: it takes {bytes} bytes, the limit is \
                 {limit}"
            ),
        ),
        Error::OutOfSpace | Error::NoRoom(_) => ("OOM", format!("command not allowed: {error}")),
        Error::Closed => ("ERR", "the server is shutting down".into()),
        Error::Resting(_) => ("RESTING", error.to_string()),
        Error::Stopped(_) => ("ERR", "the store has stopped".into()),
        other if other.is_retryable() => ("TRYAGAIN", other.to_string()),
        other => ("ERR", other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use fogbank_txn::Bound;

    use super::*;

    /// Knows of one limit.
    #[derive(Debug)]
    struct OfWrites;

    impl Advisor for OfWrites {
        fn advice(&self, error: &Error) -> Option<String> {
            let of_writes = matches!(error, Error::TooLarge { what: Bound::Writes, .. });
            of_writes.then(|| "a larger store\r\ntakes it".into())
        }
    }

    #[test]
    fn what_is_refused_is_told_with_what_was_asked_what_there_is_and_what_helps() {
        let said = |what, advisor| match refusal(
            &Error::TooLarge { what, needed: 17, limit: 16 },
            advisor,
        ) {
            Reply::Error(line) => String::from_utf8(line.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        let writes = "ERR the command is too large: it needs at least 17 write \
                      slots, the limit is 16";
        assert_eq!(said(Bound::Writes, None), writes);
        let advised = said(Bound::Writes, Some(&OfWrites as &dyn Advisor));
        assert_eq!(advised, format!("{writes}; a larger store  takes it"));
        assert!(said(Bound::Reads, Some(&OfWrites)).ends_with("17 blocks read, the limit is 16"));
    }
}
