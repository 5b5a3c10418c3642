//! Calls and connections as any client could make them, right or wrong.

use std::io::ErrorKind;

use bytes::{BufMut, Bytes, BytesMut};
use fogbank_store::{ArrayId, Store};
use hyper::client::conn::http2::SendRequest;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::fixture::{SHAPE, Server, name, write};

pub const SECOND: u64 = 1_000_000_000;
pub const PATH: &str = "/fogbank.cloud.v1.Store/Call";

pub async fn tls(server: &Server) -> TlsStream<TcpStream> {
    let connector = fogbank_tls::connector(server.credentials("a").pin, &["h2"]).unwrap();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from(fogbank_tls::SERVER_NAME).unwrap();
    connector.connect(name, stream).await.unwrap()
}

/// Reads until the other end closes, whatever it says before.
pub async fn closed(mut stream: impl tokio::io::AsyncRead + Unpin) {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said).await {
        Ok(_) => {}
        Err(e) => assert!(
            matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset),
            "{e}"
        ),
    }
}

pub async fn still_serves(server: &Server) {
    let store = server.client("b").await;
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    store.write_chunks(vec![write(1, 1)]).await.unwrap();
    assert_eq!(store.read_chunks(&[name(1, 1)]).await.unwrap(), [Some(write(1, 1).data)]);
}

/// One call as any gRPC client could make it: `body` as it stands, `end` whether the stream ends.
pub async fn raw(
    server: &Server,
    body: Vec<Bytes>,
    end: bool,
) -> hyper::Response<hyper::body::Incoming> {
    let frames = tokio_stream::iter(body.into_iter().map(Some).chain((!end).then_some(None)));
    Raw::connect(server, "a").await.call(frames).await.unwrap()
}

/// A connection that any gRPC client could make.
#[derive(Clone)]
pub struct Raw {
    sender: SendRequest<Frames>,
    tenant: String,
    bearer: String,
}

impl Raw {
    pub async fn connect(server: &Server, tenant: &str) -> Self {
        Self::showing(server, tenant, &server.credentials(tenant).token).await
    }

    /// One that shows this token.
    pub async fn showing(server: &Server, tenant: &str, token: &fogbank_tls::Token) -> Self {
        let stream = hyper_util::rt::TokioIo::new(tls(server).await);
        let executor = hyper_util::rt::TokioExecutor::new();
        let made = hyper::client::conn::http2::handshake(executor, stream);
        let (sender, connection) = made.await.unwrap();
        tokio::spawn(connection);
        let bearer = format!("Bearer {}", *token.digits());
        Self { sender, tenant: tenant.into(), bearer }
    }

    /// A call of another method, without a token; its status, or none if the connection is gone.
    pub async fn stray(&self, path: &str) -> Option<String> {
        let mut sender = self.sender.clone();
        sender.ready().await.ok()?;
        let request = hyper::Request::post(format!("https://fogbank.invalid/{path}"))
            .header("content-type", "application/grpc")
            .body(Frames(Box::pin(tokio_stream::empty())))
            .unwrap();
        status(sender.send_request(request).await.ok()?).await
    }

    pub async fn call(
        &self,
        frames: impl tokio_stream::Stream<Item = Option<Bytes>> + Send + 'static,
    ) -> hyper::Result<hyper::Response<hyper::body::Incoming>> {
        self.call_at(PATH, frames).await
    }

    pub async fn call_at(
        &self,
        path: &str,
        frames: impl tokio_stream::Stream<Item = Option<Bytes>> + Send + 'static,
    ) -> hyper::Result<hyper::Response<hyper::body::Incoming>> {
        let mut sender = self.sender.clone();
        sender.ready().await?;
        let request = hyper::Request::post(format!("https://fogbank.invalid{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("fogbank-tenant", &self.tenant)
            .header("authorization", &self.bearer)
            .body(Frames(Box::pin(frames)))
            .unwrap();
        sender.send_request(request).await
    }
}

/// Frames of a body; after a `None`, silence.
pub struct Frames(std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Option<Bytes>> + Send>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        use std::task::Poll;
        match self.0.as_mut().poll_next(context) {
            Poll::Ready(Some(Some(bytes))) => {
                Poll::Ready(Some(Ok(hyper::body::Frame::data(bytes))))
            }
            Poll::Ready(Some(None)) => {
                self.0 = Box::pin(tokio_stream::pending());
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The status at the end of an answer.
pub async fn status(answer: hyper::Response<hyper::body::Incoming>) -> Option<String> {
    let text = |headers: &hyper::HeaderMap| {
        headers.get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    };
    if let Some(status) = text(answer.headers()) {
        return Some(status);
    }
    let mut body = answer.into_body();
    loop {
        let frame = std::future::poll_fn(|context| {
            hyper::body::Body::poll_frame(std::pin::Pin::new(&mut body), context)
        });
        match frame.await {
            Some(Ok(frame)) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return text(&trailers);
                }
            }
            Some(Err(_)) | None => return None,
        }
    }
}

pub fn message(body: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(body.len() as u32);
    framed.put_slice(body);
    framed.freeze()
}

pub fn head(operation: u8, length: u64) -> Vec<u8> {
    [&[operation][..], &length.to_le_bytes()].concat()
}
