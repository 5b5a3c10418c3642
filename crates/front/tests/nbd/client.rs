//! A client that can be told to say anything, and shows what it hears.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

pub const FUA: u16 = 1;

pub const OPTION: u64 = 0x4948_4156_454f_5054;

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub struct Client {
    pub stream: Box<dyn Stream>,
    pub structured: bool,
}

/// A reply: the request's cookie, and its bytes or the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub outcome: Result<Vec<u8>, u32>,
}

impl Client {
    /// One that has greeted.
    pub async fn greeted(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a socket");
        let mut client = Self { stream: Box::new(stream), structured: false };
        assert_eq!(client.take(18).await.expect("a greeting"), b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&3u32.to_be_bytes()).await;
        client
    }

    /// One that has taken the disk.
    pub async fn taken(address: SocketAddr, structured: bool) -> Self {
        let mut client = Self::greeted(address).await;
        if structured {
            assert_eq!(client.ask(8, b"").await, [(1, vec![])]);
            client.structured = true;
        }
        let answers = client.ask(7, &about(b"", &[])).await;
        assert_eq!(answers.last(), Some(&(1, vec![])), "{answers:?}");
        client
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    /// The next bytes, or `None` if the server has closed before.
    pub async fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).await.ok().map(|_| bytes)
    }

    /// Whether the server has closed, with nothing more to say.
    pub async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]).await, Ok(0) | Err(_))
    }

    /// Asks an option, and gives the kinds and data of all replies up to the last.
    pub async fn ask(&mut self, kind: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option(kind, data)).await;
        let mut answers = Vec::new();
        loop {
            let head = self.take(20).await.expect("a reply to an option");
            assert_eq!(head[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
            assert_eq!(number(&head[8..12]), u64::from(kind));
            let code = number(&head[12..16]) as u32;
            let data = self.take(number(&head[16..20]) as usize).await.expect("its data");
            answers.push((code, data));
            if code == 1 || code >> 31 == 1 {
                return answers;
            }
        }
    }

    pub async fn request(&mut self, kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) {
        self.send(&request(kind, flags, cookie, offset, length)).await;
    }

    pub async fn write(&mut self, cookie: u64, offset: u64, data: &[u8]) {
        let mut bytes = request(WRITE, 0, cookie, offset, data.len() as u32);
        bytes.extend_from_slice(data);
        self.send(&bytes).await;
    }

    /// The next reply, whose bytes are as many as `length_of` says for its cookie.
    pub async fn reply(&mut self, length_of: impl Fn(u64) -> usize) -> Option<Reply> {
        let magic = self.take(4).await?;
        if magic == [0x67, 0x44, 0x66, 0x98] {
            let head = self.take(12).await?;
            let (error, cookie) = (number(&head[..4]) as u32, number(&head[4..]));
            let outcome = match error {
                0 => Ok(self.take(length_of(cookie)).await?),
                error => Err(error),
            };
            return Some(Reply { cookie, outcome });
        }
        assert!(self.structured && magic == [0x66, 0x8e, 0x33, 0xef], "{magic:?}");
        let head = self.take(16).await?;
        assert_eq!(head[..2], [0, 1], "one chunk, the last");
        let (kind, cookie) = (number(&head[2..4]), number(&head[4..12]));
        let data = self.take(number(&head[12..]) as usize).await?;
        let outcome = match kind {
            0 => Ok(vec![]),
            1 => Ok(data[8..].to_vec()),
            0x8001 => Err(number(&data[..4]) as u32),
            other => panic!("a chunk of kind {other}"),
        };
        let length = outcome.as_ref().map_or(0, Vec::len);
        assert!(outcome.is_err() || length == length_of(cookie));
        Some(Reply { cookie, outcome })
    }

    /// Asks one thing and waits for the answer.
    pub async fn one(&mut self, kind: u16, flags: u16, offset: u64, length: u32) -> Outcome {
        self.request(kind, flags, 77, offset, length).await;
        let expected = if kind == READ { length as usize } else { 0 };
        let reply = self.reply(|_| expected).await.expect("a reply");
        assert_eq!(reply.cookie, 77);
        reply.outcome
    }

    pub async fn put(&mut self, offset: u64, data: &[u8]) -> Outcome {
        self.write(78, offset, data).await;
        self.reply(|_| 0).await.expect("a reply").outcome
    }
}

pub type Outcome = Result<Vec<u8>, u32>;

pub fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let [magic, kind, length] =
        [&OPTION.to_be_bytes()[..], &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes()];
    [magic, kind, length, data].concat()
}

/// The data of an option that asks for the disk of this name.
pub fn about(name: &[u8], kinds: &[u16]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes()[..], name].concat();
    data.extend((kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

pub fn request(kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
