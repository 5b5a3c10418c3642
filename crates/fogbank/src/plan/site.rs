//! What a site will need, by the number of its clients.
//!
//! Reckoned from its schedule, all levels full; nothing is asked of a server and nothing is made.
//! What clients compute is not counted: a machine may be slower than its link.

use fogbank_durable::shared::SiteParameters;
use fogbank_oram::hierarchy::{Cost, schedule_of, stored_bytes};
use fogbank_seal::TAG_BYTES;
use fogbank_store::Link;

use crate::error::Result;
use crate::link::LinkArgs;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct SitePlan {
    /// How many clients ask, all as often.
    pub clients: u32,
    /// Bytes of memory of a client at most, while it builds.
    pub memory_bytes: f64,
    /// Bytes at the server at most, once every level is full.
    pub storage_bytes: f64,
    /// Bytes that a client sends for each query of its own: the query, and its part of what builds
    /// write.
    pub up_bytes: f64,
    /// Bytes that it receives, entries and results of all others among them.
    pub down_bytes: f64,
    /// Seconds until a query is answered, when few are under way.
    pub answer_s: f64,
    /// Queries a second of all clients together, which their links carry.
    pub per_s: f64,
    /// The same three of a client, where another machine builds: bytes sent and received for a
    /// query, and queries a second of all, as far as links of clients bound them.
    pub beside: [f64; 3],
    /// What that machine sends and receives for each query of all clients.
    pub builder_bytes: [f64; 2],
}

/// What any process takes.
const PROCESS_BYTES: f64 = 16e6;
/// What names a cell that is asked for, about.
const NAME_BYTES: f64 = 20.0;
/// Queries of a client under way at once.
const UNDER_WAY: f64 = 64.0;
/// Points of the grid that a query waits for, whole ones.
const POINTS: f64 = 5.0;

impl SitePlan {
    /// That of a site of these parameters with so many clients, each at the end of such a link.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if there is no such site or link.
    pub fn of(parameters: &SiteParameters, clients: u32, link: &LinkArgs) -> Result<Self> {
        let (schedule, link) = (schedule_of(parameters)?, link.link()?);
        let cost = Cost::of(&schedule);
        let block = parameters.block_bytes as usize;
        let cell = (size_of::<u32>() + block + TAG_BYTES) as f64;
        let [entry, result] = stored_bytes(block).map(|bytes| bytes as f64);
        let all = f64::from(clients);
        let up_bytes = entry + result + cost.touched * NAME_BYTES + cost.written * cell;
        let down_bytes = (cost.touched + cost.read) * cell + all * (entry + result);
        let blocks = |level| f64::from(schedule.reals(level).min(schedule.piece));
        let pieces: f64 = (0..=schedule.bottom()).map(blocks).sum();
        // The order of the largest table, while it is made.
        let making_bytes = 4.0 * f64::from(schedule.slots_of(schedule.bottom()));
        let places = f64::from(parameters.epoch) * f64::from(parameters.kept_epochs);
        let window = 4.0 * f64::from(parameters.epoch);
        let built = [cost.written * cell, cost.read * cell];
        let beside = (up_bytes - built[0], down_bytes - built[1]);
        let own = entry + result + cost.touched * cell;
        let speed = |bytes| speed(parameters, clients, &link, bytes, own);
        let (answer_s, per_s) = speed((up_bytes, down_bytes));
        Ok(Self {
            clients,
            memory_bytes: PROCESS_BYTES
                + cost.known_bytes as f64
                + making_bytes
                + (pieces + window) * block as f64,
            storage_bytes: cost.stored as f64 * cell + places * (entry + result),
            up_bytes,
            down_bytes,
            answer_s,
            per_s,
            beside: [beside.0, beside.1, speed(beside).1],
            builder_bytes: [built[0], built[1] + entry + result],
        })
    }
}

/// Seconds to an answer, and queries a second.
fn speed(
    parameters: &SiteParameters,
    clients: u32,
    link: &Link,
    (up_bytes, down_bytes): (f64, f64),
    own_bytes: f64,
) -> (f64, f64) {
    let takes = |bytes: f64, rate: Option<u64>| rate.map_or(0.0, |rate| bytes / rate as f64);
    // Beside others a query waits for the results of places before its own, too.
    let rounds = if clients > 1 { 3.0 } else { 2.0 };
    let call = (link.round_trip + link.jitter).as_secs_f64();
    let points = POINTS * f64::from(parameters.quantum_us) / 1e6;
    let answer = rounds * call + points + takes(own_bytes, link.down_bytes_per_s);
    let busy = takes(up_bytes, link.up_bytes_per_s).max(takes(down_bytes, link.down_bytes_per_s));
    (answer, f64::from(clients) / busy.max(answer / UNDER_WAY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::parameters_of;

    /// Decision 0074: 30 clients at 50 ms are answered after 159 ms, one after 111; and builds of 1
    /// GB move 26 cells a query of the largest level alone.
    #[test]
    fn a_plan_is_near_to_what_was_measured() {
        let parameters = parameters_of(64 << 20, 4096).unwrap();
        let link = LinkArgs {
            rtt_ms: 50.0,
            up_mb_s: Some(125.0),
            down_mb_s: Some(125.0),
            ..LinkArgs::default()
        };
        let of = |clients| SitePlan::of(&parameters, clients, &link).unwrap();
        for (clients, answer) in [(30, 0.159), (1, 0.111)] {
            let plan = of(clients);
            assert!((plan.answer_s / answer - 1.0).abs() < 0.1, "{plan:?}");
        }
        assert!(of(30).per_s > 187.0 && of(30).down_bytes > of(1).down_bytes, "{:?}", of(30));
        // A thin link bounds it, and others' queries take their part of that.
        let thin = LinkArgs { down_mb_s: Some(1.0), ..link };
        let of = |clients| SitePlan::of(&parameters, clients, &thin).unwrap();
        assert!(of(1).per_s < 10.0 && of(30).per_s < 30.0 * of(1).per_s, "{:?}", of(30));
        // Beside one that builds it sends little more than an entry and a result.
        let plan = of(5);
        let [up, down, per_s] = plan.beside;
        assert!(up < 10e3 && 8.0 * up < plan.up_bytes && down < plan.down_bytes, "{plan:?}");
        assert!(per_s > plan.per_s, "{plan:?}");
        let [sent, got] = plan.builder_bytes;
        assert!((sent + up - plan.up_bytes).abs() < 1.0 && got > sent, "{plan:?}");
        // What a client knows is the 51 bytes a block that the page names; beside it are pieces.
        let large = parameters_of(16 << 30, 4096).unwrap();
        let known = Cost::of(&schedule_of(&large).unwrap()).known_bytes;
        assert_eq!(known.div_ceil(1 << 22), 51, "bytes a block");
    }
}
