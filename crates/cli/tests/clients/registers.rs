//! A store whose freshness register is kept by three servers: processes that are killed, fall back,
//! forget, or are not the ones they were.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::resp::Frame;
use crate::server::{Server, free_port};

/// Servers, and the list that names them.
struct Servers {
    folder: TempDir,
    ports: Vec<u16>,
    running: Vec<Option<Server>>,
    kind: Kind,
}

/// What the servers are: of registers alone, or storage servers that hold them beside their stores.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Registers,
    Storage,
}

impl Servers {
    fn start(count: usize) -> Self {
        Self::of(Kind::Registers, count)
    }

    fn of(kind: Kind, count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports = (0..count).map(|_| free_port()).collect();
        let mut servers = Self { folder, ports, running: Vec::new(), kind };
        if kind == Kind::Storage {
            (0..count).for_each(|number| drop(Server::cloud_tenant(&servers.data(number), 1)));
        }
        servers.running.resize_with(count, || None);
        (0..count).for_each(|number| servers.revive(number));
        let lines = (0..count).map(|number| {
            fs::read_to_string(servers.data(number).join(servers.address())).expect("an address")
        });
        write_list(&servers.list(), &lines.collect::<String>());
        servers
    }

    fn data(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    fn address(&self) -> &'static str {
        match self.kind {
            Kind::Registers => "address",
            Kind::Storage => "tenants/test/register",
        }
    }

    fn list(&self) -> PathBuf {
        self.folder.path().join("list")
    }

    /// With SIGKILL.
    fn kill(&mut self, number: usize) {
        self.running[number] = None;
    }

    fn revive(&mut self, number: usize) {
        let (data, port) = (self.data(number), self.ports[number]);
        let server = match self.kind {
            Kind::Registers => Server::register_server(&data, port),
            Kind::Storage => Server::cloud_with_registers(&data, port),
        };
        self.running[number] = Some(server);
    }

    fn serve(&self, data: &Path) -> Server {
        Server::fogbank(data, &["--registers", &self.list().to_string_lossy()])
    }
}

fn write_list(path: &Path, lines: &str) {
    fs::write(path, lines).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode is set");
}

fn fogbank(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.args(line.split_whitespace()).output().expect("the binary runs")
}

/// What a command says that is done.
fn done(line: &str) -> String {
    let output = fogbank(line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    String::from_utf8(output.stdout).expect("words")
}

/// What a command says that ends with `code`.
fn fails(code: i32, line: &str) -> String {
    let output = fogbank(line);
    let said = String::from_utf8(output.stderr).expect("words");
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    said
}

fn copy(from: &Path, to: &Path) {
    let _none_yet = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

/// Counts up to `to`; every answer has to be the next number.
fn count(server: &Server, to: std::ops::RangeInclusive<i64>) {
    let mut client = server.connect();
    to.for_each(|n| assert_eq!(client.line("INCR n").expect("a reply"), Frame::Integer(n)));
}

fn counted(server: &Server) -> i64 {
    match server.connect().line("GET n").expect("a reply") {
        Frame::Bulk(n) => String::from_utf8_lossy(&n).parse().expect("a number"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_server_may_be_lost_and_with_two_nothing_more_is_acknowledged() {
    one_and_two_are_lost(Servers::start(3));
}

#[test]
fn so_it_is_where_storage_servers_hold_the_register() {
    one_and_two_are_lost(Servers::of(Kind::Storage, 3));
}

fn one_and_two_are_lost(mut servers: Servers) {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = servers.serve(data.path());
    count(&server, 1..=5);
    servers.kill(0);
    count(&server, 6..=10);
    servers.kill(2);
    let mut client = server.connect();
    let mut last = 10;
    let said = loop {
        match client.line("INCR n") {
            // What was under way when the server died may still be answered.
            Ok(Frame::Integer(n)) => last = n,
            Ok(Frame::Error(said)) => break said,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(said, "ERR the store has stopped");
    assert_eq!(server.wait().code(), Some(74));
    let why = server.last_words();
    assert!(why.contains("the epochs have ended: stopped: the freshness register"), "{why}");
    assert!(why.contains("1 of 3 servers answer and 2 have to"), "{why}");
    let (list, data_folder) = (servers.list(), data.path().display());
    let recover = format!("recover --data {data_folder} --registers {}", list.display());
    assert!(fails(74, &recover).contains("1 of 3 servers answer"));
    servers.revive(0);
    let server = servers.serve(data.path());
    let kept = counted(&server);
    assert!((last..=last + 1).contains(&kept), "{last} were acknowledged, {kept} are there");
    count(&server, kept + 1..=kept + 5);
}

/// Two of three are down for some seconds, again and again. Meanwhile nothing is answered and the
/// cloud hears nothing; then everything goes on, in the same process.
#[test]
fn a_majority_that_is_away_for_a_while_is_waited_for() {
    let (data, mut servers) = (tempfile::tempdir().expect("a folder"), Servers::start(3));
    let mut server = servers.serve(data.path());
    count(&server, 1..=5);
    let mut next = 6;
    for (round, seconds) in [(0, 4), (1, 2), (2, 6)] {
        let down = [round, (round + 1) % 3];
        down.iter().for_each(|number| servers.kill(*number));
        let mut client = server.connect();
        let asked = std::thread::spawn(move || client.line("INCR n").expect("a reply"));
        std::thread::sleep(std::time::Duration::from_millis(500)); // what was under way has ended
        let seen = cloud_side(data.path());
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        assert!(!asked.is_finished(), "round {round}: it was answered without a majority");
        assert_eq!(cloud_side(data.path()), seen, "round {round}: something was written");
        down.iter().for_each(|number| servers.revive(*number));
        assert_eq!(asked.join().expect("an answer"), Frame::Integer(next), "round {round}");
        count(&server, next + 1..=next + 3);
        next += 4;
    }
    assert!(server.terminate().success());
    // One that starts waits as well.
    (0..2).for_each(|number| servers.kill(number));
    let list = servers.list();
    let starting = std::thread::spawn({
        let data = data.path().to_owned();
        move || Server::fogbank(&data, &["--registers", &list.to_string_lossy()])
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    (0..2).for_each(|number| servers.revive(number));
    assert_eq!(counted(&starting.join().expect("it has started")), next - 1);
}

/// Names and sizes of all that the cloud holds, and when each was written.
fn cloud_side(data: &Path) -> String {
    let mut command = Command::new("find");
    command.arg(data.join("cloud")).args(["-type", "f", "-printf", "%p %s %T@\n"]);
    String::from_utf8(command.output().expect("find runs").stdout).expect("names")
}

/// With a register that both share, the one that was overtaken knows it, and is not told to start
/// again.
#[test]
fn who_was_overtaken_is_told_to_stay_away() {
    let (folder, servers) = (tempfile::tempdir().expect("a folder"), Servers::start(3));
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let mut overtaken = servers.serve(&first);
    count(&overtaken, 1..=3);
    fs::create_dir(&second).expect("a folder");
    copy(&first.join("proxy"), &second.join("proxy"));
    fs::remove_file(second.join("proxy/lock")).expect("the other's lock");
    let url = format!("file://{}", first.join("cloud").display());
    let list = servers.list();
    let list = list.to_string_lossy();
    let server = Server::fogbank(&second, &["--registers", &list, "--store", &url]);
    assert_eq!(counted(&server), 3);
    assert_eq!(overtaken.wait().code(), Some(78));
    let said = overtaken.last_words();
    assert!(said.contains("another proxy has opened this store"), "{said}");
    assert!(said.contains("go on with the other proxy"), "{said}");
    assert!(!said.contains("start again once") && !said.contains("does not verify"), "{said}");
    count(&server, 4..=6);
}

/// Each is killed in between its writes, again and again, and comes back with what it answered.
#[test]
fn servers_that_are_killed_in_turn_lose_nothing() {
    killed_in_turn(Servers::start(3));
}

#[test]
fn nor_do_storage_servers() {
    killed_in_turn(Servers::of(Kind::Storage, 3));
}

fn killed_in_turn(mut servers: Servers) {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = servers.serve(data.path());
    let enough = Arc::new(AtomicBool::new(false));
    let (mut client, stop) = (server.connect(), enough.clone());
    let writer = std::thread::spawn(move || {
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(client.line("INCR n").expect("a reply"), Frame::Integer(last + 1));
            last += 1;
        }
        last
    });
    for round in 0..9 {
        servers.kill(round % 3);
        servers.revive(round % 3);
    }
    enough.store(true, Ordering::Relaxed);
    let last = writer.join().expect("every answer is the next number");
    assert!(server.terminate().success());
    for down in 0..3 {
        servers.kill(down);
        let server = servers.serve(data.path());
        assert_eq!(counted(&server), last, "without server {down}");
        drop(server);
        servers.revive(down);
    }
}

#[test]
fn an_old_copy_of_the_cloud_or_of_everything_is_refused() {
    let (data, servers) = (tempfile::tempdir().expect("a folder"), Servers::start(3));
    let data = data.path();
    let mut server = servers.serve(data);
    count(&server, 1..=3);
    assert!(server.terminate().success());
    let [cloud, proxy] = ["cloud", "proxy"].map(|side| data.join(side));
    let (old_cloud, old_proxy) = (data.join("old-cloud"), data.join("old-proxy"));
    copy(&cloud, &old_cloud);
    copy(&proxy, &old_proxy);
    let mut server = servers.serve(data);
    count(&server, 4..=6);
    assert!(server.terminate().success());
    let new_cloud = data.join("new-cloud");
    copy(&cloud, &new_cloud);
    copy(&old_cloud, &cloud);
    let recover =
        format!("recover --data {} --registers {}", data.display(), servers.list().display());
    assert!(fails(1, &recover).contains("rolled back"));
    copy(&old_proxy, &proxy);
    assert!(fails(1, &recover).contains("rolled back"), "the trusted side is an old copy, too");
    // The canary: it was the cloud, and nothing else, that was refused.
    copy(&new_cloud, &cloud);
    done(&recover);
    assert_eq!(counted(&servers.serve(data)), 6);
}

#[test]
fn a_server_that_falls_back_is_outvoted_and_three_that_forget_are_noticed() {
    let (data, mut servers) = (tempfile::tempdir().expect("a folder"), Servers::start(3));
    let mut server = servers.serve(data.path());
    count(&server, 1..=3);
    servers.kill(0);
    let old = servers.folder.path().join("old");
    copy(&servers.data(0), &old);
    servers.revive(0);
    count(&server, 4..=6);
    assert!(server.terminate().success());
    servers.kill(0);
    copy(&old, &servers.data(0));
    servers.revive(0);
    let mut server = servers.serve(data.path());
    assert_eq!(counted(&server), 6);
    assert!(server.terminate().success());
    for number in 0..3 {
        servers.kill(number);
        fs::remove_dir_all(servers.data(number).join("stores")).expect("forgotten");
        servers.revive(number);
    }
    let list = servers.list();
    let said = fails(
        74,
        &format!("recover --data {} --registers {}", data.path().display(), list.display()),
    );
    assert!(said.contains("--accept-rollback-risk"), "{said}");
}

#[test]
fn the_register_moves_only_when_told_to_and_takes_its_value_along() {
    let (data, servers) = (tempfile::tempdir().expect("a folder"), Servers::start(3));
    let (folder, list) = (data.path().display(), servers.list());
    let list = list.display();
    let here = format!("--data {folder}");
    let there = format!("--data {folder} --registers {list}");
    let mut server = Server::fogbank(data.path(), &[]);
    count(&server, 1..=3);
    assert!(server.terminate().success());
    let (register, note) =
        (data.path().join("proxy/register"), data.path().join("proxy/registers"));

    for command in ["serve --listen 127.0.0.1:0", "recover", "verify", "inspect"] {
        let said = fails(64, &format!("{command} {there}"));
        assert!(said.contains("--move-register servers"), "{command}: {said}");
    }
    fails(64, &format!("recover {there} --move-register file"));
    fails(64, &format!("recover {here} --move-register servers"));
    assert!(register.exists() && !note.exists());
    let stale = fs::read(&register).expect("the register");

    done(&format!("recover {there} --move-register servers"));
    assert!(!register.exists() && note.exists());
    done(&format!("recover {there} --move-register servers"));
    for left_behind in [false, true] {
        if left_behind {
            fs::write(&register, &stale).expect("written");
        }
        let said = fails(64, &format!("recover {here}"));
        assert!(said.contains("kept by 3 servers"), "{said}");
    }
    let others = Servers::start(3);
    let said = fails(64, &format!("recover {here} --registers {}", others.list().display()));
    assert!(said.contains("other servers"), "{said}");
    done(&format!("verify {there}"));
    assert!(done(&format!("inspect {there}")).contains("newest state"));
    let backup = data.path().join("backup");
    done(&format!("backup {there} --to {}", backup.display()));

    // The file that was left behind is older than what comes back.
    done(&format!("recover {there} --move-register file"));
    assert!(register.exists() && !note.exists());
    assert_eq!(counted(&Server::fogbank(data.path(), &[])), 3);
    // To other servers, and back to these, who still hold what they held then.
    done(&format!("recover {here}"));
    done(&format!("recover {there} --move-register servers"));
    assert_eq!(counted(&servers.serve(data.path())), 3);

    // An old file without its note is an old copy of the trusted side: the servers know more.
    done(&format!("recover {there}"));
    fs::remove_file(&note).expect("removed");
    fs::write(&register, &stale).expect("written");
    let said = fails(74, &format!("recover {there} --move-register servers"));
    assert!(said.contains("old copy"), "{said}");
    fs::remove_file(&register).expect("removed");
    done(&format!("recover {there}"));
    assert!(note.exists(), "a new machine with the key and the list is enough");

    let new = tempfile::tempdir().expect("a folder");
    let key = data.path().join("proxy/key");
    let (from, key, new) = (backup.display(), key.display(), new.path());
    let restore =
        format!("restore --from {from} --key {key} --data {} --registers {list}", new.display());
    assert!(done(&restore).contains("--registers"));
    assert_eq!(counted(&servers.serve(new)), 3);
}

#[test]
fn a_list_that_others_can_read_or_that_makes_no_majority_is_refused() {
    let (data, servers) = (tempfile::tempdir().expect("a folder"), Servers::start(3));
    let list = servers.list();
    let open = format!(
        "serve --listen 127.0.0.1:0 --data {} --registers {}",
        data.path().display(),
        list.display()
    );
    let lines = fs::read_to_string(&list).expect("the list");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o640)).expect("its mode is set");
    assert!(fails(64, &open).contains("chmod 600"));
    let two: String = lines.lines().take(2).map(|line| format!("{line}\n")).collect();
    for (wrong, why) in [(two, "2 servers"), (lines.replace("pin=", "pin"), "line 1")] {
        write_list(&list, &wrong);
        let said = fails(64, &open);
        let token = lines.split('/').nth(3).expect("a token").split('?').next().expect("a token");
        assert!(said.contains(why) && !said.contains(token), "{said}");
    }
    write_list(&list, &lines);
    assert!(fails(64, &format!("{open} --store memory:")).contains("in memory"));
    assert!(!data.path().join("proxy/key").exists(), "nothing was made");
    for number in 0..3 {
        for file in ["identity", "token", "address"] {
            let mode = fs::metadata(servers.data(number).join(file)).expect("a file").permissions();
            assert_eq!(mode.mode() & 0o077, 0, "{file}");
        }
    }
}
