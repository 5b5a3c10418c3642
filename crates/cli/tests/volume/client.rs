//! A client of network block devices that ends quietly when its server is killed.

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of a block of the volumes here.
pub const BLOCK: usize = 4096;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FORCE_UNIT_ACCESS: u16 = 1;

pub struct Client {
    stream: UnixStream,
}

impl Client {
    /// One that has taken the disk, by the old option that has no reply.
    pub fn connect(socket: &Path) -> Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&3u32.to_be_bytes())?; // fixed newstyle, no zeroes at the end
        stream.write_all(&[b"IHAVEOPT", &1u32.to_be_bytes()[..], &0u32.to_be_bytes()].concat())?;
        stream.read_exact(&mut [0; 10])?; // size and flags
        Ok(Self { stream })
    }

    /// What ends it, whoever has it then.
    pub fn end(&self) -> UnixStream {
        self.stream.try_clone().unwrap()
    }

    fn ask(&mut self, kind: u16, flags: u16, cookie: u64, block: u64, bytes: usize) -> Result<()> {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(cookie.to_be_bytes());
        request.extend((block * BLOCK as u64).to_be_bytes());
        request.extend((bytes as u32).to_be_bytes());
        self.stream.write_all(&request)
    }

    /// Asks for blocks to be written and kept; the reply names `cookie`.
    pub fn write(&mut self, cookie: u64, block: u64, content: &[u8]) -> Result<()> {
        self.ask(WRITE, FORCE_UNIT_ACCESS, cookie, block, content.len())?;
        self.stream.write_all(content)
    }

    /// The cookie of the next reply, which has to be a success.
    pub fn reply(&mut self) -> Result<u64> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        if reply[..8] != [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0] {
            return Err(std::io::Error::other(format!("{reply:?} is no success")));
        }
        Ok(u64::from_be_bytes(reply[8..].try_into().unwrap()))
    }

    /// Blocks from `block` on.
    pub fn read(&mut self, block: u64, blocks: usize) -> Result<Vec<u8>> {
        let mut content = vec![0; blocks * BLOCK];
        self.ask(READ, 0, 0, block, content.len())?;
        self.reply()?;
        self.stream.read_exact(&mut content)?;
        Ok(content)
    }
}
