//! Something on the way to a server that loses, refuses and forges what a rule says, and keeps what
//! it was sent.

use std::sync::Arc;

use fogbank_env::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It arrives and is answered.
    Pass,
    /// It arrives; the connection breaks before the answer.
    LoseAnswer,
    /// It arrives; the answer is this one instead.
    AnswerAfter(Vec<u8>),
    /// It does not arrive; this is the answer.
    AnswerInstead(Vec<u8>),
    /// It does not arrive; the answer never ends.
    Flood,
    /// It does not arrive, and nothing is answered.
    #[allow(dead_code)] // each program of tests uses its part
    Hold,
}

type Rule = Box<dyn FnMut(&str) -> Fate + Send>;

/// A listener between the store and a server.
pub struct Between {
    pub port: u16,
    rule: Arc<Mutex<Rule>>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Between {
    pub async fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let rule: Rule = Box::new(|_| Fate::Pass);
        let between = Self { port, rule: Arc::new(Mutex::new(rule)), seen: Arc::default() };
        let (rule, seen) = (between.rule.clone(), between.seen.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(one(client, server, rule.clone(), seen.clone()));
            }
        });
        between
    }

    /// From now on this says what becomes of a request, by its head.
    pub fn rule(&self, rule: impl FnMut(&str) -> Fate + Send + 'static) {
        *self.rule.lock() = Box::new(rule);
        self.seen.lock().clear();
    }

    #[allow(dead_code)] // each program of tests uses its part
    /// The next `times` requests whose first line begins with `start` meet `fate`.
    pub fn next(&self, start: &'static str, times: usize, fate: Fate) {
        let mut left = times;
        self.rule(move |head| {
            if left == 0 || !head.starts_with(start) {
                return Fate::Pass;
            }
            left -= 1;
            fate.clone()
        });
    }

    /// The requests since the rule was set whose first line begins with `start`, byte by byte.
    pub fn seen(&self, start: &str) -> Vec<Vec<u8>> {
        let seen = self.seen.lock();
        seen.iter().filter(|request| request.starts_with(start.as_bytes())).cloned().collect()
    }
}

#[allow(dead_code)] // each program of tests uses its part
/// An answer with an S3 error's body.
pub fn error(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<Error><Code>{code}</Code><Key>AKIDHUSH</Key></Error>");
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close", body.len());
    format!("{head}\r\n\r\n{body}").into_bytes()
}

/// Serves one connection for one request.
async fn one(
    mut client: TcpStream,
    server: u16,
    rule: Arc<Mutex<Rule>>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
) {
    let Some(request) = receive(&mut client).await else { return };
    let head = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&request[..head]).into_owned();
    seen.lock().push(request.clone());
    let fate = rule.lock()(&head);
    match fate {
        Fate::Pass => drop(client.write_all(&forward(&request, server).await).await),
        Fate::LoseAnswer => drop(forward(&request, server).await),
        Fate::AnswerAfter(answer) => {
            forward(&request, server).await;
            client.write_all(&answer).await.ok();
        }
        Fate::AnswerInstead(answer) => drop(client.write_all(&answer).await),
        Fate::Hold => std::future::pending().await,
        Fate::Flood => {
            let head = b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
            let chunk = [b"10000\r\n".as_slice(), &[7; 0x10000], b"\r\n"].concat();
            let mut sent = client.write_all(head).await;
            while sent.is_ok() {
                sent = client.write_all(&chunk).await;
            }
        }
    }
    client.shutdown().await.ok();
}

async fn receive(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let end = request.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
            let length = head.split("\r\ncontent-length:").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
            if request.len() >= end + 4 + length.unwrap_or(0usize) {
                return Some(request);
            }
        }
        if client.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

async fn forward(request: &[u8], server: u16) -> Vec<u8> {
    let end = request.windows(2).position(|window| window == b"\r\n").unwrap() + 2;
    let mut upstream = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
    let request = [&request[..end], b"Connection: close\r\n", &request[end..]].concat();
    upstream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).await.ok();
    answer
}
