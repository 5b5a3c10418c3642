//! PostgreSQL on a volume: the plug is pulled while `pgbench` runs.
//!
//! 1. A cluster with checksums of its pages is made on a mounted volume, and filled by `pgbench`.
//! 2. Clients move money. The process is killed at a random moment, and two clouds with it, then
//!    PostgreSQL, and what is mounted is taken away, as a reboot would.
//! 3. The volume is served and mounted again, PostgreSQL goes through its own recovery, and the
//!    books have to balance: accounts, tellers, branches and history come to the same sum, and the
//!    history has every transaction that a client was told of.
//! 4. In the end every page has its checksum, and `fsck` finds nothing.
//!
//! A fifth of `FOGBANK_PLUGS` plugs are pulled, but two at least; if it is above five, the scale is
//! 10. `FOGBANK_KILL_SEED` draws the moments.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fogbank_env::{Purpose, Randomness};
use rand_core::Rng;

use crate::can_mount::can_mount;
use crate::mounted::{Attached, wait_for};
use crate::{MULTICLOUD, PARTITION, Volume, number, run, said};

/// Who runs it: PostgreSQL refuses to be root.
const USER: &str = "postgres";
/// Small buffers, so that pages are read from the volume; a log in small pieces.
const SETTINGS: [&str; 4] =
    ["listen_addresses=", "shared_buffers=16MB", "max_wal_size=64MB", "log_min_messages=fatal"];

/// A cluster on a mounted volume, running or not.
struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    user: (u32, u32),
    postmaster: Option<Child>,
}

impl Cluster {
    /// Makes one under `mounted`, which tells its troubles to `log`.
    fn create(mounted: &Path, log: PathBuf) -> Self {
        let folder = mounted.join("db");
        let (programs, user) = (programs(), user());
        let cluster = Self { programs, folder, log, user, postmaster: None };
        std::fs::create_dir(&cluster.folder).unwrap();
        chown(&cluster.folder, Some(cluster.user.0), Some(cluster.user.1)).unwrap();
        let shape = ["--no-locale", "--encoding=UTF8", "--auth=trust", "--data-checksums"];
        cluster.run("initdb", &[&shape[..], &["--wal-segsize=1", "--no-sync"]].concat());
        // All at once instead of file by file.
        run("sync", &["--file-system", mounted.to_str().unwrap()]);
        cluster
    }

    /// One of its programs, as its user, on its folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env("PGDATA", &self.folder).env("PGHOST", &self.folder).env("PGUSER", USER);
        command.current_dir("/").uid(self.user.0).gid(self.user.1).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", said(&output));
        said(&output)
    }

    /// Starts it; whatever it has to recover is recovered when this returns.
    fn start(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-k").arg(&self.folder).args(SETTINGS.iter().flat_map(|s| ["-c", s]));
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        self.postmaster = Some(command.spawn().unwrap());
        wait_for("PostgreSQL", || {
            let ended = self.postmaster.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", std::fs::read_to_string(&self.log).unwrap());
            self.command("pg_isready").output().unwrap().status.success()
        });
    }

    /// Ends it in good order, or (`at_once`) leaving all to recovery.
    fn stop(&mut self, at_once: bool) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        let signal = if at_once { "-QUIT" } else { "-INT" };
        run("kill", &[signal, &postmaster.id().to_string()]);
        wait_for("the end of PostgreSQL", || postmaster.try_wait().unwrap().is_some());
    }

    /// `pgbench` with clients that move money until they are stopped, or their server is.
    fn clients(&self) -> Child {
        let mut command = self.command("pgbench");
        command.args(["--no-vacuum", "--client=4", "--time=3600", "postgres"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn query(&self, query: &str) -> String {
        let told = self.run("psql", &["-AtX", "-F", " ", "-c", query, "postgres"]);
        told.trim().to_owned()
    }

    /// How many transactions the history has.
    fn history(&self) -> u64 {
        self.query("SELECT count(*) FROM pgbench_history").parse().unwrap()
    }

    /// Holds the books against each other, and against the transactions that clients were told of.
    fn check(&self, told: u64) -> Result<u64, String> {
        let sums = self.query(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
             (SELECT sum(tbalance) FROM pgbench_tellers), \
             (SELECT sum(bbalance) FROM pgbench_branches), \
             (SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
        );
        let all: Vec<&str> = sums.split(' ').collect();
        if all.len() != 4 || all.iter().any(|sum| *sum != all[0]) {
            return Err(format!("accounts, tellers, branches, history: {sums}"));
        }
        let kept = self.history();
        if kept < told {
            return Err(format!("{kept} transactions are kept, {told} were told of"));
        }
        Ok(kept)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(postmaster) = &mut self.postmaster {
            postmaster.kill().ok(); // its children see that and end
            postmaster.wait().ok();
        }
    }
}

/// The folder of PostgreSQL's programs: the distribution's newest, or where `initdb` is.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let mut folders: Vec<_> = folders.filter(|folder| folder.join("initdb").is_file()).collect();
    folders.sort();
    let initdb = || std::fs::canonicalize(crate::server::tool("initdb")).unwrap();
    folders.pop().unwrap_or_else(|| initdb().parent().unwrap().to_owned())
}

/// Its user and group, which come with its package.
fn user() -> (u32, u32) {
    let all = std::fs::read_to_string("/etc/passwd").unwrap();
    let mut line = all.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = line.find(|line| line[0] == USER);
    let line = line.expect("there is no user postgres: run scripts/setup-tests.sh");
    (line[2].parse().unwrap(), line[3].parse().unwrap())
}

/// What `pgbench` says that it was told was committed.
fn transactions(output: &Output) -> u64 {
    let told = said(output);
    let line = told.lines().find_map(|line| line.split("actually processed: ").nth(1));
    let count = line.and_then(|rest| rest.split('/').next()?.trim().parse().ok());
    count.unwrap_or_else(|| panic!("pgbench says {told}"))
}

#[test]
fn the_books_of_postgresql_balance_after_pulled_plugs() {
    pull_plugs(&[]);
}

#[test]
fn they_balance_on_partitions() {
    pull_plugs(&PARTITION);
}

#[test]
fn they_balance_in_two_clouds() {
    pull_plugs(&MULTICLOUD);
}

fn pull_plugs(shape: &[&str]) {
    if !can_mount() {
        return;
    }
    let seed = number("FOGBANK_KILL_SEED").unwrap_or(5);
    let mut random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let plugs = number("FOGBANK_PLUGS").unwrap_or(0);
    let (scale, size) = if plugs > 5 { ("10", "1GiB") } else { ("1", "192MiB") };
    let plugs = (plugs / 5).max(2);
    let volume = Volume::of(size, shape);
    // PostgreSQL's user has to find its way in.
    let open = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(volume.folder.path(), open).unwrap();
    let mut server = volume.serve();
    let mut disk = Attached::new(volume.folder.path(), &volume.uri());
    disk.format();
    let mut cluster = Cluster::create(disk.mount(), volume.path("log"));
    cluster.start();
    cluster.run("pgbench", &["--initialize", "--quiet", "--scale", scale, "postgres"]);
    cluster.query("CHECKPOINT");
    let mut kept = 0;
    for plug in 1..=plugs {
        let clients = cluster.clients();
        wait_for("transactions", || cluster.history() > kept);
        std::thread::sleep(Duration::from_millis(random.next_u64() % 3_000));
        volume.pull_plug(server);
        cluster.stop(true);
        let told = transactions(&clients.wait_with_output().unwrap());
        drop(disk);
        server = volume.serve();
        disk = Attached::new(volume.folder.path(), &volume.uri());
        disk.mount();
        cluster.start();
        let checked = cluster.check(kept + told);
        kept = checked.unwrap_or_else(|what| panic!("plug {plug} of seed {seed}: {what}"));
        println!("plug {plug}: {told} transactions told of, {kept} kept since the first");
    }
    assert!(kept > 0, "nothing was ever committed");
    // The canaries: a transaction that is lost and money from nowhere are seen.
    assert!(cluster.check(kept + 1).unwrap_err().contains("were told of"));
    cluster.query("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1");
    assert!(cluster.check(kept).unwrap_err().starts_with("accounts, tellers"));
    cluster.stop(false);
    cluster.run("pg_checksums", &["--check"]);
    disk.unmount();
    run("/usr/sbin/fsck.ext4", &["-f", "-n", &disk.device]);
    drop(disk);
    assert!(server.terminate().success());
}
