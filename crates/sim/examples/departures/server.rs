//! A `fogbank serve` on loopback, in a folder of its own, at raised priority where that is
//! permitted.

use std::fs::{self, File};
use std::io::{Error, Result};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fogbank_env::Nanos;

use crate::client::{Client, line};
use crate::moment::{Moment, rest};

/// What a store holds before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Nothing.
    Nothing,
    /// 50,000 names.
    Names,
    /// Keys, so many at a time, that expire then: wall time in milliseconds.
    Expiring { first_ms: u64, every_ms: u64, times: u64 },
}

/// Names in a store that holds some.
pub const NAMES: usize = 50_000;
/// Keys that expire at once.
pub const EXPIRE_AT_ONCE: u64 = 2_000;

pub struct Server {
    child: Child,
    pub port: u16,
    pub trace: PathBuf,
    /// When its clock began.
    began: Nanos,
}

/// What all servers have in common.
pub struct Servers {
    pub binary: PathBuf,
    pub interval_ms: u64,
    pub moment: Moment,
}

impl Servers {
    /// Fills a folder and serves it, on a port that nobody has.
    pub fn start(&self, folder: &Path, holds: Holds) -> Result<Server> {
        fs::create_dir_all(folder)?;
        if holds != Holds::Nothing {
            let dump = folder.join("dump.rdb");
            fs::write(&dump, holds.dump())?;
            let mut load = self.fogbank("load", folder);
            check(load.arg("--from").arg(&dump).stdout(Stdio::null()).status()?.success(), "load")?;
        }
        let trace = folder.join("trace");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut serve = self.fogbank("serve", folder);
        serve.args(["--listen", &format!("127.0.0.1:{port}")]).arg("--record").arg(&trace);
        serve.stdout(Stdio::null()).stderr(File::create(folder.join("log"))?);
        let began = self.moment.now();
        let child = serve.spawn()?;
        let mut server = Server { child, port, trace, began };
        server.wait_until_it_answers(&self.moment)?;
        Ok(server)
    }

    fn fogbank(&self, what: &str, folder: &Path) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "-10"]).arg(&self.binary).arg(what).arg("--data");
        command.arg(folder.join("data")).args(["--interval-ms", &self.interval_ms.to_string()]);
        command.env_remove("FOGBANK_STORE").env_remove("FOGBANK_CONFIG").stdin(Stdio::null());
        command
    }
}

impl Server {
    fn wait_until_it_answers(&mut self, moment: &Moment) -> Result<()> {
        let until = moment.now() + 30_000_000_000;
        while moment.now() < until && self.child.try_wait()?.is_none() {
            if Client::connect(self.port)
                .is_ok_and(|mut client| client.ask(&line("PING"), 1).is_ok())
            {
                return Ok(());
            }
            rest(Duration::from_millis(50));
        }
        check(false, "serve")
    }

    /// A moment by its own clock.
    pub fn by_its_clock(&self, at: Nanos) -> Nanos {
        at.saturating_sub(self.began)
    }

    /// Closes it, and gives its trace.
    pub fn stop(mut self) -> Result<PathBuf> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        self.child.wait()?;
        Ok(std::mem::take(&mut self.trace))
    }
}

/// One that was not stopped, since something failed, ends all the same.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended already, as a rule
        let _ = self.child.wait();
    }
}

impl Holds {
    /// What it holds, as Redis would save it.
    fn dump(self) -> Vec<u8> {
        let mut bytes = b"REDIS0009\xfe\x00".to_vec();
        match self {
            Self::Nothing => {}
            Self::Names => (0..NAMES).for_each(|n| record(&mut bytes, &format!("name:{n}"))),
            Self::Expiring { first_ms, every_ms, times } => {
                for number in 0..times * EXPIRE_AT_ONCE {
                    bytes.push(0xfc);
                    let at = first_ms + number / EXPIRE_AT_ONCE * every_ms;
                    bytes.extend_from_slice(&at.to_le_bytes());
                    record(&mut bytes, &format!("gone:{number}"));
                }
            }
        }
        bytes.push(0xff);
        bytes.extend_from_slice(&[0; 8]); // no checksum
        bytes
    }
}

fn record(bytes: &mut Vec<u8>, key: &str) {
    bytes.extend_from_slice(&[0, key.len() as u8]);
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(b"\x01v");
}

fn check(well: bool, what: &str) -> Result<()> {
    if well { Ok(()) } else { Err(Error::other(format!("fogbank {what} failed: see its log"))) }
}
