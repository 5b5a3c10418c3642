//! How fast this machine is with cells, tried for a moment.

use std::sync::Arc;

use fogbank_env::Clock;

use super::bound;
use super::time::Machine;
use crate::config::StoreConfig;

/// Cells that are opened and sealed to see how fast that goes.
const TRIED_CELLS: usize = 20_000;
/// Bytes that are tried at the most.
const TRIED_BYTES_MAX: usize = 64 << 20;
/// What the engine takes beside authenticated encryption and a copy: finding, moving, accounting.
const BESIDE_S_A_CELL: f64 = 130e-9;
const WORK_FACTOR: f64 = 1.35;
const PLAN_S_A_CELL: f64 = 40e-9;
/// What epochs over 0.3 ms take beyond cells and round trips, by their messages: 0.16 to 0.19 ms
/// each at 10,000 and at 100,000 records, by `bench engine --durable` against this plan.
const MESSAGE_S: f64 = 170e-6;

/// With cells of that size.
pub fn tried(clock: &Arc<dyn Clock>, config: &StoreConfig) -> Machine {
    let cell_bytes = config.cell_bytes();
    let cells = TRIED_CELLS.min(TRIED_BYTES_MAX / cell_bytes).max(2);
    let seconds = |opened, sealed| {
        bound::seconds(clock, bound::Moved { opened, sealed, cell_bytes }, 5) / cells as f64
    };
    let levels = config.geometry().map_or(0, |g| g.stored_levels());
    Machine {
        opens_s: WORK_FACTOR * seconds(cells, 0) + BESIDE_S_A_CELL,
        seals_s: WORK_FACTOR * seconds(0, cells),
        plans_s: f64::from(levels) * PLAN_S_A_CELL,
        message_s: MESSAGE_S,
    }
}
