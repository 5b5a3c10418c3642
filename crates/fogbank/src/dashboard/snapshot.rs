//! One look at everything, as JSON for the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fogbank_env::{Metrics, Visibility};
use fogbank_picture::{COLUMNS, shade};
use serde_json::{Value, json};

use super::live::{Counts, KEY_ROWS, KINDS, Live, latency_ms};
use super::rolling::Copied;

/// What the page draws; empty before the store is open.
pub fn snapshot(live: &Live, metrics: &Metrics) -> Value {
    let Some(counts) = live.counts() else { return json!({}) };
    let now = live.clock.now();
    let (keys, places) = (counts.keys.copy(now), counts.places.copy(now));
    let latency = counts.latency.copy(now);
    let bytes = counts.bytes.copy(now);
    json!({
        "columns": COLUMNS,
        "column_ms": counts.keys.width() as f64 / 1e6,
        "asked": keys.columns(),
        "touched": places.columns(),
        "answered": latency.columns(),
        "latency_ms": { "p50": percentiles(&latency, 0.5), "p99": percentiles(&latency, 0.99) },
        "bytes": { "up": bytes.row(0), "down": bytes.row(1) },
        "keys": [band("keys".into(), &keys, 0, KEY_ROWS)],
        "places": places_bands(counts, &places),
        "beat": beat(counts, now),
        "figures": { "public": figures(metrics, Visibility::Public),
                     "secret": figures(metrics, Visibility::Secret) },
    })
}

fn figures(metrics: &Metrics, visibility: Visibility) -> Value {
    let figures = metrics.snapshot(visibility).into_iter();
    figures.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

fn places_bands(counts: &Counts, places: &Copied) -> Vec<Value> {
    let levels = counts.tree.bands.iter();
    let levels =
        levels.map(|(level, first, rows)| band(format!("level {level}"), places, *first, *rows));
    levels.chain([band("blobs".into(), places, counts.tree.blobs(), 1)]).collect()
}

/// A band as shades, row by row.
fn band(title: String, copied: &Copied, first: usize, rows: usize) -> Value {
    let cells: Vec<Vec<u32>> = (first..first + rows).map(|row| copied.row(row)).collect();
    let sum: f64 = cells.iter().flatten().map(|count| f64::from(*count)).sum();
    // Columns before the start are not held against the rest.
    let begun = (0..COLUMNS).find(|column| cells.iter().any(|row| row[*column] > 0));
    let squares = rows * (COLUMNS - begun.unwrap_or(0));
    let average = sum / squares as f64;
    let shades: Vec<u8> = cells.iter().flatten().map(|n| shade(u64::from(*n), average)).collect();
    json!({ "title": title, "rows": rows, "shades": STANDARD.encode(shades) })
}

/// Of every column that has answers, the latency that a share `rank` of them does not exceed.
fn percentiles(latency: &Copied, rank: f64) -> Vec<Option<f64>> {
    let of = |column: usize| {
        let rows = latency.column(column);
        let all: u64 = rows.iter().map(|n| u64::from(*n)).sum();
        let wanted = (all as f64 * rank).ceil().max(1.0) as u64;
        let mut before = 0;
        let row = rows.iter().position(|n| {
            before += u64::from(*n);
            before >= wanted
        });
        row.map(latency_ms)
    };
    (0..COLUMNS).map(of).collect()
}

fn beat(counts: &Counts, now: u64) -> Value {
    let copied = counts.beat.copy(now);
    let kinds: Vec<Vec<u32>> = (0..KINDS).map(|kind| copied.row(kind)).collect();
    json!({
        "column_ms": counts.beat.width() as f64 / 1e6,
        "epoch_ms": (counts.beat_of.interval_ns * counts.beat_of.points) as f64 / 1e6,
        "interval_ms": counts.beat_of.interval_ns as f64 / 1e6,
        "kinds": kinds,
    })
}
