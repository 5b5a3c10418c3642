//! How long a replay takes: not a test of anything, run by hand in release.

use std::time::Duration;

use fogbank_audit::Observation;
use fogbank_audit::oracle::Oracle;
use fogbank_env::{Clock, SystemClock};
use fogbank_oram::ring::RingSettings;
use fogbank_store::trace::{PublicConfig, TraceReader};

use crate::drive::{Workload, record, settings};

#[tokio::test]
#[ignore = "takes minutes"]
async fn a_million_events() {
    let mut settings = RingSettings { leaf_level: None, ..settings(4000, (8, 12, 8)) };
    (settings.shape.read_batch, settings.read_batches) = (16, 3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    record(&settings, Workload::Uniform, 80_000, &path).await;
    let clock = SystemClock::new();
    let read = timed(&clock, || {
        let mut reader = TraceReader::open(&path).unwrap();
        let mut count = 0;
        while let Some(event) = reader.next() {
            reader.take_back(event.unwrap());
            count += 1;
        }
        count
    });
    println!("reading alone: {} events in {:?}; {}", read.1, read.0, processor());
    let (took, summary) = timed(&clock, || {
        let mut reader = TraceReader::open(&path).unwrap();
        let mut oracle = Oracle::new(&PublicConfig::decode(reader.config()).unwrap()).unwrap();
        let mut observed = 0u64;
        let mut count = |_: &Observation<'_>| observed += 1;
        while let Some(event) = reader.next() {
            let event = event.unwrap();
            oracle.event(&event, &mut count).unwrap();
            reader.take_back(event);
        }
        (oracle.summary(), observed)
    });
    println!("replayed in {took:?}; {}: {summary:?}", processor());
    let (took, _) = timed(&clock, || fogbank_audit::oracle::replay(&[&path], &mut []).unwrap());
    println!("replayed beside a thread that reads in {took:?}; {}", processor());
}

/// What this process has cost so far, whatever else the machine does.
fn processor() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ticks: Vec<&str> = stat.split(' ').skip(13).take(2).collect();
    let peak = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    format!("processor so far {ticks:?} ticks, {peak}")
}

fn timed<T>(clock: &SystemClock, work: impl FnOnce() -> T) -> (Duration, T) {
    let before = clock.now();
    let result = work();
    (Duration::from_nanos(clock.now() - before), result)
}
