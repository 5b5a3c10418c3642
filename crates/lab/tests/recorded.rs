//! What a store of the default shape shows its cloud from its creation to its second closing is
//! what the auditor's oracle predicts from the heads of the traces.

use std::path::Path;

use fogbank::args::ShapeArgs;
use fogbank::{Key, OpenOptions, Place, Result};
use fogbank_audit::Observation;
use fogbank_audit::oracle::{Halt, Oracle, Summary};
use fogbank_store::trace::{Condition, Event, PublicConfig, Request, TraceReader};

/// Opens the store, runs until `epochs` have passed with writes in them, closes it.
async fn run(folder: &Path, trace: &Path, shape: ShapeArgs, epochs: u64) -> Result<()> {
    let options = OpenOptions::new(Place::local(folder)).shape(shape).record(Some(trace.into()));
    let opened = options.repeatable(1).open().await?;
    let proxy = opened.proxy();
    while proxy.epoch() < epochs {
        let key = Key::new(b"patient", &proxy.epoch().to_le_bytes());
        let written = proxy.transact(|txn| {
            let key = key.clone();
            async move { txn.put(&key, "biopsy: benign".into(), 0).await }
        });
        written.await?;
    }
    opened.close().await
}

fn replay(traces: &[&Path]) -> std::result::Result<Summary, Halt> {
    let head = TraceReader::open(traces[0]).expect("a trace");
    let config = PublicConfig::decode(head.config()).expect("a public configuration");
    let mut oracle = Oracle::new(&config).expect("a configuration the oracle follows");
    for trace in traces {
        oracle.next_trace();
        for event in TraceReader::open(trace).expect("a trace") {
            oracle.event(&event.expect("an event"), &mut |_: &Observation<'_>| {})?;
        }
    }
    Ok(oracle.summary())
}

async fn is_predicted(shape: ShapeArgs, epochs: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for trace in [&first, &second] {
        run(folder.path(), trace, shape.clone(), epochs).await.expect("the run");
    }
    let summary = replay(&[&first, &second]).unwrap_or_else(|halt| panic!("{halt}"));
    assert_eq!((summary.openings, summary.closings, summary.crashes), (2, 2, 0));
    assert!(summary.epochs >= 2 * epochs && summary.images > 0, "{summary:?}");
    if shape.capacity.is_none() {
        every_change_is_found(&first);
    }
    // The canaries: what begins with the second opening cannot be known, and it comes but once.
    assert!(matches!(replay(&[&second]), Err(Halt::Unpredictable { .. })));
    assert!(matches!(replay(&[&first, &second, &second]), Err(Halt::Breach(_))));
}

type Change = (&'static str, &'static str, fn(&mut Vec<Event>));

/// What is done to the calls around the epochs, and the rule that it breaks.
const CHANGES: [Change; 9] = [
    ("the record is longer", "blob-size", |events| *bytes(events, "commit", 0) += 1),
    ("the last piece is shorter", "blob-size", |events| {
        let last = puts(events, "checkpoint/").len() - 1;
        *bytes(events, "checkpoint/", last) -= 1;
    }),
    ("a piece is called otherwise", "commit-order", |events| {
        let at = puts(events, "checkpoint/")[0];
        let Event::Sent(sent) = &mut events[at] else { return };
        let Request::BlobPut { name, .. } = &mut sent.request else { return };
        name.push('0');
    }),
    ("a piece is left out", "commit-order", |events| {
        let at = puts(events, "checkpoint/")[0];
        events.drain(at..at + 2);
    }),
    ("an epoch is not committed", "commit-order", |events| {
        let at = puts(events, "commit")[1];
        events.drain(at..at + 2);
    }),
    ("the record does not mind what is there", "blob-order", |events| {
        let at = puts(events, "commit")[1];
        let Event::Sent(sent) = &mut events[at] else { return };
        let Request::BlobPut { condition, .. } = &mut sent.request else { return };
        *condition = Condition::Always;
    }),
    ("the array is of another shape", "array-shape", |events| {
        for event in events {
            let Event::Sent(sent) = event else { continue };
            let Request::CreateArray { shape, .. } = &mut sent.request else { continue };
            shape.cells_per_chunk += 1;
        }
    }),
    ("the store is closed within an epoch", "commit-order", |events| {
        let read = |event: &Event| match event {
            Event::Sent(sent) => matches!(sent.request, Request::ReadCells { .. }),
            _ => false,
        };
        let from = events.iter().rposition(read).expect("a read") + 2;
        let to = puts(events, "checkpoint/")[0];
        events.drain(from..to);
    }),
    ("another piece is deleted", "commit-order", |events| {
        for event in events {
            let Event::Sent(sent) = event else { continue };
            let Request::BlobDelete { names } = &mut sent.request else { continue };
            names.push("checkpoint/00000001-0000000000000003/000000".into());
        }
    }),
];

fn every_change_is_found(trace: &Path) {
    let reader = TraceReader::open(trace).expect("a trace");
    let config = PublicConfig::decode(reader.config()).expect("a public configuration");
    let honest: Vec<Event> = reader.map(|event| event.expect("an event")).collect();
    for (change, rule, apply) in CHANGES {
        let mut spoiled = honest.clone();
        apply(&mut spoiled);
        let mut oracle = Oracle::new(&config).expect("a configuration the oracle follows");
        let mut nobody = |_: &Observation<'_>| {};
        let halt = spoiled.iter().find_map(|event| oracle.event(event, &mut nobody).err());
        let Some(Halt::Breach(breach)) = halt else { panic!("{change}: {halt:?}") };
        assert_eq!(breach.rule, rule, "{change}: {breach}");
    }
}

/// Where blobs whose names begin so are put.
fn puts(events: &[Event], prefix: &str) -> Vec<usize> {
    let is = |event: &Event| match event {
        Event::Sent(sent) => {
            matches!(&sent.request, Request::BlobPut { name, .. } if name.starts_with(prefix))
        }
        _ => false,
    };
    (0..events.len()).filter(|at| is(&events[*at])).collect()
}

fn bytes<'a>(events: &'a mut [Event], prefix: &str, nth: usize) -> &'a mut u64 {
    let at = puts(events, prefix)[nth];
    let Event::Sent(sent) = &mut events[at] else { panic!("a put") };
    let Request::BlobPut { bytes, .. } = &mut sent.request else { panic!("a put") };
    bytes
}

#[tokio::test]
async fn a_store_of_the_default_shape() {
    is_predicted(ShapeArgs::default(), 4).await;
}

#[tokio::test]
async fn a_small_store_that_rests_little() {
    let shape = ShapeArgs {
        capacity: Some(500),
        interval_ms: Some(20),
        bucket_reals: Some(4),
        ..ShapeArgs::default()
    };
    is_predicted(shape, 20).await;
}
