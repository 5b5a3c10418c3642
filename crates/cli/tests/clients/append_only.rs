//! The append-only files of a real Redis, piped into a running server: they are the protocol
//! itself. A base that is a dump is loaded, the increments are piped after it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::resp::{Connection, Frame, words};
use crate::server::{Server, tool};

/// Redis writes the members of a collection 64 at a time into a base, each a record or two here.
const SHAPE: &str = "--capacity 4000 --value-size 256 --read-batches 2 --batch 64 --write-batch \
    128 --interval-ms 5";

fn ask(client: &mut Connection, line: &str) -> Frame {
    client.call(&words(line)).expect("a reply")
}

fn write(client: &mut Connection, line: &str) {
    let reply = ask(client, line);
    assert!(!matches!(reply, Frame::Error(_)), "{line}: {reply:?}");
}

/// What the base is to hold.
fn before(client: &mut Connection) {
    for n in 0..200 {
        write(client, &format!("SET s{n} v{n}"));
        write(client, &format!("HSET h f{n} v{n}"));
        write(client, &format!("ZADD z {n}.5 m{n}"));
    }
    write(client, "SET t x PXAT 4102444800123");
    write(client, "PEXPIREAT h 4102444800456");
}

/// What is to come after it.
fn after(client: &mut Connection) {
    for line in ["INCR n", "INCR n", "MULTI", "SET a 1", "HSET h f1 changed", "EXEC", "DEL s1"] {
        write(client, line);
    }
    for line in ["APPEND s3 tail", "ZADD z 7 m1", "SET gone x PX 1", "PERSIST t", "HDEL h f9"] {
        write(client, line);
    }
}

const QUESTIONS: &[&str] = &[
    "DBSIZE",
    "GET n",
    "GET a",
    "EXISTS s1",
    "GET s3",
    "GET s199",
    "HLEN h",
    "HGET h f1",
    "HGET h f199",
    "PEXPIRETIME h",
    "ZCARD z",
    "ZSCORE z m1",
    "ZRANGEBYSCORE z 100 103",
    "EXISTS gone",
    "TTL t",
];

/// Waits until the base is rewritten; the files, the base first, of which the manifest speaks.
fn files(client: &mut Connection) -> Vec<PathBuf> {
    write(client, "BGREWRITEAOF");
    let idle = |client: &mut Connection| {
        let Frame::Bulk(told) = ask(client, "INFO persistence") else { panic!("no INFO") };
        let told = String::from_utf8_lossy(&told).into_owned();
        ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"].iter().all(|w| told.contains(w))
    };
    while !idle(client) {
        std::thread::sleep(Duration::from_millis(20));
    }
    after(client);
    let Frame::Array(told) = ask(client, "CONFIG GET dir") else { panic!("no folder") };
    let Some(Frame::Bulk(there)) = told.get(1) else { panic!("no folder") };
    let folder = Path::new(&String::from_utf8_lossy(there).into_owned()).join("appendonlydir");
    let manifest = std::fs::read_to_string(folder.join("appendonly.aof.manifest"));
    let manifest = manifest.expect("a manifest");
    let names = manifest.lines().filter_map(|line| line.split(' ').nth(1));
    names.map(|name| folder.join(name)).collect()
}

/// Pipes `file` as anybody would; what redis-cli says, and whether it found no error.
fn pipe(port: u16, file: &Path) -> (String, bool) {
    let mut command = Command::new(tool("redis-cli"));
    command.args(["-p", &port.to_string(), "--pipe"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("redis-cli runs");
    let mut input = child.stdin.take().expect("a pipe to redis-cli");
    input.write_all(&std::fs::read(file).expect("a file")).expect("redis-cli reads");
    drop(input);
    let output = child.wait_with_output().expect("redis-cli ends");
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.success())
}

#[test]
fn append_only_files_of_a_real_server_are_piped_into_a_running_one() {
    for preamble in [true, false] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("d");
        let redis = Server::redis_with_append_only_files(preamble);
        let mut theirs = redis.connect();
        before(&mut theirs);
        let files = files(&mut theirs);
        let is_dump = files[0].extension().is_some_and(|kind| kind == "rdb");
        assert_eq!((files.len(), is_dump), (2, preamble), "{files:?}");
        if preamble {
            let mut load = Command::new(env!("CARGO_BIN_EXE_fogbank"));
            load.arg("load").arg("--from").arg(&files[0]).arg("--data").arg(&data);
            load.args(SHAPE.split_whitespace()).stdout(Stdio::null());
            assert!(load.status().expect("it runs").success());
        }
        let ours = Server::try_fogbank_of(SHAPE, &data, &[]).expect("it serves");
        for file in &files[usize::from(preamble)..] {
            let (said, clean) = pipe(ours.port, file);
            assert!(clean && said.contains("errors: 0"), "{}: {said}", file.display());
        }
        let mut client = ours.connect();
        for question in QUESTIONS {
            assert_eq!(ask(&mut client, question), ask(&mut theirs, question), "{question}");
        }
        // What has no place here is told, and the rest goes on.
        let odd = folder.path().join("odd.aof");
        let command = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let each = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
            format!("*{}\r\n{}", words.len(), each.collect::<String>())
        };
        let lines = ["RPUSH odd a b", "SET last 1"].map(command);
        std::fs::write(&odd, lines.concat()).expect("a file");
        let (said, clean) = pipe(ours.port, &odd);
        assert!(!clean && said.contains("errors: 1") && said.contains("RPUSH"), "{said}");
        assert_eq!(ask(&mut client, "GET last"), Frame::Bulk(b"1".to_vec()));
    }
}

/// As Redis 4 to 6 write it: one file, a dump with the commands since then behind it.
#[test]
fn an_append_only_file_that_begins_with_a_dump_is_cut_where_load_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("d");
    let redis = Server::redis_with_append_only_files(true);
    let mut theirs = redis.connect();
    before(&mut theirs);
    let parts = files(&mut theirs).into_iter().map(|file| std::fs::read(file).expect("a file"));
    let parts: Vec<Vec<u8>> = parts.collect();
    let load = |file: &str| {
        let mut load = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        load.arg("load").arg("--from").arg(folder.path().join(file)).arg("--data").arg(&data);
        load.args(["--format", "rdb"]).args(SHAPE.split_whitespace());
        let output = load.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    std::fs::write(folder.path().join("old.aof"), parts.concat()).expect("written");
    let (code, said) = load("old.aof");
    let cut = parts[0].len();
    assert!(code == Some(64) && !data.exists(), "{said}");
    for remedy in [format!("head -c {cut}"), format!("tail -c +{}", cut + 1), "--pipe".into()] {
        assert!(said.contains(&remedy), "{said}");
    }
    let [first, second] = ["first.rdb", "second.aof"].map(|name| folder.path().join(name));
    std::fs::write(&first, &parts.concat()[..cut]).expect("written");
    std::fs::write(&second, &parts.concat()[cut..]).expect("written");
    assert_eq!(load("first.rdb").0, Some(0));
    let ours = Server::try_fogbank_of(SHAPE, &data, &[]).expect("it serves");
    let (said, clean) = pipe(ours.port, &second);
    assert!(clean && said.contains("errors: 0"), "{said}");
    let mut client = ours.connect();
    for question in QUESTIONS {
        assert_eq!(ask(&mut client, question), ask(&mut theirs, question), "{question}");
    }
    // Commands alone are no dump either.
    let (code, said) = load("second.aof");
    assert!(code == Some(64) && said.contains("--pipe"), "{said}");
}
