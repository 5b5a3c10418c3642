//! `CLIENT`: who is connected. What a connection waits for, or holds, is told to nobody: those
//! fields are constants.

use super::commands::help;
use super::server::set_name;
use super::syntax_error;
use crate::resp::client::{Client, Listed};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Outcome, fail};
use crate::resp::number::parse_integer;
use crate::resp::reply::{Reply, Version};

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type. All are normal.",
    "    * ID <client-id> [<client-id> ...]",
    "      Return these clients.",
    "NO-EVICT (ON|OFF)",
    "    Taken, and without effect: no client is evicted.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
];

/// `CLIENT subcommand`
pub fn client(client: &mut Client, request: &Request) -> Outcome {
    match &request.get(1).to_ascii_lowercase()[..] {
        b"id" => Ok(Reply::Integer(client.id as i64)),
        b"getname" => Ok(match client.listed.name.as_str() {
            "" => Reply::Null,
            name => Reply::text(name),
        }),
        b"setname" => {
            set_name(client, request.get(2))?;
            Ok(Reply::OK)
        }
        b"info" => Ok(Reply::Verbatim(line(client, client.id, &client.listed, "client|info"))),
        b"list" => list(client, request),
        b"no-evict" if request.is(2, "on") || request.is(2, "off") => Ok(Reply::OK),
        b"help" => Ok(help(HELP)),
        _ => syntax_error(),
    }
}

/// `CLIENT LIST [TYPE type] | [ID id...]`
fn list(client: &Client, request: &Request) -> Outcome {
    let clients = client.server.clients();
    let line = |id: u64, listed: &Listed| {
        line(client, id, listed, if id == client.id { "client|list" } else { "NULL" })
    };
    let of_all = || clients.iter().map(|(id, listed)| line(*id, listed)).collect();
    Ok(Reply::Verbatim(match request.len() {
        2 => of_all(),
        4 if request.is(2, "type") => match &request.get(3).to_ascii_lowercase()[..] {
            b"normal" => of_all(),
            b"master" | b"slave" | b"replica" | b"pubsub" => String::new(),
            _ => {
                let kind = request.shown(3, usize::MAX);
                return fail([b"Unknown client type '", kind, b"'"].concat());
            }
        },
        4.. if request.is(2, "id") => {
            let mut lines = String::new();
            for id in request.from(3) {
                let Some(id) = parse_integer(id) else { return fail("Invalid client ID") };
                let found = u64::try_from(id).ok().and_then(|id| clients.get_key_value(&id));
                lines += &found.map_or(String::new(), |(id, listed)| line(*id, listed));
            }
            lines
        }
        _ => return syntax_error(),
    }))
}

fn line(client: &Client, id: u64, listed: &Listed, command: &str) -> String {
    let server = &client.server;
    let age = server.clock.wall_ms().saturating_sub(listed.since_ms) / 1000;
    let version = if listed.version == Version::Resp3 { 3 } else { 2 };
    format!(
        "id={id} addr={} laddr={} fd=0 name={} age={age} idle=0 flags=N db=0 sub=0 psub=0 ssub=0 \
         multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
         tot-mem=0 events=r cmd={command} user=default redir=-1 resp={version}\n",
        listed.address, server.address, listed.name,
    )
}
