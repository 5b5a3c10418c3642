//! A front end over a store in memory, for comparisons and measurements without a cloud:
//! `cargo run --release -p fogbank-front --example resp_memory -- 7400`.

#[allow(dead_code)]
#[path = "../tests/resp/support.rs"]
mod support;

use fogbank_env::{Clock, Metrics, SystemClock};
use fogbank_front::resp::{Settings, serve};
use fogbank_oram::BatchShape;
use std::sync::Arc;
use std::time::Duration;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).unwrap_or("7400".into()).parse()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let shape = BatchShape {
        capacity: 1 << 20,
        value_bytes: 1024,
        read_batch: 20_000,
        write_batch: 20_000,
    };
    let proxy = support::proxy(shape, Duration::ZERO, clock.clone()).await;
    let settings = Settings { address: ([127, 0, 0, 1], port).into(), ..Settings::default() };
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(settings, proxy, clock, Metrics::default(), stop).await?;
    Ok(())
}
