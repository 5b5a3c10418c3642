//! Commands about the connection and the server. They cost no round and say nothing that a round
//! would have revealed; they keep their place among the replies.

use super::{integer, small_integer, syntax_error, wrong_arity};
use crate::resp::client::Client;
use crate::resp::frame::Request;
use crate::resp::keyspace::{Halt, Outcome, fail};
use crate::resp::reply::{Reply, Version};

/// The Redis whose behaviour is kept.
pub const REDIS_VERSION: &str = "7.0.15";

fn fail_with<T>(code: &str, text: &str) -> Outcome<T> {
    Err(Halt::Reply(Reply::error_with_code(code, text)))
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
    match small_integer(request, 1)? {
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

/// `DEBUG` is refused, also where commands are queued.
pub const NO_DEBUG: &str = "DEBUG command not allowed. If the enable-debug-command option is set to \
    \"local\", you can run it from a local connection, otherwise you need to set this option in the \
    configuration file, and then restart the server.";

/// `DEBUG`: refused.
pub fn debug(_client: &mut Client, _request: &Request) -> Outcome {
    fail(NO_DEBUG)
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
            let option = request.shown(at, usize::MAX);
            return fail([b"Syntax error in HELLO option '", option, b"'"].concat());
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

pub fn set_name(client: &mut Client, name: &[u8]) -> Outcome<()> {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return fail("Client names cannot contain spaces, newlines or special characters.");
    }
    client.listed.name = String::from_utf8_lossy(name).into_owned();
    client.relist();
    Ok(())
}
