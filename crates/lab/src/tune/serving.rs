//! Observing an application that somebody has: it gets a Redis endpoint over an empty store in
//! memory, for as long as is asked or until a signal. Nothing of it is kept.
//!
//! Epochs are short and large, so that little waits: an answer takes 10 to 40 ms. An application
//! that waits for its answers arrives as often as that lets it.

use std::sync::Arc;
use std::time::Duration;

use fogbank::{Error, Result};
use fogbank_env::{Clock, Metrics, Nanos, Randomness};
use fogbank_front::resp::{Listener, Settings as Listening};
use fogbank_oram::BatchShape;
use fogbank_process::say;
use fogbank_terminal::{address as typed_address, stop_signal};
use fogbank_txn::{Components, Proxy, Settings};

use super::memory::Memory;
use super::seen::Watching;

/// Deeper transactions than that are refused, and not observed.
const READ_BATCHES: usize = 16;
const INTERVAL: Duration = Duration::from_millis(1);
const SLACK: Duration = Duration::from_millis(1);
const SHAPE: BatchShape =
    BatchShape { capacity: 2_000_000, value_bytes: 1_024, read_batch: 10_000, write_batch: 10_000 };

/// Serves at `address`, and shows `watching` what is asked. How many records there were in the end.
///
/// # Errors
/// By blame.
pub async fn observe(
    address: &str,
    seconds: Option<f64>,
    watching: &Arc<Watching>,
    clock: &Arc<dyn Clock>,
) -> Result<u64> {
    let address = typed_address("--serve", address)?;
    let listener = Listener::bind(Listening { address, ..Listening::default() }).await;
    let listener = listener.map_err(|e| Error::Usage(format!("--serve {address}: {e}")))?;
    let signal = stop_signal()?;
    let settings = Settings {
        read_batches: READ_BATCHES,
        interval: INTERVAL,
        slack: SLACK,
        ..Settings::default()
    };
    let metrics = Metrics::default();
    // Where blocks lie matters to nobody here.
    let random = Randomness::repeatable(1);
    let components =
        Components { clock: clock.clone(), random, metrics: metrics.clone(), clients: None };
    let proxy = Proxy::start(settings, Box::new(Memory::new(SHAPE)), components, None).await?;
    proxy.observe_programs(watching.clone());
    say!("observing what Redis clients ask; everything is in memory and gone afterwards");
    match seconds {
        Some(seconds) => say!("  until         {seconds} s are over, Ctrl-C or SIGTERM"),
        None => say!("  until         Ctrl-C or SIGTERM"),
    }
    if !listener.address().ip().is_loopback() {
        say!("  warning       other machines can reach it without a password and in clear");
    }
    say!("listening on {}", listener.address());
    let (until, sleeping) = (seconds.map(|s| clock.now() + (s * 1e9) as Nanos), clock.clone());
    let over = async move {
        match until {
            Some(until) => sleeping.sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    let stop = async move {
        tokio::select! {
            () = signal => {}
            () = over => {}
        }
    };
    listener.serve(proxy.clone(), clock.clone(), metrics, stop).await;
    let records = proxy.records() as u64;
    proxy.close().await?;
    Ok(records)
}
