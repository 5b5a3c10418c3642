//! A story of crashes, drawn from one seed: what runs, where it is cut short, held or lied to.
//!
//! Three kinds, the first more often than the others: lives of a proxy under one of the workloads,
//! cut short at up to three calls in a row, the later ones mostly within a recovery; two proxies on
//! one store; a cloud that lies about one object.

use std::fmt;

use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use super::meeting::{Ground, Meeting, Met, meet};
use super::pausing::Hold;
use super::stopping::{How, Stop};
use super::tampering::{Broken, Lie, Outcome};
use super::volume::{End, Volume};
use super::{Lives, play};
use crate::scene::{Intensity, Shape, Workload};

/// What happens.
#[derive(Debug, Clone)]
pub enum Story {
    /// A proxy is cut short, once or several times.
    Lives(Lives),
    /// A proxy is overtaken.
    Meeting(Meeting),
    /// A cloud lies about the object of a volume that this number draws.
    Lie {
        /// Of the volume.
        seed: u64,
        /// How the volume was left.
        end: End,
        /// Which lie.
        draw: u64,
    },
}

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Lives that were cut short.
    pub crashes: u64,
    /// Crashes in the epoch that the one before had opened.
    pub repeated: u64,
    /// Transfers acknowledged.
    pub acknowledged: u64,
    /// Proxies that another stopped, or that were refused as another was there.
    pub fenced: u64,
    /// Lies that were caught.
    pub caught: u64,
    /// Lies about what nobody read.
    pub unread: u64,
}

impl Story {
    /// The story that follows from `seed`.
    pub fn of(seed: u64) -> Self {
        let mut stream = Randomness::repeatable(seed).stream(Purpose::Workload);
        let mut below = |bound: u64| draw(&mut stream, bound);
        match below(10) {
            0 | 1 => Self::Meeting(Meeting {
                seed,
                shape: shape(below(4)),
                full_every: 1 + below(4),
                clients: 1 + below(5) as u32,
                hold: Hold { call: 1 + below(24), before: below(2) == 0 },
                ground: [Ground::Shared, Ground::Copied][below(3).min(1) as usize],
            }),
            2 | 3 => {
                let end = [End::Closed, End::Crashed][below(2) as usize];
                Self::Lie { seed, end, draw: below(u64::MAX) }
            }
            _ => {
                let epochs = 3 + below(28) as u32;
                let mut stops = vec![Stop {
                    call: 1 + below(12 * u64::from(epochs)),
                    how: How::ALL[below(3) as usize],
                }];
                for _ in 0..below(3) {
                    let calls = if below(3) == 0 { 12 * u64::from(epochs) } else { 36 };
                    stops.push(Stop { call: 1 + below(calls), how: How::ALL[below(3) as usize] });
                }
                Self::Lives(Lives {
                    seed,
                    shape: shape(below(4)),
                    full_every: 1 + below(5),
                    clients: 1 + below(5) as u32,
                    workload: Workload::ALL[below(Workload::ALL.len() as u64) as usize],
                    intensity: [Intensity::Light, Intensity::Saturated][below(2) as usize],
                    epochs,
                    stops,
                })
            }
        }
    }

    /// Plays it.
    ///
    /// # Errors
    /// What is not as it has to be, in words.
    pub fn play(&self) -> Result<Count, String> {
        let none = Count::default();
        Ok(match self {
            Self::Lives(lives) => {
                let told = play(lives)?;
                Count {
                    crashes: lives.stops.len() as u64,
                    repeated: told.repeated as u64,
                    acknowledged: told.acknowledged as u64,
                    ..none
                }
            }
            Self::Meeting(meeting) => {
                Count { fenced: u64::from(meet(meeting)? != Met::Never), ..none }
            }
            Self::Lie { seed, end, draw } => {
                let volume = Volume::make(*seed, Volume::shape(), *end)?;
                let lies = if draw % 2 == 0 { volume.flips() } else { volume.exchanges() };
                let lie: &Lie = &lies[(draw / 2 % lies.len() as u64) as usize];
                match volume.tell(lie, Broken::Nothing)? {
                    Outcome::Caught(_) => Count { caught: 1, ..none },
                    Outcome::Unread | Outcome::Harmless => Count { unread: 1, ..none },
                }
            }
        })
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lives(lives) => write!(f, "{lives}"),
            Self::Meeting(meeting) => {
                let Meeting { seed, hold, ground, .. } = meeting;
                write!(f, "meeting of seed {seed}: {ground:?}, {hold:?}")
            }
            Self::Lie { seed, end, draw } => write!(f, "lie {draw} of seed {seed}: {end:?}"),
        }
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.repeated += other.repeated;
        self.acknowledged += other.acknowledged;
        self.fenced += other.fenced;
        self.caught += other.caught;
        self.unread += other.unread;
    }
}

/// Plain, with paths read as one cell and small pieces, with small windows and pieces and batches
/// in flight, or with a cached top.
fn shape(which: u64) -> Shape {
    match which {
        0 => Shape::small(),
        1 => Shape { xor: true, piece_bytes: 300, ..Shape::small() },
        2 => {
            let windows = (160, 2);
            Shape { in_flight: 2, read_batches: 3, windows, piece_bytes: 700, ..Shape::small() }
        }
        _ => Shape { cache_bytes: 2_000, ..Shape::small() },
    }
}

fn draw(stream: &mut Stream, bound: u64) -> u64 {
    stream.next_u64() % bound
}
