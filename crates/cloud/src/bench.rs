//! How fast whole batches move between two processes of this machine, beside a plain TCP copy.
//!
//! Both ends are processes of their own: the server keeps in memory, the client reads batches of
//! cells at random places and writes batches of chunks, two batches at a time. The copy sends as
//! many bytes from a process to another over two connections in buffers of 256 KiB. Copy and
//! batches take turns, and the medians are set against each other, so that what else the machine
//! does meets both alike.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytesize::ByteSize;
use clap::Args;
use fogbank_cloud::{Address, Allowance, CloudStore, Credentials, Tenants, identity};
use fogbank_env::{Clock, Purpose, Randomness, Stream, SystemClock, within};
use fogbank_process::say;
use fogbank_store::{ArrayId, ArrayShape, CellReads, ChunkName, ChunkWrite, Store, StoreError};
use rand_core::Rng;

use crate::{Failure, limits};

/// What to measure.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Bytes of a cell.
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = within(limits::CELL))]
    cell: ByteSize,
    /// Payload of a batch.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = within(limits::BATCH))]
    batch: ByteSize,
    /// Payload of a measurement.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = within(limits::TOTAL))]
    total: ByteSize,
    /// Batches at a time, each on a connection of its own.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = within(limits::STREAMS))]
    streams: usize,
    /// Measurements of each kind; their medians are told.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = within(limits::ROUNDS))]
    rounds: usize,
}

/// The other end of the copy.
#[derive(Debug, Args)]
pub struct SourceArgs {
    bytes: u64,
    streams: usize,
}

/// Measures and prints one line of JSON.
pub async fn run(args: BenchArgs) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(|e| failed(&e))?;
    let (_, pin) = identity(folder.path(), None).map_err(|e| failed(&e))?;
    let allowed = Allowance { bytes: u64::MAX, arrays: 10 };
    let file = Tenants::add(folder.path(), "bench", allowed, pin).map_err(|e| failed(&e))?;
    let mut command = own();
    command.args(["serve", "--memory", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    let (server, line) = Helper::start(command, "listening on ").map_err(|e| failed(&e))?;
    let address = Address { place: line, tenant: "bench".into(), credentials: None };
    let credentials = Credentials::load(&file).map_err(absent)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let streams = args.streams;
    let store =
        CloudStore::connect(address, &credentials, streams, &clock).await.map_err(absent)?;
    let bench = Bench::new(Arc::new(store), &args, clock)?;
    bench.fill().await.map_err(absent)?;
    let (mut tcp, mut read, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        tcp.push(bench.copy().await?);
        read.push(bench.read(round).await.map_err(absent)?);
        written.push(bench.write(round).await.map_err(absent)?);
    }
    drop(server);
    let (tcp, read, written) = (median(tcp), median(read), median(written));
    say!(
        "{}",
        serde_json::json!({
            "tcp_copy_gb_per_s": tcp, "read_gb_per_s": read, "write_gb_per_s": written,
            "read_share": read / tcp, "write_share": written / tcp, "cell_bytes": args.cell.as_u64(),
            "batch_bytes": args.batch.as_u64(), "streams": streams, "rounds": args.rounds,
        })
    );
    Ok(())
}

/// The end of the copy that sends.
pub fn source(args: &SourceArgs) -> Result<(), Failure> {
    let socket = TcpListener::bind("127.0.0.1:0").map_err(|e| failed(&e))?;
    say!("sending on {}", socket.local_addr().map_err(|e| failed(&e))?);
    std::thread::scope(|scope| {
        for _ in 0..args.streams {
            let Ok((mut stream, _)) = socket.accept() else { return };
            scope.spawn(move || {
                let (buffer, mut left) = (vec![7; COPY_BYTES], args.bytes as usize / args.streams);
                while left > 0 {
                    let part = left.min(buffer.len());
                    if stream.write_all(&buffer[..part]).is_err() {
                        return;
                    }
                    left -= part;
                }
            });
        }
    });
    Ok(())
}

struct Bench {
    store: Arc<CloudStore>,
    clock: Arc<dyn Clock>,
    shape: ArrayShape,
    batch_bytes: usize,
    total: usize,
    streams: usize,
}

impl Bench {
    fn new(
        store: Arc<CloudStore>,
        args: &BenchArgs,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let cell_bytes = args.cell.as_u64() as u32;
        let chunks = (STORED_BYTES / (cell_bytes as usize * CELLS)).max(1) as u32;
        let shape = ArrayShape { chunks, cells_per_chunk: CELLS as u16, cell_bytes };
        let batch_bytes = args.batch.as_u64() as usize;
        let (total, streams) = (args.total.as_u64() as usize, args.streams);
        Ok(Self { store, clock, shape, batch_bytes, total, streams })
    }

    fn name(&self, array: u16, chunk: u32, version: u64) -> ChunkName {
        ChunkName { array: ArrayId(array), chunk: chunk % self.shape.chunks, version }
    }

    async fn fill(&self) -> Result<(), StoreError> {
        self.store.create_array(ArrayId(1), self.shape).await?;
        let data = bytes::Bytes::from(vec![1; self.shape.chunk_bytes()]);
        let step = self.chunks_of_batch();
        for start in (0..self.shape.chunks).step_by(step) {
            let end = self.shape.chunks.min(start + step as u32);
            let write = |chunk| ChunkWrite { chunk: self.name(1, chunk, 0), data: data.clone() };
            self.store.write_chunks((start..end).map(write).collect()).await?;
        }
        Ok(())
    }

    fn chunks_of_batch(&self) -> usize {
        (self.batch_bytes / self.shape.chunk_bytes()).max(1)
    }

    /// GB/s of cells read.
    async fn read(&self, round: usize) -> Result<f64, StoreError> {
        let cells = self.batch_bytes / self.shape.cell_bytes as usize;
        let batch = |randomness: &mut Stream| {
            let mut reads = CellReads::default();
            for _ in 0..cells {
                let (chunk, cell) = (randomness.next_u32(), randomness.next_u32() as usize % CELLS);
                reads.push(self.name(1, chunk, 0), [cell as u16]);
            }
            reads
        };
        let bytes = cells * self.shape.cell_bytes as usize;
        let batches = (self.total / self.streams).div_ceil(bytes);
        let begun = self.clock.now();
        let mut tasks = tokio::task::JoinSet::new();
        for stream in 0..self.streams {
            let mut randomness =
                Randomness::repeatable((round * 100 + stream) as u64).stream(Purpose::Workload);
            let all: Vec<_> = (0..batches.min(4)).map(|_| batch(&mut randomness)).collect();
            let store = self.store.clone();
            tasks.spawn(async move {
                for number in 0..batches {
                    let reads = &all[number % all.len()];
                    let read = store.read_cells(reads).await?;
                    debug_assert_eq!(read.len(), reads.cell_count());
                }
                Ok::<_, StoreError>(())
            });
        }
        joined(tasks).await?;
        Ok(self.gb_per_s(begun, batches * bytes * self.streams))
    }

    /// GB/s of chunks written.
    async fn write(&self, round: usize) -> Result<f64, StoreError> {
        self.store.create_array(ArrayId(2), self.shape).await?;
        let (step, data) = (self.chunks_of_batch(), vec![2; self.shape.chunk_bytes()]);
        let bytes = step * self.shape.chunk_bytes();
        let batches = (self.total / self.streams / 4).div_ceil(bytes);
        let data = bytes::Bytes::from(data);
        let begun = self.clock.now();
        let mut tasks = tokio::task::JoinSet::new();
        for stream in 0..self.streams {
            let (store, data) = (self.store.clone(), data.clone());
            let mut names = (0..(batches * step) as u32).map(|number| {
                let version = (u64::from(number / self.shape.chunks) * 100 + round as u64) * 100;
                self.name(2, number, version + stream as u64)
            });
            let all: Vec<Vec<_>> =
                (0..batches).map(|_| names.by_ref().take(step).collect()).collect();
            tasks.spawn(async move {
                for names in all {
                    let write = |chunk| ChunkWrite { chunk, data: data.clone() };
                    store.write_chunks(names.into_iter().map(write).collect()).await?;
                }
                Ok::<_, StoreError>(())
            });
        }
        joined(tasks).await?;
        let speed = self.gb_per_s(begun, batches * bytes * self.streams);
        self.store.drop_array(ArrayId(2)).await?;
        Ok(speed)
    }

    /// GB/s of a plain copy between two processes.
    async fn copy(&self) -> Result<f64, Failure> {
        let mut command = own();
        command.args(["tcp-source", &self.total.to_string(), &self.streams.to_string()]);
        let (helper, address) = Helper::start(command, "sending on ").map_err(|e| failed(&e))?;
        let address: SocketAddr = address.parse().map_err(|e| failed(&e))?;
        let begun = self.clock.now();
        let streams = self.streams;
        let moved = tokio::task::spawn_blocking(move || {
            std::thread::scope(|scope| {
                let sink = || {
                    let mut stream = TcpStream::connect(address)?;
                    let (mut buffer, mut moved) = (vec![0; COPY_BYTES], 0);
                    loop {
                        match stream.read(&mut buffer)? {
                            0 => return Ok::<usize, std::io::Error>(moved),
                            part => moved += part,
                        }
                    }
                };
                let sinks: Vec<_> = (0..streams).map(|_| scope.spawn(sink)).collect();
                sinks.into_iter().map(|sink| sink.join().unwrap_or(Ok(0))).sum::<Result<usize, _>>()
            })
        });
        let moved = moved.await.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
        let speed = self.gb_per_s(begun, moved);
        drop(helper);
        Ok(speed)
    }

    fn gb_per_s(&self, begun: u64, bytes: usize) -> f64 {
        bytes as f64 / (self.clock.now() - begun) as f64
    }
}

async fn joined(mut tasks: tokio::task::JoinSet<Result<(), StoreError>>) -> Result<(), StoreError> {
    while let Some(task) = tasks.join_next().await {
        task.map_err(|e| StoreError::Absent(e.to_string()))??;
    }
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// A process of this program, ended when dropped.
struct Helper(Child);

impl Helper {
    /// Starts it and waits for what it says behind `ready`.
    fn start(mut command: Command, ready: &str) -> std::io::Result<(Self, String)> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take();
        let helper = Self(child);
        let lines = out.map(|out| BufReader::new(out).lines().map_while(Result::ok));
        let said = lines.and_then(|mut all| all.find_map(|l| Some(l.strip_prefix(ready)?.into())));
        said.map(|said| (helper, said)).ok_or_else(|| std::io::Error::other("it did not start"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _over = self.0.kill();
        let _waited = self.0.wait();
    }
}

fn own() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|_| "fogbank-cloud".into()))
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    (error.to_string(), 71)
}

fn absent(error: StoreError) -> Failure {
    (error.to_string(), 69)
}

/// Cells of a chunk.
const CELLS: usize = 16;
/// What the server holds for reads: more than a cache.
const STORED_BYTES: usize = 256 << 20;
/// What the copy moves at a time.
const COPY_BYTES: usize = 256 << 10;
