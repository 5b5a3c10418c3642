//! The command-line tools that everyone has: a session with redis-cli, a run of redis-benchmark.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::server::{Server, tool};

/// What is typed, and what must be answered; `redis-cli` prints bare values when not on a terminal.
const SESSION: &[(&str, &str)] = &[
    ("PING", "PONG"),
    ("SET greeting \"hello world\"", "OK"),
    ("GET greeting", "hello world"),
    ("APPEND greeting !", "12"),
    ("GETRANGE greeting 6 -1", "world!"),
    ("INCR visits", "1"),
    ("INCRBY visits 41", "42"),
    ("INCR greeting", "ERR value is not an integer or out of range\n"),
    ("HSET user name Ada born 1815", "2"),
    ("HGET user name", "Ada"),
    ("HINCRBY user born 1", "1816"),
    ("GET user", "WRONGTYPE Operation against a key holding the wrong kind of value\n"),
    ("ZADD board 3 c 1 a 2 b", "3"),
    ("ZRANGE board 0 -1 WITHSCORES", "a\n1\nb\n2\nc\n3"),
    ("ZRANGEBYSCORE board (1 +inf LIMIT 0 1", "b"),
    ("EXPIRE user 1000", "1"),
    ("PERSIST user", "1"),
    ("TTL user", "-1"),
    ("TYPE board", "zset"),
    ("RENAME user person", "OK"),
    ("EXISTS user person board", "2"),
    ("MULTI", "OK"),
    ("DECR visits", "QUEUED"),
    ("HLEN person", "QUEUED"),
    ("EXEC", "41\n2"),
    ("DEL greeting visits person board", "4"),
    ("GET greeting", ""),
    ("NOSUCH", "ERR unknown command 'NOSUCH', with args beginning with: \n"),
];

/// Types `script` into redis-cli and returns what it prints.
fn type_in(port: u16, options: &[&str], script: &str) -> String {
    let mut command = Command::new(tool("redis-cli"));
    command.args(["-p", &port.to_string()]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("redis-cli runs");
    let mut input = child.stdin.take().expect("a pipe to redis-cli");
    input.write_all(script.as_bytes()).expect("redis-cli reads");
    drop(input);
    let output = child.wait_with_output().expect("redis-cli ends");
    String::from_utf8(output.stdout).expect("text")
}

fn check_session(port: u16, options: &[&str]) {
    let script: String = SESSION.iter().map(|(typed, _)| format!("{typed}\n")).collect();
    let expected: String = SESSION.iter().map(|(_, said)| format!("{said}\n")).collect();
    assert_eq!(type_in(port, options, &script), expected);
}

#[test]
fn a_session_with_redis_cli() {
    let server = Server::subject();
    check_session(server.port, &[]);
    check_session(server.port, &["-3"]);
}

#[test]
fn redis_benchmark_runs_to_its_end() {
    let server = Server::subject();
    let mut command = Command::new(tool("redis-benchmark"));
    command.args(["-p", &server.port.to_string(), "-t", "set,get,incr,hset,zadd", "--csv"]);
    command.args(["-n", "2000", "-c", "20", "-P", "20", "-d", "100", "-r", "500"]);
    let output = command.output().expect("redis-benchmark runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    for test in ["SET", "GET", "INCR", "HSET", "ZADD"] {
        let rate = rate_of(&text, test);
        assert!(rate.is_some_and(|rate| rate > 1.0), "{test} in {text}");
    }
}

/// The rate that the CSV reports for a test: the second field.
fn rate_of(csv: &str, test: &str) -> Option<f64> {
    let mut rows = csv.lines().map(|line| line.split(',').map(|field| field.trim_matches('"')));
    let mut row = rows.find(|row| row.clone().next() == Some(test))?;
    row.nth(1)?.parse().ok()
}
