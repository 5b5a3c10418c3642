//! A file as it is written: its fields, with the places they stand at.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::FileError;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// What the workload is called in tables.
    pub name: Option<String>,
    #[serde(rename = "group", default)]
    pub groups: Vec<Group>,
    #[serde(rename = "transaction", default)]
    pub transactions: Vec<Transaction>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub name: Spanned<String>,
    pub count: Spanned<u32>,
    pub bytes: Spanned<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transaction {
    pub name: Spanned<String>,
    pub percent: Spanned<u32>,
    #[serde(rename = "step", default)]
    pub steps: Vec<Spanned<Step>>,
}

/// What is asked for together.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    pub read: Several<Access>,
    pub update: Several<Access>,
    pub write: Several<Access>,
    pub insert: Several<Access>,
    pub scan: Several<Access>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Access {
    pub group: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub distribution: Option<Spanned<Distribution>>,
    pub theta: Option<Spanned<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Distribution {
    Uniform,
    Zipfian,
    Latest,
}

impl Description {
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        // It shows the line and what is expected there.
        toml::from_str(text).map_err(|e| FileError::Syntax(e.to_string().trim_end().to_owned()))
    }
}

/// One table, or a list of them: most steps have one access of a sort.
#[derive(Debug)]
pub(super) struct Several<T>(pub Vec<T>);

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMore(PhantomData))
    }
}

struct OneOrMore<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
    type Value = Several<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table such as { group = \"patients\", count = 1 }, or a list of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Several<T>, A::Error> {
        Ok(Several(vec![T::deserialize(MapAccessDeserializer::new(map))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Several<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Several)
    }
}
