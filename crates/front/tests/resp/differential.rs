//! The same generated commands to a real Redis 7.0 and to this front end: the same replies, error
//! texts included. Runs when `redis-server` 7.0 is installed; says so and passes when it is not.
//!
//! `FOGBANK_RESP_COMMANDS` sets how many commands (default 20,000), `FOGBANK_RESP_SEED` the seed.

use crate::real_redis::Redis;
use crate::support::{Client, SHAPE, Server, encode, show};
use fogbank_front::resp::Settings;
use fogbank_oram::BatchShape;
use redis_protocol::resp2::types::BytesFrame;

/// Replies whose order means nothing.
const UNORDERED: [&str; 4] = ["KEYS", "HKEYS", "HVALS", "HGETALL"];

/// A small generator: repeatable, and nobody needs it to be good.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const NAMES: &[&str] = &["a", "b", "c", "d", "e", "key:1", "key:2", "", "with space", "\0\u{1}x"];
const MEMBERS: &[&str] = &["f", "g", "h", "field:1", "", "é", "\0", "m1", "m2", "m3", "m4", "m5"];
const VALUES: &[&str] = &[
    "",
    "v",
    "10",
    "-3",
    "007",
    "9223372036854775807",
    "-9223372036854775808",
    "3.25",
    "1e3",
    "hello world",
    "abc",
    "nan",
    "inf",
    " 1",
    "0.1",
    "123456789012345678901234567890",
];
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-2",
    "100",
    "x",
    "",
    "1.5",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "+1",
    "03",
    "-100",
    "536870913",
];
const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1.5",
    "0.1",
    "3.14159",
    "1e20",
    "inf",
    "-inf",
    "nan",
    "abc",
    "",
    "1e-5",
    "2.5",
    "+inf",
    "1e400",
    "0x10",
    "1.0e-20",
    "100",
    "1e17",
    "123456.789",
];
const BOUNDS: &[&str] = &["-inf", "+inf", "(1", "1", "0", "(0.1", "100", "x", "(", "-1", "(-1.5"];
const LIMITS: &[&str] = &["-", "+", "[a", "(a", "[m3", "(m3", "[", "x", "", "[z"];
const RANKS: &[&str] = &["0", "1", "-1", "2", "-2", "100", "-100", "x"];

/// Words drawn for each letter of a template.
fn word(dice: &mut Dice, token: &str) -> String {
    match token {
        "K" => dice.pick(NAMES).into(),
        "M" => dice.pick(MEMBERS).into(),
        "V" => dice.pick(VALUES).into(),
        "I" => dice.pick(INTEGERS).into(),
        "F" => dice.pick(FLOATS).into(),
        "B" => dice.pick(BOUNDS).into(),
        "L" => dice.pick(LIMITS).into(),
        "R" => dice.pick(RANKS).into(),
        "S" => dice.pick(&["100", "1000", "0", "-1", "x", "9223372036854775807", ""]).into(),
        "P" => dice.pick(&["300000", "1000000", "0", "-1", "x", "9223372036854775807"]).into(),
        "U" => dice.pick(&["99999999999", "1", "0", "x", "9223372036854775"]).into(),
        other => other.into(),
    }
}

const TEMPLATES: &[&str] = &[
    "GET K",
    "GET K",
    "GET K",
    "SET K V",
    "SET K V",
    "SET K V",
    "SET K V NX",
    "SET K V XX",
    "SET K V GET",
    "SET K V NX GET",
    "SET K V KEEPTTL",
    "SET K V EX S",
    "SET K V PX P",
    "SET K V EXAT U",
    "SET K V PXAT U",
    "SET K V EX S NX",
    "SET K V NX XX",
    "SET K V FOO",
    "SET K V EX",
    "SET K V KEEPTTL EX 100",
    "SET K V EX 100 EX 200",
    "SETNX K V",
    "SETEX K S V",
    "PSETEX K P V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K EX S",
    "GETEX K PERSIST",
    "GETEX K PXAT U",
    "GETEX K PERSIST EX 1",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K I I",
    "SUBSTR K R R",
    "SETRANGE K R V",
    "SETRANGE K I V",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K F",
    "MGET K K K",
    "MGET K",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "MSETNX K V",
    "DEL K",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K K",
    "TYPE K",
    "TOUCH K K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K REPLACE",
    "COPY K K FOO",
    "EXPIRE K S",
    "EXPIRE K S NX",
    "EXPIRE K S XX",
    "EXPIRE K 9000 GT",
    "EXPIRE K 900 LT",
    "EXPIRE K S NX XX",
    "EXPIRE K S GT LT",
    "EXPIRE K S FOO",
    "PEXPIRE K 100000",
    "EXPIREAT K U",
    "PEXPIREAT K U",
    "TTL K",
    "TTL K",
    "EXPIRETIME K",
    "PERSIST K",
    "KEYS *",
    "KEYS [a-c]*",
    "KEYS ?",
    "HSET K M V",
    "HSET K M V M V",
    "HSET K M V M",
    "HMSET K M V M V",
    "HGET K M",
    "HGET K M",
    "HMGET K M M M",
    "HGETALL K",
    "HDEL K M",
    "HDEL K M M",
    "HEXISTS K M",
    "HLEN K",
    "HKEYS K",
    "HVALS K",
    "HSTRLEN K M",
    "HINCRBY K M I",
    "HINCRBYFLOAT K M F",
    "HSETNX K M V",
    "ZADD K F M",
    "ZADD K F M F M",
    "ZADD K F M F M F M",
    "ZADD K NX F M",
    "ZADD K XX F M",
    "ZADD K GT F M",
    "ZADD K LT F M",
    "ZADD K CH F M F M",
    "ZADD K INCR F M",
    "ZADD K XX INCR F M",
    "ZADD K NX XX F M",
    "ZADD K GT LT F M",
    "ZADD K NX GT F M",
    "ZADD K INCR F M F M",
    "ZADD K F",
    "ZADD K CH F",
    "ZADD K 1 m1 2 m2 3 m3 4 m4",
    "ZREM K M",
    "ZREM K M M",
    "ZCARD K",
    "ZSCORE K M",
    "ZMSCORE K M M",
    "ZCOUNT K B B",
    "ZRANGE K R R",
    "ZRANGE K R R WITHSCORES",
    "ZRANGE K R R REV",
    "ZRANGE K R R REV WITHSCORES",
    "ZRANGE K B B BYSCORE",
    "ZRANGE K B B BYSCORE LIMIT R R",
    "ZRANGE K B B BYSCORE REV",
    "ZRANGE K R R LIMIT 0 1",
    "ZRANGE K L L BYLEX WITHSCORES",
    "ZADD lex 0 M 0 M",
    "ZADD lex 0 M 0 M",
    "ZRANGE lex L L BYLEX",
    "ZRANGE lex L L BYLEX REV LIMIT R R",
    "ZRANGEBYLEX lex L L",
    "ZREVRANGEBYLEX lex L L LIMIT R R",
    "ZLEXCOUNT lex L L",
    "ZREMRANGEBYLEX lex L L",
    "ZRANGE K R R FOO",
    "ZREVRANGE K R R",
    "ZREVRANGE K R R WITHSCORES",
    "ZRANGEBYSCORE K B B",
    "ZRANGEBYSCORE K B B WITHSCORES LIMIT R R",
    "ZRANGEBYSCORE K B B LIMIT 0",
    "ZREVRANGEBYSCORE K B B",
    "ZREVRANGEBYSCORE K B B WITHSCORES",
    "ZRANK K M",
    "ZREVRANK K M",
    "ZINCRBY K F M",
    "ZPOPMIN K",
    "ZPOPMAX K",
    "ZPOPMIN K R",
    "ZPOPMAX K R",
    "ZPOPMIN K 1 2",
    "ZREMRANGEBYSCORE K B B",
    "ZREMRANGEBYRANK K R R",
    "PING",
    "PING V",
    "PING a b",
    "ECHO V",
    "SELECT 0",
    "SELECT x",
    "FOO a b",
    "GET",
    "GET a b",
    "HSET K",
    "MULTI",
    "EXEC",
    "DISCARD",
    "MULTI",
    "EXEC",
    "WATCH K",
    "WATCH K K",
    "UNWATCH",
    "HSCAN nokey 0",
    "HSCAN K x",
    "ZSCAN K x",
    "SCAN x",
    "SCAN 0 COUNT 0",
    "SCAN 0 FOO",
    "SCAN 0 COUNT x",
    "OBJECT FOO a",
    "CLIENT FOO",
    "CLIENT",
    "CONFIG FOO",
    "CLIENT SETNAME",
    "RESET",
    "CLIENT GETNAME",
    "COMMAND FOO",
    "ZRANGE K 1",
    "EXPIRE K",
    "AUTH x",
    "HELLO 4",
    "HELLO x",
];

fn command(dice: &mut Dice) -> Vec<String> {
    if dice.roll(2000) == 0 {
        return vec![dice.pick(&["FLUSHDB", "FLUSHALL"]).into()];
    }
    let template = TEMPLATES[dice.roll(TEMPLATES.len())];
    template.split(' ').map(|token| word(dice, token)).collect()
}

/// A command about many records.
fn large_command(dice: &mut Dice) -> Vec<String> {
    let name = dice.pick(NAMES);
    let (first, count) = (dice.roll(40), 1 + dice.roll(60));
    let fields = (first..first + count).map(|n| format!("field {n}"));
    let scored = |field: String| [(field.len() * 7 % 5).to_string(), field];
    let (low, high) = (dice.roll(4).to_string(), dice.roll(6).to_string());
    let from = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let (mut words, arguments): (Vec<String>, Vec<String>) = match dice.roll(14) {
        0..3 => (from(&["HSET", name]), fields.flat_map(|f| [f.clone(), f]).collect()),
        3..5 => (from(&["HDEL", name]), fields.collect()),
        5..8 => (from(&["ZADD", name]), fields.flat_map(scored).collect()),
        8 => (from(&["ZREM", name]), fields.collect()),
        9 => (from(&["ZREMRANGEBYSCORE", name, &low, &high]), Vec::new()),
        10 => (from(&["ZREMRANGEBYRANK", name, &low, "-3"]), Vec::new()),
        11 => (from(&["RENAME", name, dice.pick(NAMES)]), Vec::new()),
        12 => (from(&["COPY", name, dice.pick(NAMES), "REPLACE"]), Vec::new()),
        _ => (
            from(&["DEL"]),
            NAMES[dice.roll(5)..5 + dice.roll(5)].iter().map(|n| n.to_string()).collect(),
        ),
    };
    words.extend(arguments);
    words
}

/// Flat multiset of the elements, pairs kept together for `HGETALL`.
fn unordered(name: &str, frame: &BytesFrame) -> String {
    let BytesFrame::Array(items) = frame else { return show(frame) };
    let step = if name == "HGETALL" { 2 } else { 1 };
    let mut shown: Vec<String> =
        items.chunks(step).map(|chunk| chunk.iter().map(show).collect::<String>()).collect();
    shown.sort();
    shown.join(" ")
}

/// A deadline set by a time to live differs by the second between servers asked one after the
/// other.
fn is_deadline(frame: &BytesFrame) -> bool {
    let BytesFrame::Integer(number) = frame else { return false };
    (1_700_000_000..3_000_000_000).contains(number)
        || (1_700_000_000_000..3_000_000_000_000).contains(number)
}

/// Inside `EXEC` the names are not at hand: compare the letters of everything.
fn normalized(name: &str, frame: &BytesFrame) -> String {
    if UNORDERED.contains(&name) {
        return unordered(name, frame);
    }
    if name == "EXEC"
        && let BytesFrame::Array(items) = frame
    {
        let steady =
            |item| if is_deadline(item) { "a deadline".into() } else { unordered("", item) };
        return items.iter().map(steady).collect::<Vec<_>>().join(" | ");
    }
    if is_deadline(frame) { "a deadline".into() } else { show(frame) }
}

/// Seconds by which what is left of a time to live may differ: a machine that is busy may let one
/// server set it so much later than the other. A wrong unit makes a larger difference.
const LEFT_APART_MAX: u64 = 30;

fn is_same(name: &str, a: &BytesFrame, b: &BytesFrame) -> bool {
    match (a, b) {
        (BytesFrame::Integer(a), BytesFrame::Integer(b)) if name == "TTL" && *a > 0 && *b > 0 => {
            a.abs_diff(*b) <= LEFT_APART_MAX
        }
        _ => normalized(name, a) == normalized(name, b),
    }
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_replies_as_redis() {
    compare(SHAPE, from_env("FOGBANK_RESP_COMMANDS", 20_000), command).await;
}

/// Epochs that hold three blocks, and nine records without one: many commands take several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_replies_to_commands_of_many_epochs() {
    let shape = BatchShape { read_batch: 3, write_batch: 3, value_bytes: 1 << 16, ..SHAPE };
    let any = |dice: &mut Dice| match dice.roll(4) {
        0 => large_command(dice),
        _ => command(dice),
    };
    compare(shape, from_env("FOGBANK_RESP_COMMANDS", 20_000) / 10, any).await;
}

async fn compare(shape: BatchShape, count: u64, command: impl Fn(&mut Dice) -> Vec<String>) {
    let Some(redis) = Redis::start().await else {
        eprintln!("skipped: redis-server 7.0 is not installed");
        return;
    };
    let mut dice = Dice(from_env("FOGBANK_RESP_SEED", 1));
    let server = Server::with(Settings::default(), shape).await;
    let mut theirs = Client::connect(redis.address).await;
    let mut ours = server.client().await;
    let mut done = 0;
    let mut differences = Vec::new();
    while done < count {
        let mut batch: Vec<Vec<String>> =
            (0..1 + dice.roll(100)).map(|_| command(&mut dice)).collect();
        // Redis counts keys that have expired until something has looked at them.
        let exists = std::iter::once("EXISTS").chain(NAMES.iter().copied()).map(String::from);
        batch.push(exists.collect());
        batch.push(vec!["DBSIZE".into()]);
        let bytes: Vec<u8> = batch
            .iter()
            .flat_map(|c| encode(&c.iter().map(String::as_bytes).collect::<Vec<_>>()))
            .collect();
        theirs.send_raw(&bytes).await;
        ours.send_raw(&bytes).await;
        for command in &batch {
            let (a, b) = (theirs.reply().await, ours.reply().await);
            let (a, b) = a.zip(b).expect("both answer");
            if !is_same(&command[0], &a, &b) {
                let (a, b) = (normalized(&command[0], &a), normalized(&command[0], &b));
                differences.push(format!("{command:?}\n  redis {a}\n  ours  {b}"));
            }
        }
        done += batch.len() as u64;
        assert!(differences.is_empty(), "after {done}:\n{}", differences.join("\n"));
    }
    server.stop().await;
}
