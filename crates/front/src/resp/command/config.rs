//! `CONFIG`: what there is to know of the settings. Nothing can be set while the server runs.

use super::commands::help;
use super::syntax_error;
use crate::resp::client::Client;
use crate::resp::frame::Request;
use crate::resp::keyspace::{Outcome, fail};
use crate::resp::pattern;
use crate::resp::reply::Reply;

const HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Refused: nothing is set while the server runs.",
    "RESETSTAT",
    "    Taken, and without effect: INFO counts nothing.",
    "REWRITE",
    "    Refused: there is no file.",
];

/// `CONFIG subcommand`
pub fn config(client: &mut Client, request: &Request) -> Outcome {
    match &request.get(1).to_ascii_lowercase()[..] {
        b"get" => Ok(get(client, request)),
        b"set" => set(client, request),
        b"resetstat" => Ok(Reply::OK),
        b"rewrite" => fail("The server is running without a config file"),
        b"help" => Ok(help(HELP)),
        _ => syntax_error(),
    }
}

fn set(client: &Client, request: &Request) -> Outcome {
    let name = request.shown(2, usize::MAX);
    let is_name = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let known = parameters(client).iter().any(|(known, _)| is_name(known));
    if !request.len().is_multiple_of(2) {
        return syntax_error();
    }
    if !known {
        let told = b"Unknown option or number of arguments for CONFIG SET - '";
        return fail([told, name, b"'"].concat());
    }
    let told = b"CONFIG SET failed (possibly related to argument '";
    fail([&told[..], name, b"') - can't set immutable config"].concat())
}

fn parameters(client: &Client) -> Vec<(&'static str, String)> {
    let server = &client.server;
    vec![
        ("appendonly", "no".into()),
        ("databases", "1".into()),
        ("maxclients", server.limits.connections_max.to_string()),
        ("maxmemory", "0".into()),
        ("maxmemory-policy", "noeviction".into()),
        ("port", server.address.port().to_string()),
        ("proto-max-bulk-len", server.bounds.value_bytes_max.to_string()),
        ("save", String::new()),
        ("timeout", "0".into()),
    ]
}

fn get(client: &Client, request: &Request) -> Reply {
    let wanted = |name: &str| {
        request.from(2).any(|p| pattern::matches(&p.to_ascii_lowercase(), name.as_bytes()))
    };
    let found = parameters(client).into_iter().filter(|(name, _)| wanted(name));
    Reply::Map(found.map(|(name, value)| (Reply::word(name), Reply::text(value))).collect())
}
