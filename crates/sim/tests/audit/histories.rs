//! A classifier over traces of the proxy as it ships: it learns what leaks, and learns nothing
//! where nothing does.

use fogbank_audit::distinguish;
use fogbank_audit::report::Report;
use fogbank_audit::{Finding, Options, Verdict};
use fogbank_sim::scene::{Canary, Cast, Scene, Shape, Workload};

use crate::audited;

/// Four runs each of two histories, played in turn; no two have the same seed.
fn interleaved(first: &Scene, second: &Scene) -> Vec<(&'static str, Scene)> {
    let run = |number: u64| {
        let run = |label, scene: &Scene, seed| (label, Scene { seed, ..scene.clone() });
        let seed = 100 * first.seed + 2 * number;
        [run("first", first, seed), run("second", second, seed + 1)]
    };
    (0..4).flat_map(run).collect()
}

fn options(confidence: f64) -> Options {
    let distinguish = distinguish::Options {
        scales: vec![1, 10],
        train_rows: 2_000,
        trees: 10,
        confidence,
        ..distinguish::Options::default()
    };
    Options { distinguish }
}

fn told(report: &Report) -> &Finding {
    report.findings.iter().find(|finding| finding.check == "two-histories").unwrap()
}

/// The pair of histories that a canary tells apart, by the engine alone or the whole proxy.
fn leaking(canary: Canary, first: Workload, second: Workload, cast: Cast, epochs: u32) -> Report {
    let scene = |workload| {
        let whole = Scene { cast, epochs, ..Scene::new(workload, 1) };
        let alone = Scene::of_engine(workload, 1, Shape::small(), epochs);
        Scene { canary: Some(canary), ..if cast == Cast::Engine { alone } else { whole } }
    };
    audited(&interleaved(&scene(first), &scene(second)), &options(0.99))
}

#[test]
fn it_learns_what_canaries_leak() {
    use Workload::{AbortStorm, AllAbsent, Idle, OneHotKey, Uniform};
    for (canary, first, second, cast) in [
        (Canary::NoRemapOnWrite, Idle, OneHotKey, Cast::Proxy),
        (Canary::ClockMovedByAborts, Uniform, AbortStorm, Cast::Proxy),
        (Canary::RealsFirst, Idle, Uniform, Cast::Engine),
        (Canary::DummiesInOrder, Idle, Uniform, Cast::Engine),
        (Canary::AbsentSkipsRead, AllAbsent, Uniform, Cast::Engine),
        (Canary::UnpaddedWrites, Idle, Uniform, Cast::Engine),
        (Canary::SlotForgotten, Idle, Uniform, Cast::Engine),
        (Canary::DuplicatesOmitted, Uniform, OneHotKey, Cast::Engine),
    ] {
        let report = leaking(canary, first, second, cast, 350);
        let told = told(&report);
        assert_eq!(told.verdict, Verdict::Failed, "{}: {}", canary.name(), told.words);
        assert!(told.figure >= 0.1, "{}: {}", canary.name(), told.words);
    }
}

/// One write of the hot key in four keeps its leaf: of the 24 accesses of an epoch and the three
/// epochs after it, one shows it.
#[test]
fn it_finds_a_leak_in_one_access_of_a_hundred() {
    let canary = Canary::RareNoRemap { every: 4 };
    let report = leaking(canary, Workload::Idle, Workload::OneHotKey, Cast::Engine, 1_600);
    let told = told(&report);
    assert_eq!((told.check.as_str(), told.verdict), (canary.caught_by(), Verdict::Failed));
    let honest = Scene::of_engine(Workload::OneHotKey, 1, Shape::small(), 1_600);
    let idle = Scene { workload: Workload::Idle, ..honest.clone() };
    let report = audited(&interleaved(&idle, &honest), &options(0.99));
    assert_eq!(found(&report), [""; 0]);
}

fn found(report: &Report) -> Vec<&str> {
    let failed = report.findings.iter().filter(|finding| finding.verdict == Verdict::Failed);
    failed.map(|finding| finding.words.as_str()).collect()
}

/// Twenty audits of eight runs each, all workloads and shapes in turn. They share the one percent
/// by which the classifier of a single audit may err, so that another seed is no matter of luck.
#[test]
fn no_false_alarm_over_twenty_seeds() {
    let small = Shape::small;
    let shapes = [
        small(),
        Shape { xor: true, ..small() },
        Shape { prefetch: true, ..small() },
        Shape { cache_bytes: 4 << 10, ..small() },
        Shape::stressed(),
    ];
    for seed in 0..20 {
        let workload = |at: usize| Workload::ALL[at % Workload::ALL.len()];
        let number = seed as usize;
        let shape = shapes[number % shapes.len()].clone();
        let epochs = 160 / shape.read_batches as u32;
        let cast = if number.is_multiple_of(2) { Cast::Journalled } else { Cast::Proxy };
        let first = Scene { shape, epochs, cast, ..Scene::new(workload(number), seed) };
        let other = workload(number + 1 + number / Workload::ALL.len());
        let second = Scene { workload: other, ..first.clone() };
        let report = audited(&interleaved(&first, &second), &options(1.0 - 0.01 / 20.0));
        assert_eq!(found(&report), [""; 0], "{seed}: {first:?}");
        let control = report.findings.iter().find(|finding| finding.check == "same-history");
        assert_eq!(control.unwrap().verdict, Verdict::Passed, "{seed}: long enough to compare");
        assert_eq!(report.findings.iter().filter(|f| f.check == "oracle").count(), 8);
    }
}
