//! Options: what a client asks during the handshake, and what it is told, byte by byte.

use super::export::Export;
use bytes::{Buf, BufMut};

/// Before every option.
const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Before every reply to one.
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Bytes of an option before its data.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a name of an export; the protocol's bound on strings.
const NAME_BYTES_MAX: usize = 4096;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const START_TLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;

const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_BLOCK_SIZE: u16 = 3;

/// What stands before an option's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which option.
    pub kind: u32,
    /// Bytes of its data.
    pub length: u32,
}

impl Header {
    /// From its bytes; `None` if this is no option.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEADER_BYTES || bytes.get_u64() != OPTION_MAGIC {
            return None;
        }
        Some(Self { kind: bytes.get_u32(), length: bytes.get_u32() })
    }

    /// Whether it takes the disk in the old way, which knows no answer but the disk.
    pub fn is_export_name(self) -> bool {
        self.kind == EXPORT_NAME
    }
}

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The disk of this name, and no more talk.
    ExportName(Vec<u8>),
    /// The end.
    Abort,
    /// Which disks there are.
    List,
    /// TLS from here on.
    StartTls,
    /// What the disk is like.
    Info(About),
    /// The disk.
    Go(About),
    /// Structured replies.
    StructuredReply,
    /// An option that this server does not know.
    Unknown,
    /// One that it knows, and that is malformed.
    Malformed,
}

/// A disk, and what the client wants to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The name of the disk.
    pub name: Vec<u8>,
    wants_name: bool,
    wants_block_size: bool,
}

impl Question {
    /// What an option of this kind and data asks.
    pub fn decode(kind: u32, data: &[u8]) -> Self {
        let bare = |question| if data.is_empty() { question } else { Self::Malformed };
        let about = |of: fn(About) -> Self| About::decode(data).map_or(Self::Malformed, of);
        match kind {
            EXPORT_NAME if data.len() > NAME_BYTES_MAX => Self::Malformed,
            EXPORT_NAME => Self::ExportName(data.to_vec()),
            ABORT => Self::Abort,
            LIST => bare(Self::List),
            START_TLS => bare(Self::StartTls),
            INFO => about(Self::Info),
            GO => about(Self::Go),
            STRUCTURED_REPLY => bare(Self::StructuredReply),
            _ => Self::Unknown,
        }
    }
}

impl About {
    fn decode(mut data: &[u8]) -> Option<Self> {
        let length = data.try_get_u32().ok()? as usize;
        let name = data.get(..length).filter(|name| name.len() <= NAME_BYTES_MAX)?.to_vec();
        data.advance(length);
        let count = usize::from(data.try_get_u16().ok()?);
        if data.len() != 2 * count {
            return None;
        }
        let mut about = Self { name, wants_name: false, wants_block_size: false };
        while let Ok(kind) = data.try_get_u16() {
            about.wants_name |= kind == INFO_NAME;
            about.wants_block_size |= kind == INFO_BLOCK_SIZE;
        }
        Some(about)
    }

    /// What the client is told before the acknowledgement.
    pub fn answers(&self, export: &Export, structured: bool) -> Vec<Answer> {
        let flags = export.flags(structured);
        let mut answers = vec![Answer::Export { size: export.size, flags }];
        if self.wants_name {
            answers.push(Answer::Name(export.name.clone()));
        }
        if self.wants_block_size {
            let (preferred, max) = (export.preferred_bytes(), export.payload_bytes_max);
            answers.push(Answer::BlockSize { preferred, max });
        }
        answers
    }
}

/// A reply to an option. All but an acknowledgement and a refusal have more behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// That is all.
    Acknowledged,
    /// A disk there is.
    Listed(String),
    /// How large the disk is, and what can be done to it.
    Export {
        /// Bytes.
        size: u64,
        /// See [`Export::flags`].
        flags: u16,
    },
    /// The name of the disk.
    Name(String),
    /// How long requests should be, in bytes: at least one; best; at most.
    BlockSize {
        /// Best; a power of two.
        preferred: u32,
        /// At most.
        max: u32,
    },
    /// No, and why in words.
    Refused(Refusal, &'static str),
}

/// Why an option is refused. The numbers are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This server does not know the option.
    Unsupported = 1,
    /// It is not allowed here.
    Policy = 2,
    /// It is malformed, or makes no sense now.
    Invalid = 3,
    /// Not before TLS.
    TlsRequired = 5,
    /// There is no disk of that name.
    UnknownExport = 6,
    /// It is too long.
    TooBig = 9,
}

impl Answer {
    /// Appends the reply to an option of `kind`.
    pub fn encode(&self, kind: u32, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        let code = match self {
            Self::Acknowledged => 1,
            Self::Listed(name) => {
                data.put_u32(name.len() as u32);
                data.put_slice(name.as_bytes());
                2
            }
            Self::Export { size, flags } => {
                data.put_u16(INFO_EXPORT);
                data.put_u64(*size);
                data.put_u16(*flags);
                3
            }
            Self::Name(name) => {
                data.put_u16(INFO_NAME);
                data.put_slice(name.as_bytes());
                3
            }
            Self::BlockSize { preferred, max } => {
                data.put_u16(INFO_BLOCK_SIZE);
                data.put_u32(1);
                data.put_u32(*preferred);
                data.put_u32(*max);
                3
            }
            Self::Refused(refusal, why) => {
                data.put_slice(why.as_bytes());
                1 << 31 | *refusal as u32
            }
        };
        out.put_u64(REPLY_MAGIC);
        out.put_u32(kind);
        out.put_u32(code);
        out.put_u32(data.len() as u32);
        out.put_slice(&data);
    }
}

/// See [`super::fuzz_decode`].
pub fn fuzz_decode(bytes: &[u8]) {
    let Some(header) = Header::decode(bytes) else { return };
    let data = &bytes[HEADER_BYTES..];
    let data = &data[..data.len().min(header.length as usize)];
    if let Question::Info(about) | Question::Go(about) = Question::decode(header.kind, data) {
        assert_eq!(data[4..4 + about.name.len()], about.name);
        assert!(data.len() >= 6 + about.name.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(name: &[u8], kinds: &[u16]) -> Vec<u8> {
        let mut data = Vec::new();
        data.put_u32(name.len() as u32);
        data.put_slice(name);
        data.put_u16(kinds.len() as u16);
        kinds.iter().for_each(|kind| data.put_u16(*kind));
        data
    }

    #[test]
    fn a_header_is_known_by_its_magic() {
        let bytes = b"IHAVEOPT\0\0\0\x07\0\0\x01\0";
        assert_eq!(Header::decode(bytes), Some(Header { kind: GO, length: 256 }));
        assert_eq!(Header::decode(&bytes[..15]), None);
        assert_eq!(Header::decode(b"IHAVEOPS\0\0\0\x07\0\0\x01\0"), None);
    }

    #[test]
    fn a_question_about_a_disk_says_what_it_wants_to_know() {
        let data = about(b"disk", &[INFO_BLOCK_SIZE, 77, INFO_NAME]);
        let Question::Go(wanted) = Question::decode(GO, &data) else { panic!("well-formed") };
        let export = Export {
            name: "disk".into(),
            size: 9,
            block_bytes: 4096,
            payload_bytes_max: 8192,
            read_only: false,
            trim: false,
        };
        let answers = wanted.answers(&export, true);
        let expected = [
            Answer::Export { size: 9, flags: export.flags(true) },
            Answer::Name("disk".into()),
            Answer::BlockSize { preferred: 4096, max: 8192 },
        ];
        assert_eq!(answers, expected);
        let Question::Info(bare) = Question::decode(INFO, &about(b"", &[])) else { panic!() };
        assert_eq!(bare.answers(&export, false).len(), 1);
    }

    #[test]
    fn lengths_that_do_not_fit_are_malformed() {
        let good = about(b"disk", &[3]);
        for cut in 0..good.len() {
            assert_eq!(Question::decode(GO, &good[..cut]), Question::Malformed, "{cut}");
        }
        let longer = [&good[..], b"x"].concat();
        assert_eq!(Question::decode(INFO, &longer), Question::Malformed);
        assert_eq!(Question::decode(GO, &u32::MAX.to_be_bytes()), Question::Malformed);
        let name = vec![b'n'; NAME_BYTES_MAX + 1];
        assert_eq!(Question::decode(GO, &about(&name, &[])), Question::Malformed);
        assert_eq!(Question::decode(EXPORT_NAME, &name), Question::Malformed);
        for bare in [LIST, START_TLS, STRUCTURED_REPLY] {
            assert_eq!(Question::decode(bare, b"x"), Question::Malformed);
        }
        assert_eq!(Question::decode(ABORT, b"x"), Question::Abort);
        assert_eq!(Question::decode(4711, b"x"), Question::Unknown);
    }

    #[test]
    fn answers_have_the_bytes_of_the_protocol() {
        let encoded = |answer: Answer| {
            let mut out = Vec::new();
            answer.encode(GO, &mut out);
            assert_eq!(out[..12], *b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07");
            out.split_off(12)
        };
        assert_eq!(encoded(Answer::Acknowledged), b"\0\0\0\x01\0\0\0\0");
        assert_eq!(encoded(Answer::Listed("d".into())), b"\0\0\0\x02\0\0\0\x05\0\0\0\x01d");
        let export = encoded(Answer::Export { size: 258, flags: 3 });
        assert_eq!(export, b"\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\0\x01\x02\0\x03");
        let sizes = encoded(Answer::BlockSize { preferred: 4096, max: 1 << 25 });
        assert_eq!(sizes, b"\0\0\0\x03\0\0\0\x0e\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0");
        let refused = encoded(Answer::Refused(Refusal::UnknownExport, "no"));
        assert_eq!(refused, b"\x80\0\0\x06\0\0\0\x02no");
    }
}
