//! URLs of object stores: `s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `gs://BUCKET/PREFIX`.
//!
//! Settings of this crate may follow as a query: `?requests=64&gap=16384`. Credentials and
//! endpoints never stand in a URL, which others of the machine can read; they come from the
//! environment.

use std::fmt;
use std::str::FromStr;

use fogbank_store::{Result, StoreError};

use crate::names::Names;
use crate::store::ObjectsOptions;

/// Whose service it is, or looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Amazon S3 and compatible servers.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Google,
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectsUrl {
    /// By the scheme.
    pub provider: Provider,
    /// The bucket or container, which must exist.
    pub bucket: String,
    /// Where in it the store's objects are; may be empty.
    pub prefix: String,
    /// `requests`.
    pub requests_max: Option<usize>,
    /// `gap`.
    pub gap_bytes: Option<u64>,
}

impl ObjectsUrl {
    /// Whether `url` is one of an object store, well-formed or not.
    pub fn is_one(url: &str) -> bool {
        SCHEMES.iter().any(|(scheme, _)| url.starts_with(scheme))
    }

    /// Whether two stores, one at each URL, would have objects of the same names: it is one place,
    /// or one lies in the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let lies_in = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| outer.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        let (one, two) = (&self.prefix, &other.prefix);
        (self.provider, &self.bucket) == (other.provider, &other.bucket)
            && (lies_in(one, two) || lies_in(two, one))
    }

    /// Whether both name one store, whatever they say of how it is asked.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.overlaps(other) && self.prefix == other.prefix
    }

    /// The options that the URL asks for.
    pub fn options(&self) -> ObjectsOptions {
        let mut options = ObjectsOptions::default();
        options.requests_max = self.requests_max.unwrap_or(options.requests_max);
        options.gap_bytes = self.gap_bytes.unwrap_or(options.gap_bytes);
        options
    }
}

impl FromStr for ObjectsUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<Self> {
        let wrong = |words: String| StoreError::Caller(words);
        let (provider, rest) = SCHEMES
            .iter()
            .find_map(|&(scheme, provider)| Some((provider, url.strip_prefix(scheme)?)))
            .ok_or_else(|| wrong("object stores are s3://, az:// and gs://".into()))?;
        if rest.contains('@') || rest.contains('#') {
            return Err(wrong(
                "a store URL holds no credentials and no @: write s3://BUCKET/PREFIX, and set \
                 credentials in the environment"
                    .into(),
            ));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() || !bucket.bytes().all(is_bucket_byte) {
            return Err(wrong(format!(
                "{bucket:?} is no bucket's name; a store URL is s3://BUCKET/PREFIX, \
                 az://CONTAINER/PREFIX or gs://BUCKET/PREFIX"
            )));
        }
        Names::under(prefix)?;
        let prefix = prefix.trim_matches('/').to_owned();
        let (bucket, requests_max, gap_bytes) = (bucket.to_owned(), None, None);
        let mut parsed = Self { provider, bucket, prefix, requests_max, gap_bytes };
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            parsed.set(setting)?;
        }
        Ok(parsed)
    }
}

/// As it is written down, to be read again.
impl fmt::Display for ObjectsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = SCHEMES.iter().find(|(_, provider)| *provider == self.provider);
        let (scheme, _) = scheme.unwrap_or(&SCHEMES[0]);
        write!(f, "{scheme}{}/{}", self.bucket, self.prefix)?;
        let requests = self.requests_max.map(|requests| format!("requests={requests}"));
        let settings = requests.into_iter().chain(self.gap_bytes.map(|gap| format!("gap={gap}")));
        match settings.collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            settings => write!(f, "?{}", settings.join("&")),
        }
    }
}

impl ObjectsUrl {
    fn set(&mut self, setting: &str) -> Result<()> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let number = value.parse::<u64>().ok();
        match (name, number) {
            ("requests", Some(requests @ 1..=4096)) => self.requests_max = Some(requests as usize),
            ("gap", Some(bytes)) => self.gap_bytes = Some(bytes),
            _ => {
                return Err(StoreError::Caller(
                    "after the ? of a store URL stand requests=N (1 to 4096 at once) and gap=BYTES \
                     (what is read through between two cells), joined by &"
                        .into(),
                ));
            }
        }
        Ok(())
    }
}

fn is_bucket_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte)
}

const SCHEMES: [(&str, Provider); 3] =
    [("s3://", Provider::S3), ("az://", Provider::Azure), ("gs://", Provider::Google)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says() {
        let url: ObjectsUrl = "s3://bucket/a/b/?requests=8&gap=0".parse().unwrap();
        assert_eq!((url.provider, url.bucket.as_str()), (Provider::S3, "bucket"));
        assert_eq!(
            (url.prefix.as_str(), url.requests_max, url.gap_bytes),
            ("a/b", Some(8), Some(0))
        );
        let plain: ObjectsUrl = "gs://b".parse().unwrap();
        assert_eq!((plain.provider, plain.prefix.as_str()), (Provider::Google, ""));
        assert_eq!("az://c/".parse::<ObjectsUrl>().unwrap().provider, Provider::Azure);
        let wrong =
            ["s3://", "s3:///p", "s3://b/p?x=1", "s3://b?requests=0", "s3://k:hush@b", "http://b"];
        for wrong in wrong {
            let error = wrong.parse::<ObjectsUrl>().unwrap_err().to_string();
            assert!(error.contains("s3://") || error.contains("requests=N"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        assert!(ObjectsUrl::is_one("s3://") && !ObjectsUrl::is_one("file://x"));
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        for url in ["s3://b/", "az://c/a/b", "gs://b/p?requests=8", "s3://b/p?requests=8&gap=0"] {
            assert_eq!(url.parse::<ObjectsUrl>().unwrap().to_string(), url);
        }
    }

    #[test]
    fn stores_that_would_meet_are_known() {
        let parse = |url: &str| url.parse::<ObjectsUrl>().unwrap();
        for (one, two, meet, same) in [
            ("s3://b/p", "s3://b/p/?gap=0", true, true),
            ("s3://b", "s3://b/", true, true),
            ("s3://b/p/q", "s3://b/p", true, false),
            ("s3://b", "s3://b/p", true, false),
            ("s3://b/p", "s3://b/pq", false, false),
            ("s3://b/p", "s3://c/p", false, false),
            ("s3://b/p", "gs://b/p", false, false),
        ] {
            for (one, two) in [(parse(one), parse(two)), (parse(two), parse(one))] {
                assert_eq!((one.overlaps(&two), one.is_same_place(&two)), (meet, same), "{one}");
            }
        }
    }
}
