//! Files of records: comma-separated, JSON, or a dump of Redis.
//!
//! Comma-separated is RFC 4180 with a first line that names the columns `key` and `value`; JSON is
//! one object a line, with the members `key` and `value`, or `key_base64` and `value_base64` where
//! they are no text. A dump is what Redis writes at `SAVE` ([`super::dump`]). Everything that is
//! read goes into a fingerprint, by which a file that has changed is told.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use fogbank_env::{Mutex, counted};
use fogbank_front::resp::Content;
use fogbank_seal::Digesting;
use serde::{Deserialize, Serialize};

use super::dump;
use super::quotes::Quotes;
use crate::error::{Error, Result};

/// How records stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated, the first line naming `key` and `value`.
    Csv,
    /// JSON, one object a line.
    Jsonl,
    /// What Redis writes at SAVE.
    Rdb,
}

/// A file of records.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    format: Format,
    skip_unsupported: bool,
}

/// A key and what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The line on which it begins, or which of the keys of a dump it is.
    pub number: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// What it holds.
    pub content: Content,
    /// When it expires, in milliseconds of Unix time.
    pub deadline_ms: Option<u64>,
}

/// What a file is known again by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// How many bytes were read.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// What a reading of a file came to.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What it is known again by.
    pub fingerprint: Fingerprint,
    /// What was left out, since it cannot be stored and that was asked for.
    pub left_out: LeftOut,
}

/// What a dump held that was not taken from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Keys.
    pub keys: u64,
    /// What it held beside keys, in words.
    pub others: BTreeSet<&'static str>,
}

impl Source {
    /// The file at `path`, its format by its name if it is not given. Of a dump, keys that cannot
    /// be stored are an error, or left out with `skip_unsupported`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the name does not say it either.
    pub fn new(path: &Path, format: Option<Format>, skip_unsupported: bool) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Err(Error::Usage(
                "--from -: a load reads its file twice, so it cannot read standard input; write \
                 that into a file first (cat > FILE)"
                    .into(),
            ));
        }
        let by_name = || match path.extension()?.to_str()? {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            "rdb" => Some(Format::Rdb),
            _ => None,
        };
        let format = format.or_else(by_name).ok_or_else(|| {
            Error::Usage(format!(
                "{} ends neither in .csv nor in .jsonl nor in .rdb; say what it is with --format",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), format, skip_unsupported })
    }

    /// Whether keys that cannot be stored are left out.
    pub(super) fn skips(&self) -> bool {
        self.skip_unsupported
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `take` with every record in turn.
    pub(super) fn each(&self, mut take: impl FnMut(Record) -> Result<()>) -> Result<Reading> {
        let file = self.open()?;
        let marked = self.is_marked()?;
        let read = Arc::new(Mutex::new((0, Digesting::default())));
        let mut file = Digested { file, read: read.clone() };
        if marked {
            let mark = file.read_exact(&mut [0; MARK.len()]);
            mark.map_err(|e| self.unreadable(&e.to_string()))?;
        }
        let mut left_out = LeftOut::default();
        match self.format {
            Format::Csv => self.of_csv(file)?.try_for_each(|record| take(record?))?,
            Format::Jsonl => self.of_json(file).try_for_each(|record| take(record?))?,
            Format::Rdb => {
                left_out = dump::each(file, self.skip_unsupported, |why| self.refused(why), take)?;
            }
        }
        let mut read = read.lock();
        let sha256 = std::mem::take(&mut read.1).finish();
        let sha256 = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Reading { fingerprint: Fingerprint { bytes: read.0, sha256 }, left_out })
    }

    /// The file, which is read twice: so it has to be one.
    fn open(&self) -> Result<File> {
        let kind = std::fs::metadata(&self.path).map_err(|e| self.unreadable(&e.to_string()))?;
        if !kind.is_file() {
            return Err(self.unreadable("it is read twice, so give a file, not a pipe or a folder"));
        }
        File::open(&self.path).map_err(|e| self.unreadable(&e.to_string()))
    }

    fn of_csv(&self, file: Digested) -> Result<impl Iterator<Item = Result<Record>> + '_> {
        let mut reader = csv::Reader::from_reader(Quotes::of(file));
        let header = reader.byte_headers().map_err(|e| self.of_broken(&e))?.clone();
        let column = |name: &str| {
            let mut such = (0..).zip(&header).filter(|(_, cell)| *cell == name.as_bytes());
            match (such.next(), such.next()) {
                (Some((at, _)), None) => Ok(at),
                (None, _) => Err(self.wrong(1, &no_column(name, &header))),
                (Some(_), Some(_)) => {
                    Err(self.wrong(1, &format!("the first line names the column {name} twice")))
                }
            }
        };
        let (key, value) = (column("key")?, column("value")?);
        Ok(reader.into_byte_records().map(move |record| {
            let record = record.map_err(|e| self.of_broken(&e))?;
            let cell = |at: usize| record.get(at).unwrap_or_default().to_vec();
            let number = record.position().map_or(0, csv::Position::line);
            Ok(Record::of_string(number, cell(key), cell(value)))
        }))
    }

    /// A line that is none of the table's.
    fn of_broken(&self, error: &csv::Error) -> Error {
        match error.kind() {
            csv::ErrorKind::UnequalLengths { pos: Some(at), expected_len, len } => self.wrong(
                at.line(),
                &format!(
                    "it has {}, and the first line has {expected_len}; a value with a comma in it \
                     stands in quotes",
                    counted(*len as usize, "column", "columns")
                ),
            ),
            csv::ErrorKind::Io(quotes) if quotes.kind() == ErrorKind::InvalidData => {
                Error::Usage(format!("{}, {quotes}", self.path.display()))
            }
            _ => self.unreadable(&error.to_string()),
        }
    }

    /// Whether a text begins with the mark of UTF-8, which is no part of it. Other encodings are
    /// refused.
    fn is_marked(&self) -> Result<bool> {
        if self.format == Format::Rdb {
            return Ok(false);
        }
        let mut first = Vec::new();
        let read = self.open()?.take(MARK.len() as u64).read_to_end(&mut first);
        read.map_err(|e| self.unreadable(&e.to_string()))?;
        if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
            let told = "it is UTF-16, as its byte-order mark says; make UTF-8 of it (iconv -f \
                UTF-16 -t UTF-8)";
            return Err(self.refused(told));
        }
        Ok(first == MARK.as_bytes())
    }

    fn of_json(&self, file: Digested) -> impl Iterator<Item = Result<Record>> + '_ {
        let lines = (1..).zip(BufReader::new(file).lines());
        let whole = lines.filter(|(_, text)| text.as_ref().map_or(true, |t| !t.trim().is_empty()));
        whole.map(|(number, text)| {
            let text = text.map_err(|e| self.unreadable(&e.to_string()))?;
            let object: Object = serde_json::from_str(&text)
                .map_err(|e| self.wrong(number, &no_object(&text, &e)))?;
            let bytes = |name, text: Option<String>, coded: Option<String>| match (text, coded) {
                (Some(text), None) => Ok(text.into_bytes()),
                (None, Some(coded)) => BASE64_STANDARD
                    .decode(coded)
                    .map_err(|e| self.wrong(number, &format!("{name}_base64: {e}"))),
                _ => Err(self.wrong(number, &format!("one of {name} and {name}_base64 is needed"))),
            };
            let key = bytes("key", object.key, object.key_base64)?;
            let value = bytes("value", object.value, object.value_base64)?;
            Ok(Record::of_string(number, key, value))
        })
    }

    fn unreadable(&self, why: &str) -> Error {
        Error::Usage(format!("cannot read {}: {why}", self.path.display()))
    }

    fn refused(&self, why: &str) -> Error {
        Error::Usage(format!("{}: {why}", self.path.display()))
    }

    /// What is said of the record `number`.
    pub(super) fn wrong(&self, number: u64, why: &str) -> Error {
        Error::Usage(format!("{}, {}: {why}", self.path.display(), self.place(number)))
    }

    /// Where the record `number` is.
    pub(super) fn place(&self, number: u64) -> String {
        let what = if self.format == Format::Rdb { "key number" } else { "line" };
        format!("{what} {number}")
    }
}

/// What the first line names instead of a column.
fn no_column(name: &str, header: &csv::ByteRecord) -> String {
    let shown = |cell: &[u8]| {
        let cell = String::from_utf8_lossy(cell);
        cell.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect::<String>()
    };
    let mut found: Vec<_> = header.iter().take(COLUMNS_TOLD).map(shown).collect();
    if header.len() > found.len() {
        found.push("...".into());
    }
    format!("the first line names no column {name}, only: {}", found.join(", "))
}

/// Why a line is no record. What reads it counts lines of its own, which are always the first.
fn no_object(text: &str, error: &serde_json::Error) -> String {
    if text.trim_start().starts_with('[') {
        return "it is an array; give one object a line, such as by: jq -c '.[]'".into();
    }
    let why = error.to_string();
    let why = why.rsplit_once(" at line ").map_or(&why[..], |(why, _)| why);
    let whole = if error.is_eof() { "; an object stands on one line" } else { "" };
    format!("{why} (column {}){whole}", error.column())
}

/// How many columns an error tells, and how much of each.
const COLUMNS_TOLD: usize = 6;
const SHOWN_MAX: usize = 40;

impl Record {
    fn of_string(number: u64, name: Vec<u8>, value: Vec<u8>) -> Self {
        Self { number, name, content: Content::String(value), deadline_ms: None }
    }
}

/// A file, and what was read of it.
struct Digested {
    file: File,
    read: Arc<Mutex<(u64, Digesting)>>,
}

impl Read for Digested {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.file.read(into)?;
        let mut read = self.read.lock();
        read.0 += bytes as u64;
        read.1.update(&into[..bytes]);
        Ok(bytes)
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

/// What may stand before a text of UTF-8.
const MARK: &str = "\u{feff}";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Result<Vec<(u64, String, Vec<u8>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut lines = Vec::new();
        Source::new(&path, None, false)?.each(|line| {
            let Content::String(value) = line.content else { panic!("no string") };
            lines.push((line.number, String::from_utf8(line.name).unwrap(), value));
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
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let csv = lines("x.csv", "\u{feff}\"key\",value\na,b\n").unwrap();
        let json = lines("x.jsonl", "\u{feff}{\"key\":\"a\",\"value\":\"b\"}\n").unwrap();
        assert_eq!(csv.first().map(|line| &line.1[..]), Some("a"));
        assert_eq!(json, [(1, "a".to_owned(), b"b".to_vec())]);
        assert!(lines("x.jsonl", "\u{feff}").unwrap().is_empty());
        // Elsewhere it is one.
        let told = lines("x.jsonl", "\n\u{feff}{}\n").unwrap_err().to_string();
        assert!(told.contains("line 2"), "{told}");
        for mark in [b"\xff\xfe", b"\xfe\xff"] {
            let folder = tempfile::tempdir().unwrap();
            for name in ["x.csv", "x.jsonl"] {
                let path = folder.path().join(name);
                std::fs::write(&path, [&mark[..], b"k\0e\0y\0"].concat()).unwrap();
                let source = Source::new(&path, None, false).unwrap();
                let told = source.each(|_| Ok(())).unwrap_err().to_string();
                assert!(told.contains("UTF-16") && told.contains("iconv"), "{told}");
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_short_or_is_none_is_refused() {
        for cut in ["key,value\na,\"un\nclosed\n", "key,value\na,\"b \"\"c\"\"\"\nd,\"e"] {
            let told = lines("a.csv", cut).unwrap_err().to_string();
            assert!(told.contains("cut short"), "{told}");
            assert!(told.contains(", line 2: ") || told.contains(", line 3: "), "{told}");
        }
        assert!(lines("a.csv", "key,value\na,\"b \"\"c\"\"\"\n").is_ok());
        assert!(lines("a.csv", "key,value\na,b").is_ok());
        let folder = tempfile::tempdir().unwrap();
        let source = Source::new(folder.path(), Some(Format::Csv), false).unwrap();
        let told = source.each(|_| Ok(())).unwrap_err().to_string();
        assert!(told.contains("not a pipe"), "{told}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (name, text, part) in [
            ("x.csv", "name,value\na,b\n", "no column key, only: name, value"),
            ("x.csv", "key,value\na,b\na,b,c\n", "line 3: it has 3 columns, and the first line"),
            (
                "x.csv",
                "key,value,value\na,b,c\n",
                "line 1: the first line names the column value twice",
            ),
            ("x.csv", "key,value\na,\"x\nb,\"y\n", "line 3: something follows the quote"),
            ("x.csv", "key,value\na,b\"c\n", "line 2: a quote stands in the midst"),
            ("x.csv", "\"key\"x,value\na,b\n", "line 1: something follows the quote"),
            (
                "x.jsonl",
                "\n{\"key\":1}\n",
                "line 2: invalid type: integer `1`, expected a string (",
            ),
            ("x.jsonl", "[{\"key\":\"a\",\"value\":\"b\"}]\n", "line 1: it is an array"),
            ("x.jsonl", "{\n\"key\":\"a\"}\n", "an object stands on one line"),
            ("x.jsonl", "{key:1}\n", "line 1: key must be a string (column 2)"),
            ("x.jsonl", "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"a\"}\n", "line 2"),
            ("x.jsonl", "{\"key\":\"a\",\"value\":\"b\",\"more\":1}\n", "more"),
            ("x.jsonl", "{\"key\":\"a\",\"value_base64\":\"!\"}\n", "value_base64"),
            ("x.txt", "", "--format"),
        ] {
            let told = lines(name, text).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
            assert!(told.matches("line ").count() < 3 && !told.contains(" at line "), "{told}");
        }
        let told = Source::new(Path::new("-"), Some(Format::Csv), false).unwrap_err().to_string();
        assert!(told.contains("cannot read standard input"), "{told}");
    }
}
