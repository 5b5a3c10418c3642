//! The public configuration of a site: what the auditor needs to know to say what its traffic ought
//! to look like.

use fogbank_durable::shared::SiteParameters;
use fogbank_seal::{HEADER_BYTES, TAG_BYTES};
use fogbank_store::trace::{PublicConfig, TraceClock};
use serde_json::json;

use super::cells::REQUEST_BYTES;
use super::cost::stored_bytes;
use super::engine::schedule_of;
use crate::Result;

/// That of a site, for the trace of one of its clients by such a clock.
///
/// # Errors
/// [`crate::Error::Caller`] if there is no such site.
pub fn public_config(parameters: &SiteParameters, clock: TraceClock) -> Result<PublicConfig> {
    let schedule = schedule_of(parameters)?;
    let SiteParameters { blocks, block_bytes, .. } = *parameters;
    let [entry_bytes, result_bytes] = stored_bytes(block_bytes as usize);
    let tail = json!({
        "blocks": blocks,
        "epoch": parameters.epoch,
        "growth": parameters.growth,
        "piece": parameters.piece,
        "chunk_cells": schedule.chunk_cells_max(),
        "kept_epochs": parameters.kept_epochs,
        "draw": parameters.draw,
        "has_image": parameters.has_image,
        "public_ns": u64::from(parameters.public_ms) * 1_000_000,
        "quantum_ns": u64::from(parameters.quantum_us) * 1_000,
        "entry_bytes": entry_bytes,
        "result_bytes": result_bytes,
        "cell_bytes": super::cells::cell_bytes(block_bytes as usize),
        "sealed_bytes": HEADER_BYTES + TAG_BYTES,
        "request_bytes": REQUEST_BYTES,
    });
    Ok(PublicConfig::new(clock, "hierarchy", (blocks, block_bytes.into()), tail))
}

/// The arrays of a site: all have cells of one length.
///
/// # Errors
/// As [`public_config`].
pub fn arrays_of(parameters: &SiteParameters) -> Result<(Vec<fogbank_store::ArrayId>, usize)> {
    let bottom = schedule_of(parameters)?.bottom();
    let arrays = (0..=bottom).flat_map(super::cells::arrays).collect();
    Ok((arrays, super::cells::cell_bytes(parameters.block_bytes as usize)))
}
