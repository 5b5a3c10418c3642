//! Who was asked, for whoever opens a store: the endpoint with what says it, and the bucket.
//!
//! A library's "connection refused" names neither, and whoever mistyped one of them looks for the
//! mistake elsewhere.

use fogbank_store::StoreError;

use crate::environment::Environment;
use crate::error::{NO_BUCKET, NO_TABLE};
use crate::url::{ObjectsUrl, Provider};

/// What was asked, and where.
pub(crate) struct Asked<'a> {
    /// The bucket, container or table.
    name: &'a str,
    endpoint: String,
    /// What can be set to ask elsewhere.
    variable: &'static str,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(url: &'a ObjectsUrl, env: &Environment) -> Self {
        let (variables, own): (&[_], _) = match url.provider {
            Provider::S3 => (&S3, "Amazon's own"),
            Provider::Azure => (&AZURE, "Azure's own, of the account"),
            Provider::Google => (&GOOGLE, "Google's own"),
        };
        Self::at(&url.bucket, variables, own, env)
    }

    #[cfg(feature = "dynamodb")]
    pub(crate) fn of_table(table: &'a str, env: &Environment) -> Self {
        Self::at(table, &DYNAMO, "Amazon's own", env)
    }

    fn at(name: &'a str, variables: &[&'static str], own: &str, env: &Environment) -> Self {
        let set = variables.iter().find_map(|&name| Some((name, env.get(name)?)));
        let variable = set.map_or(variables[0], |(variable, _)| variable);
        let endpoint = match set {
            // Credentials may stand in them.
            Some((variable, value)) if value.contains(['@', ';']) => {
                format!("the one that {variable} names")
            }
            Some((variable, value)) => format!("{value}, which {variable} names"),
            None => format!("{own} ({variable} is not set)"),
        };
        Self { name, endpoint, variable }
    }

    /// The same error, with who was asked, where that may be what is wrong.
    pub(crate) fn told(&self, error: StoreError) -> StoreError {
        let Self { name, endpoint, variable } = self;
        match error {
            StoreError::Absent(why) => StoreError::Absent(format!(
                "{why}; the endpoint asked is {endpoint}: if it is the wrong one, set {variable}"
            )),
            StoreError::Caller(why) => StoreError::Caller(named(&why, name, endpoint)),
            error => error,
        }
    }
}

/// What says that a bucket is not there, with its name.
fn named(why: &str, name: &str, endpoint: &str) -> String {
    let none = [NO_BUCKET, NO_TABLE].into_iter().find(|none| why.starts_with(none));
    match none {
        Some(none) => {
            let rest = &why[none.len()..];
            format!("{none}: {name}, at the endpoint {endpoint}{rest}")
        }
        None => why.to_owned(),
    }
}

/// What names an endpoint, the first that is set; the first of all is told where none is.
const S3: [&str; 3] = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"];
const AZURE: [&str; 3] =
    ["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AZURE_STORAGE_CONNECTION_STRING"];
const GOOGLE: [&str; 2] = ["STORAGE_EMULATOR_HOST", "GOOGLE_BASE_URL"];
#[cfg(feature = "dynamodb")]
const DYNAMO: [&str; 2] = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::is_gone;

    #[test]
    fn who_does_not_answer_and_what_is_not_there_is_named() {
        let cases = [
            ("s3://mistyped/x", "AWS_ENDPOINT_URL", "Amazon"),
            ("az://mistyped/x", "AZURE_STORAGE_ENDPOINT", "Azure"),
            ("gs://mistyped/x", "STORAGE_EMULATOR_HOST", "Google"),
        ];
        for (url, variable, own) in cases {
            let url: ObjectsUrl = url.parse().unwrap();
            let of = |value: Option<&'static str>| {
                let env: Environment = value.map(|value| (variable, value)).into_iter().collect();
                let asked = Asked::of(&url, &env);
                let absent = asked.told(StoreError::Absent("nobody".into())).to_string();
                let gone = format!("{NO_BUCKET}; create it");
                match asked.told(StoreError::Caller(gone)) {
                    StoreError::Caller(gone) => (absent, gone),
                    other => panic!("{other:?}"),
                }
            };
            let (absent, gone) = of(Some("http://127.0.0.1:9"));
            for told in [&absent, &gone] {
                assert!(told.contains(&format!("http://127.0.0.1:9, which {variable}")), "{told}");
            }
            assert!(gone.contains(": mistyped,") && gone.ends_with("; create it"), "{gone}");
            assert!(is_gone(&gone), "{gone}");
            let (absent, _) = of(None);
            assert!(absent.contains(own) && absent.contains(&format!("set {variable}")));
            let (absent, gone) = of(Some("http://user:hush@host"));
            assert!(!absent.contains("hush") && !gone.contains("hush"), "{absent} {gone}");
        }
    }
}
