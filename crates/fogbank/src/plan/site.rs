//! What a site will need, by the number of its clients.
//!
//! Reckoned from its schedule, all levels full; nothing is asked of a server and nothing is made.
//! What clients compute is not counted: a machine may be slower than its link.
//!
//! In a bucket each client puts its entries and results itself, and finds those of others when it
//! looks (`fogbank_store::BlobLog`). An entry is put at a place once all before it are known, and a
//! GET says whether it counts: so all clients together ask no faster than one such pair after the
//! other.

use fogbank_durable::shared::SiteParameters;
use fogbank_oram::hierarchy::{Cost, schedule_of, stored_bytes};
use fogbank_seal::TAG_BYTES;
use fogbank_store::Link;

use super::bill::{Bill, SECONDS_A_MONTH};
use super::price::Prices;
use crate::error::Result;
use crate::link::LinkArgs;
use crate::site::LOOK;

/// Where a site is, or would be.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// Of each client to it.
    pub link: &'a LinkArgs,
    /// What is asked for there.
    pub prices: &'a Prices,
    /// Whether nobody is between clients there.
    pub is_bucket: bool,
}

/// Requests to a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    /// That read, and that write or list, of all clients together for each query.
    pub for_query: [f64; 2],
    /// That all clients make in a second while nobody asks; they read.
    pub idle_per_s: f64,
}

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
    /// If it is in a bucket.
    pub asked: Option<Asked>,
    /// Of all clients; their looks in a bucket count as storage, for they are made at rest, too.
    pub bill: Bill,
}

/// What any process takes.
const PROCESS_BYTES: f64 = 16e6;
/// What names a cell that is asked for, about.
const NAME_BYTES: f64 = 20.0;
/// Queries of a client under way at once.
const UNDER_WAY: f64 = 64.0;
/// Points of the grid that a query waits for, whole ones.
const POINTS: f64 = 5.0;
/// What a query puts into the log.
const ENTRY_AND_RESULT: f64 = 2.0;
/// The GET that says whether an entry counts.
const COUNTS: f64 = 1.0;
/// Of the next entry, and of what was forgotten.
const GETS_A_LOOK: f64 = 2.0;

impl SitePlan {
    /// That of a site of these parameters with so many clients.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if there is no such site or link.
    pub fn of(parameters: &SiteParameters, clients: u32, at: &At<'_>) -> Result<Self> {
        let (schedule, link) = (schedule_of(parameters)?, at.link.link()?);
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
        let [answer, between] = times(parameters, clients, &link, at.is_bucket);
        let answer_s = answer + takes(own, link.down_bytes_per_s);
        let per_s = |bytes| {
            let carried = all / busy(&link, bytes).max(answer_s / UNDER_WAY);
            carried.min(1.0 / between)
        };
        let storage_bytes = cost.stored as f64 * cell + places * (entry + result);
        let asked = at.is_bucket.then(|| Asked::of(&cost, all));
        Ok(Self {
            clients,
            memory_bytes: PROCESS_BYTES
                + cost.known_bytes as f64
                + making_bytes
                + (pieces + window) * block as f64,
            storage_bytes,
            up_bytes,
            down_bytes,
            answer_s,
            per_s: per_s((up_bytes, down_bytes)),
            beside: [beside.0, beside.1, per_s(beside)],
            builder_bytes: [built[0], built[1] + entry + result],
            asked,
            bill: bill(at.prices, asked.as_ref(), down_bytes, storage_bytes),
        })
    }
}

impl Asked {
    fn of(cost: &Cost, all: f64) -> Self {
        let [read, written] = cost.chunks;
        // Of each other client: the entry, the result, and the list that has its name.
        let others = all - 1.0;
        Self {
            for_query: [
                cost.touched + read + COUNTS + 2.0 * others,
                ENTRY_AND_RESULT + written + others,
            ],
            idle_per_s: all * GETS_A_LOOK * 1e9 / LOOK as f64,
        }
    }
}

fn bill(prices: &Prices, asked: Option<&Asked>, down_bytes: f64, storage_bytes: f64) -> Bill {
    let storage_usd = prices.storage_usd(storage_bytes);
    let Some(Asked { for_query: [gets, puts], idle_per_s }) = asked else {
        let query = prices.of(0.0, 0.0, 0.0, down_bytes);
        return Bill::of_accesses(query, 0.0, None, storage_usd);
    };
    // All that is put is deleted at last.
    let query = prices.of(*gets, *puts, *puts, down_bytes);
    let looks = prices.of(idle_per_s * SECONDS_A_MONTH, 0.0, 0.0, 0.0);
    Bill::of_accesses(query, 0.0, None, storage_usd + looks.usd())
}

fn takes(bytes: f64, rate: Option<u64>) -> f64 {
    rate.map_or(0.0, |rate| bytes / rate as f64)
}

/// Seconds for which a query of a client's own keeps its link busy.
fn busy(link: &Link, (up_bytes, down_bytes): (f64, f64)) -> f64 {
    takes(up_bytes, link.up_bytes_per_s).max(takes(down_bytes, link.down_bytes_per_s))
}

/// Seconds to an answer but for its bytes, and from one query of whomever to the next at least.
fn times(parameters: &SiteParameters, clients: u32, link: &Link, is_bucket: bool) -> [f64; 2] {
    let points = POINTS * f64::from(parameters.quantum_us) / 1e6;
    let call = link.round_trip + link.jitter;
    let [get, put] = [link.read, link.write].map(|takes| (call + takes).as_secs_f64());
    let call = call.as_secs_f64();
    // Beside others a query waits for the results of places before its own, too.
    match (is_bucket, clients) {
        (false, 1) => [2.0 * call + points, 0.0],
        (false, _) => [3.0 * call + points, 0.0],
        (true, 1) => [put + 2.0 * get + points, put + get],
        // They are put, and found at the next look, by a list.
        (true, _) => [2.0 * put + 4.0 * get + points + LOOK as f64 / 2e9, put + get],
    }
}

#[cfg(test)]
mod tests {
    use super::super::price::prices;
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
        let prices = prices(None, "grpc://host:1/t").unwrap();
        let at = At { link: &link, prices: &prices, is_bucket: false };
        let of = |clients| SitePlan::of(&parameters, clients, &at).unwrap();
        for (clients, answer) in [(30, 0.159), (1, 0.111)] {
            let plan = of(clients);
            assert!((plan.answer_s / answer - 1.0).abs() < 0.1, "{plan:?}");
        }
        assert!(of(30).per_s > 187.0 && of(30).down_bytes > of(1).down_bytes, "{:?}", of(30));
        // A thin link bounds it, and others' queries take their part of that.
        let thin = LinkArgs { down_mb_s: Some(1.0), ..link };
        let of = |clients| SitePlan::of(&parameters, clients, &At { link: &thin, ..at }).unwrap();
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

    /// Decision 0131: of a server of S3, one client, 4,096 queries at 1 MiB.
    #[test]
    fn a_plan_of_a_bucket_is_near_to_what_was_counted() {
        let link = LinkArgs { rtt_ms: 30.0, read_ms: 20.0, write_ms: 40.0, ..LinkArgs::default() };
        let prices = prices(None, "s3://bucket").unwrap();
        let at = At { link: &link, prices: &prices, is_bucket: true };
        let small = parameters_of(1 << 20, 4096).unwrap();
        let one = SitePlan::of(&small, 1, &at).unwrap();
        let [gets, puts] = one.asked.unwrap().for_query;
        assert!((gets / 3.6 - 1.0).abs() < 0.05 && (puts / 2.09 - 1.0).abs() < 0.05, "{one:?}");
        // A put of 70 ms and a get of 50, one after the other.
        assert!((one.per_s - 1.0 / 0.12).abs() < 1e-6 && one.answer_s > 0.17, "{one:?}");
        // Others' entries and results are read by each, and looked for day and night.
        let three = SitePlan::of(&small, 3, &at).unwrap();
        assert!(three.per_s == one.per_s && three.answer_s > one.answer_s + 0.1, "{three:?}");
        let more = three.bill.per_million.usd() - one.bill.per_million.usd();
        let [entry, result] = stored_bytes(4096).map(|bytes| bytes as f64);
        let reckoned = 4.0 * 0.4 + 2.0 * 5.0 + 2.0 * (entry + result) * 1e6 / 1e9 * 0.09;
        assert!((more - reckoned).abs() < 0.01, "{more}, {reckoned}");
        let looks = three.bill.storage_usd - one.bill.storage_usd;
        assert!((10.0..11.0).contains(&(looks / 2.0)), "{looks} dollars a month of two clients");
    }
}
