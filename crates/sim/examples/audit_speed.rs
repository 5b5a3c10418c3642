//! How long an audit of one trace takes and how much memory: `audit_speed FILE`.
//!
//! A trace of ten million events: `scene engine:uniform 1 FILE 1000000`.

use std::process::ExitCode;

use fogbank_audit::{Given, Options, audit};
use fogbank_env::{Clock, SystemClock};

fn main() -> ExitCode {
    let Some(trace) = std::env::args().nth(1) else {
        eprintln!("usage: audit_speed FILE");
        return ExitCode::from(64);
    };
    let clock = SystemClock::new();
    let began = clock.now();
    let given = Given { label: "a".into(), traces: vec![trace.into()], history: None };
    match audit(&[given], &Options::default(), |_| {}) {
        Ok(report) => {
            report
                .findings
                .iter()
                .for_each(|f| println!("{:?} {}: {}", f.verdict, f.check, f.words));
            let seconds = (clock.now() - began) as f64 / 1e9;
            let events = report.sizes().events;
            println!("{events} events in {seconds:.1} s, at most {} kB", peak_kb());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The most memory that this process held, as the kernel counts it; 0 where it does not say.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
