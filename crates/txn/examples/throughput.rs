//! How many simple programs a second the transaction layer carries, over an engine that is an
//! array: what is measured is this crate alone.
//!
//! `cargo run --release -p fogbank-txn --example throughput [-- records sessions pipeline seconds]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Metrics, Purpose, Randomness, SystemClock};
use fogbank_oram::{Address, BatchEngine, BatchShape, Result, Section, Sections};
use fogbank_txn::{Components, Key, Proxy, Settings, View};
use rand_core::Rng;

struct Array {
    shape: BatchShape,
    blocks: Vec<Option<Bytes>>,
}

#[async_trait]
impl BatchEngine for Array {
    fn shape(&self) -> BatchShape {
        self.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        Ok(addresses.iter().map(|a| self.blocks[a.0 as usize].clone()).collect())
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        for (address, value) in writes {
            self.blocks[address.0 as usize] = value;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        Ok(Vec::new())
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        Ok(Box::new(std::iter::empty()))
    }
}

fn key(n: u64) -> Key {
    Key::new(b"", format!("key:{n:012}").as_bytes())
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}

async fn fill(proxy: &Proxy, records: u64) {
    let session = proxy.session();
    for from in (0..records).step_by(4_000) {
        let puts: Vec<_> = (from..records.min(from + 4_000))
            // Scattered, as a directory that grows with use is.
            .map(|n| key(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000_000))
            .map(|k| session.submit(move |v: &mut View<'_>| v.put(&k, Bytes::from_static(b"v"), 0)))
            .collect();
        for put in puts {
            if let Err(error) = put.await {
                eprintln!("{error}");
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let records = arguments.next().unwrap_or(100_000);
    let sessions = arguments.next().unwrap_or(256);
    let pipeline = arguments.next().unwrap_or(64) as usize;
    let seconds = arguments.next().unwrap_or(5);
    let shape = BatchShape {
        capacity: (records + records / 8 + 64) as u32,
        value_bytes: 64,
        read_batch: 4_000,
        write_batch: 4_000,
    };
    let engine = Array { shape, blocks: vec![None; shape.capacity as usize] };
    let settings = Settings { read_batches: 2, interval: Duration::ZERO, ..Settings::default() };
    let clock = Arc::new(SystemClock::new());
    let components = Components {
        clock: clock.clone(),
        random: Randomness::repeatable(1),
        metrics: Metrics::default(),
        clients: None,
    };
    let before = resident_bytes();
    let proxy = match Proxy::start(settings, Box::new(engine), components, None).await {
        Ok(proxy) => proxy,
        Err(error) => return eprintln!("{error}"),
    };
    fill(&proxy, records).await;
    let per_record = (resident_bytes() - before) as f64 / records as f64;
    println!("{per_record:.0} bytes a record, the engine's array included");
    for name in ["get", "set", "incr"] {
        measure(&proxy, clock.as_ref(), name, (records, sessions, pipeline, seconds)).await;
    }
}

async fn measure(
    proxy: &Proxy,
    clock: &SystemClock,
    name: &'static str,
    (records, sessions, pipeline, seconds): (u64, u64, usize, u64),
) {
    let done = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..sessions)
        .map(|client| {
            let (proxy, done) = (proxy.clone(), done.clone());
            let mut random = Randomness::repeatable(client).stream(Purpose::Workload);
            tokio::spawn(async move {
                let session = proxy.session();
                loop {
                    let answers: Vec<_> = (0..pipeline)
                        .map(|_| {
                            let n = random.next_u64() % records;
                            let k = key(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000_000);
                            session.submit(move |v: &mut View<'_>| {
                                if name != "set" {
                                    v.get(&k)?;
                                }
                                if name != "get" {
                                    v.put(&k, Bytes::from_static(b"w"), 0)?;
                                }
                                Ok(())
                            })
                        })
                        .collect();
                    for answer in answers {
                        if answer.await.is_ok() {
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    let (began, before) = (clock.now(), done.load(Ordering::Relaxed));
    clock.sleep_until(began + seconds * 1_000_000_000).await;
    let count = done.load(Ordering::Relaxed) - before;
    let rate = count as f64 / ((clock.now() - began) as f64 / 1e9);
    println!("{name}: {rate:.0} programs/s");
    tasks.iter().for_each(|task| task.abort());
}
