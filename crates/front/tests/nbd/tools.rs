//! The tools that people use, over TCP, over a socket and in TLS.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fogbank_env::{Purpose, Randomness};
use fogbank_front::nbd::Settings;
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::plain::PlainEngine;
use rand_core::Rng;

use crate::support::{Server, certificate, tool};

const MIB: usize = 1 << 20;
const SHAPE: ImmediateShape = ImmediateShape { capacity: 16 * 256, value_bytes: 4096 };

fn engine() -> Arc<PlainEngine> {
    Arc::new(PlainEngine::new(SHAPE))
}

fn settings() -> Settings {
    Settings { name: "disk".into(), trim: true, ..Settings::default() }
}

/// What `name` prints, and whether it succeeded.
async fn outcome(name: &str, arguments: &[&str]) -> (String, bool) {
    let mut command = Command::new(tool(name));
    // The system's own Python has the bindings, whichever else is before it in the path.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    command.args(arguments).env("PATH", path);
    let ended = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    let ended = ended.expect("it runs");
    let [out, err] = [ended.stdout, ended.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
    (out + &err, ended.status.success())
}

/// What `name` prints; it has to succeed.
async fn run(name: &str, arguments: &[&str]) -> String {
    let (told, succeeded) = outcome(name, arguments).await;
    assert!(succeeded, "{name} {arguments:?}: {told}");
    told
}

fn random_file(path: &Path, bytes: usize) {
    let mut content = vec![0; bytes];
    Randomness::repeatable(7).stream(Purpose::Workload).fill_bytes(&mut content);
    std::fs::write(path, content).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbdinfo_says_what_was_offered() {
    let server = Server::over(engine(), settings()).await;
    let told = run("nbdinfo", &["--json", &server.uri()]).await;
    for line in [
        "\"export-size\": 16777216",
        "\"structured\": true",
        "\"is_read_only\": false",
        "\"can_df\": true",
        "\"can_fast_zero\": false",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"block_size_minimum\": 1",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
    ] {
        assert!(told.contains(line), "{line} is not in {told}");
    }
    let listed = run("nbdinfo", &["--list", "--json", &server.uri()]).await;
    assert!(listed.contains("\"export-name\": \"disk\""), "{listed}");
    server.stop().await;
}

/// Copies random bytes there and back over several connections, and has QEMU compare.
async fn round_trip(server: &Server, options: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let [there, back] = ["there", "back"].map(|name| folder.path().join(name));
    random_file(&there, 16 * MIB);
    let uri = format!("{}{options}", server.uri());
    let copy = |from: String, to: String| async move {
        run("nbdcopy", &["--connections=4", "--requests=16", "--flush", &from, &to]).await;
    };
    let [there, back] = [there, back].map(|path| path.display().to_string());
    copy(there.clone(), uri.clone()).await;
    copy(uri.clone(), back.clone()).await;
    let read = |path: &str| std::fs::read(path).expect("copied");
    assert!(read(&there) == read(&back), "they differ");
    if options.is_empty() {
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &there, &uri]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbdcopy_gets_back_what_it_put() {
    let server = Server::on_socket(engine(), settings()).await;
    round_trip(&server, "").await;
    server.stop().await;
    let server = Server::over(engine(), settings()).await;
    round_trip(&server, "").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbdcopy_gets_back_what_it_put_in_tls() {
    let (folder, tls) = certificate();
    let server = Server::over(engine(), Settings { tls: Some(tls), ..settings() }).await;
    let port = server.address().port();
    let certificates = folder.path().display();
    let uri = format!("nbds://localhost:{port}/?tls-certificates={certificates}");
    let told = run("nbdinfo", &[&uri]).await;
    assert!(told.contains("with TLS"), "{told}");
    assert!(!outcome("nbdinfo", &[&server.uri()]).await.1, "in clear there is no disk");
    let copied = tempfile::tempdir().expect("a folder");
    let [there, back] = ["there", "back"].map(|name| copied.path().join(name));
    random_file(&there, 4 * MIB);
    run("nbdcopy", &["--connections=4", there.to_str().unwrap(), &uri]).await;
    run("nbdcopy", &["--connections=4", &uri, back.to_str().unwrap()]).await;
    let (there, back) = (std::fs::read(there).unwrap(), std::fs::read(back).unwrap());
    assert!(there == back[..there.len()], "they differ");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbdsh_zeroes_trims_and_flushes() {
    const SCRIPT: &str = r#"
assert h.get_size() == 16 * 1024 * 1024
assert h.can_flush() and h.can_fua() and h.can_zero() and h.can_trim() and h.can_multi_conn()
assert h.can_df() and not h.can_fast_zero() and not h.is_read_only()
h.pwrite(b"x" * 10000, 1234)
h.zero(5000, 2000)
assert h.pread(10000, 1234) == b"x" * 766 + bytes(5000) + b"x" * 4234
h.zero(100, 1300, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
h.trim(10000, 1234, nbd.CMD_FLAG_FUA)
assert h.pread(12000, 0) == bytes(12000)
h.pwrite(b"y" * 4096, 4096, nbd.CMD_FLAG_FUA)
h.flush()
chunks = []
def chunk(data, offset, status, error):
    chunks.append((bytes(data), offset, status))
h.pread_structured(5000, 4000, chunk, nbd.CMD_FLAG_DF)
assert chunks == [(bytes(96) + b"y" * 4096 + bytes(808), 4000, nbd.READ_DATA)], chunks
h.set_strict_mode(0)
def fails(call, errno):
    try:
        call()
    except nbd.Error as error:
        assert error.errno == errno, error.errno
        return
    assert False, "it did not fail"
fails(lambda: h.pread(2, h.get_size() - 1), "EINVAL")
fails(lambda: h.pwrite(b"ab", h.get_size() - 1), "ENOSPC")
fails(lambda: h.cache(1, 0), "EINVAL")
fails(lambda: h.zero(1, 0, nbd.CMD_FLAG_FAST_ZERO), "EINVAL")
assert h.pread(1, 0) == b"\0"
h.shutdown()
"#;
    let server = Server::on_socket(engine(), settings()).await;
    run("nbdsh", &["-u", &server.uri(), "-c", SCRIPT]).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qemu_io_reads_the_patterns_it_wrote() {
    let server = Server::over(engine(), settings()).await;
    let commands = [
        "write -P 0x11 0 1M",
        "aio_write -P 0x22 512 3k",
        "aio_write -P 0x33 2M 2M",
        "aio_flush",
        "write -z 3M 64k",
        "discard 2M 64k",
        "read -P 0x11 0 512",
        "read -P 0x22 512 3k",
        "read -P 0x11 3584 512k",
        "read -P 0 3M 64k",
        "read -P 0x33 4128768 64k",
        "flush",
    ];
    let uri = server.uri();
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|line| arguments.extend(["-c", line]));
    arguments.push(&uri);
    let said = run("qemu-io", &arguments).await;
    assert!(!said.contains("Pattern verification failed"), "{said}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fio_verifies_what_it_wrote() {
    for on_socket in [true, false] {
        let server = match on_socket {
            true => Server::on_socket(engine(), settings()).await,
            false => Server::over(engine(), settings()).await,
        };
        let uri = format!("--uri={}", server.uri());
        for shape in [&["--rw=randwrite", "--bs=4k"][..], &["--rw=randrw", "--bsrange=512-64k"]] {
            let mut arguments = vec![
                "--name=disk",
                "--ioengine=nbd",
                &uri,
                "--iodepth=16",
                "--numjobs=2",
                "--size=6m",
                "--offset_increment=8m",
                "--fsync=64",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--verify_state_save=0",
                "--do_verify=1",
                "--randseed=7",
                "--group_reporting",
            ];
            arguments.extend(shape);
            let said = run("fio", &arguments).await;
            assert!(said.contains("err= 0"), "{said}");
        }
        server.stop().await;
    }
}
