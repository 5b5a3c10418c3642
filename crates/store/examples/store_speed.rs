//! How fast the file store and the recorder are on this machine.
//!
//! `cargo run --release -p fogbank-store --example store_speed -- FOLDER [MEGABYTES] [tail]`
//!
//! Times are of the page cache unless the data outgrow the memory; the barrier is of the disk. The
//! recorder is compared with the same work without it, several times in turn, and the medians told.
//! The memory store moves no bytes at all, so what is recorded of it is the recorder's own speed.
//! Processor time is that of all threads: on a busy machine it says more than the clock.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, SystemClock};
use fogbank_store::trace::{Fingerprints, TraceOptions, TraceWriter};
use fogbank_store::{
    ArrayId, ArrayShape, CellReads, ChunkName, ChunkWrite, FileStore, MemoryStore, Recorded,
    Result, Store,
};

const ARRAY: ArrayId = ArrayId(1);
const ROUNDS: usize = 9;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: store_speed FOLDER [MEGABYTES] [tail]");
        std::process::exit(64);
    };
    let bytes = arguments.next().map_or(Ok(256), |text| text.parse::<usize>())? * 1_000_000;
    let fingerprints = match arguments.next().as_deref() {
        Some("tail") => Fingerprints::Tail,
        _ => Fingerprints::Whole,
    };
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for cell_bytes in [256, 1024, 4096] {
        println!("cells of {cell_bytes} bytes, 20 in a chunk, {} MB", bytes / 1_000_000);
        let shape = ArrayShape { chunks: 1 << 24, cells_per_chunk: 20, cell_bytes };
        let work = Work { shape, chunks: (bytes / shape.chunk_bytes()) as u32, fingerprints };
        for memory in [false, true] {
            work.compare(folder, memory, &clock).await?;
        }
    }
    Ok(())
}

struct Work {
    shape: ArrayShape,
    chunks: u32,
    fingerprints: Fingerprints,
}

/// Seconds that each part took.
#[derive(Default, Clone, Copy)]
struct Times {
    write: f64,
    barrier: f64,
    chunks: f64,
    cells: f64,
    /// Processor time of writing, and of reading chunks and cells.
    write_cpu: f64,
    read_cpu: f64,
}

impl Work {
    async fn compare(
        &self,
        folder: &Path,
        memory: bool,
        clock: &Arc<dyn Clock>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let (mut plain, mut recorded) = (Vec::new(), Vec::new());
        let mut trace_bytes = 0;
        for round in 0..ROUNDS {
            let (store_folder, trace_path) = (folder.join("store"), folder.join("trace"));
            let _ = std::fs::remove_file(&trace_path);
            let open = || -> Result<Arc<dyn Store>> {
                Ok(match memory {
                    true => Arc::new(MemoryStore::new()),
                    false => Arc::new(FileStore::open(&store_folder)?),
                })
            };
            for with_recorder in if round % 2 == 0 { [false, true] } else { [true, false] } {
                if !with_recorder {
                    plain.push(self.run(&*open()?, clock).await?);
                    continue;
                }
                let options =
                    TraceOptions { fingerprints: self.fingerprints, ..TraceOptions::default() };
                let trace = TraceWriter::create(&trace_path, b"", clock.clone(), options)?;
                let store = Recorded::new(open()?, trace.clone());
                recorded.push(self.run(&store, clock).await?);
                trace_bytes = trace.finish()?.bytes;
            }
        }
        let _ = std::fs::remove_dir_all(folder.join("store"));
        println!("  {}", if memory { "memory" } else { "file" });
        let rate = |seconds| self.chunks as f64 * self.shape.chunk_bytes() as f64 / 1e9 / seconds;
        let reads = self.chunks as f64;
        let part = |name: &str, of: fn(&Times) -> f64, tell: &dyn Fn(f64) -> String| {
            let (bare, traced) = (median(&plain, of), median(&recorded, of));
            let more = 100.0 * (traced / bare - 1.0);
            let (bare, traced) = (tell(bare), tell(traced));
            println!("    {name:<22} {bare:>18}   recorded {traced:>18} ({more:+.1} % time)");
        };
        part("write chunks", |t| t.write, &|s| format!("{:.2} GB/s", rate(s)));
        part("barrier", |t| t.barrier, &|s| format!("{:.1} ms", 1e3 * s));
        part("read chunks", |t| t.chunks, &|s| format!("{:.2} GB/s", rate(s)));
        part("read one cell a chunk", |t| t.cells, &|s| {
            format!("{:.2} M cells/s", reads / s / 1e6)
        });
        let cpu = |name: &str, of: fn(&Times) -> f64, gigabytes: f64| {
            let more = (median(&recorded, of) - median(&plain, of)) / gigabytes;
            let bare = median(&plain, of) / gigabytes;
            println!("    {name:<22} {bare:>8.3} s/GB of processor, the recorder {more:.3} more");
        };
        let chunk_bytes = self.shape.chunk_bytes() as f64;
        let cell_bytes = f64::from(self.shape.cell_bytes);
        cpu("writing", |t| t.write_cpu, reads * chunk_bytes / 1e9);
        cpu("reading", |t| t.read_cpu, reads * (chunk_bytes + cell_bytes) / 1e9);
        println!("    the trace has {trace_bytes} bytes");
        Ok(())
    }

    async fn run(&self, store: &dyn Store, clock: &Arc<dyn Clock>) -> Result<Times> {
        store.drop_array(ARRAY).await?;
        store.create_array(ARRAY, self.shape).await?;
        let mut times = Times::default();
        let name = |chunk| ChunkName { array: ARRAY, chunk, version: 1 };
        let all: Vec<u32> = (0..self.chunks).collect();
        let batches = || all.chunks((64_000_000 / self.shape.chunk_bytes()).max(1));
        for batch in batches() {
            let write = |&chunk| ChunkWrite {
                chunk: name(chunk),
                data: Bytes::from(vec![chunk as u8; self.shape.chunk_bytes()]),
            };
            let writes: Vec<_> = batch.iter().map(write).collect();
            let before = processor_s();
            timed(clock, &mut times.write, store.write_chunks(writes)).await?;
            times.write_cpu += processor_s() - before;
        }
        timed(clock, &mut times.barrier, store.barrier()).await?;
        let before = processor_s();
        for batch in batches() {
            for some in batch.chunks(256) {
                let names: Vec<_> = some.iter().map(|&chunk| name(chunk)).collect();
                timed(clock, &mut times.chunks, store.read_chunks(&names)).await?;
            }
            let mut reads = CellReads::default();
            for &chunk in batch {
                let scattered = (chunk.wrapping_mul(2_654_435_761)) % self.chunks;
                reads.push(name(scattered), [(chunk % 20) as u16]);
            }
            timed(clock, &mut times.cells, store.read_cells(&reads)).await?;
        }
        times.read_cpu = processor_s() - before;
        Ok(times)
    }
}

async fn timed<T>(
    clock: &Arc<dyn Clock>,
    total: &mut f64,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let start = clock.now();
    let done = work.await;
    *total += (clock.now() - start) as f64 / 1e9;
    done
}

/// Seconds that the threads of this process have run, as Linux counts them; elsewhere 0.
fn processor_s() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let run = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    run.sum::<f64>() / 1e9
}

fn median(times: &[Times], of: fn(&Times) -> f64) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(of).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
