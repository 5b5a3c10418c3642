//! Commands about connections, commands and the server, against a real Redis 7.0 if it is
//! installed.

use crate::real_redis::Redis;
use crate::support::{Client, Server, show};
use redis_protocol::resp2::types::BytesFrame;

/// What is answered as Redis answers it, to the letter; words are separated by `~` where a blank is
/// in one.
const ALIKE: &[&str] = &[
    "CLIENT LIST ID x",
    "CLIENT LIST ID 1 x",
    "CLIENT LIST ID 999999 -1 0",
    "CLIENT LIST ID",
    "CLIENT LIST TYPE foo",
    "CLIENT LIST TYPE",
    "CLIENT LIST TYPE master",
    "CLIENT LIST TYPE REPLICA",
    "CLIENT LIST TYPE normal x",
    "CLIENT LIST FOO",
    "CLIENT NO-EVICT foo",
    "CLIENT SETNAME a~b",
    "CLIENT HELP x",
    "OBJECT HELP x",
    "COMMAND COUNT x",
    "COMMAND LIST x",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY PATTERN",
    "COMMAND LIST FILTERBY FOO x",
    "COMMAND LIST FOOBAR PATTERN x",
    "COMMAND LIST FILTERBY MODULE x",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY PATTERN nosuch*",
    "COMMAND GETKEYS GET",
    "COMMAND GETKEYS GET a",
    "COMMAND GETKEYS NOPE a",
    "COMMAND GETKEYS PING x",
    "COMMAND GETKEYS MSET a b c",
    "COMMAND GETKEYS GET a b",
    "COMMAND GETKEYS OBJECT ENCODING k",
    "COMMAND GETKEYS OBJECT NOPE k",
    "COMMAND GETKEYS CLIENT ID",
    "COMMAND GETKEYSANDFLAGS PING",
    "COMMAND GETKEYSANDFLAGS SET k v",
    "COMMAND GETKEYSANDFLAGS SET k v EX 10",
    "COMMAND GETKEYSANDFLAGS SET k v NX get",
    "COMMAND GETKEYSANDFLAGS RENAME a b",
    "COMMAND GETKEYSANDFLAGS RENAMENX a b",
    "COMMAND GETKEYSANDFLAGS COPY a b",
    "COMMAND GETKEYSANDFLAGS EXISTS a b",
    "COMMAND GETKEYSANDFLAGS MSET a b c d",
    "COMMAND GETKEYSANDFLAGS OBJECT ENCODING k",
    "COMMAND INFO nope",
    "COMMAND DOCS nope",
    "OBJECT ENCODING nokey",
    "OBJECT FREQ nokey",
    "OBJECT REFCOUNT nokey",
    "OBJECT IDLETIME nokey",
    "OBJECT FREQ x y",
    "CONFIG GET",
    "CONFIG SET a",
    "CONFIG SET nosuch 1",
    "CONFIG SET nosuch 1 b",
    "CONFIG RESETSTAT",
    "CONFIG RESETSTAT x",
    "SELECT 3000000000",
    "SELECT -3000000000",
    "SELECT 9223372036854775807",
    "SELECT 9223372036854775808",
    "SELECT -1",
    "COPY a b DB 3000000000",
    "COPY a b DB x",
    "COPY a b DB -1",
    "WAIT x 0",
    "WAIT 0 x",
    "WAIT 0 -1",
    "WAIT 0 9223372036854775807",
    "WAIT 3000000000 0",
    "WAIT 9223372036854775808 0",
    "HELLO -1",
    "HELLO 9223372036854775807",
    "HELLO 2 SETNAME",
    "HELLO 2 AUTH a",
    "HELLO 2 SETNAME a~b",
    "HELLO 2 FOO",
    "AUTH a b c",
    "DEBUG",
    "DEBUG x",
    "MULTI",
    "DEBUG JMAP",
    "EXEC",
    "SET k v",
    "PEXPIREAT k 9223372036854775807",
    "EXPIRETIME k",
    "PEXPIRETIME k",
    "PEXPIREAT k 9223372036854775307",
    "EXPIRETIME k",
    "PEXPIREAT k 9223372036854774500",
    "EXPIRETIME k",
    "DEL k",
];

/// Bytes that are no text, in every error that repeats what was sent.
const NO_TEXT: &[&[&[u8]]] = &[
    &[b"FOO\xff", b"a\xfeb", b"c\0d", b"\xc3"],
    &[b"\xff\r\n"],
    &[b"CLIENT", b"\xff\x01\0x"],
    &[b"CONFIG", b"SET", b"\xff\0x", b"1"],
    &[b"EXPIRE", b"k", b"1", b"\xff\xfe"],
    &[b"HELLO", b"2", b"F\xff"],
    &[b"CLIENT", b"LIST", b"TYPE", b"\xff"],
    &[b"OBJECT", b"ENCODING", b"\xff"],
    &[b"COMMAND", b"INFO", b"\xff"],
];

async fn both() -> (Server, Client, Option<(Redis, Client)>) {
    let server = Server::start().await;
    let client = server.client().await;
    let Some(redis) = Redis::start().await else {
        eprintln!("not compared: redis-server 7.0 is not installed");
        return (server, client, None);
    };
    let theirs = Client::connect(redis.address).await;
    (server, client, Some((redis, theirs)))
}

fn text(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.replace('~', " ").into_bytes()).collect()
}

async fn raw(client: &mut Client, words: &[&[u8]]) -> BytesFrame {
    client.send(words).await;
    client.reply().await.expect("a reply")
}

#[tokio::test]
async fn commands_about_the_server_answer_as_redis_does() {
    let (server, mut ours, theirs) = both().await;
    let Some((_redis, mut theirs)) = theirs else { return };
    for line in ALIKE {
        let words = text(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (ours, theirs) = (raw(&mut ours, &words).await, raw(&mut theirs, &words).await);
        assert_eq!(show(&ours), show(&theirs), "{line}");
    }
    server.stop().await;
}

/// The bytes of errors, which the client of these tests takes for text: so they are read as they
/// come.
#[tokio::test]
async fn errors_repeat_bytes_as_they_were_sent() {
    use crate::support::encode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start().await;
    let redis = Redis::start().await;
    let said = async |address, words: &[&[u8]]| {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it accepts");
        stream.write_all(&encode(words)).await.expect("it reads");
        stream.shutdown().await.expect("a socket");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("it answers");
        all
    };
    for words in NO_TEXT {
        let ours = said(server.address, words).await;
        if let Some(redis) = &redis {
            let theirs = said(redis.address, words).await;
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string());
        }
    }
    let ours = said(server.address, &[b"FOO\xff", b"a"]).await;
    assert_eq!(ours, b"-ERR unknown command 'FOO\xff', with args beginning with: 'a' \r\n");
    server.stop().await;
}

/// A reply without the order of what has none.
fn sorted(frame: &BytesFrame) -> String {
    let BytesFrame::Array(items) = frame else { return show(frame) };
    // Why a key is used so is told in words of theirs.
    let noted = items.first().is_some_and(|first| show(first) == "\"notes\"");
    let told = if noted { &items[2..] } else { &items[..] };
    let mut items: Vec<String> = told.iter().map(sorted).collect();
    items.sort();
    format!("[{}]", items.join(" "))
}

fn items(frame: &BytesFrame) -> &[BytesFrame] {
    let BytesFrame::Array(items) = frame else { panic!("no array: {frame:?}") };
    items
}

#[tokio::test]
async fn what_is_told_of_each_command_is_what_redis_tells() {
    let (server, mut ours, theirs) = both().await;
    let names = raw(&mut ours, &[b"COMMAND", b"LIST"]).await;
    let names: Vec<Vec<u8>> = items(&names)
        .iter()
        .map(|name| match name {
            BytesFrame::BulkString(name) => name.to_vec(),
            other => panic!("no name: {other:?}"),
        })
        .collect();
    assert!(names.len() > 120 && names.contains(&b"object|freq".to_vec()));
    let Some((_redis, mut theirs)) = theirs else { return };
    for name in &names {
        let asked: [&[u8]; 3] = [b"COMMAND", b"INFO", name];
        let (ours, theirs) = (raw(&mut ours, &asked).await, raw(&mut theirs, &asked).await);
        let (ours, theirs) = (&items(&ours)[0], &items(&theirs)[0]);
        for (part, (ours, theirs)) in items(ours).iter().zip(items(theirs)).enumerate() {
            // Tips are not told, and of a container fewer subcommands.
            if part != 7 && part != 9 {
                assert_eq!(sorted(ours), sorted(theirs), "{}, part {part}", name.escape_ascii());
            }
        }
    }
    // Each filter passes what Redis passes of what there is here.
    for filter in
        ["ACLCAT hash", "ACLCAT CONNECTION", "ACLCAT dangerous", "ACLCAT keyspace", "PATTERN *GET*"]
    {
        let line = format!("COMMAND LIST FILTERBY {filter}");
        let words = text(&line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (ours, theirs) = (raw(&mut ours, &words).await, raw(&mut theirs, &words).await);
        let mut ours: Vec<String> = items(&ours).iter().map(show).collect();
        let all: Vec<String> =
            names.iter().map(|name| format!("\"{}\"", name.escape_ascii())).collect();
        let mut theirs: Vec<String> = items(&theirs).iter().map(show).collect();
        theirs.retain(|name| all.contains(name));
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{filter}");
        assert!(ours.len() > 3, "{filter}");
    }
    // What a command is for is said in words of ours; the rest is as there.
    for name in &names {
        let asked: [&[u8]; 3] = [b"COMMAND", b"DOCS", name];
        let (ours, theirs) = (raw(&mut ours, &asked).await, raw(&mut theirs, &asked).await);
        let part = |docs: &BytesFrame, part: &str| {
            let docs = items(&items(docs)[1]);
            let at = docs.iter().position(|word| show(word) == format!("\"{part}\""));
            show(&docs[at.expect("it is told") + 1])
        };
        for told in ["since", "group"] {
            assert_eq!(part(&ours, told), part(&theirs, told), "{}", name.escape_ascii());
        }
        assert!(part(&ours, "summary").len() > 4);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_finds_the_fields_that_redis_lists() {
    let (server, mut ours, theirs) = both().await;
    let fields = |told: &str| -> Vec<String> {
        let of = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
        told.trim_matches('"').trim_end_matches("\\n").split(' ').map(of).collect()
    };
    let mut other = server.client().await;
    other.ask("CLIENT SETNAME other").await;
    let id = other.ask("CLIENT ID").await;
    let one = ours.ask(&format!("CLIENT LIST ID {id}")).await;
    assert!(one.contains("name=other") && one.contains(&format!("id={id} ")), "{one}");
    assert!(one.contains(&format!("laddr={} ", server.address)), "{one}");
    let twice = ours.ask(&format!("CLIENT LIST ID {id} 77777 {id}")).await;
    assert_eq!(twice.matches("name=other").count(), 2, "as often as it was asked for");
    if let Some((_redis, mut theirs)) = theirs {
        for command in ["CLIENT INFO", "CLIENT LIST", "CLIENT LIST TYPE normal"] {
            let (ours, theirs) = (ours.ask(command).await, theirs.ask(command).await);
            let first = ours.split("\\n").next().unwrap_or_default();
            assert_eq!(fields(first), fields(&theirs), "{command}");
        }
    }
    server.stop().await;
}

/// Dashboards read these fields and take a missing one for a fault.
#[tokio::test]
async fn a_dashboard_finds_what_it_reads_and_nothing_of_the_data() {
    let (server, mut ours, theirs) = both().await;
    let before = ours.ask("INFO").await;
    for command in ["SET k v", "GET k", "GET nokey", "SET t v EX 1000", "NOSUCH"] {
        ours.ask(command).await;
    }
    let time = |info: &str| {
        let lines = info.split("\\r\\n").filter(|line| !line.starts_with("uptime_in"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let after = ours.ask("INFO").await;
    assert_eq!(time(&before), time(&after), "a figure follows what clients do");
    for section in ["memory", "stats", "keyspace", "cpu", "clients", "persistence", "replication"] {
        let ours = ours.ask(&format!("INFO {section}")).await;
        assert!(ours.to_ascii_lowercase().starts_with(&format!("\"# {section}\\r\\n")), "{ours}");
    }
    // Of what Redis says under a name, the same kind of thing is said here.
    if let Some((_redis, mut theirs)) = theirs {
        let theirs = theirs.ask("INFO").await;
        let of = |info: &str| -> Vec<(String, String)> {
            let lines = info.trim_matches('"').split("\\r\\n").map(str::to_owned);
            let pairs = lines.filter_map(|line| {
                line.split_once(':').map(|(key, value)| (key.to_owned(), value.to_owned()))
            });
            pairs.collect()
        };
        let theirs = of(&theirs);
        // A number, with a unit, a percentage, else with a decimal point.
        let kind = |value: &str| {
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            let has_unit = value.ends_with(char::is_alphabetic);
            let is_decimal = is_number && !has_unit && value.contains('.');
            (is_number, has_unit, value.ends_with('%'), is_decimal)
        };
        for (key, value) in of(&after) {
            let Some((_, there)) = theirs.iter().find(|(known, _)| *known == key) else { continue };
            let is_name = ["os", "mem_allocator"].contains(&&key[..]);
            assert!(is_name || kind(&value) == kind(there), "{key}: {value}, {there}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn help_names_every_subcommand() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for container in ["CLIENT", "COMMAND", "CONFIG", "OBJECT"] {
        let told = client.ask(&format!("{container} HELP")).await;
        assert!(told.starts_with(&format!("[+{container} <subcommand>")), "{told}");
        let listed = client.ask(&format!("COMMAND LIST FILTERBY PATTERN {container}|*")).await;
        for name in listed.split(['"', ' ']).filter_map(|word| word.split_once('|')) {
            let line = format!("+{}", name.1.to_ascii_uppercase());
            assert!(told.contains(&line), "{container}: no {line} in {told}");
        }
        let unknown = client.ask(&format!("{container} NOSUCH")).await;
        assert!(unknown.contains(&format!("Try {container} HELP.")), "{unknown}");
    }
    server.stop().await;
}
