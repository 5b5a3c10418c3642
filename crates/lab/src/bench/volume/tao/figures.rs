//! The drawings of a sweep: figure 8 of TaoStore's paper with our values, and the same over k.

use std::path::{Path, PathBuf};

use fogbank::{Error, Result};

use super::point::Point;
use super::published::{CACHED, CLIENTS_MAX, Published, WRITE_BACK_EVERY, published};
use super::setting::{Setting, Swept};
use crate::bench::chart::{Axis, Chart, Curve, Source};

/// Where drawings go, and of what they are.
pub struct Figures {
    folder: PathBuf,
    swept: Swept,
}

/// What a point tells of one axis, and what the paper tells of it.
type Reading = (fn(&Point) -> f64, fn(&Published) -> Option<f64>);

const THROUGHPUT: Reading = (|point| point.ops_per_s, |paper| paper.ops_per_s);
const RESPONSE: Reading = (|point| point.latency_ms, |paper| paper.latency_ms);
const PATH: Reading = (|point| point.path_ms, |paper| paper.path_ms);

impl Figures {
    /// Makes the folder, before anything is measured in vain.
    ///
    /// # Errors
    /// [`Error::Usage`] unless just one thing is swept.
    pub fn prepare(folder: &Path, setting: &Setting) -> Result<Self> {
        let [swept] = setting.swept()[..] else {
            return Err(Error::Usage(
                "--plot draws one sweep: give several values of one of --clients, \
                 --write-back-every and --cache"
                    .into(),
            ));
        };
        std::fs::create_dir_all(folder).map_err(|e| cannot(folder, &e))?;
        Ok(Self { folder: folder.to_owned(), swept })
    }

    /// Draws `points`, and says where.
    pub fn draw(&self, setting: &Setting, points: &[Point]) -> Result<Vec<PathBuf>> {
        let words = self.setting_words(setting, points);
        let mut charts = vec![(self.name(), self.served(setting, points))];
        if self.swept == Swept::Cache {
            charts.push(("cache-paths.svg", self.fetched(setting, points)));
        }
        let mut files = Vec::new();
        for (name, (title, left, right)) in charts {
            let chart = Chart { title, setting: &words, below: self.below(), left, right };
            let file = self.folder.join(name);
            std::fs::write(&file, chart.svg()?).map_err(|e| cannot(&file, &e))?;
            files.push(file);
        }
        Ok(files)
    }

    /// Throughput and response time.
    fn served(
        &self,
        setting: &Setting,
        points: &[Point],
    ) -> (&'static str, Axis<'static>, Option<Axis<'static>>) {
        let axis = |words, of: &str, reading| {
            let names = [format!("{of}, ours"), format!("{of}, the paper")];
            Axis { words, curves: self.curves((setting, points), names, reading) }
        };
        let left = axis("accesses/s", "throughput", THROUGHPUT);
        let right = axis("response time (ms)", "response time", RESPONSE);
        ("Throughput and response time", left, Some(right))
    }

    /// What a path takes.
    fn fetched(
        &self,
        setting: &Setting,
        points: &[Point],
    ) -> (&'static str, Axis<'static>, Option<Axis<'static>>) {
        let names = ["over the link, ours", "from the server's disk, the paper"].map(Into::into);
        let curves = self.curves((setting, points), names, PATH);
        ("Time to fetch a path", Axis { words: "ms", curves }, None)
    }

    /// Ours, and the paper's where it tells anything.
    fn curves(
        &self,
        (setting, points): (&Setting, &[Point]),
        [name, theirs]: [String; 2],
        (ours, paper): Reading,
    ) -> Vec<Curve> {
        let mut measured: Vec<_> =
            points.iter().map(|point| (self.place(point), ours(point))).collect();
        measured.sort_by(|a, b| a.0.total_cmp(&b.0));
        let told = self.told(setting, points).into_iter();
        let told: Vec<_> = told.filter_map(|(x, row)| Some((x, paper(&row)?))).collect();
        let mut curves = vec![Curve { name, points: measured, source: Source::Measured }];
        if !told.is_empty() {
            curves.push(Curve { name: theirs, points: told, source: Source::Published });
        }
        curves
    }

    /// What the paper tells along this sweep, also between and beyond our points.
    fn told(&self, setting: &Setting, points: &[Point]) -> Vec<(f64, Published)> {
        let Some(first) = points.first() else { return Vec::new() };
        let (clients, k) = (first.clients, first.write_back_every);
        let at = |clients, k, share| published(setting.paper, clients, k, share);
        let share = first.cached_share;
        match self.swept {
            Swept::Clients => {
                (1..=CLIENTS_MAX).map(|clients| (clients as f64, at(clients, k, share))).collect()
            }
            Swept::WriteBackEvery => {
                vec![(WRITE_BACK_EVERY.into(), at(clients, WRITE_BACK_EVERY, share))]
            }
            Swept::Cache => {
                CACHED.iter().map(|(share, _)| (share * 100.0, at(clients, k, *share))).collect()
            }
        }
    }

    fn place(&self, point: &Point) -> f64 {
        match self.swept {
            Swept::Clients => point.clients as f64,
            Swept::WriteBackEvery => point.write_back_every.into(),
            Swept::Cache => point.cached_share * 100.0,
        }
    }

    fn name(&self) -> &'static str {
        match self.swept {
            Swept::Clients => "clients.svg",
            Swept::WriteBackEvery => "write-back-every.svg",
            Swept::Cache => "cache.svg",
        }
    }

    fn below(&self) -> &'static str {
        match self.swept {
            Swept::Clients => "clients",
            Swept::WriteBackEvery => "k: paths from one write-back to the next",
            Swept::Cache => "cached part of the leaves (%)",
        }
    }

    fn setting_words(&self, setting: &Setting, points: &[Point]) -> String {
        let mut words = vec![format!("{:.3} GB", setting.data_bytes() as f64 / 1e9)];
        words.push(setting.link_words.clone());
        if let Some(first) = points.first() {
            if self.swept != Swept::Clients {
                words.push(format!("clients: {}", first.clients));
            }
            if self.swept != Swept::WriteBackEvery {
                words.push(format!("k = {}", first.write_back_every));
            }
        }
        if setting.paper.is_some() {
            words.push("the paper: 1 GB".into());
        }
        words.join("; ")
    }
}

fn cannot(path: &Path, reason: &std::io::Error) -> Error {
    Error::CannotUse(format!("{}: {reason}", path.display()))
}
