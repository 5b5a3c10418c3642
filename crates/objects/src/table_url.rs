//! URLs of DynamoDB tables: `dynamodb://TABLE/PREFIX?requests=64`.
//!
//! They are read by every build, so that one without the feature can say what it lacks.

use std::str::FromStr;

use fogbank_store::{Result, StoreError};

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableUrl {
    /// The table, which must exist.
    pub table: String,
    /// What the partition keys of the store's items begin with; may be empty.
    pub prefix: String,
    /// `requests`: how many are under way at once.
    pub requests_max: Option<usize>,
}

impl FromStr for TableUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<Self> {
        let wrong = || {
            StoreError::Caller(
                "a store URL of a table is dynamodb://TABLE/PREFIX, with ?requests=N (1 to 4096 at \
                 once) if you like, and no credentials: set them in the environment"
                    .into(),
            )
        };
        let rest = url.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (table, prefix) = place.split_once('/').unwrap_or((place, ""));
        let named = (3..=255).contains(&table.len()) && table.bytes().all(is_table_byte);
        if !named || prefix.contains(['@', '#']) {
            return Err(wrong());
        }
        let mut requests_max = None;
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let number = setting.strip_prefix("requests=").and_then(|n| n.parse().ok());
            requests_max = Some(number.filter(|n| (1..=4096).contains(n)).ok_or_else(wrong)?);
        }
        Ok(Self { table: table.into(), prefix: prefix.trim_matches('/').into(), requests_max })
    }
}

fn is_table_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

const SCHEME: &str = "dynamodb://";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says() {
        let url: TableUrl = "dynamodb://my.table/a/b/?requests=8".parse().unwrap();
        assert_eq!((url.table.as_str(), url.prefix.as_str()), ("my.table", "a/b"));
        assert_eq!(url.requests_max, Some(8));
        let plain: TableUrl = "dynamodb://tab".parse().unwrap();
        assert_eq!((plain.prefix.as_str(), plain.requests_max), ("", None));
        let wrong = ["dynamodb://", "dynamodb://ab", "dynamodb://k:hush@tab", "s3://tab"];
        let settings = ["dynamodb://tab?requests=0", "dynamodb://tab?gap=1", "dynamodb://tab/@"];
        for wrong in wrong.iter().chain(&settings) {
            let error = wrong.parse::<TableUrl>().unwrap_err().to_string();
            assert!(error.contains("dynamodb://TABLE") && !error.contains("hush"), "{error}");
        }
    }
}
