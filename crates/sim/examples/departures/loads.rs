//! What clients do to a server while its departures are watched.

use std::io::{Error, Result};
use std::process::{Command, Stdio};
use std::time::Duration;

use fogbank_env::Nanos;

use crate::client::{Client, command, line};
use crate::moment::{Moment, rest};
use crate::server::{EXPIRE_AT_ONCE, Holds};

/// A load.
pub struct Load {
    /// The word by which it is asked for.
    pub word: &'static str,
    pub name: &'static str,
    pub holds: Need,
    run: fn(&Target) -> Result<()>,
}

/// What a load needs the store to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    Nothing,
    Names,
    Expiring,
}

/// Where it goes, and until when.
pub struct Target {
    pub port: u16,
    pub until: Nanos,
    pub moment: Moment,
}

impl Load {
    pub fn run(&self, target: &Target) {
        if let Err(error) = (self.run)(target) {
            eprintln!("{}: {error}", self.name);
        }
    }
}

/// Those of issue 21, then others.
pub const LOADS: [Load; 20] = [
    Load { word: "mset", name: "MSET of 20,000 keys", holds: Need::Nothing, run: mset },
    Load {
        word: "multi-1000",
        name: "MULTI, 1,000 SETs, EXEC",
        holds: Need::Nothing,
        run: |t| multi(t, 1_000),
    },
    Load {
        word: "multi-6000",
        name: "MULTI, 6,000 SETs, EXEC",
        holds: Need::Nothing,
        run: |t| multi(t, 6_000),
    },
    Load {
        word: "multi-20000",
        name: "MULTI, 20,000 SETs, EXEC",
        holds: Need::Nothing,
        run: |t| multi(t, 20_000),
    },
    Load {
        word: "multi-expire",
        name: "MULTI, 3,000 EXPIREs, EXEC",
        holds: Need::Nothing,
        run: |t| multi_expire(t, 3_000),
    },
    Load {
        word: "del-present",
        name: "MSET of 3,000 keys, DEL of them",
        holds: Need::Nothing,
        run: |t| del_present(t, 3_000),
    },
    Load {
        word: "get",
        name: "redis-benchmark -c 50 -P 1000 get",
        holds: Need::Nothing,
        run: benchmark,
    },
    Load {
        word: "del",
        name: "DEL of 40,000 absent keys",
        holds: Need::Nothing,
        run: |t| many(t, "DEL", 40_000),
    },
    Load {
        word: "exists",
        name: "EXISTS of 40,000 keys",
        holds: Need::Nothing,
        run: |t| many(t, "EXISTS", 40_000),
    },
    Load {
        word: "mget",
        name: "MGET of 20,000 keys",
        holds: Need::Nothing,
        run: |t| many(t, "MGET", 20_000),
    },
    Load { word: "connect", name: "connects and disconnects", holds: Need::Nothing, run: connects },
    Load { word: "malformed", name: "malformed commands", holds: Need::Nothing, run: malformed },
    Load {
        word: "watch",
        name: "WATCH of 10,000 keys, writes to them",
        holds: Need::Nothing,
        run: watch,
    },
    Load {
        word: "conflict",
        name: "transactions that conflict",
        holds: Need::Nothing,
        run: conflicts,
    },
    Load {
        word: "keys-multi",
        name: "MULTI, 100 KEYS *, EXEC (50,000 names)",
        holds: Need::Names,
        run: keys_multi,
    },
    Load {
        word: "keys",
        name: "KEYS * of 50,000 names, 5 a second",
        holds: Need::Names,
        run: keys,
    },
    Load { word: "scan", name: "SCAN through 50,000 names", holds: Need::Names, run: scan },
    Load { word: "slow", name: "slow readers of KEYS *", holds: Need::Names, run: slow_readers },
    Load { word: "flush", name: "FLUSHALL, 10 a second", holds: Need::Names, run: flush },
    Load {
        word: "expire",
        name: "2,000 keys expire at once",
        holds: Need::Expiring,
        run: expiring,
    },
];

impl Target {
    fn goes_on(&self) -> bool {
        self.moment.now() < self.until
    }

    /// Asks the same again and again.
    fn again(&self, bytes: &[u8], replies: usize, pause_ms: u64) -> Result<()> {
        let mut client = Client::connect(self.port)?;
        while self.goes_on() {
            client.ask(bytes, replies)?;
            rest(Duration::from_millis(pause_ms));
        }
        Ok(())
    }

    /// So many clients at once, each with its number.
    fn at_once(&self, clients: usize, run: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..clients).map(|n| scope.spawn(move || run(n))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::other("a client broke down")))
            })
        })
    }
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn mset(target: &Target) -> Result<()> {
    let words = (0..20_000).flat_map(|n| [key(n), "v".into()]);
    target.again(&command(std::iter::once("MSET".into()).chain(words)), 1, PAUSE_MS)
}

fn many(target: &Target, word: &str, keys: usize) -> Result<()> {
    let words = (0..keys).map(|n| format!("absent:{n}"));
    target.again(&command(std::iter::once(word.into()).chain(words)), 1, PAUSE_MS)
}

fn multi(target: &Target, sets: usize) -> Result<()> {
    let mut bytes = line("MULTI");
    (0..sets).for_each(|n| bytes.extend(command(["SET", &key(n), "v"])));
    bytes.extend(line("EXEC"));
    target.again(&bytes, sets + 2, PAUSE_MS)
}

fn fill(target: &Target, keys: usize) -> Result<()> {
    let mut client = Client::connect(target.port)?;
    let words = (0..keys).flat_map(|n| [key(n), "v".into()]);
    client.ask(&command(std::iter::once("MSET".into()).chain(words)), 1).map(drop)
}

fn multi_expire(target: &Target, keys: usize) -> Result<()> {
    fill(target, keys)?;
    let mut bytes = line("MULTI");
    (0..keys).for_each(|n| bytes.extend(command(["EXPIRE", &key(n), "1000"])));
    bytes.extend(line("EXEC"));
    target.again(&bytes, keys + 2, PAUSE_MS)
}

fn del_present(target: &Target, keys: usize) -> Result<()> {
    let del = command(std::iter::once("DEL".into()).chain((0..keys).map(key)));
    let mut client = Client::connect(target.port)?;
    while target.goes_on() {
        fill(target, keys)?;
        client.ask(&del, 1)?;
        rest(Duration::from_millis(PAUSE_MS));
    }
    Ok(())
}

fn benchmark(target: &Target) -> Result<()> {
    let port = target.port.to_string();
    Client::connect(target.port)?.ask(&line("SET hot v"), 1)?;
    let mut child = Command::new("redis-benchmark")
        .args(["-p", &port, "-c", "50", "-P", "1000", "-n", "1000000000", "-q", "GET", "hot"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    target.moment.rest_until(target.until);
    child.kill()?;
    child.wait().map(drop)
}

fn connects(target: &Target) -> Result<()> {
    target.at_once(4, |number| {
        let ping = line("PING");
        while target.goes_on() {
            let mut client = Client::connect(target.port)?;
            match number % 2 {
                0 => drop(client.ask(&ping, 1)?),
                _ => client.send(&ping[..7])?,
            }
        }
        Ok(())
    })
}

fn malformed(target: &Target) -> Result<()> {
    let shapes: [&[u8]; 4] = [
        b"*3\r\n$3\r\nSET\r\n$-7\r\n",
        b"*99999999\r\n",
        b"\x00\xff\x17\r\n",
        b"*1\r\n$9999999999\r\n",
    ];
    target.at_once(4, |number| {
        while target.goes_on() {
            // Refused, and the connection with it; or the rest is waited for, and does not come.
            let patience = Duration::from_millis(100);
            let _ = Client::patient(target.port, patience)?.ask(shapes[number % 4], 1);
            rest(Duration::from_millis(1));
        }
        Ok(())
    })
}

fn watch(target: &Target) -> Result<()> {
    let keys = std::iter::once("WATCH".into()).chain((0..10_000).map(key));
    let watch = command(keys);
    let commit = [line("MULTI"), line("GET key:0"), line("EXEC")].concat();
    target.at_once(2, |number| {
        let mut client = Client::connect(target.port)?;
        let mut writes = Vec::new();
        (0..100).for_each(|n| writes.extend(command(["SET", &key(n * 97), "v"])));
        while target.goes_on() {
            match number {
                0 => client.ask(&watch, 1).and_then(|_| client.ask(&commit, 3))?,
                _ => client.ask(&writes, 100)?,
            };
        }
        Ok(())
    })
}

fn conflicts(target: &Target) -> Result<()> {
    let body = [line("MULTI"), line("INCR counter"), line("EXEC")].concat();
    target.at_once(20, |_| {
        let mut client = Client::connect(target.port)?;
        while target.goes_on() {
            client.ask(&line("WATCH counter"), 1)?;
            client.ask(&body, 3)?;
        }
        Ok(())
    })
}

fn keys_multi(target: &Target) -> Result<()> {
    let mut bytes = line("MULTI");
    (0..100).for_each(|_| bytes.extend(line("KEYS *")));
    bytes.extend(line("EXEC"));
    target.again(&bytes, 102, PAUSE_MS)
}

fn keys(target: &Target) -> Result<()> {
    target.again(&line("KEYS *"), 1, 200)
}

fn scan(target: &Target) -> Result<()> {
    let mut bytes = Vec::new();
    (0..50).for_each(|n| bytes.extend(line(&format!("SCAN 0 COUNT {}", 1_000 * (n % 10 + 1)))));
    target.again(&bytes, 50, 0)
}

fn slow_readers(target: &Target) -> Result<()> {
    let keys = line("KEYS *").repeat(20);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(target.port)?;
        client.send(&keys)?;
        clients.push(client);
    }
    target.moment.rest_until(target.until);
    Ok(())
}

fn flush(target: &Target) -> Result<()> {
    target.again(&line("FLUSHALL"), 1, 100)
}

/// What expires has to be looked at.
fn expiring(target: &Target) -> Result<()> {
    let looked = (0..40).map(|n| format!("gone:{}", n * EXPIRE_AT_ONCE as usize / 2));
    let look = command(std::iter::once("EXISTS".into()).chain(looked));
    target.again(&[look, line("DBSIZE"), line("KEYS gone:*")].concat(), 3, PAUSE_MS)
}

/// Between two requests of one client.
const PAUSE_MS: u64 = 50;

impl Need {
    /// What stores are to hold, if keys are to expire from `first_ms` on every `every_ms`.
    pub fn holds(self, first_ms: u64, every_ms: u64, times: u64) -> Holds {
        match self {
            Self::Nothing => Holds::Nothing,
            Self::Names => Holds::Names,
            Self::Expiring => Holds::Expiring { first_ms, every_ms, times },
        }
    }
}
