//! The command-line tools that everyone has: a session with redis-cli, a run of redis-benchmark.

use std::collections::BTreeSet;
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

/// What the page says of whole groups, and what Redis calls them.
const GROUPS: [(&str, &str); 9] = [
    ("lists", "list"),
    ("sets", "set"),
    ("streams", "stream"),
    ("bitmaps", "bitmap"),
    ("geography", "geo"),
    ("HyperLogLog", "hyperloglog"),
    ("scripts and functions", "scripting"),
    ("publish and subscribe", "pubsub"),
    ("clusters", "cluster"),
];

/// The names of commands that a server lists.
fn listed(server: &Server, line: &str) -> BTreeSet<String> {
    let all = type_in(server.port, &[], line);
    all.lines().map(str::to_owned).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_page_names_every_command_of_redis_that_there_is_not() {
    let (redis, subject) = (Server::redis(), Server::subject());
    let [theirs, ours] = [&redis, &subject].map(|server| listed(server, "COMMAND LIST\n"));
    let page = include_str!("../../../../docs/redis.md");
    let (_, page) = page.split_once("`COMMAND LIST` lists all commands").expect("the list");
    let (page, rest) = page.split_once("\n\nA lock that").expect("its end");
    let (_, rest) = rest.split_once("- Of `CLIENT` there are").expect("its parts");
    let (there, rest) = rest.split_once("`. `").expect("those that are");
    assert!(there.contains("`GETNAME`"), "{there}");
    let (rest, _) = rest.split_once("unknown").expect("those that are not");
    let rest: BTreeSet<_> = rest.split('`').map(str::to_owned).collect();
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let names = flat.split('`').skip(1).step_by(2).map(str::to_ascii_lowercase);
    let mut said: BTreeSet<String> = names.collect();
    let (_, whole) = flat.split_once("all of ").expect("the groups");
    let (whole, _) = whole.split_once(';').expect("their end");
    for (words, group) in GROUPS {
        assert!(whole.contains(words), "{words}");
        // `ACL CAT` and the like know groups by other names, `COMMAND DOCS` by these.
        let docs = type_in(redis.port, &["--json"], "COMMAND DOCS\n");
        let docs: serde_json::Value = serde_json::from_str(&docs).expect("JSON");
        let docs = docs.as_object().expect("a map of commands");
        let of_group = docs.iter().filter(|(_, told)| told["group"] == group);
        let before = said.len();
        said.extend(of_group.map(|(name, _)| name.clone()));
        assert!(said.len() > before, "{group}: Redis knows of no such group");
    }
    let lacking: BTreeSet<_> = theirs.difference(&ours).cloned().collect();
    // With a command its parts are unknown; those that are not, beside others, stand further down.
    let is_said = |name: &str| match name.split_once('|') {
        None => said.contains(name),
        Some((of, part)) => said.contains(of) || rest.contains(&part.to_ascii_uppercase()),
    };
    let unsaid: Vec<_> = lacking.iter().filter(|name| !is_said(name)).collect();
    assert!(unsaid.is_empty(), "docs/redis.md does not say that these are unknown: {unsaid:?}");
    let served: Vec<_> = said.intersection(&ours).collect();
    assert!(served.is_empty(), "docs/redis.md says that these are unknown: {served:?}");
    assert!(lacking.len() > 100, "the canary: {lacking:?}");
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
