//! What a volume will need with every engine, side by side, and which of them to choose.
//!
//! Each engine reckons from its own settings (`engines`), with the code by which it is opened;
//! nothing is asked of a store and nothing is made.

use super::bill::Bill;
use super::price::Prices;
use super::two_clouds::TwoClouds;
use crate::args::{VolumePlanArgs, VolumeShapeArgs};
use crate::engines::{VOLUME_ENGINES, VolumeEngine, names};
use crate::error::{Error, Result};
use crate::link::LinkArgs;
use crate::volume::{Flow, VolumeConfig};

/// Where a volume is to be.
#[derive(Debug, Clone, Copy)]
pub struct VolumeSite<'a> {
    /// The cloud side, for its kind.
    pub url: &'a str,
    /// What it asks.
    pub prices: &'a Prices,
    /// What the second cloud asks, if one is named: else as much as the first.
    pub second_prices: Option<&'a Prices>,
    /// The way to it.
    pub link: &'a LinkArgs,
}

/// What a volume of one engine will need. An access is of one block.
#[derive(Debug, Clone, Copy)]
pub struct VolumePlan {
    /// Whether accesses leave as they come; else in epochs of one shape.
    pub leaves_as_it_comes: bool,
    /// Bytes of memory of the proxy at most, without what any process takes.
    pub memory_bytes: f64,
    /// Bytes in the cloud at most, once every block was written.
    pub storage_bytes: f64,
    /// Bytes on the trusted disk at most, where journal and checkpoints stay there.
    pub trusted_bytes: f64,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: f64,
    /// Bytes that an access sends, and receives, with journal and checkpoints if a cloud keeps
    /// them.
    pub up_bytes: f64,
    /// The same from the store.
    pub down_bytes: f64,
    /// Objects, ranges or items that an access reads, and writes.
    pub reads: f64,
    /// The same of writes.
    pub writes: f64,
    /// Seconds until an access is answered, when few are under way.
    pub answer_s: f64,
    /// Accesses a second that the link carries, or that epochs have room for; `None` where it never
    /// fills.
    pub per_s: Option<f64>,
    /// Bytes that a recovery reads at most.
    pub recovery_bytes: f64,
    /// Accesses that it does again at most, where accesses leave as they come.
    pub recovery_accesses: f64,
    /// Bytes that an access writes to the trusted disk on average, where journal and checkpoints
    /// stay there, if many are under way.
    pub disk_bytes: f64,
    /// What it costs, at all clouds together.
    pub bill: Bill,
    /// Of an engine that needs two clouds, what is of each, and between them.
    pub two_clouds: Option<TwoClouds>,
}

/// An engine with its plan, or why there is none.
pub type OfEngine = (&'static VolumeEngine, Result<VolumePlan>);

/// The plan of every engine, or why it is not possible there; of those that need a second cloud if
/// there is one. A flag goes to those that know it.
pub fn of_all(args: &VolumePlanArgs, site: &VolumeSite<'_>) -> Vec<OfEngine> {
    let &VolumePlanArgs { size, block, .. } = args;
    let of = |engine: &'static VolumeEngine| {
        let flags = args.flags.known_to(engine);
        let second_store = args.second_store.clone().filter(|_| engine.has_two_clouds);
        let shape = VolumeShapeArgs { size, block, engine, second_store, flags };
        VolumeConfig::new(&shape, site.url)?.plan(Flow::default(), site)
    };
    let engines = VOLUME_ENGINES.into_iter().filter(|engine| !is_left_out(args, engine));
    engines.map(|engine| (engine, of(engine))).collect()
}

/// Engines that [`of_all`] leaves out, for want of a second cloud.
pub fn left_out(args: &VolumePlanArgs) -> Vec<&'static str> {
    names(|engine| is_left_out(args, engine))
}

fn is_left_out(args: &VolumePlanArgs, engine: &VolumeEngine) -> bool {
    engine.has_two_clouds && args.second_store.is_none()
}

/// How much cheaper another engine has to be than the default.
const WORTH_IT: f64 = 0.9;

/// The engine to choose, and why: of those that serve accesses as they come and fit into
/// `memory_bytes`, the one that is cheapest where requests and traffic are charged for, else that
/// which moves the fewest bytes; the default if none is better by a tenth.
///
/// # Errors
/// [`Error::Usage`] if none fits.
pub fn choose(plans: &[OfEngine], memory_bytes: f64) -> Result<(&'static VolumeEngine, String)> {
    let fits = |plan: &VolumePlan| plan.leaves_as_it_comes && plan.memory_bytes <= memory_bytes;
    let mut fitting = plans.iter().filter_map(|(engine, plan)| {
        let plan = plan.as_ref().ok().filter(|plan| fits(plan))?;
        Some((*engine, plan))
    });
    let first = fitting.next();
    let (mut best, mut of_best) = first.ok_or_else(|| {
        Error::Usage(
            "no engine holds such a volume in that memory; give more, or a smaller volume".into(),
        )
    })?;
    let is_charged = of_best.bill.per_million.usd() > 0.0;
    let cost = |plan: &VolumePlan| match is_charged {
        true => plan.bill.per_million.usd(),
        false => plan.up_bytes + plan.down_bytes,
    };
    let mut others = Vec::new();
    for (engine, plan) in fitting {
        let better = cost(plan) < WORTH_IT * cost(of_best);
        let (winner, loser) = if better {
            ((engine, plan), (best, of_best))
        } else {
            ((best, of_best), (engine, plan))
        };
        others.push(loser);
        (best, of_best) = winner;
    }
    let words = |plan: &VolumePlan| match is_charged {
        true => format!("$ {:.2} a million accesses", cost(plan)),
        false => format!("{} an access", super::size(cost(plan))),
    };
    let others: Vec<String> =
        others.iter().map(|(engine, plan)| format!("{} {}", engine.name, words(plan))).collect();
    let beside = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    Ok((best, format!("{}{beside}", words(of_best))))
}
