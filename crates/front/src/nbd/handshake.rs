//! The handshake ("fixed newstyle"): a client asks until it takes the disk, or goes.
//!
//! 1. The server greets, and the client says which of two old flags it knows.
//! 2. The client asks option after option; each is answered before the next is read.
//! 3. If the server wants TLS, it refuses every option before it has it. Nothing that was said in
//!    clear counts afterwards, and no byte that came in clear is kept: each option is read to its
//!    end and not beyond, so nobody on the way can put one in front of what the client says in TLS.
//! 4. The client takes the disk, by `GO` or the old `EXPORT_NAME`, which can refuse only by
//!    closing.
//!
//! All of it has to be done within `greeting_nanos_max`.

use super::export::Export;
use super::limits::Limits;
use super::option::{About, Answer, HEADER_BYTES, Header, Question, Refusal};
use crate::listening::{Wire, greet};
use bytes::BufMut;
use fogbank_env::{Clock, by};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const FIXED_NEWSTYLE: u32 = 1;
const NO_ZEROES: u32 = 2;
/// What follows the disk in the old way, for clients that do not know better.
const ZEROES: [u8; 124] = [0; 124];

/// What the server brings to a handshake.
pub struct Terms<'a> {
    /// The disk.
    pub export: &'a Export,
    /// What turns a stream into a TLS one, if clients must.
    pub tls: Option<&'a TlsAcceptor>,
    /// Bounds on what the client says.
    pub limits: &'a Limits,
    /// Time.
    pub clock: &'a dyn Clock,
}

/// A client that has taken the disk.
pub struct Taken {
    /// What carries its requests.
    pub stream: Box<dyn Wire>,
    /// Whether replies to reads are structured.
    pub structured: bool,
}

impl Terms<'_> {
    /// Shakes hands; `None` if the client went without taking the disk.
    pub async fn shake(&self, stream: Box<dyn Wire>) -> io::Result<Option<Taken>> {
        let deadline = self.clock.now().saturating_add(self.limits.greeting_nanos_max);
        by(self.clock, deadline, self.haggle(stream, deadline))
            .await
            .unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn haggle(&self, stream: Box<dyn Wire>, deadline: u64) -> io::Result<Option<Taken>> {
        let mut talk = Talk { stream, flags: 0, options: 0, secure: false, structured: false };
        talk.greet().await?;
        loop {
            let (kind, question) = talk.next(self).await?;
            if let Some(refusal) = self.refusal(&talk, &question)? {
                talk.say(kind, &[refusal]).await?;
                continue;
            }
            match question {
                Question::ExportName(_) => {
                    talk.hand_over(self.export).await?;
                    return Ok(Some(talk.taken()));
                }
                Question::Abort => {
                    // The client may be gone already.
                    let _gone = talk.say(kind, &[Answer::Acknowledged]).await;
                    return Ok(None);
                }
                Question::Go(about) => {
                    talk.tell(kind, &about, self.export).await?;
                    return Ok(Some(talk.taken()));
                }
                Question::Info(about) => talk.tell(kind, &about, self.export).await?,
                Question::List => {
                    let listed = Answer::Listed(self.export.name.clone());
                    talk.say(kind, &[listed, Answer::Acknowledged]).await?;
                }
                Question::StartTls => {
                    talk.say(kind, &[Answer::Acknowledged]).await?;
                    talk = talk.secured(self, deadline).await?;
                }
                Question::StructuredReply => {
                    talk.say(kind, &[Answer::Acknowledged]).await?;
                    talk.structured = true;
                }
                Question::Unknown | Question::Malformed => {} // refused above
            }
        }
    }

    /// Why `question` is refused, if it is. `EXPORT_NAME` ends the talk instead.
    fn refusal(&self, talk: &Talk, question: &Question) -> io::Result<Option<Answer>> {
        let named = |name: &[u8]| self.export.is_named(name);
        let needs_tls = self.tls.is_some() && !talk.secure;
        let refused = match question {
            Question::Abort => return Ok(None),
            Question::StartTls if self.tls.is_none() => (Refusal::Policy, "no TLS is spoken here"),
            Question::StartTls if talk.secure => (Refusal::Invalid, "this is TLS already"),
            Question::StartTls => return Ok(None),
            Question::ExportName(name) if needs_tls || !named(name) => {
                return Err(refused_by_closing());
            }
            _ if needs_tls => (Refusal::TlsRequired, "TLS comes first"),
            Question::Unknown => (Refusal::Unsupported, "this option is not known here"),
            Question::Malformed => (Refusal::Invalid, "the lengths in this option do not fit"),
            Question::Info(about) | Question::Go(about) if !named(&about.name) => {
                (Refusal::UnknownExport, "there is no disk of this name")
            }
            _ => return Ok(None),
        };
        Ok(Some(Answer::Refused(refused.0, refused.1)))
    }
}

fn refused_by_closing() -> io::Error {
    io::Error::other("the client asked for a disk that it cannot have")
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A handshake under way.
struct Talk {
    stream: Box<dyn Wire>,
    /// What the client knows.
    flags: u32,
    /// How many options there were.
    options: u32,
    secure: bool,
    structured: bool,
}

impl Talk {
    async fn greet(&mut self) -> io::Result<()> {
        let mut greeting = GREETING.to_vec();
        greeting.put_u16((FIXED_NEWSTYLE | NO_ZEROES) as u16);
        self.stream.write_all(&greeting).await?;
        self.stream.flush().await?;
        self.flags = self.stream.read_u32().await?;
        if self.flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(malformed("the client has flags that were not offered"));
        }
        Ok(())
    }

    /// The next option, and what it asks.
    async fn next(&mut self, terms: &Terms<'_>) -> io::Result<(u32, Question)> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await?;
        let header = Header::decode(&header).ok_or_else(|| malformed("this is no option"))?;
        self.options += 1;
        if self.flags & FIXED_NEWSTYLE == 0 && !header.is_export_name() {
            return Err(malformed("the client does not know options and sends one"));
        }
        if header.length > terms.limits.option_bytes_max || self.options > terms.limits.options_max
        {
            let why = Answer::Refused(Refusal::TooBig, "too much is asked");
            self.say(header.kind, &[why]).await?;
            return Err(malformed("options are too long or too many"));
        }
        let mut data = vec![0; header.length as usize];
        self.stream.read_exact(&mut data).await?;
        Ok((header.kind, Question::decode(header.kind, &data)))
    }

    async fn say(&mut self, kind: u32, answers: &[Answer]) -> io::Result<()> {
        let mut out = Vec::new();
        answers.iter().for_each(|answer| answer.encode(kind, &mut out));
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    async fn tell(&mut self, kind: u32, about: &About, export: &Export) -> io::Result<()> {
        let mut answers = about.answers(export, self.structured);
        answers.push(Answer::Acknowledged);
        self.say(kind, &answers).await
    }

    /// The answer to `EXPORT_NAME`.
    async fn hand_over(&mut self, export: &Export) -> io::Result<()> {
        let mut out = Vec::new();
        out.put_u64(export.size);
        out.put_u16(export.flags(self.structured));
        if self.flags & NO_ZEROES == 0 {
            out.put_slice(&ZEROES);
        }
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    /// The same in TLS, with nothing agreed on yet.
    async fn secured(self, terms: &Terms<'_>, deadline: u64) -> io::Result<Self> {
        let tls = terms.tls.ok_or_else(refused_by_closing)?;
        let stream = greet(tls, self.stream, terms.clock, deadline).await?;
        Ok(Self { stream, secure: true, structured: false, ..self })
    }

    fn taken(self) -> Taken {
        Taken { stream: self.stream, structured: self.structured }
    }
}
