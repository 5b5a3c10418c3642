//! A RESP2 and RESP3 client that shows frames as they are: a client library would hide what two
//! servers say differently.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One command: its name and arguments.
pub type Command = Vec<Vec<u8>>;

/// A reply, or a part of one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frame {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    NullBulk,
    NullArray,
    Null,
    Array(Vec<Frame>),
    Map(Vec<(Frame, Frame)>),
    Set(Vec<Frame>),
    Double(String),
    Boolean(bool),
    BigNumber(String),
    Verbatim(Vec<u8>),
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Simple(text) => write!(f, "+{text}"),
            Frame::Error(text) => write!(f, "-{text}"),
            Frame::Integer(n) => write!(f, ":{n}"),
            Frame::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Frame::NullBulk => f.write_str("(nil bulk)"),
            Frame::NullArray => f.write_str("(nil array)"),
            Frame::Null => f.write_str("(null)"),
            Frame::Array(all) => f.debug_list().entries(all).finish(),
            Frame::Map(all) => f.debug_map().entries(all.iter().map(|(k, v)| (k, v))).finish(),
            Frame::Set(all) => f.debug_set().entries(all).finish(),
            Frame::Double(text) => write!(f, ",{text}"),
            Frame::Boolean(b) => write!(f, "#{b}"),
            Frame::BigNumber(text) => write!(f, "({text}"),
            Frame::Verbatim(bytes) => write!(f, "=\"{}\"", bytes.escape_ascii()),
        }
    }
}

/// The bytes of a command on the wire.
pub fn encode(command: &[Vec<u8>], into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for argument in command {
        into.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        into.extend_from_slice(argument);
        into.extend_from_slice(b"\r\n");
    }
}

/// A command as a person would type it.
pub fn show(command: &[Vec<u8>]) -> String {
    let parts = command.iter().map(|part| match part.is_empty() || part.contains(&b' ') {
        true => format!("\"{}\"", part.escape_ascii()),
        false => part.escape_ascii().to_string(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Splits a line into a command at its spaces.
pub fn words(line: &str) -> Command {
    line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

/// One connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends commands without waiting.
    pub fn send<'a>(&mut self, commands: impl Iterator<Item = &'a Command>) -> io::Result<()> {
        let mut bytes = Vec::new();
        commands.for_each(|command| encode(command, &mut bytes));
        self.reader.get_mut().write_all(&bytes)
    }

    /// Sends one command and waits for its reply.
    pub fn call(&mut self, command: &Command) -> io::Result<Frame> {
        self.send(std::iter::once(command))?;
        self.receive()
    }

    /// Sends one command given as a line.
    pub fn line(&mut self, line: &str) -> io::Result<Frame> {
        self.call(&words(line))
    }

    /// The next frame.
    pub fn receive(&mut self) -> io::Result<Frame> {
        let line = self.read_line()?;
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err(bad("an empty line")) };
        Ok(match kind {
            "+" => Frame::Simple(rest.into()),
            "-" => Frame::Error(rest.into()),
            ":" => Frame::Integer(number(rest)?),
            "$" => self.sized(rest, Frame::NullBulk, Frame::Bulk)?,
            "=" => self.sized(rest, Frame::Null, Frame::Verbatim)?,
            "!" => self.sized(rest, Frame::Null, |b| Frame::Error(utf8(b)))?,
            "*" => match number(rest)? {
                -1 => Frame::NullArray,
                count => Frame::Array(self.many(count)?),
            },
            "~" => Frame::Set(self.many(number(rest)?)?),
            "%" => Frame::Map(pairs(self.many(2 * number(rest)?)?)),
            "_" => Frame::Null,
            "," => Frame::Double(rest.into()),
            "#" => Frame::Boolean(rest == "t"),
            "(" => Frame::BigNumber(rest.into()),
            other => return Err(bad(&format!("a frame of unknown kind {other:?}"))),
        })
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(utf8(line.to_vec())),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up")),
        }
    }

    fn sized(
        &mut self,
        length: &str,
        absent: Frame,
        present: impl Fn(Vec<u8>) -> Frame,
    ) -> io::Result<Frame> {
        let length = number(length)?;
        if length < 0 {
            return Ok(absent);
        }
        let mut bytes = vec![0; length as usize + 2];
        self.reader.read_exact(&mut bytes)?;
        match bytes.strip_suffix(b"\r\n") {
            Some(body) => Ok(present(body.to_vec())),
            None => Err(bad("a string longer than it says")),
        }
    }

    fn many(&mut self, count: i64) -> io::Result<Vec<Frame>> {
        (0..count).map(|_| self.receive()).collect()
    }
}

fn pairs(flat: Vec<Frame>) -> Vec<(Frame, Frame)> {
    let mut flat = flat.into_iter();
    std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| bad(&format!("{text:?} where a number belongs")))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sent {what}"))
}
