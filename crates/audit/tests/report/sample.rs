//! A proxy that is not there: events as a `ring` proxy would send them, and the commands behind
//! them, from a seed.

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_audit::report::{Broken, Label, Report, Seen};
use fogbank_audit::{Breach, Finding, Verdict};
use fogbank_env::{Nanos, Purpose, Randomness, Stream};
use fogbank_picture::{Asked, HistoryLine, Keys};
use fogbank_store::trace::{
    ChunkCells, ChunkSeen, Condition, Done, Event, Outcome, PublicConfig, Request, Sent, TraceClock,
};
use fogbank_store::{ArrayId, ChunkName};
use rand_core::Rng;

pub const INTERVAL_NS: Nanos = 60_000_000;
pub const READ_BATCHES: u32 = 3;
pub const BATCH: u32 = 16;
pub const LEAF_LEVEL: u8 = 9;
pub const CACHED_LEVELS: u8 = 2;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Favourite,
    Scan,
    Idle,
}

pub fn config() -> PublicConfig {
    let ring = RingConfig {
        read_batches: READ_BATCHES,
        read_batch: BATCH,
        write_batch: BATCH,
        interval_ns: INTERVAL_NS,
        slack_ns: 2_000_000,
        quantum_ns: 0,
        reals: 40,
        dummies: 50,
        evict_every: 46,
        leaf_level: LEAF_LEVEL,
        cached_levels: CACHED_LEVELS,
        array: 1,
        cell_bytes: 580,
        window_cells: 4_096,
        window_chunks: 64,
        image_points: 0,
        windows: 1,
        in_flight: 1,
        pauses: false,
        epoch_buffer: true,
        prefetch: false,
        xor: false,
        keep_superseded: false,
        vault: None,
    };
    PublicConfig::new(TraceClock::Virtual, "ring", (20_000, 512), ring)
}

/// Random numbers of one run.
pub struct Dice(Stream);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Randomness::repeatable(seed).stream(Purpose::Workload))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// The events of `epochs` epochs; every path read goes to `leaf(access)`.
pub fn events(epochs: u64, seed: u64, mut leaf: impl FnMut(u64, &mut Dice) -> u32) -> Vec<Event> {
    let (mut dice, mut made) = (Dice::new(seed), Made::default());
    let epoch_ns = INTERVAL_NS * u64::from(READ_BATCHES + 1);
    made.exchange(0, blob("commit", 900), Outcome::Put(true));
    let (mut access, mut eviction) = (0, 0u32);
    for epoch in 0..epochs {
        let start = 50_000_000 + epoch * epoch_ns;
        for batch in 0..u64::from(READ_BATCHES) {
            let paths: Vec<u32> =
                (0..u64::from(BATCH)).map(|i| leaf(access + i, &mut dice)).collect();
            access += u64::from(BATCH);
            let reads: Vec<ChunkCells> =
                paths.iter().flat_map(|leaf| path(*leaf, &mut dice)).collect();
            let cells = reads.iter().map(|_| Some(bytes(580))).collect();
            let at = start + batch * INTERVAL_NS;
            made.exchange(at, Request::ReadCells { reads }, Outcome::Cells(cells));
        }
        let at = start + u64::from(READ_BATCHES) * INTERVAL_NS;
        eviction += 1;
        let due = eviction.reverse_bits() >> (32 - LEAF_LEVEL);
        let writes = chunks(due).map(|chunk| (name(chunk, epoch), bytes(90 * 580))).collect();
        made.exchange(at, Request::WriteChunks { writes }, Outcome::Done);
        if epoch % 64 == 63 {
            made.exchange(at, blob("checkpoint", 100_000), Outcome::Put(true));
        }
    }
    made.events
}

#[derive(Default)]
struct Made {
    events: Vec<Event>,
    next_id: u64,
}

impl Made {
    fn exchange(&mut self, at: Nanos, request: Request, outcome: Outcome) {
        let (id, done_at) = (self.next_id, at + 1_000_000);
        self.next_id += 1;
        self.events.push(Event::Sent(Sent { id, at, cloud: 0, connection: 0, request }));
        self.events.push(Event::Done(Done { id, at: done_at, outcome }));
    }
}

fn blob(name: &str, bytes: u64) -> Request {
    Request::BlobPut { name: name.into(), bytes, condition: Condition::Always, fingerprint: 0 }
}

fn bytes(bytes: u64) -> ChunkSeen {
    ChunkSeen { bytes, fingerprints: Vec::new() }
}

fn name(chunk: u32, version: u64) -> ChunkName {
    ChunkName { array: ArrayId(1), chunk, version }
}

pub fn chunks(leaf: u32) -> impl Iterator<Item = u32> {
    let first = 1 << CACHED_LEVELS;
    (CACHED_LEVELS..=LEAF_LEVEL)
        .map(move |level| (1 << level) - first + (leaf >> (LEAF_LEVEL - level)))
}

fn path(leaf: u32, dice: &mut Dice) -> Vec<ChunkCells> {
    chunks(leaf)
        .map(|chunk| ChunkCells { chunk: name(chunk, 0), cells: vec![dice.below(90) as u16] })
        .collect()
}

/// What clients asked in `span` nanoseconds.
pub fn history(workload: Workload, span: Nanos, seed: u64) -> Vec<HistoryLine> {
    let (mut dice, keys) = (Dice::new(seed), 600);
    let step = 4_000_000;
    let lines = (0..span / step).filter_map(|i| {
        let key = match workload {
            Workload::Idle => return None,
            Workload::Scan => i % keys,
            Workload::Favourite if dice.below(3) > 0 => 300 + dice.below(3),
            Workload::Favourite => {
                let most = dice.below(keys) + 1;
                dice.below(most)
            }
        };
        let op = if dice.below(10) < 3 { Asked::Write } else { Asked::Read };
        Some(HistoryLine { at_ns: i * step, op, key: key as u32 })
    });
    lines.collect()
}

/// A label whose first run has a history.
pub fn label(name: &str, workload: Workload, epochs: u64, seed: u64) -> Label {
    let mut label = Label::new(name);
    for run in 0..2 {
        label.add(seen(&events(epochs, seed + run, |_, dice| uniform(dice))));
    }
    label.asked = label.seen.as_ref().map(|seen| asked(seen, workload, seed));
    label
}

pub fn uniform(dice: &mut Dice) -> u32 {
    dice.below(1 << LEAF_LEVEL) as u32
}

pub fn seen(events: &[Event]) -> Seen {
    let mut seen = Seen::new(&config().encode());
    events.iter().for_each(|event| seen.event(event));
    seen
}

pub fn asked(seen: &Seen, workload: Workload, seed: u64) -> Keys {
    let mut keys = Keys::new(seen.scale());
    history(workload, seen.sizes().duration_ns, seed).iter().for_each(|line| keys.line(line));
    keys
}

pub fn finding(check: &str, subject: &str, verdict: Verdict, leak: Option<f64>) -> Finding {
    let (figure, threshold) = match verdict {
        Verdict::Failed => (0.183, 0.01),
        _ => (0.0021, 0.01),
    };
    let words = match verdict {
        Verdict::Passed => "Nothing stands out.",
        Verdict::Failed => "More than chance explains.",
        Verdict::TooFew => "Nothing stands out, and little would have.",
    };
    Finding {
        check: check.into(),
        subject: subject.into(),
        verdict,
        figure,
        threshold,
        samples: 110_592,
        smallest_leak: leak,
        words: words.into(),
    }
}

const CHECKS: [(&str, Option<f64>); 8] = [
    ("oracle", None),
    ("leaves-uniform", Some(0.004)),
    ("leaves-lagged", Some(0.006)),
    ("slot-ranks", Some(0.002)),
    ("retired-ranks", Some(0.011)),
    ("ciphertexts-fresh", None),
    ("one-size-per-kind", None),
    ("gaps", Some(0.009)),
];

/// A report on three workloads. `verdict` is that of one check of the first label.
pub fn report(verdict: Verdict, epochs: u64, with_history: bool) -> Report {
    let labels = [
        ("one favourite", Workload::Favourite),
        ("scan", Workload::Scan),
        ("idle", Workload::Idle),
    ];
    let mut report = Report::default();
    for (number, (name, workload)) in labels.into_iter().enumerate() {
        let mut label = label(name, workload, epochs, 10 * number as u64);
        if !with_history {
            label.asked = None;
        }
        report.labels.push(label);
        for (check, leak) in CHECKS {
            let here = number == 0 && check == "leaves-lagged";
            let verdict = if here { verdict } else { Verdict::Passed };
            report.findings.push(finding(check, name, verdict, leak));
        }
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let pair = format!("{} / {}", labels[one].0, labels[other].0);
        let verdict = if one == 0 { verdict } else { Verdict::Passed };
        report.findings.push(finding("two-histories", &pair, verdict, Some(0.01)));
    }
    if verdict == Verdict::Failed {
        report.breaches.push(breach());
    }
    report
}

pub fn breach() -> Broken {
    Broken {
        subject: "one favourite".into(),
        breach: Breach {
            rule: "full-batch",
            event: 4_711,
            at: 2_450_000_000,
            expected: "read cells: 16 paths of 8 buckets".into(),
            seen: "read cells: 15 paths of 8 buckets".into(),
        },
    }
}
