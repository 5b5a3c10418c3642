//! Figures 9 and 10f: applications with and without privacy, and by the length of an epoch.
//!
//! It is measured as `bench app` does, system after system, with each application's rules checked
//! afterwards; what would be typed for it is told with the figure. TPC-C has two warehouses at
//! least. Two things cannot be typed: where less than one of the paper's ten is asked for, TPC-C
//! has one with fewer customers, orders and items; and below a hundredth of the paper's sizes
//! stores have room for little more than their records, where `bench app` has room for what a long
//! run makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::args::{Application as Typed, BenchCommand, PaperFigure, ShapeArgs, System};
use bytesize::ByteSize;
use fogbank::link::LinkArgs;
use fogbank::{Error, Result};
use fogbank_process::say_error;
use fogbank_workload::tpcc::{Scale, Tpcc};

use super::ask::{Ask, lan, wan};
use super::figure::{Drawn, Figure, Panel, Spread};
use super::published::{FREEHEALTH, OfApplication, SMALLBANK, TPCC};
use crate::bench::app::{FAR, Kept, Row, Setting, measure, usual_clients};
use crate::bench::typed;

/// The share of the paper's sizes that is usual.
const SCALE: f64 = 0.1;
/// Batches of an epoch in figure 10f.
const LENGTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// Below, `bench app` would give an application many times the room that its records take,
const TINY: f64 = 0.01;
/// and this is enough for what it makes in so short a run.
const ROOM: usize = 20_000;

const CLIENTS_MIN: usize = 16;

/// A round takes several epochs, and at 10 ms with so many clients one takes a second.
const SECONDS: f64 = 8.0;
const RAMP: f64 = 3.0;

/// An application of the paper.
#[derive(Clone, Copy)]
enum Application {
    Tpcc,
    SmallBank,
    FreeHealth,
}

/// By application: what its proxy keeps in memory.
type Keeps = BTreeMap<&'static str, Option<Kept>>;

const ALL: [Application; 3] = [Application::Tpcc, Application::SmallBank, Application::FreeHealth];

/// Measures figure 9.
pub async fn with_and_without(ask: &Ask) -> Result<Figure> {
    let ask = &ask.lasting(SECONDS, RAMP);
    let below = "application and round trip";
    let mut rates = Panel::new("throughput", "transactions/s", below, Drawn::BarsByTens);
    let mut times = Panel::new("latency", "mean ms", below, Drawn::BarsByTens);
    let words = "how many times higher throughput is without privacy";
    let mut slower = Panel::new("throughput-ratio", words, below, Drawn::Bars);
    let words = "how many times shorter latency is without privacy";
    let mut later = Panel::new("latency-ratio", words, below, Drawn::Bars);
    let words = "throughput at 10 ms over that at 0.3 ms";
    let mut left = Panel::new("far", words, "application", Drawn::Bars);
    let (mut commands, mut kept) = (Vec::new(), Keeps::new());
    let (mut epochs, mut given_up) = (Vec::new(), Vec::new());
    for application in ALL {
        let mut near = None;
        for (at, link) in [lan().link, wan().link].iter().enumerate() {
            let place = format!("{}, {} ms", application.name(), link.rtt_ms);
            say_error!("figure 9: {place}");
            let words = application.words(ask, link, &[System::Fogbank, System::Nopriv], &[]);
            commands.push(format!("fogbank bench {}", words.join(" ")));
            let setting = prepared(application, ask, &words)?;
            kept.insert(application.name(), setting.kept()?);
            epochs.extend(setting.epochs()?.map(|epochs| format!("{place}: {}", epochs.words())));
            let rows = measure(&setting).await?;
            for row in rows.iter().filter(|row| row.given_up > 0) {
                given_up.push(format!("{} of {} ({place})", row.given_up, row.system.name()));
            }
            let [fogbank, nopriv] = of_systems(&rows)?;
            let told = application.told();
            for (name, (per_s, ms)) in [("fogbank", fogbank), ("nopriv", nopriv)] {
                rates.add(name, &place, per_s, None);
                times.add(name, &place, ms, None);
            }
            slower.add("nopriv over fogbank", &place, nopriv.0.over(&fogbank.0), told.slower[at]);
            later.add("fogbank over nopriv", &place, fogbank.1.over(&nopriv.1), told.later[at]);
            let far = [fogbank.0, nopriv.0];
            if let Some(near) = near.replace(far) {
                for (i, name) in ["fogbank", "nopriv"].iter().enumerate() {
                    left.add(name, application.name(), far[i].over(&near[i]), told.left_far[i]);
                }
            }
        }
    }
    let mut differs = differs(ask, &kept);
    differs.extend(more_at_a_distance(ask));
    differs.push(format!("epochs have what suits this machine: {}", epochs.join(", ")));
    if !given_up.is_empty() {
        differs.push(format!(
            "transactions that lost too often and are in no figure: {}",
            given_up.join(", ")
        ));
    }
    differs.push("MySQL is not measured; `bench app --on redis,postgresql` has others".into());
    Ok(Figure {
        id: PaperFigure::Applications,
        title: "Applications with and without privacy".into(),
        setting: format!(
            "obladi-lan (0.3 ms) and obladi-wan (10 ms); {}; systems one after the other: {}",
            ask.rounds_words(),
            commands.join("; ")
        ),
        differs,
        panels: vec![rates, times, slower, later, left],
    })
}

/// Measures figure 10f.
pub async fn by_epoch_length(ask: &Ask) -> Result<Figure> {
    let below = "batches of an epoch";
    let mut rates = Panel::new("throughput", "transactions/s", below, Drawn::CurvesByTens);
    let mut attempts = Panel::new("attempts", "runs a transaction", below, Drawn::Curves);
    let (link, mut kept) = (lan().link, Keeps::new());
    for application in ALL {
        for batches in LENGTHS {
            say_error!("figure 10f: {}, epochs of {batches} batches", application.name());
            let length = ["--read-batches".to_owned(), batches.to_string()];
            let words = application.words(ask, &link, &[System::Fogbank], &length);
            let setting = prepared(application, ask, &words)?;
            kept.insert(application.name(), setting.kept()?);
            let rows = measure(&setting).await?;
            let row = rows.first().ok_or_else(|| Error::Bug("nothing was measured".into()))?;
            let place = batches.to_string();
            rates.add(application.name(), &place, Spread::of(row.per_s.clone()), None);
            if !row.all().latency_us.is_empty() {
                attempts.add(application.name(), &place, Spread::of(vec![row.attempts()]), None);
            }
        }
    }
    let words = |application: Application| {
        let words = application.words(ask, &link, &[System::Fogbank], &[]);
        format!("fogbank bench {} --read-batches R", words.join(" "))
    };
    Ok(Figure {
        id: PaperFigure::EpochLength,
        title: "Throughput of applications by the batches of an epoch".into(),
        setting: format!(
            "obladi-lan (0.3 ms); {}; {}",
            ask.rounds_words(),
            ALL.map(words).join("; ")
        ),
        differs: differs(ask, &kept),
        panels: if attempts.series.is_empty() { vec![rates] } else { vec![rates, attempts] },
    })
}

impl Application {
    fn name(self) -> &'static str {
        match self {
            Self::Tpcc => "TPC-C",
            Self::SmallBank => "SmallBank",
            Self::FreeHealth => "FreeHealth",
        }
    }

    fn told(self) -> OfApplication {
        match self {
            Self::Tpcc => TPCC,
            Self::SmallBank => SMALLBANK,
            Self::FreeHealth => FREEHEALTH,
        }
    }

    /// Where less is loaded than is usual, as many clients would only be in each other's way.
    fn few_clients(self, ask: &Ask, is_far: bool) -> Option<usize> {
        let usual = self.usual_clients(ask, is_far);
        let share = ask.scale_or(SCALE) / SCALE;
        (share < 1.0).then(|| ((usual as f64 * share) as usize).max(CLIENTS_MIN))
    }

    /// Clients of whole sizes. Batches that were asked for are not made larger for more of them.
    fn usual_clients(self, ask: &Ask, is_far: bool) -> usize {
        let which = match self {
            Self::Tpcc => Typed::Tpcc,
            Self::SmallBank => Typed::Smallbank,
            Self::FreeHealth => Typed::Freehealth,
        };
        let larger = ask.shape.batch.is_none() && ask.shape.write_batch.is_none();
        usual_clients(which, is_far && larger)
    }

    /// What is typed after `bench`.
    fn words(self, ask: &Ask, link: &LinkArgs, on: &[System], more: &[String]) -> Vec<String> {
        let (workload, size) = match self {
            Self::Tpcc => ("tpcc", warehouses(ask)),
            Self::SmallBank => ("smallbank", customers(ask)),
            Self::FreeHealth => ("freehealth", patients(ask)),
        };
        let on: Vec<&str> = on.iter().map(|system| system.name()).collect();
        let words = [
            ("--workload", workload.to_owned()),
            ("--scale", size.to_string()),
            ("--on", on.join(",")),
            ("--rtt-ms", link.rtt_ms.to_string()),
            ("--seconds", ask.seconds.to_string()),
            ("--ramp", ask.ramp.to_string()),
            ("--rounds", ask.rounds.to_string()),
            ("--seed", ask.seed.to_string()),
        ];
        let is_far = link.link().is_ok_and(|link| link.round_trip >= FAR);
        let clients = self.few_clients(ask, is_far);
        let clients = clients.map(|clients| ("--clients", clients.to_string()));
        let words = words.into_iter().chain(clients);
        let words = words.flat_map(|(flag, value)| [flag.to_owned(), value]);
        let words = std::iter::once("app".to_owned()).chain(words);
        // Capacity and records follow from the application.
        let shape = ShapeArgs { capacity: None, value_size: None, ..ask.shape.clone() };
        words.chain(more.iter().cloned()).chain(shape.flags()).collect()
    }
}

/// Ten warehouses are the paper's, two the least of which not all transactions are rivals.
fn warehouses(ask: &Ask) -> u32 {
    let least = if small_warehouse(ask).is_some() { 1.0 } else { 2.0 };
    (10.0 * ask.scale_or(SCALE)).round().max(least) as u32
}

/// A million accounts are; a customer has two.
fn customers(ask: &Ask) -> u32 {
    (500_000.0 * ask.scale_or(SCALE)).round().max(100.0) as u32
}

/// The paper does not tell how many it has. With a tenth of these any system is half as fast after
/// half a minute, since what is created stays in few lists: rounds of one run could not be
/// compared.
fn patients(ask: &Ask) -> u32 {
    (100_000.0 * ask.scale_or(SCALE)).round().max(100.0) as u32
}

/// Less than one of the paper's warehouses: a warehouse with fewer districts' customers, orders and
/// items.
fn small_warehouse(ask: &Ask) -> Option<Scale> {
    let share = 10.0 * ask.scale_or(SCALE);
    let (full, least) = (Scale::full(), Scale::small());
    let of = |full: u32, least: u32| ((f64::from(full) * share) as u32).max(least);
    (share < 1.0).then(|| Scale {
        items: of(full.items, least.items),
        customers: of(full.customers, least.customers),
        orders: of(full.customers, least.customers),
        undelivered: of(full.undelivered, least.undelivered),
        ..full
    })
}

fn differs(ask: &Ask, kept: &Keeps) -> Vec<String> {
    let mut differs = Vec::new();
    if let Some(small) = small_warehouse(ask) {
        differs.push(format!(
            "TPC-C with one warehouse of {} customers and {} items instead of ten whole ones: the \
             commands load a whole one",
            small.customers * small.districts,
            small.items
        ));
    } else if warehouses(ask) < 10 {
        differs.push(format!("TPC-C with {} warehouses instead of 10", warehouses(ask)));
    }
    let few = |application: &Application| {
        let clients = application.few_clients(ask, false)?;
        Some(format!("{} has {clients}", application.name()))
    };
    let few: Vec<String> = ALL.iter().filter_map(few).collect();
    if !few.is_empty() {
        differs.push(format!("fewer clients than usual: {}", few.join(", ")));
    }
    if ask.scale_or(SCALE) < TINY {
        differs.push(format!(
            "stores have room for a quarter and {ROOM} records more than are loaded; those of the \
             commands have more"
        ));
    }
    let top = |(name, kept): (&&str, &Option<Kept>)| {
        let kept = kept.filter(|kept| kept.levels > 0)?;
        Some(format!("{} of {} of {name}", kept.levels, kept.of))
    };
    let tops: Vec<String> = kept.iter().filter_map(top).collect();
    if let (Some(cache), false) = (kept.values().flatten().next(), tops.is_empty()) {
        differs.push(format!(
            "the proxy keeps the top levels of its tree in memory, at most {}: {}; `bench app` \
             does so by default, the engines of figures 10a to 10e do not (--cache 0)",
            ByteSize::b(cache.cache),
            tops.join(", ")
        ));
    }
    if customers(ask) < 500_000 {
        differs.push(format!("SmallBank with {} accounts instead of 1000000", 2 * customers(ask)));
    }
    differs.push(format!(
        "FreeHealth with {} patients; the paper does not tell its own",
        patients(ask)
    ));
    differs
}

/// What is more at 10 ms than at 0.3 ms.
fn more_at_a_distance(ask: &Ask) -> Option<String> {
    let more = |application: &Application| {
        let [near, far] = [false, true].map(|is_far| {
            let few = application.few_clients(ask, is_far);
            few.unwrap_or_else(|| application.usual_clients(ask, is_far))
        });
        (far > near).then(|| format!("{} has {far} instead of {near}", application.name()))
    };
    let more: Vec<String> = ALL.iter().filter_map(more).collect();
    (!more.is_empty()).then(|| {
        format!(
            "at 10 ms epochs wait for their messages whatever is in them: there both systems have \
             more clients than at 0.3 ms, and ours batches that they fill: {}",
            more.join(", ")
        )
    })
}

/// What `bench app` would measure.
fn prepared(application: Application, ask: &Ask, words: &[String]) -> Result<Setting> {
    let BenchCommand::App(args) = typed(words)? else {
        return Err(Error::Bug("bench app is another command".into()));
    };
    let mut setting = Setting::of(&args)?;
    if let (Application::Tpcc, Some(small)) = (application, small_warehouse(ask)) {
        setting.workload = Arc::new(Tpcc::new(1, small));
    }
    if ask.scale_or(SCALE) < TINY {
        let records = setting.workload.records().count();
        let room = u32::try_from(records + records / 4 + ROOM).ok();
        setting.shape.capacity = room.or(setting.shape.capacity);
    }
    Ok(setting)
}

/// Throughput and latency of the two systems.
fn of_systems(rows: &[Row]) -> Result<[(Spread, Spread); 2]> {
    let of = |row: &Row| (Spread::of(row.per_s.clone()), Spread::of(row.mean_ms.clone()));
    match rows {
        [fogbank, nopriv] => Ok([of(fogbank), of(nopriv)]),
        _ => Err(Error::Bug("two systems were asked for".into())),
    }
}
