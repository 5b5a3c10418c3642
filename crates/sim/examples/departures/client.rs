//! A Redis client of the plainest kind: what is sent is made beforehand, replies are read and
//! dropped.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command as it travels.
pub fn command<A: AsRef<[u8]>>(words: impl IntoIterator<Item = A>) -> Vec<u8> {
    let words: Vec<A> = words.into_iter().collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in &words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A command of words without spaces.
pub fn line(words: &str) -> Vec<u8> {
    command(words.split_whitespace())
}

pub struct Client {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(port: u16) -> Result<Self> {
        Self::patient(port, PATIENCE)
    }

    /// One that waits for an answer that long.
    pub fn patient(port: u16, patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { replies: BufReader::with_capacity(1 << 16, stream.try_clone()?), stream })
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends, and waits for so many replies. Whether the last was an error.
    pub fn ask(&mut self, bytes: &[u8], replies: usize) -> Result<bool> {
        // Sent beside the reading: a server that answers before it has read all must not wait for
        // us.
        std::thread::scope(|scope| {
            let mut stream = self.stream.try_clone()?;
            let sent = scope.spawn(move || stream.write_all(bytes));
            let mut refused = false;
            for _ in 0..replies {
                refused = self.reply()?;
            }
            sent.join().map_err(|_| Error::from(ErrorKind::Other))??;
            Ok(refused)
        })
    }

    /// Reads one reply; whether it was an error.
    fn reply(&mut self) -> Result<bool> {
        let mut left = 1_u64;
        let mut refused = false;
        while left > 0 {
            let mut head = String::new();
            if self.replies.read_line(&mut head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            left -= 1;
            let count = || head[1..].trim().parse::<i64>().unwrap_or(-1).max(0) as u64;
            match head.as_bytes().first() {
                Some(b'*') => left += count(),
                Some(b'$') if !head.starts_with("$-") => {
                    let mut body = (&mut self.replies).take(count() + 2);
                    std::io::copy(&mut body, &mut std::io::sink())?;
                }
                first => refused = first == Some(&b'-'),
            }
        }
        Ok(refused)
    }
}
