//! A disk in memory without a cloud, for comparisons and measurements:
//! `cargo run --release -p fogbank-front --example nbd_memory -- 127.0.0.1:10809 256` or
//! `... -- /tmp/socket 256`, with the size in MiB.

use fogbank_env::{Clock, SystemClock};
use fogbank_front::nbd::{Place, Settings, serve};
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::plain::PlainEngine;
use std::sync::Arc;

const BLOCK_BYTES: usize = 4096;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().unwrap_or("127.0.0.1:10809".into());
    let place = match place.parse() {
        Ok(address) => Place::Tcp(address),
        Err(_) => Place::Unix(place.into()),
    };
    let mib: u32 = arguments.next().unwrap_or("256".into()).parse()?;
    let capacity = mib.checked_mul((1 << 20) / BLOCK_BYTES as u32).ok_or("too large")?;
    let engine = PlainEngine::new(ImmediateShape { capacity, value_bytes: BLOCK_BYTES });
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let settings = Settings { place, trim: true, ..Settings::default() };
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(settings, Arc::new(engine), clock, stop).await?;
    Ok(())
}
