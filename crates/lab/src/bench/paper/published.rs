//! What the text of Obladi's paper tells of its figures 9 to 11. The drawings have no numbers, so
//! nothing is read off them; what TaoStore's tells stands in [`crate::bench::volume::tao`].

use serde::Serialize;

/// A value, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// The value.
    pub value: f64,
    /// Where the paper tells it.
    pub place: &'static str,
}

const fn told(value: f64, place: &'static str) -> Option<Published> {
    Some(Published { value, place })
}

const APPLICATIONS: &str = "Obladi, section 11.1";
const EPOCHS: &str = "Obladi, section 11.2";
const DURABILITY: &str = "Obladi, section 11.3";

/// What it tells of an application.
pub struct OfApplication {
    /// How many times its throughput the baseline has, at 0.3 and at 10 ms.
    pub slower: [Option<Published>; 2],
    /// How many times the baseline's its latency is, at 0.3 and at 10 ms.
    pub later: [Option<Published>; 2],
    /// What is left of the throughput at 10 ms, of its own and of the baseline's.
    pub left_far: [Option<Published>; 2],
}

/// "Comes within 8x of NoPriv's throughput"; latency "spikes to 70x"; "within 9x of NoPrivW", whose
/// "performance does not degrade".
pub const TPCC: OfApplication = OfApplication {
    slower: [told(8.0, APPLICATIONS), told(9.0, APPLICATIONS)],
    later: [told(70.0, APPLICATIONS), None],
    left_far: [None, told(1.0, APPLICATIONS)],
};

/// "17x NoPriv", "12x"; "ObladiW's 35% drop", "NoPrivW's 30% drop".
pub const SMALLBANK: OfApplication = OfApplication {
    slower: [told(12.0, APPLICATIONS), None],
    later: [told(17.0, APPLICATIONS), None],
    left_far: [told(0.65, APPLICATIONS), told(0.70, APPLICATIONS)],
};

/// "20x NoPriv"; "only a 4x drop over NoPriv and a 5.5x over NoPrivW".
pub const FREEHEALTH: OfApplication = OfApplication {
    slower: [told(4.0, APPLICATIONS), told(5.5, APPLICATIONS)],
    later: [told(20.0, APPLICATIONS), None],
    left_far: [None, None],
};

/// What it tells of a store.
pub struct OfStore {
    /// Accesses a second, one at a time.
    pub sequential: Option<Published>,
    /// Accesses a second in parallel.
    pub parallel: Option<Published>,
    /// How many times as fast batches of 500 are as one access at a time, where nothing is held
    /// back ("ignoring other optimizations").
    pub speed_up: Option<Published>,
    /// The same of batches of one; it names no store, and is taken for that of the nearest server.
    pub speed_up_of_one: Option<Published>,
    /// The most accesses a second at any size of a batch.
    pub most: Option<Published>,
    /// How many times as fast it is to write buckets once an epoch of eight batches.
    pub buffering: Option<Published>,
}

/// Its `dummy`, which stores nothing: "from 72K req/s to 24K req/s"; "minimal gains for dummy
/// (1.1x)".
pub const DUMMY: OfStore = OfStore {
    sequential: told(72_000.0, EPOCHS),
    parallel: told(24_000.0, EPOCHS),
    speed_up: told(1.0 / 3.0, EPOCHS),
    speed_up_of_one: None,
    most: None,
    buffering: told(1.1, EPOCHS),
};

/// Its `server`: "throughput increases by 12x"; "a 1.5x speedup".
pub const SERVER: OfStore = OfStore {
    sequential: None,
    parallel: None,
    speed_up: told(12.0, EPOCHS),
    speed_up_of_one: told(11.0, EPOCHS),
    most: None,
    buffering: told(1.5, EPOCHS),
};

/// Its `dynamo`: "as much as 51x"; "peaks early (at 1750 req/s)"; "a 1.5x speedup".
pub const DYNAMO: OfStore = OfStore {
    speed_up: told(51.0, EPOCHS),
    speed_up_of_one: None,
    most: told(1_750.0, EPOCHS),
    ..SERVER
};

/// Its `server WAN`: "and 510x"; "a 1.6x speedup".
pub const WAN: OfStore = OfStore {
    speed_up: told(510.0, EPOCHS),
    speed_up_of_one: None,
    buffering: told(1.6, EPOCHS),
    ..SERVER
};

/// "With one batch 41 physical requests per logical operation, but only 24 with eight." The first
/// is what Ring ORAM of that shape moves that holds nothing back and only reads;
pub const CELLS_WRITTEN_THROUGH: Option<Published> = told(41.0, EPOCHS);

/// the second is of epochs of eight batches.
pub fn cells_an_access(batches: usize) -> Option<Published> {
    if batches == 8 { told(24.0, EPOCHS) } else { None }
}

/// The throughput that durability leaves: "from 0.83x for 10K to 0.89x for 1M".
pub fn durability(objects: u32) -> Option<Published> {
    match objects {
        10_000 => told(0.83, DURABILITY),
        1_000_000 => told(0.89, DURABILITY),
        _ => None,
    }
}

/// Seconds of a recovery: "from 1.5s to 6.1s".
pub fn recovery_s(objects: u32) -> Option<Published> {
    match objects {
        10_000 => told(1.5, DURABILITY),
        1_000_000 => told(6.1, DURABILITY),
        _ => None,
    }
}
