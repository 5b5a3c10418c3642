//! What happens on the wire: order, malformed input, limits, passwords, TLS, the end.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Client, SHAPE, Server, encode, proxy};
use fogbank_env::SystemClock;
use fogbank_front::resp::{Error, Limits, Listener, Place, Settings, TlsFiles};
use fogbank_oram::BatchShape;

#[tokio::test]
async fn pipelined_replies_come_in_the_order_of_requests() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut bytes = Vec::new();
    for i in 0..1000 {
        bytes.extend(encode(&[b"SET", b"k", i.to_string().as_bytes()]));
        bytes.extend(encode(&[b"PING", i.to_string().as_bytes()]));
        bytes.extend(encode(&[b"GET", b"k"]));
        bytes.extend(encode(&[b"NOSUCH"]));
    }
    client.send_raw(&bytes).await;
    for i in 0..1000 {
        assert_eq!(client.shown().await, "+OK");
        assert_eq!(client.shown().await, format!("\"{i}\""));
        assert_eq!(client.shown().await, format!("\"{i}\""));
        assert!(client.shown().await.starts_with("-ERR unknown command 'NOSUCH'"));
    }
    server.stop().await;
}

#[tokio::test]
async fn malformed_input_ends_one_connection_and_nothing_else() {
    let server = Server::start().await;
    let mut good = server.client().await;
    assert_eq!(good.ask("SET k v").await, "+OK");
    for garbage in [
        &b"*1\r\n:5\r\n"[..],
        b"*-x\r\n",
        b"*1\r\n$-5\r\n",
        b"*99999999999999\r\n",
        b"get \"unbalanced\r\n",
        &[b"*1\r\n*1\r\n"[..].repeat(100_000), b"\r\n".to_vec()].concat(),
    ] {
        let mut bad = server.client().await;
        bad.send(&[b"GET", b"k"]).await;
        bad.send_raw(garbage).await;
        bad.send_raw(&encode(&[b"SET", b"k", b"overwritten"])).await;
        assert_eq!(bad.shown().await, "\"v\"");
        assert!(bad.shown().await.starts_with("-ERR Protocol error: "));
        assert_eq!(bad.shown().await, "closed");
    }
    assert_eq!(good.ask("GET k").await, "\"v\"");
    server.stop().await;
}

#[tokio::test]
async fn limits_speak_as_redis_does() {
    let limits = Limits { connections_max: 1, arguments_max: 10, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }, SHAPE).await;
    let mut only = server.client().await;
    assert_eq!(only.ask("PING").await, "+PONG");
    let mut second = server.client().await;
    assert_eq!(second.shown().await, "-ERR max number of clients reached");
    assert_eq!(second.shown().await, "closed");
    let long = vec![b'x'; server.proxy.limits().value_bytes_max + 1];
    let too_long = format!(
        "-ERR string exceeds maximum allowed size (proto-max-bulk-len): it has {} bytes, the limit \
         is {}",
        long.len(),
        long.len() - 1
    );
    assert_eq!(only.ask_words(&[b"SET", b"k", &long]).await, too_long);
    assert_eq!(only.ask_words(&[b"HSET", b"h", b"f", &long]).await, too_long);
    let key = vec![b'k'; server.proxy.limits().key_bytes_max + 1];
    let reply = only.ask_words(&[b"SET", &key, b"v"]).await;
    assert!(reply.starts_with("-ERR the key is longer than the store allows"), "{reply}");
    only.send_raw(b"*11\r\n").await;
    assert_eq!(only.shown().await, "-ERR Protocol error: invalid multibulk length");
    server.stop().await;
}

/// Replies that wait behind a command of an open epoch were held without being counted: one
/// connection could fill the memory with the replies to a hundred thousand `COMMAND`s.
#[tokio::test]
async fn replies_that_wait_behind_an_epoch_are_counted() {
    let clock = Arc::new(SystemClock::new());
    let an_hour = proxy(SHAPE, Duration::from_secs(3600), clock.clone()).await;
    let limits = Limits { queued_bytes_max: 1 << 20, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let server = Server::over(settings, an_hour, clock).await;
    let mut client = server.client().await;
    client.send(&[b"GET", b"k"]).await;
    let pings = encode(&[b"PING", &[b'x'; 1 << 16]]).repeat(1 << 9);
    let taken = tokio::time::timeout(Duration::from_secs(1), client.send_raw(&pings)).await;
    assert!(taken.is_err(), "32 MB of replies wait for the epoch");
}

/// What is answered on the spot was not counted if nothing was awaited before it.
#[tokio::test]
async fn replies_that_nobody_reads_are_counted() {
    let limits = Limits { queued_bytes_max: 1 << 20, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }, SHAPE).await;
    let mut client = server.client().await;
    let pings = encode(&[b"PING", &[b'x'; 1 << 16]]).repeat(1 << 4);
    assert!(stops(&mut client, &pings, 64).await, "64 MB of replies wait to be read");
}

#[tokio::test]
async fn a_stranger_has_no_reply_waiting() {
    let settings = Settings { password: Some("secret".into()), ..Settings::default() };
    let server = Server::with(settings, SHAPE).await;
    let mut stranger = server.client().await;
    assert!(stops(&mut stranger, &b"a\r\n".repeat(1 << 18), 64).await, "50 MB were taken");
}

/// An argument may have 512 MiB, and a client may send all but its end.
#[tokio::test]
async fn requests_that_never_end_are_counted_over_all_clients() {
    let limits = Limits { unfinished_bytes_max: 2 << 20, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }, SHAPE).await;
    let mut patient = server.client().await;
    patient.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n").await;
    patient.send_raw(&vec![b'x'; 1_500_000]).await;
    let told = "-ERR requests of all clients that are not complete";
    let mut queueing = server.client().await;
    assert_eq!(queueing.ask("MULTI").await, "+OK");
    let set = encode(&[b"SET", b"k", &[b'v'; 50_000]]);
    queueing.send_raw(&set.repeat(20)).await;
    let mut replies = Vec::new();
    while replies.len() < 20 && replies.last().is_none_or(|reply| reply == "+QUEUED") {
        replies.push(queueing.shown().await);
    }
    assert!(replies.last().unwrap().starts_with(told), "{replies:?}");
    // Whoever asks for little goes on, and what has ended holds nothing.
    let mut other = server.client().await;
    assert_eq!(other.ask("SET k v").await, "+OK");
    drop(patient);
    let long = encode(&[b"SET", b"k", &vec![b'v'; 1_800_000]]);
    for _ in 0..100 {
        let mut other = server.client().await;
        other.send_raw(&long).await;
        let reply = other.shown().await;
        if !reply.starts_with(told) {
            assert!(reply.starts_with("-ERR"), "{reply}");
            return server.stop().await;
        }
    }
    panic!("what has ended still holds memory");
}

/// Whether the server stops to take what a client sends that reads nothing.
async fn stops(client: &mut Client, part: &[u8], parts: usize) -> bool {
    for _ in 0..parts {
        let taken = tokio::time::timeout(Duration::from_secs(3), client.send_raw(part)).await;
        if taken.is_err() {
            return true;
        }
    }
    false
}

/// Replies were counted when they were encoded: one connection could fill the memory with those of
/// an epoch, and what it did not take was copied into one buffer of 256 MB.
#[tokio::test]
async fn replies_that_nobody_takes_are_counted_when_they_are_made() {
    let limits = Limits { output_bytes_max: 1 << 20, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }, SHAPE).await;
    let mut client = server.client().await;
    assert_eq!(client.ask_words(&[b"SET", b"k", &[b'v'; 1000]]).await, "+OK");
    let all: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain([&b"k"[..]; 900]).collect();
    client.send_raw(&[encode(&all), encode(&[b"INCR", b"done"])].concat().repeat(200)).await;
    let (mut refused, mut done) = (0, 0);
    for _ in 0..200 {
        refused += u32::from(client.shown().await.starts_with("-ERR replies wait to be taken"));
        done += u32::from(!client.shown().await.starts_with("-ERR replies wait to be taken"));
    }
    assert!(refused > 100, "{refused} of 200 programs were refused; each has a reply of 900 KB");
    assert_eq!(client.ask("GET done").await, format!("\"{done}\""));
    server.stop().await;
}

/// A value told a thousand times takes little, but is encoded as one reply.
#[tokio::test]
async fn one_reply_is_no_longer_than_all_may_be() {
    let limits = Limits { output_bytes_max: 1 << 20, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }, SHAPE).await;
    let mut client = server.client().await;
    assert_eq!(client.ask_words(&[b"SET", b"k", &[b'v'; 1000]]).await, "+OK");
    let told = "limit is 1048576";
    for (count, fits) in [(900, true), (1100, false)] {
        let all: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(vec![&b"k"[..]; count]).collect();
        let reply = client.ask_words(&all).await;
        assert_eq!(!reply.ends_with(told), fits, "{}", reply.len());
        client.ask("MULTI").await;
        client.ask("INCR done").await;
        for _ in 0..count {
            client.ask("GET k").await;
        }
        let reply = client.ask("EXEC").await;
        assert_eq!(!reply.ends_with(told), fits, "{}", reply.len());
        assert!(fits || reply.contains("bytes of reply"), "{reply}");
    }
    assert_eq!(client.ask("GET done").await, "\"1\"");
    server.stop().await;
}

/// A client that reads gets everything, however much it has asked for before.
#[tokio::test]
async fn replies_that_are_taken_leave_in_pieces() {
    let server = Server::start().await;
    let mut client = server.client().await;
    assert_eq!(client.ask_words(&[b"SET", b"k", &[b'v'; 1000]]).await, "+OK");
    let all: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain([&b"k"[..]; 900]).collect();
    let expected = format!("[{}]", vec![format!("\"{}\"", "v".repeat(1000)); 900].join(" "));
    client.send_raw(&[encode(&all), encode(&[b"PING"])].concat().repeat(50)).await;
    for _ in 0..50 {
        assert!(client.shown().await == expected);
        assert_eq!(client.shown().await, "+PONG");
    }
    server.stop().await;
}

/// An epoch of this shape has four batches of 1,000 blocks.
#[tokio::test]
async fn reads_of_more_than_an_epoch_brings_are_answered() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.client().await, server.client().await);
    let fields: Vec<String> = (0..9_000).map(|i| format!("f{i:04}")).collect();
    for some in fields.chunks(900) {
        let mut words: Vec<&[u8]> = vec![b"HSET", b"h"];
        some.iter().for_each(|field| words.extend([field.as_bytes(), field.as_bytes()]));
        assert_eq!(client.ask_words(&words).await, format!("{}", some.len()));
    }
    let all: Vec<String> =
        fields.iter().flat_map(|field| [format!("\"{field}\""), format!("\"{field}\"")]).collect();
    client.send(&[b"HGETALL", b"h"]).await;
    assert_eq!(other.ask("SET k v").await, "+OK");
    assert_eq!(other.ask("GET k").await, "\"v\"");
    assert!(client.shown().await == format!("[{}]", all.join(" ")));
    server.stop().await;
}

#[tokio::test]
async fn a_command_larger_than_an_epoch_is_done_and_one_too_large_says_so() {
    let shape = BatchShape { value_bytes: 64 << 10, ..SHAPE };
    let server = Server::with(Settings::default(), BatchShape { write_batch: 16, ..shape }).await;
    let mut client = server.client().await;
    let names: Vec<String> = (0..600).map(|i| format!("k{i}")).collect();
    let mset = |count: usize| {
        let mut words: Vec<&[u8]> = vec![b"MSET"];
        names[..count].iter().for_each(|name| words.extend([name.as_bytes(), b"v"]));
        words
    };
    let reply = client.ask_words(&mset(600)).await;
    let told = "-ERR the command is too large: it needs at least 513 write slots, the limit is 512";
    assert!(reply.starts_with(told), "{reply}");
    assert_eq!(client.ask("DBSIZE").await, "0");
    assert_eq!(client.ask_words(&mset(200)).await, "+OK");
    assert_eq!(client.ask("DBSIZE").await, "200");
    let mut words: Vec<&[u8]> = vec![b"DEL"];
    names.iter().for_each(|name| words.push(name.as_bytes()));
    assert_eq!(client.ask_words(&words).await, "200");
    assert_eq!(client.ask("DBSIZE").await, "0");
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_done_without_the_password() {
    let settings = Settings { password: Some("open sesame".into()), ..Settings::default() };
    let server = Server::with(settings, SHAPE).await;
    let mut client = server.client().await;
    assert_eq!(client.ask("GET k").await, "-NOAUTH Authentication required.");
    assert_eq!(client.ask("NOSUCH").await.get(..20), Some("-ERR unknown command"));
    assert!(client.ask("HELLO 3").await.starts_with("-NOAUTH HELLO must be called"));
    assert!(client.ask("AUTH wrong").await.starts_with("-WRONGPASS "));
    assert!(client.ask_words(&[b"AUTH", b"other", b"open sesame"]).await.starts_with("-WRONGPASS"));
    assert_eq!(client.ask_words(&[b"AUTH", b"open sesame"]).await, "+OK");
    assert_eq!(client.ask("GET k").await, "nil");
    assert_eq!(client.ask("RESET").await, "+RESET");
    assert_eq!(client.ask("GET k").await, "-NOAUTH Authentication required.");
    let words: [&[u8]; 5] = [b"HELLO", b"2", b"AUTH", b"default", b"open sesame"];
    assert!(client.ask_words(&words).await.starts_with("[\"server\" \"redis\""));
    client.send_raw(b"*11\r\n").await;
    let mut stranger = server.client().await;
    stranger.send_raw(b"*11\r\n").await;
    assert!(stranger.shown().await.contains("unauthenticated multibulk length"));
    server.stop().await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let server = Server::start().await;
    let settings = Settings { address: server.address, ..Settings::default() };
    let error = Listener::bind(settings).await.err().expect("the port is taken");
    assert!(matches!(error, Error::AddressInUse(place) if place == Place::Tcp(server.address)));
    server.stop().await;
}

#[tokio::test]
async fn what_was_accepted_is_answered_at_the_end() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.send(&[b"SET", b"k", b"v"]).await;
    client.send(&[b"GET", b"k"]).await;
    client.finish().await; // the client has no more to say, and still wants its answers
    assert_eq!(client.shown().await, "+OK");
    assert_eq!(client.shown().await, "\"v\"");
    assert_eq!(client.shown().await, "closed");

    let mut client = server.client().await;
    assert_eq!(client.ask("PING").await, "+PONG");
    server.stop().await;
    assert_eq!(client.shown().await, "closed");
}

#[tokio::test]
async fn the_third_version_has_its_own_types() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start().await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.expect("accepts");
    stream
        .write_all(
            b"HELLO 3\r\nHSET h f v\r\nHGETALL h\r\nZADD z 0.5 m\r\nZRANGE z 0 -1 WITHSCORES\r\n\
              ZSCORE z m\r\nGET nokey\r\nINCRBYFLOAT n 0.1\r\nQUIT\r\n",
        )
        .await
        .expect("reads");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.expect("text");
    assert!(replies.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), "{replies}");
    assert!(
        replies.ends_with(
            ":1\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n:1\r\n*1\r\n*2\r\n$1\r\nm\r\n,0.5\r\n,0.5\r\n_\r\n\
             $3\r\n0.1\r\n+OK\r\n"
        ),
        "{replies}"
    );
    server.stop().await;
}

#[tokio::test]
async fn secret_figures_are_printed_only_when_asked_for() {
    for secret_metrics in [false, true] {
        let server = Server::with(Settings { secret_metrics, ..Settings::default() }, SHAPE).await;
        server.metrics.gauge(fogbank_env::Visibility::Secret, "stash_size").set(7);
        server.metrics.gauge(fogbank_env::Visibility::Public, "epochs").set(9);
        let info = server.client().await.ask("INFO").await;
        assert!(info.contains("epochs:9"), "{info}");
        assert_eq!(info.contains("stash_size:7"), secret_metrics);
        server.stop().await;
    }
}

#[tokio::test]
async fn tls_is_spoken_with_the_given_certificate() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    let pem = made.signing_key.serialize_pem();
    fogbank_env::write_secret(&key, pem.as_bytes()).expect("written");
    let broken = TlsFiles { certificate: key.clone(), key: key.clone() };
    let refused = Listener::bind(Settings { tls: Some(broken), ..Settings::default() }).await;
    assert!(matches!(refused.err(), Some(Error::Tls(_))));

    let tls = Some(TlsFiles { certificate, key });
    let server = Server::with(Settings { tls, ..Settings::default() }, SHAPE).await;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = tokio::net::TcpStream::connect(server.address).await.expect("accepts");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = connector.connect(name, stream).await.expect("greets");
    stream.write_all(b"SET k v\r\nGET k\r\n").await.expect("reads");
    let mut replies = [0; 12];
    stream.read_exact(&mut replies).await.expect("answers");
    assert_eq!(&replies, b"+OK\r\n$1\r\nv\r\n");
    drop(stream);
    server.stop().await;
}

#[tokio::test]
async fn the_client_library_of_rust_is_served() {
    let server = Server::start().await;
    let client = redis::Client::open(format!("redis://{}/?protocol=resp3", server.address))
        .expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connects");
    let (count, value): (i64, String) = redis::pipe()
        .atomic()
        .cmd("INCRBY")
        .arg("n")
        .arg(5)
        .cmd("GETSET")
        .arg("n")
        .arg("x")
        .query_async(&mut connection)
        .await
        .expect("a transaction");
    assert_eq!((count, value.as_str()), (5, "5"));
    drop(connection);
    server.stop().await;
}

#[tokio::test]
async fn many_connections_share_epochs() {
    let server = Server::start().await;
    let address = server.address;
    let add = move || async move {
        let mut client = Client::connect(address).await;
        for _ in 0..20 {
            client.ask("INCR counter").await;
        }
    };
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(add())).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(server.client().await.ask("GET counter").await, "\"1000\"");
    server.stop().await;
}
