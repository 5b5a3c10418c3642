//! How far away a store is where nobody has measured it: so much for each kind, and never nothing
//! for a cloud.

use crate::link::LinkArgs;

/// Milliseconds of a round trip, and what a call takes there that reads, and that writes.
type Distance = (f64, f64, f64);

/// A server of one's own, in the same country.
const SERVER: Distance = (10.0, 0.0, 0.0);
/// A region of a cloud, and what object stores take for an object.
const OBJECTS: Distance = (30.0, 20.0, 40.0);
/// The same for items.
const TABLE: Distance = (30.0, 5.0, 10.0);

/// The link as it was given, or the usual one to such a store; and in words, which of the two.
pub fn link_to(url: &str, given: &LinkArgs) -> (LinkArgs, String) {
    let scheme = url.split(':').next().unwrap_or_default();
    let usual = match scheme {
        "grpc" => SERVER,
        "s3" | "az" | "gs" => OBJECTS,
        "dynamodb" => TABLE,
        _ => return (*given, given.words()),
    };
    if given.rtt_ms != 0.0 {
        return (*given, given.words());
    }
    let (rtt_ms, read_ms, write_ms) = usual;
    let or = |given: f64, usual: f64| if given == 0.0 { usual } else { given };
    let (read_ms, write_ms) = (or(given.read_ms, read_ms), or(given.write_ms, write_ms));
    let link = LinkArgs { rtt_ms, read_ms, write_ms, ..*given };
    (link, format!("{} (assumed of {scheme}: measure, and say --rtt-ms)", link.words()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_never_here_and_what_was_measured_counts() {
        for url in ["grpc://h:1/t", "s3://b", "az://c", "gs://b", "dynamodb://t"] {
            let (link, words) = link_to(url, &LinkArgs::default());
            assert!(link.rtt_ms > 0.0 && words.contains("assumed of"), "{url}: {words}");
            let measured = LinkArgs::of_round_trip(3.0);
            assert_eq!(link_to(url, &measured), (measured, measured.words()), "{url}");
        }
        for url in ["file:///x", "memory:"] {
            assert!(link_to(url, &LinkArgs::default()).0.is_instant(), "{url}");
        }
        let wide = LinkArgs { down_mb_s: Some(5.0), ..LinkArgs::default() };
        assert_eq!(link_to("s3://b", &wide).0.down_mb_s, Some(5.0));
    }
}
