//! Lives through three days on a small store each, two idle and one busy, and prints what the cloud
//! saw: the busy day differs from an idle one as the idle ones differ from each other, by chance.
//!
//! `cargo run --release --example what_the_cloud_saw`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use fogbank::args::ShapeArgs;
use fogbank::{Error, Key, OpenOptions, Place, Proxy, Result};
use fogbank_store::trace::{Event, Request, TraceReader};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("fogbank-seen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| Error::CannotUse(e.to_string()))?;
    let days =
        [("nothing at all", false), ("nothing again", false), ("one patient, over and over", true)];
    for (number, (day, busy)) in days.into_iter().enumerate() {
        let trace = folder.join(format!("{number}.trace"));
        live_through(&folder.join(number.to_string()), trace.clone(), busy).await?;
        println!("{day}");
        for (what, (requests, places)) in seen(&trace)? {
            println!("  {what:<14} {requests:>5} requests {places:>6} cells or chunks");
        }
    }
    println!(
        "Cells vary a little: paths are random, and a bucket rewritten in an epoch is not read."
    );
    std::fs::remove_dir_all(&folder).ok();
    Ok(())
}

/// Opens a small store that keeps nothing of the tree in the proxy, lets five seconds pass, closes
/// it.
async fn live_through(data: &Path, trace: PathBuf, busy: bool) -> Result<()> {
    let shape = ShapeArgs {
        capacity: Some(100),
        cache: Some(ByteSize::b(0)),
        bucket_reals: Some(4),
        ..ShapeArgs::default()
    };
    let options = OpenOptions::new(Place::local(data)).shape(shape).record(Some(trace));
    let opened = options.open().await?;
    let visits = async {
        if !busy {
            std::future::pending::<()>().await;
        }
        loop {
            visit(opened.proxy()).await?;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), visits).await.unwrap_or(Ok::<(), Error>(()))?;
    opened.close().await
}

async fn visit(proxy: &Proxy) -> Result<()> {
    let visited = proxy.transact(|txn| async move {
        let key = Key::new(b"patient", b"17");
        let visits = txn.get(&key).await?.map_or(0, |record| record.value.len());
        txn.put(&key, vec![b'x'; (visits + 1) % 100].into(), 0).await
    });
    Ok(visited.await?)
}

/// Requests by kind, and how many cells or chunks they named, as the trace has them.
fn seen(trace: &Path) -> Result<BTreeMap<String, (u64, usize)>> {
    let fault = |e: fogbank_store::trace::TraceError| Error::CannotUse(e.to_string());
    let mut kinds: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    for event in TraceReader::open(trace).map_err(fault)? {
        let Event::Sent(sent) = event.map_err(fault)? else { continue };
        let kind = kinds.entry(format!("{:?}", sent.request.operation())).or_default();
        kind.0 += 1;
        kind.1 += match &sent.request {
            Request::ReadCells { reads } => reads.iter().map(|read| read.cells.len()).sum(),
            Request::WriteChunks { writes } => writes.len(),
            _ => 1,
        };
    }
    Ok(kinds)
}
