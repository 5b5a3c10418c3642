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

#[test]
fn a_dump_of_a_real_server_becomes_a_store_that_answers_alike() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let redis = Server::redis();
    let mut theirs = redis.connect();
    let questions = fill(&mut theirs);
    let Frame::Array(told) = ask(&mut theirs, "CONFIG GET dir") else { panic!("no folder") };
    let Some(Frame::Bulk(there)) = told.get(1) else { panic!("no folder") };
    let dump = PathBuf::from(String::from_utf8(there.clone()).expect("a path")).join("dump.rdb");
    let save = |theirs: &mut Connection, name: &str| {
        assert_eq!(ask(theirs, "SAVE"), Frame::Simple("OK".into()));
        std::fs::copy(&dump, folder.join(name)).expect("a dump");
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
