//! The statistics against made-up traces: honest ones pass, planted leaks of known size are found.

mod canaries;
mod honest;
mod power;
mod synthetic;

use fogbank_audit::statistics::{Battery, Levels, RunDigest};
use fogbank_audit::{Finding, Verdict};

use synthetic::Synthetic;

/// Levels that leave the question of power aside.
fn lenient() -> Levels {
    Levels { smallest_leak: 1.0, smallest_timing_leak: 1.0, ..Levels::default() }
}

fn audit(run: &Synthetic, accesses: u64) -> (Vec<Finding>, RunDigest) {
    let mut battery = Battery::new(&run.config, &format!("seed {}", run.seed)).expect("a battery");
    run.observe(accesses, &mut battery);
    battery.finish(&lenient())
}

fn failures(findings: &[Finding]) -> Vec<&str> {
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Failed);
    failed.map(|finding| finding.check.as_str()).collect()
}

fn named<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.check == check).expect(check)
}
