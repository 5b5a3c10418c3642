//! A new store made of a file of keys and values.
//!
//! 1. The file is read once from end to end: every line has to be a record, and all of them have to fit.
//!    Nothing is made before that is known.
//! 2. The store is made and filled ([`crate::fill`]); every record gets random addresses.
//!
//! The file is comma-separated (RFC 4180) with a first line that names the columns `key` and `value`, or
//! JSON, one object a line, with the members `key` and `value`, or `key_base64` and `value_base64` where
//! they are no text.
//!
//! What the cloud sees: that a store of this capacity was made and filled; neither how many records there
//! were nor how long they are.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use fogbank_txn::{Filling, Key};
use serde::Deserialize;

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::fill::{Fill, Progress};
use crate::open::OpenOptions;

/// How records stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated, the first line naming `key` and `value`.
    Csv,
    /// JSON, one object a line.
    Jsonl,
}

/// A file of records.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    format: Format,
}

/// A record and the line on which it begins.
struct Line {
    number: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Source {
    /// The file at `path`, its format by its name if it is not given.
    ///
    /// # Errors
    /// [`Error::Usage`] if the name does not say it either.
    pub fn new(path: &Path, format: Option<Format>) -> Result<Self> {
        let by_name = || match path.extension()?.to_str()? {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            _ => None,
        };
        let format = format.or_else(by_name).ok_or_else(|| {
            Error::Usage(format!(
                "{} ends neither in .csv nor in .jsonl; say what it is with --format",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), format })
    }

    /// Calls `take` with every record in turn.
    fn each(&self, mut take: impl FnMut(Line) -> Result<()>) -> Result<()> {
        let file = File::open(&self.path).map_err(|e| self.unreadable(&e.to_string()))?;
        let mut records: Box<dyn Iterator<Item = Result<Line>>> = match self.format {
            Format::Csv => Box::new(self.of_csv(file)?),
            Format::Jsonl => Box::new(self.of_json(file)),
        };
        records.try_for_each(|line| take(line?))
    }

    fn of_csv(&self, file: File) -> Result<impl Iterator<Item = Result<Line>> + '_> {
        let mut reader = csv::Reader::from_reader(file);
        let header = reader.byte_headers().map_err(|e| self.unreadable(&e.to_string()))?.clone();
        let column = |name: &str| {
            header
                .iter()
                .position(|cell| cell == name.as_bytes())
                .ok_or_else(|| self.wrong(1, &format!("the first line names no column {name}")))
        };
        let (key, value) = (column("key")?, column("value")?);
        Ok(reader.into_byte_records().map(move |record| {
            let record = record.map_err(|e| self.unreadable(&e.to_string()))?;
            let cell = |at: usize| record.get(at).unwrap_or_default().to_vec();
            let number = record.position().map_or(0, csv::Position::line);
            Ok(Line { number, key: cell(key), value: cell(value) })
        }))
    }

    fn of_json(&self, file: File) -> impl Iterator<Item = Result<Line>> + '_ {
        let lines = (1..).zip(BufReader::new(file).lines());
        let whole = lines.filter(|(_, text)| text.as_ref().map_or(true, |t| !t.trim().is_empty()));
        whole.map(|(number, text)| {
            let text = text.map_err(|e| self.unreadable(&e.to_string()))?;
            let object: Object =
                serde_json::from_str(&text).map_err(|e| self.wrong(number, &e.to_string()))?;
            let bytes = |name, text: Option<String>, coded: Option<String>| match (text, coded) {
                (Some(text), None) => Ok(text.into_bytes()),
                (None, Some(coded)) => BASE64_STANDARD
                    .decode(coded)
                    .map_err(|e| self.wrong(number, &format!("{name}_base64: {e}"))),
                _ => Err(self.wrong(number, &format!("one of {name} and {name}_base64 is needed"))),
            };
            Ok(Line {
                number,
                key: bytes("key", object.key, object.key_base64)?,
                value: bytes("value", object.value, object.value_base64)?,
            })
        })
    }

    fn unreadable(&self, why: &str) -> Error {
        Error::Usage(format!("cannot read {}: {why}", self.path.display()))
    }

    fn wrong(&self, line: u64, why: &str) -> Error {
        Error::Usage(format!("{}, line {line}: {why}", self.path.display()))
    }
}

/// A line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

impl OpenOptions {
    /// Makes a new store of the records in `source`; returns how many there are. `key_of` says under
    /// which key and attribute the front end keeps a record of that name.
    ///
    /// # Errors
    /// [`Error::Usage`] if a line is no record, a key comes twice, or not all of them fit: then nothing
    /// was made. Otherwise as for [`OpenOptions::open`].
    pub async fn load(
        self,
        source: &Source,
        key_of: impl Fn(&[u8]) -> (Key, u64) + Send,
        progress: &mut Progress<'_>,
    ) -> Result<usize> {
        let config = {
            let link = self.across_a_link();
            StoreConfig::derive_at(self.shape_args(), link, link)?
        };
        check(source, &config, &key_of, &self)?;
        let mut filling = empty(&config, &self)?;
        let mut new = Fill::begin(self, &config, progress).await?;
        // Lines are read and blocks written in turn, so that neither is ever all in memory.
        let (lines, mut taken) = tokio::sync::mpsc::channel(LINES_AHEAD);
        let reader = source.clone();
        let reading = tokio::task::spawn_blocking(move || {
            reader.each(|line| {
                let gone = |_| Error::Usage("the store took no more records".into());
                lines.blocking_send(line).map_err(gone)
            })
        });
        while let Some(line) = taken.recv().await {
            let (key, attr) = key_of(&line.key);
            let blocks = filling.put(&key, &line.value, attr);
            new.write(blocks.map_err(|e| source.wrong(line.number, &e.to_string()))?).await?;
        }
        reading.await.map_err(|e| Error::Bug(e.to_string()))??;
        let records = filling.len();
        new.finish(filling.sections()).await?;
        Ok(records)
    }
}

/// Lines that are read before their blocks are written.
const LINES_AHEAD: usize = 1024;

fn empty(config: &StoreConfig, options: &OpenOptions) -> Result<Filling> {
    let shape = config.ring_settings().shape;
    Ok(Filling::new(&config.proxy_settings(), shape, &options.randomness()?))
}

/// Whether every line is a record and all of them fit.
fn check(
    source: &Source,
    config: &StoreConfig,
    key_of: &impl Fn(&[u8]) -> (Key, u64),
    options: &OpenOptions,
) -> Result<()> {
    let mut filling = empty(config, options)?;
    let mut seen = HashMap::new();
    let (mut needed, mut is_full) = (0_usize, false);
    source.each(|line| {
        let (key, attr) = key_of(&line.key);
        needed += line.value.len().div_ceil(config.value_size).max(1);
        if let Some(before) = seen.insert(key.clone(), line.number) {
            let why = format!("its key is that of line {before}");
            return Err(source.wrong(line.number, &why));
        }
        match filling.put(&key, &line.value, attr) {
            Err(fogbank_txn::Error::OutOfSpace) => is_full = true,
            Err(error) => return Err(source.wrong(line.number, &error.to_string())),
            Ok(_) => {}
        }
        Ok(())
    })?;
    if is_full {
        return Err(Error::Usage(format!(
            "{} does not fit: it needs {needed} blocks of {} bytes (and room for its keys); choose a \
             --capacity with room to spare, such as {}",
            source.path.display(),
            config.value_size,
            needed.max(config.capacity as usize) * 5 / 4
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Result<Vec<(u64, String, Vec<u8>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut lines = Vec::new();
        Source::new(&path, None)?.each(|line| {
            lines.push((line.number, String::from_utf8(line.key).unwrap(), line.value));
            Ok(())
        })?;
        Ok(lines)
    }

    #[test]
    fn both_formats_give_the_same_records() {
        let csv = "id,value,key\n1,one,a\n2,\"two, \"\"and\nmore\",b\n3,,c\n";
        let json = "{\"key\":\"a\",\"value\":\"one\"}\n\n\
            {\"value\":\"two, \\\"and\\nmore\",\"key\":\"b\"}\n{\"key_base64\":\"Yw==\",\"value_base64\":\"\"}\n";
        let (csv, json) = (lines("x.csv", csv).unwrap(), lines("x.jsonl", json).unwrap());
        let parts = |lines: &[(u64, String, Vec<u8>)]| {
            lines.iter().map(|(_, key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
        };
        assert_eq!(parts(&csv), parts(&json));
        assert_eq!(csv.iter().map(|line| line.0).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(json.iter().map(|line| line.0).collect::<Vec<_>>(), [1, 3, 4]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (name, text, part) in [
            ("x.csv", "name,value\na,b\n", "no column key"),
            ("x.csv", "key,value\na,b\na,b,c\n", "line"),
            ("x.jsonl", "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"a\"}\n", "line 2"),
            ("x.jsonl", "{\"key\":\"a\",\"value\":\"b\",\"more\":1}\n", "more"),
            ("x.jsonl", "{\"key\":\"a\",\"value_base64\":\"!\"}\n", "value_base64"),
            ("x.txt", "", "--format"),
        ] {
            let told = lines(name, text).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
        }
    }
}
