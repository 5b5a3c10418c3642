//! What is asked and answered before a client takes the disk, and TLS.

use std::sync::Arc;

use fogbank_front::nbd::{Error, Limits, Listener, Settings, TlsFiles};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::{Client, READ, about, option};
use crate::support::{SIZE, Server, certificate};

const ACKNOWLEDGED: (u32, Vec<u8>) = (1, vec![]);
const FLAGS: [u8; 2] = [1, 0b0100_1101];

fn export_of(size: u64, flags: [u8; 2]) -> (u32, Vec<u8>) {
    (3, [&[0, 0][..], &size.to_be_bytes(), &flags].concat())
}

fn refusal(answers: &[(u32, Vec<u8>)]) -> u32 {
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].0 >> 31, 1);
    answers[0].0 & !(1 << 31)
}

#[tokio::test]
async fn options_are_answered_as_the_protocol_says() {
    let settings = Settings { name: "disk".into(), ..Settings::default() };
    let server = Server::with(settings).await;
    let mut client = Client::greeted(server.address()).await;
    assert_eq!(client.ask(3, b"").await, [(2, b"\0\0\0\x04disk".to_vec()), ACKNOWLEDGED]);
    assert_eq!(refusal(&client.ask(3, b"x").await), 3);
    assert_eq!(refusal(&client.ask(6, &about(b"other", &[])).await), 6);
    let sizes = (3, [&[0, 3][..], &[0, 0, 0, 1], &[0, 0, 2, 0], &[2, 0, 0, 0]].concat());
    let name = (3, b"\0\x01disk".to_vec());
    let answers = client.ask(6, &about(b"", &[3, 1, 2])).await;
    assert_eq!(answers, [export_of(SIZE, FLAGS), name, sizes, ACKNOWLEDGED]);
    for unknown in [4, 9, 10, 11, 4711] {
        assert_eq!(refusal(&client.ask(unknown, b"whatever").await), 1);
    }
    assert_eq!(refusal(&client.ask(5, b"").await), 2);
    assert_eq!(client.ask(8, b"").await, [ACKNOWLEDGED]);
    client.structured = true;
    let answers = client.ask(7, &about(b"disk", &[])).await;
    assert_eq!(answers, [export_of(SIZE, [1, 0b1100_1101]), ACKNOWLEDGED]);
    assert_eq!(client.one(READ, 0, 0, 3).await, Ok(vec![0; 3]));

    let mut client = Client::greeted(server.address()).await;
    assert_eq!(client.ask(2, b"").await, [ACKNOWLEDGED]);
    assert!(client.is_closed().await);
    server.stop().await;
}

#[tokio::test]
async fn old_clients_take_the_disk_by_its_name() {
    let server = Server::with(Settings { name: "disk".into(), ..Settings::default() }).await;
    for (flags, zeroes) in [(1u32, 124), (3, 0), (0, 124)] {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let mut client = Client { stream: Box::new(stream), structured: false };
        client.take(18).await.unwrap();
        client.send(&flags.to_be_bytes()).await;
        client.send(&option(1, b"disk")).await;
        let told = client.take(10 + zeroes).await.unwrap();
        assert_eq!(told, [&SIZE.to_be_bytes()[..], &FLAGS, &vec![0; zeroes]].concat());
        assert_eq!(client.one(READ, 0, 0, 3).await, Ok(vec![0; 3]));
    }
    let mut client = Client::greeted(server.address()).await;
    client.send(&option(1, b"other")).await;
    assert!(client.is_closed().await);
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_to_be_had_before_tls() {
    let (folder, tls) = certificate();
    let server = Server::with(Settings { tls: Some(tls.clone()), ..Settings::default() }).await;
    let mut client = Client::greeted(server.address()).await;
    for (kind, data) in
        [(3, vec![]), (6, about(b"", &[])), (7, about(b"", &[])), (8, vec![]), (99, vec![])]
    {
        assert_eq!(refusal(&client.ask(kind, &data).await), 5);
    }
    assert_eq!(refusal(&client.ask(5, b"x").await), 5);
    assert_eq!(client.ask(5, b"").await, [ACKNOWLEDGED]);
    let mut client = secured(client, &tls).await;
    assert_eq!(refusal(&client.ask(5, b"").await), 3);
    assert_eq!(client.ask(7, &about(b"", &[])).await, [export_of(SIZE, FLAGS), ACKNOWLEDGED]);
    assert_eq!(client.put(5, b"secret").await, Ok(vec![]));
    assert_eq!(client.one(READ, 0, 4, 8).await, Ok(b"\0secret\0".to_vec()));

    let mut client = Client::greeted(server.address()).await;
    client.send(&option(1, b"")).await;
    assert!(client.is_closed().await);
    let broken = TlsFiles { certificate: tls.key.clone(), key: tls.key };
    let refused = Listener::bind(Settings { tls: Some(broken), ..Settings::default() }).await;
    assert!(matches!(refused.err(), Some(Error::Tls(_))));
    server.stop().await;
    drop(folder);
}

/// Who sits on the way could send options in clear behind the request for TLS; they must not be
/// taken for what the client says in it.
#[tokio::test]
async fn what_came_in_clear_is_not_taken_for_tls() {
    let (folder, tls) = certificate();
    let server = Server::with(Settings { tls: Some(tls), ..Settings::default() }).await;
    let mut client = Client::greeted(server.address()).await;
    let injected = [option(5, b""), option(8, b""), option(7, &about(b"", &[]))].concat();
    client.send(&injected).await;
    assert_eq!(client.take(20).await.map(|reply| reply[12..16].to_vec()), Some(vec![0, 0, 0, 1]));
    let mut rest = Vec::new();
    let _ended = tokio::io::AsyncReadExt::read_to_end(&mut client.stream, &mut rest).await;
    let reply = 0x0003_e889_0455_65a9u64.to_be_bytes();
    assert!(!rest.windows(8).any(|window| window == reply), "an option in clear was answered");
    server.stop().await;
    drop(folder);
}

#[tokio::test]
async fn a_disk_that_is_only_read_says_so() {
    let settings = Settings { read_only: true, trim: true, ..Settings::default() };
    let server = Server::with(settings).await;
    let mut client = Client::greeted(server.address()).await;
    let answers = client.ask(7, &about(b"", &[])).await;
    assert_eq!(answers[0], export_of(SIZE, [1, 0b0000_1111]));
    assert_eq!(client.put(0, b"data").await, Err(1));
    assert_eq!(client.one(6, 0, 0, 10).await, Err(1));
    assert_eq!(client.one(READ, 0, 0, 4).await, Ok(vec![0; 4]));
    assert_eq!(client.one(3, 0, 0, 0).await, Ok(vec![]));
    server.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }).await;
    let only = Client::taken(server.address(), false).await;
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let mut second = Client { stream: Box::new(stream), structured: false };
    assert!(second.is_closed().await);
    drop(only);
    server.stop().await;
}

async fn secured(client: Client, tls: &TlsFiles) -> Client {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(&tls.certificate).expect("a certificate");
    roots.add(root).expect("a root");
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = connector.connect(name, client.stream).await.expect("greets");
    Client { stream: Box::new(stream), structured: false }
}
