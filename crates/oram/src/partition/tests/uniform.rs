//! Partitions that are shown are uniform, and tell nothing of the one before: a million accesses.

use super::Harness;
use crate::Access;
use crate::partition::layout::Layout;

const ACCESSES: usize = 1_000_000;
/// An honest run passes it but for one in a billion.
const STANDARD_DEVIATIONS: f64 = 6.0;

/// By how many standard deviations the chi-square of these counts is above what a uniform law
/// gives.
fn excess(counts: &[u64]) -> f64 {
    let each = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let sum: f64 = counts.iter().map(|count| (*count as f64 - each).powi(2) / each).sum();
    let freedom = counts.len() as f64 - 1.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Counts of partitions, and of pairs of partitions that are shown one after the other.
fn counts(shown: &[u32], partitions: u32) -> [Vec<u64>; 2] {
    let mut counts = [vec![0; partitions as usize], vec![0; (partitions * partitions) as usize]];
    shown.iter().for_each(|partition| counts[0][*partition as usize] += 1);
    for pair in shown.windows(2) {
        counts[1][(pair[0] * partitions + pair[1]) as usize] += 1;
    }
    counts
}

#[test]
fn partitions_of_a_million_accesses_are_uniform_and_independent() {
    for (name, asked) in [("one hot block", (|_| 0) as fn(u32) -> u32), ("a scan", |at| at % 5_000)]
    {
        let layout = Layout::new(5_000, 3).unwrap();
        let mut harness = Harness::new(layout, 7);
        let mut shown = Vec::with_capacity(ACCESSES);
        for access in 0..ACCESSES as u32 {
            harness.arrive(asked(access), Access::Read);
            // Two wait together now and then: the second is a duplicate if it asks for the same.
            if access % 3 != 0 {
                harness.settle();
            }
            let reads = harness.trace.drain(..).filter(|(kind, ..)| *kind == "read");
            shown.extend(reads.filter_map(|(_, _, chunks)| Some(chunks.first()?.0.chunk)));
            harness.answers.clear();
        }
        assert!(shown.len() > ACCESSES * 99 / 100, "{name}: {}", shown.len());
        for counts in counts(&shown, layout.partitions) {
            let excess = excess(&counts);
            assert!(excess < STANDARD_DEVIATIONS, "{name}: {excess} over {}", counts.len());
        }
        // The canary: every hundredth shows its partition twice.
        let again = |at: usize| if at % 100 == 99 { shown[at - 1] } else { shown[at] };
        let repeated: Vec<u32> = (0..shown.len()).map(again).collect();
        assert!(excess(&counts(&repeated, layout.partitions)[1]) > STANDARD_DEVIATIONS, "{name}");
    }
}
