//! Commands about the connection and the server. They cost no round and say nothing that a round
//! would have revealed; they keep their place among the replies.

use super::table::{Command, TABLE, lookup};
use super::{integer, syntax_error, wrong_arity};
use crate::resp::client::{Client, Listed};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Halt, Outcome, fail};
use crate::resp::pattern;
use crate::resp::reply::{Reply, Version};
use fogbank_env::Visibility;

/// The Redis whose behaviour is kept.
const REDIS_VERSION: &str = "7.0.15";

fn fail_with<T>(code: &str, text: &str) -> Outcome<T> {
    Err(Halt::Reply(Reply::error_with_code(code, text)))
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `PING [message]`
pub fn ping(_client: &mut Client, request: &Request) -> Outcome {
    match request.len() {
        1 => Ok(Reply::Simple("PONG")),
        2 => Ok(Reply::Bulk(request.bytes_of(1))),
        _ => wrong_arity(request),
    }
}

/// `ECHO message`
pub fn echo(_client: &mut Client, request: &Request) -> Outcome {
    Ok(Reply::Bulk(request.bytes_of(1)))
}

/// `SELECT 0`
pub fn select(_client: &mut Client, request: &Request) -> Outcome {
    match integer(request, 1)? {
        0 => Ok(Reply::OK),
        _ => fail("DB index is out of range"),
    }
}

/// `TIME`
pub fn time(client: &mut Client, _request: &Request) -> Outcome {
    let now_ms = client.server.clock.wall_ms();
    let (seconds, micros) = (now_ms / 1000, now_ms % 1000 * 1000);
    Ok(Reply::Array(vec![Reply::text(seconds.to_string()), Reply::text(micros.to_string())]))
}

/// `LASTSAVE`: every epoch is saved, so this is when the server started to do so.
pub fn lastsave(client: &mut Client, _request: &Request) -> Outcome {
    Ok(Reply::Integer((client.server.started_ms / 1000) as i64))
}

/// `WAIT replicas timeout`: there are none.
pub fn wait(_client: &mut Client, request: &Request) -> Outcome {
    integer(request, 1)?;
    match super::parse_integer(request.get(2)) {
        None => fail("timeout is not an integer or out of range"),
        Some(timeout) if timeout < 0 => fail("timeout is negative"),
        Some(_) => Ok(Reply::Integer(0)),
    }
}

/// `DEBUG`: refused.
pub fn debug(_client: &mut Client, _request: &Request) -> Outcome {
    fail(
        "DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
         can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
    )
}

const WRONG_PASSWORD: &str = "invalid username-password pair or user is disabled.";

/// `AUTH [user] password`
pub fn auth(client: &mut Client, request: &Request) -> Outcome {
    let (user, password) = match request.len() {
        2 if !client.server.has_password() => {
            return fail(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            );
        }
        2 => (&b"default"[..], request.get(1)),
        3 => (request.get(1), request.get(2)),
        _ => return syntax_error(),
    };
    if !client.server.admits(user, password) {
        return fail_with("WRONGPASS", WRONG_PASSWORD);
    }
    client.authenticated = true;
    Ok(Reply::OK)
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub fn hello(client: &mut Client, request: &Request) -> Outcome {
    let version = match (request.len(), super::parse_integer(request.get(1))) {
        (1, _) => client.listed.version,
        (_, Some(2)) => Version::Resp2,
        (_, Some(3)) => Version::Resp3,
        (_, Some(_)) => return fail_with("NOPROTO", "unsupported protocol version"),
        (_, None) => return fail("Protocol version is not an integer or out of range"),
    };
    let mut at = 2;
    while at < request.len() {
        if request.is(at, "auth") && at + 2 < request.len() {
            if !client.server.admits(request.get(at + 1), request.get(at + 2)) {
                return fail_with("WRONGPASS", WRONG_PASSWORD);
            }
            client.authenticated = true;
            at += 3;
        } else if request.is(at, "setname") && at + 1 < request.len() {
            set_name(client, request.get(at + 1))?;
            at += 2;
        } else {
            let option = text_of(request.get(at));
            return fail(&format!("Syntax error in HELLO option '{option}'"));
        }
    }
    if !client.authenticated {
        return fail_with(
            "NOAUTH",
            "HELLO must be called with the client already authenticated, otherwise the HELLO \
             AUTH <user> <pass> option can be used to authenticate the client and select the \
             RESP protocol version at the same time",
        );
    }
    client.listed.version = version;
    client.relist();
    Ok(greeting(client))
}

fn greeting(client: &Client) -> Reply {
    let protocol = if client.listed.version == Version::Resp3 { 3 } else { 2 };
    Reply::Map(vec![
        (Reply::word("server"), Reply::word("redis")),
        (Reply::word("version"), Reply::word(REDIS_VERSION)),
        (Reply::word("proto"), Reply::Integer(protocol)),
        (Reply::word("id"), Reply::Integer(client.id as i64)),
        (Reply::word("mode"), Reply::word("standalone")),
        (Reply::word("role"), Reply::word("master")),
        (Reply::word("modules"), Reply::Array(Vec::new())),
    ])
}

fn set_name(client: &mut Client, name: &[u8]) -> Outcome<()> {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return fail("Client names cannot contain spaces, newlines or special characters.");
    }
    client.listed.name = text_of(name);
    client.relist();
    Ok(())
}

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
        b"info" => Ok(Reply::Verbatim(list_line(client, client.id, &client.listed))),
        b"list" => {
            let line = |(id, listed): (&u64, &Listed)| list_line(client, *id, listed);
            Ok(Reply::Verbatim(client.server.clients().iter().map(line).collect()))
        }
        b"no-evict" => {
            if request.is(2, "on") || request.is(2, "off") {
                Ok(Reply::OK)
            } else {
                syntax_error()
            }
        }
        _ => syntax_error(),
    }
}

fn list_line(client: &Client, id: u64, listed: &Listed) -> String {
    let age = client.server.clock.wall_ms().saturating_sub(listed.since_ms) / 1000;
    let version = if listed.version == Version::Resp3 { 3 } else { 2 };
    format!(
        "id={id} addr={} name={} age={age} flags=N db=0 sub=0 psub=0 multi=-1 user=default \
         resp={version}\n",
        listed.address, listed.name,
    )
}

/// `CONFIG subcommand`
pub fn config(client: &mut Client, request: &Request) -> Outcome {
    match &request.get(1).to_ascii_lowercase()[..] {
        b"get" => Ok(config_get(client, request)),
        b"set" => {
            let name = text_of(request.get(2));
            let known =
                parameters(client).iter().any(|(known, _)| known.eq_ignore_ascii_case(&name));
            if !request.len().is_multiple_of(2) || !known {
                return fail(&format!(
                    "Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            }
            fail(&format!(
                "CONFIG SET failed (possibly related to argument '{name}') - can't set immutable \
                 config"
            ))
        }
        b"resetstat" => Ok(Reply::OK),
        b"rewrite" => fail("The server is running without a config file"),
        _ => syntax_error(),
    }
}

fn parameters(client: &Client) -> Vec<(&'static str, String)> {
    let server = &client.server;
    vec![
        ("appendonly", "no".into()),
        ("databases", "1".into()),
        ("maxclients", server.limits.connections_max.to_string()),
        ("maxmemory", "0".into()),
        ("maxmemory-policy", "noeviction".into()),
        ("port", server.port.to_string()),
        ("proto-max-bulk-len", server.bounds.value_bytes_max.to_string()),
        ("save", String::new()),
        ("timeout", "0".into()),
    ]
}

fn config_get(client: &Client, request: &Request) -> Reply {
    let wanted = |name: &str| {
        request.from(2).any(|p| pattern::matches(&p.to_ascii_lowercase(), name.as_bytes()))
    };
    let found = parameters(client).into_iter().filter(|(name, _)| wanted(name));
    Reply::Map(found.map(|(name, value)| (Reply::word(name), Reply::text(value))).collect())
}

/// `COMMAND [subcommand]`
pub fn command(_client: &mut Client, request: &Request) -> Outcome {
    if request.len() == 1 {
        return Ok(Reply::Array(TABLE.iter().map(command_info).collect()));
    }
    let named: Vec<Option<&Command>> = request.from(2).map(lookup).collect();
    match &request.get(1).to_ascii_lowercase()[..] {
        b"count" => Ok(Reply::count(TABLE.len())),
        b"list" => Ok(Reply::Array(TABLE.iter().map(|c| Reply::word(c.name)).collect())),
        b"info" if named.is_empty() => Ok(Reply::Array(TABLE.iter().map(command_info).collect())),
        b"info" => {
            let info = |c: &Option<&Command>| c.map_or(Reply::NullArray, command_info);
            Ok(Reply::Array(named.iter().map(info).collect()))
        }
        b"docs" if named.is_empty() => Ok(Reply::Map(TABLE.iter().map(command_docs).collect())),
        b"docs" => Ok(Reply::Map(named.into_iter().flatten().map(command_docs).collect())),
        b"getkeys" => command_keys(request),
        _ => syntax_error(),
    }
}

fn command_info(command: &Command) -> Reply {
    let flags = [
        ('w', "write"),
        ('r', "readonly"),
        ('m', "denyoom"),
        ('a', "admin"),
        ('f', "fast"),
        ('n', "no_auth"),
    ];
    let flags = flags.iter().filter(|(letter, _)| command.is(*letter));
    let (first, last, step) = command.keys;
    Reply::Array(vec![
        Reply::word(command.name),
        Reply::Integer(command.arity.into()),
        Reply::Set(flags.map(|(_, name)| Reply::Simple(name)).collect()),
        Reply::Integer(first.into()),
        Reply::Integer(last.into()),
        Reply::Integer(step.into()),
        Reply::Set(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}

fn command_docs(command: &Command) -> (Reply, Reply) {
    let docs = vec![(Reply::word("group"), Reply::word(command.group()))];
    (Reply::word(command.name), Reply::Map(docs))
}

fn command_keys(request: &Request) -> Outcome {
    let Some(command) = lookup(request.get(2)) else { return fail("Invalid command specified") };
    let len = request.len() - 2;
    if !command.takes(len) {
        return fail("Invalid number of arguments specified for command");
    }
    if command.keys.0 == 0 {
        return fail("The command has no key arguments");
    }
    let places = command.key_places(len);
    Ok(Reply::Array(places.map(|place| Reply::Bulk(request.bytes_of(place + 2))).collect()))
}

/// `INFO [section...]`
pub fn info(client: &mut Client, request: &Request) -> Outcome {
    let wanted = |section: &str| {
        let everything = ["all", "default", "everything"];
        request.len() == 1
            || (1..request.len())
                .any(|at| request.is(at, section) || everything.iter().any(|w| request.is(at, w)))
    };
    let mut text = String::new();
    for (name, lines) in sections(client) {
        if wanted(&name.to_ascii_lowercase()) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            text.push_str(&format!("{gap}# {name}\r\n"));
            lines.iter().for_each(|(key, value)| text.push_str(&format!("{key}:{value}\r\n")));
        }
    }
    Ok(Reply::Verbatim(text))
}

type Lines = Vec<(String, String)>;

/// Hits, misses, stash, arrivals: none of that is here unless the secret figures are asked for.
fn sections(client: &Client) -> Vec<(&'static str, Lines)> {
    let server = &client.server;
    let up = server.clock.wall_ms().saturating_sub(server.started_ms) / 1000;
    let line = |key: &str, value: String| (key.to_owned(), value);
    let figures = |visibility| {
        let all = server.metrics.snapshot(visibility).into_iter();
        all.map(|(name, value)| line(name, value.to_string())).collect::<Lines>()
    };
    let mut sections = vec![
        (
            "Server",
            vec![
                line("redis_version", REDIS_VERSION.into()),
                line("redis_mode", "standalone".into()),
                line("fogbank_version", env!("CARGO_PKG_VERSION").into()),
                line("process_id", std::process::id().to_string()),
                line("tcp_port", server.port.to_string()),
                line("uptime_in_seconds", up.to_string()),
                line("uptime_in_days", (up / 86_400).to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                line("connected_clients", server.clients().len().to_string()),
                line("maxclients", server.limits.connections_max.to_string()),
            ],
        ),
        ("Persistence", vec![line("loading", "0".into())]),
        ("Replication", vec![line("role", "master".into()), line("connected_slaves", "0".into())]),
        ("Cluster", vec![line("cluster_enabled", "0".into())]),
        ("Fogbank", figures(Visibility::Public)),
    ];
    if server.secret_metrics {
        sections.push(("Secret", figures(Visibility::Secret)));
    }
    sections
}
