//! What a store of the default shape shows its cloud from its creation to its second closing is what
//! the auditor's oracle predicts from the heads of the traces.

use std::path::Path;

use fogbank::args::ShapeArgs;
use fogbank::{Key, OpenOptions, Place, Result};
use fogbank_audit::Observation;
use fogbank_audit::oracle::{Halt, Oracle, Summary};
use fogbank_store::trace::{PublicConfig, TraceReader};

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
    // The canaries: what begins with the second opening cannot be known, and it comes but once.
    assert!(matches!(replay(&[&second]), Err(Halt::Unpredictable { .. })));
    assert!(matches!(replay(&[&first, &second, &second]), Err(Halt::Breach(_))));
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
