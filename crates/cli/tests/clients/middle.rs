//! A listener in the middle that alters one reply: the canary of the differential test.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What is altered: the first reply of this form after some bytes of the first connection.
#[derive(Clone, Copy)]
pub struct Middle {
    after_bytes: usize,
    /// The byte before the digit or letter altered.
    before: &'static [u8],
    alter: fn(u8) -> Option<u8>,
}

/// A listener at work.
pub struct Running {
    pub port: u16,
    altered: Arc<AtomicBool>,
}

impl Middle {
    /// An integer reply one too high.
    pub fn number_one_more(after_bytes: usize) -> Self {
        let alter = |byte: u8| (b'0'..=b'8').contains(&byte).then_some(byte + 1);
        Self { after_bytes, before: b"\r\n:", alter }
    }

    /// One letter of a string changed.
    pub fn bulk_letter(after_bytes: usize) -> Self {
        let alter = |byte: u8| (byte == b'v').then_some(b'w');
        Self { after_bytes, before: b"\r\n", alter }
    }

    /// Listens and passes everything on to `port`.
    pub fn start(self, port: u16) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = listener.local_addr().expect("a bound socket has an address").port();
        let altered = Arc::new(AtomicBool::new(false));
        let running = Running { port: own, altered: altered.clone() };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
                self.pass(client, server, altered.clone());
            }
        });
        running
    }

    fn pass(self, client: TcpStream, server: TcpStream, altered: Arc<AtomicBool>) {
        let (from, to) = (clone(&client), clone(&server));
        thread::spawn(move || copy(from, to, |_| {}));
        let mut passed = 0;
        thread::spawn(move || {
            copy(server, client, |bytes| {
                passed += bytes.len();
                if passed > self.after_bytes && !altered.load(Ordering::Relaxed) {
                    altered.fetch_or(self.alter_one(bytes), Ordering::Relaxed);
                }
            });
        });
    }

    fn alter_one(self, bytes: &mut [u8]) -> bool {
        let length = self.before.len();
        for at in length..bytes.len() {
            if bytes[..at].ends_with(self.before)
                && let Some(other) = (self.alter)(bytes[at])
            {
                bytes[at] = other;
                return true;
            }
        }
        false
    }
}

impl Running {
    /// Whether a reply was altered.
    pub fn altered(&self) -> bool {
        self.altered.load(Ordering::Relaxed)
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a second handle of a socket")
}

fn copy(mut from: TcpStream, mut to: TcpStream, mut change: impl FnMut(&mut [u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        change(&mut buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
}
