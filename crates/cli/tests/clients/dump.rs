//! A dump that a real Redis wrote, as a store.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::resp::{Connection, Frame, words};
use crate::server::Server;

const SHAPE: &str = "--capacity 4000 --value-size 256 --read-batches 2 --batch 64 --write-batch 64 \
    --interval-ms 5";

fn load(folder: &Path, file: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.current_dir(folder).arg("load").arg("--from").arg(file).args(["--data", "d"]);
    command.args(SHAPE.split_whitespace()).args(options);
    command.output().expect("fogbank runs")
}

fn refused(folder: &Path, file: &Path, options: &[&str]) -> String {
    let output = load(folder, file, options);
    assert_eq!(output.status.code(), Some(64));
    assert!(!folder.join("d").exists(), "something was made");
    String::from_utf8(output.stderr).expect("words")
}

fn ask(client: &mut Connection, line: &str) -> Frame {
    client.call(&words(line)).expect("a reply")
}

/// Fills a Redis with what there is; the questions that both must answer alike.
fn fill(client: &mut Connection) -> Vec<String> {
    let mut questions = Vec::new();
    // Every answer takes an epoch, so of many alike some are asked for.
    let mut write = |client: &mut Connection, line: String, question: String| {
        let reply = ask(client, &line);
        assert!(!matches!(reply, Frame::Error(_)), "{line}: {reply:?}");
        questions.extend((!question.is_empty()).then_some(question));
    };
    let sometimes = |n: u32, question: String| if n % 97 == 5 { question } else { String::new() };
    let long = "abcdefgh".repeat(100); // kept compressed
    for (n, value) in ["x", "-17", "12345", "1234567890123", "0.5", &long].iter().enumerate() {
        write(client, format!("SET s{n} {value}"), format!("GET s{n}"));
    }
    let empty = [words("SET empty"), vec![Vec::new()]].concat();
    client.call(&empty).expect("a reply");
    for n in 0..300 {
        write(client, format!("SET many{n} {n}"), sometimes(n, format!("GET many{n}")));
    }
    write(client, "SET t x PXAT 4102444800123".into(), "PEXPIRETIME t".into());
    write(client, "SET gone x PX 1".into(), "EXISTS gone".into());
    write(client, "HSET h a 1 b two".into(), "HMGET h a b c".into());
    write(client, "PEXPIREAT h 4102444800456".into(), "PEXPIRETIME h".into());
    write(client, "ZADD z 1.5 a -inf b -0 c 7 d".into(), "ZRANGE z 0 -1 WITHSCORES".into());
    write(client, "PEXPIREAT z 4102444800789".into(), "PEXPIRETIME z".into());
    for n in 0..600 {
        write(client, format!("HSET big f{n} v{n}"), sometimes(n, format!("HGET big f{n}")));
        write(client, format!("ZADD wide {n}.25 m{n}"), sometimes(n, format!("ZSCORE wide m{n}")));
    }
    let counts = [
        "GET empty",
        "HLEN big",
        "ZCARD wide",
        "ZRANGEBYSCORE wide 10 12",
        "TYPE z",
        "TYPE h",
        "TTL s1",
    ];
    questions.extend(counts.map(String::from));
    questions
}

/// What it writes now.
fn saved(redis: &mut Connection) -> PathBuf {
    let Frame::Array(told) = ask(redis, "CONFIG GET dir") else { panic!("no folder") };
    let Some(Frame::Bulk(there)) = told.get(1) else { panic!("no folder") };
    assert_eq!(ask(redis, "SAVE"), Frame::Simple("OK".into()));
    PathBuf::from(String::from_utf8(there.clone()).expect("a path")).join("dump.rdb")
}

#[test]
fn a_dump_of_a_real_server_becomes_a_store_that_answers_alike() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let redis = Server::redis();
    let mut theirs = redis.connect();
    let questions = fill(&mut theirs);
    let save = |theirs: &mut Connection, name: &str| {
        std::fs::copy(saved(theirs), folder.join(name)).expect("a dump");
        folder.join(name)
    };
    let plain = save(&mut theirs, "plain.rdb");
    let others = [
        "RPUSH odd a b",
        "SADD odd a b",
        "SADD odd 1 2",
        "XADD odd 1-1 a b",
        "SELECT 1",
        "SET odd x",
    ];
    for (made, kind) in
        others.iter().zip(["a list", "a set", "a set", "a stream", "", "database 1"])
    {
        ask(&mut theirs, made);
        if !kind.is_empty() {
            let dump = save(&mut theirs, "odd.rdb");
            let said = refused(folder, &dump, &[]);
            assert!(said.contains(kind) && said.contains("\"odd\""), "{said}");
            assert!(said.contains("--skip-unsupported"), "{said}");
            if kind != "database 1" {
                ask(&mut theirs, "DEL odd");
            }
        }
    }
    let bytes = std::fs::read(&plain).expect("a dump");
    std::fs::write(folder.join("cut.rdb"), &bytes[..bytes.len() / 2]).expect("written");
    assert!(refused(folder, &folder.join("cut.rdb"), &[]).contains("cut off"));
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(folder.join("damaged.rdb"), damaged).expect("written");
    let said = refused(folder, &folder.join("damaged.rdb"), &["--skip-unsupported"]);
    assert!(said.contains("damaged"), "{said}");
    std::fs::write(folder.join("none.rdb"), "key,value\n").expect("written");
    assert!(refused(folder, &folder.join("none.rdb"), &[]).contains("no dump"));

    // Functions belong to no key.
    let library = "#!lua name=f\nredis.register_function('f', function() return 1 end)";
    let made = [words("FUNCTION LOAD"), vec![library.as_bytes().to_vec()]].concat();
    assert_eq!(theirs.call(&made).expect("a reply"), Frame::Bulk(b"f".to_vec()));
    let odd = save(&mut theirs, "odd.rdb");
    let said = refused(folder, &odd, &[]);
    assert!(said.contains("functions") && said.contains("--skip-unsupported"), "{said}");
    let output = load(folder, &odd, &["--skip-unsupported"]);
    let told = String::from_utf8(output.stdout).expect("words");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("left out 1 key of") && told.contains("left out functions"), "{told}");
    ask(&mut theirs, "SELECT 0");
    let ours = Server::try_fogbank_of(SHAPE, &folder.join("d"), &[]).expect("it serves");
    let mut ours = ours.connect();
    for question in questions {
        let (found, expected) = (ask(&mut ours, &question), ask(&mut theirs, &question));
        assert_eq!(found, expected, "{question}");
    }
    // It is a store like any other.
    for line in
        ["ZADD z 3 e", "ZRANGE z 0 -1", "PERSIST t", "TTL t", "HDEL h a", "HLEN h", "DEL z h"]
    {
        assert_eq!(ask(&mut ours, line), ask(&mut theirs, line), "{line}");
    }
    assert_eq!(ask(&mut ours, "DBSIZE"), ask(&mut theirs, "DBSIZE"));
}

/// Fills a Redis with what cannot be stored, long and short, and all that belongs to it; how many
/// keys that is.
fn fill_with_others(client: &mut Connection) -> usize {
    let long = "abcdefgh".repeat(100);
    let mut keys = 0;
    for (kind, elements) in [("RPUSH", 3), ("RPUSH", 900), ("SADD", 3), ("SADD", 900)] {
        for element in ["n", "-n", "70000n", "300000000n", "9000000000n", "x n", &long] {
            let name = format!("other{keys}");
            keys += 1;
            for n in 0..elements {
                let element = element.replace("x ", "x").replace('n', &n.to_string());
                ask(client, &format!("{kind} {name} {element}"));
            }
        }
    }
    for (entries, deleted) in [(3, 0), (300, 7), (300, 300)] {
        let name = format!("stream{keys}");
        keys += 1;
        for n in 0..entries {
            ask(client, &format!("XADD {name} {}-{n} field{} {long}", 1000 + n, n % 3));
        }
        for (group, reader) in [("g", "first"), ("g", "second"), ("h", "first")] {
            ask(client, &format!("XGROUP CREATE {name} {group} 0"));
            let read = format!("XREADGROUP GROUP {group} {reader} COUNT 70 STREAMS {name} >");
            ask(client, &read);
            ask(client, &format!("XACK {name} {group} 1001-1 1002-2"));
        }
        ask(client, &format!("XGROUP CREATECONSUMER {name} h idle"));
        ask(client, &format!("XGROUP CREATE {name} nobody $"));
        for n in 0..deleted {
            ask(client, &format!("XDEL {name} {}-{n}", 1000 + n));
        }
        ask(client, &format!("PEXPIREAT {name} 4102444800000"));
    }
    for database in [3, 15] {
        ask(client, &format!("SELECT {database}"));
        for line in ["SET s 1", "HSET h f v", "ZADD z 1 m 2 n", "RPUSH l a", "XADD x * f v"] {
            assert!(!matches!(ask(client, line), Frame::Error(_)), "{line}");
            keys += 1;
        }
    }
    ask(client, "SELECT 0");
    keys
}

/// Each value as Redis writes it when it is small and when it is large, compressed and not, with
/// how often and when it was used.
#[test]
fn what_cannot_be_stored_is_passed_over_however_it_is_written() {
    let large = [
        "hash-max-listpack-entries 0",
        "zset-max-listpack-entries 0",
        "set-max-intset-entries 0",
        "list-max-listpack-size 1",
        "stream-node-max-entries 1",
    ];
    let small = [
        "hash-max-listpack-entries 100000",
        "hash-max-listpack-value 100000",
        "zset-max-listpack-entries 100000",
        "set-max-intset-entries 100000",
        "list-max-listpack-size -5",
        "stream-node-max-entries 0",
    ];
    for (compressed, used, sizes) in
        [("yes", "allkeys-lru", &small[..]), ("no", "allkeys-lfu", &large[..])]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        let redis = Server::redis();
        let mut theirs = redis.connect();
        let fixed = [format!("rdbcompression {compressed}"), format!("maxmemory-policy {used}")];
        for setting in fixed.iter().map(String::as_str).chain(sizes.iter().copied()) {
            let said = ask(&mut theirs, &format!("CONFIG SET {setting}"));
            assert_eq!(said, Frame::Simple("OK".into()), "{setting}");
        }
        let mut questions = fill(&mut theirs);
        // Minus zero is kept as zero; Redis does so where a set is small.
        questions.retain(|question| question != "ZRANGE z 0 -1 WITHSCORES");
        let others = fill_with_others(&mut theirs);
        let output = load(folder, &saved(&mut theirs), &["--skip-unsupported"]);
        let told = String::from_utf8(output.stdout).expect("words");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(told.contains(&format!("left out {others} keys of")), "{others}: {told}");
        let ours = Server::try_fogbank_of(SHAPE, &folder.join("d"), &[]).expect("it serves");
        let mut ours = ours.connect();
        for question in questions {
            let (found, expected) = (ask(&mut ours, &question), ask(&mut theirs, &question));
            assert_eq!(found, expected, "{question}");
        }
    }
}
