//! `fogbank bench volume --engine tao --profile P`: the settings of TaoStore's paper, and sweeps of
//! them.
//!
//! 1. Load and measure as for every engine (`lane`, `clients`).
//! 2. Go on to the next point of the sweep (`setting`). Other clients use the engine as it is;
//!    another k closes and opens the same store; another cache is another tree and is loaded anew.
//! 3. Draw what was swept, beside what the paper tells (`figures`, `published`).
//!
//! The paper's cache is the storage server's memory, which spares its disk. Ours is the proxy's,
//! which spares the link too; at the same share of the data the two are not the same thing.

mod figures;
mod point;
mod published;
mod setting;

use crate::args::{BenchVolumeArgs, TaoProfile};
use clap::ValueEnum;
use fogbank::Result;
use fogbank_process::{say, say_error};

use self::figures::Figures;
use self::point::HEAD;
pub use self::point::Point;
pub use self::published::{Published as OfPaper, published};
pub use self::setting::Setting;
use super::{Lane, Site};

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`fogbank::Error::CheckFailed`] if a value read is not the one written.
pub async fn run(args: &BenchVolumeArgs, profile: TaoProfile) -> Result<()> {
    let setting = Setting::of(args, profile)?;
    let figures = args.plot.as_deref().map(|folder| Figures::prepare(folder, &setting));
    let figures = figures.transpose()?;
    say!("{HEAD}");
    let mut points = Vec::new();
    for cache in &setting.caches {
        points.extend(sweep_loaded((args, profile), &setting, *cache).await?);
    }
    for file in figures.map_or(Ok(vec![]), |figures| figures.draw(&setting, &points))? {
        say_error!("drawn: {}", file.display());
    }
    Ok(())
}

/// All points that one loaded store serves.
async fn sweep_loaded(
    (args, profile): (&BenchVolumeArgs, TaoProfile),
    setting: &Setting,
    cache: u64,
) -> Result<Vec<Point>> {
    let profile = profile.to_possible_value();
    let profile = profile.map(|name| name.get_name().to_owned()).unwrap_or_default();
    let of_k = |k: &u32| setting.engine(cache, *k);
    let all = setting.write_back_every.iter().map(of_k).collect::<Result<Vec<_>>>()?;
    let mut points = Vec::new();
    let Some(first) = all.first() else { return Ok(points) };
    say_error!("loading {} blocks", first.shell.shape.capacity);
    let mut lane = Lane::load(first.clone(), Site { seed: args.seed, ..Site::default() }).await?;
    for settings in &all {
        lane = lane.reopen(settings.clone()).await?;
        for clients in &setting.clients {
            let measured = lane.measure(*clients, setting.link, args.seconds).await?;
            let point = Point::of(&profile, setting, (settings, *clients), &measured)?;
            say!("{}", point.row());
            if args.json {
                say!("{}", point.json());
            }
            points.push(point);
        }
    }
    lane.close().await?;
    Ok(points)
}
