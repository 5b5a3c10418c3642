//! A figure as data: what was measured at which place, how far it spread, and what the paper tells
//! of it.

use crate::args::PaperFigure;
use fogbank::{Error, Result};
use serde::{Serialize, Serializer};

use super::published::Published;
pub use crate::bench::spread::Spread;

/// A figure of a paper with our values.
#[derive(Clone, Serialize)]
pub struct Figure {
    /// Its name in the paper.
    #[serde(serialize_with = "name")]
    pub id: PaperFigure,
    /// What it shows.
    pub title: String,
    /// In which setting it was measured.
    pub setting: String,
    /// What is smaller than in the paper, or otherwise not as there. Nothing, if it is empty.
    pub differs: Vec<String>,
    /// Drawings, at least one.
    pub panels: Vec<Panel>,
}

/// One measure of a figure.
#[derive(Clone, Serialize)]
pub struct Panel {
    /// One word, for file names.
    pub name: &'static str,
    /// What is measured, with its unit.
    pub measure: String,
    /// What the places are.
    pub below: &'static str,
    /// How it is drawn.
    #[serde(skip)]
    pub drawn: Drawn,
    /// What was measured, by series.
    pub series: Vec<Series>,
}

/// How a panel is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// Bars side by side: places that have no order.
    Bars,
    /// The same, each step of the axis ten times the one before.
    BarsByTens,
    /// Curves over places that rise.
    Curves,
    /// The same, each step of the axis ten times the one before.
    CurvesByTens,
}

/// A system, or a setting of one.
#[derive(Clone, Serialize)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// By rising place.
    pub points: Vec<Point>,
}

/// What was measured at one place.
#[derive(Clone, Serialize)]
pub struct Point {
    /// Where.
    pub place: String,
    /// Ours.
    #[serde(flatten)]
    pub ours: Spread,
    /// What the paper's text tells, if it does.
    pub paper: Option<Published>,
    /// Ours over the paper's.
    pub ratio: Option<f64>,
}

impl Panel {
    /// Without points.
    pub fn new(
        name: &'static str,
        measure: impl Into<String>,
        below: &'static str,
        drawn: Drawn,
    ) -> Self {
        Self { name, measure: measure.into(), below, drawn, series: Vec::new() }
    }

    /// Adds what was measured of a series at a place.
    pub fn add(
        &mut self,
        series: &str,
        place: impl Into<String>,
        ours: Spread,
        paper: Option<Published>,
    ) {
        let ratio = paper.map(|paper| ours.median / paper.value);
        let point = Point { place: place.into(), ours, paper, ratio };
        match self.series.iter_mut().find(|known| known.name == series) {
            Some(known) => known.points.push(point),
            None => self.series.push(Series { name: series.into(), points: vec![point] }),
        }
    }

    /// All places, as they came.
    pub fn places(&self) -> Vec<&str> {
        let mut places: Vec<&str> = Vec::new();
        for point in self.series.iter().flat_map(|series| &series.points) {
            if !places.contains(&point.place.as_str()) {
                places.push(&point.place);
            }
        }
        places
    }

    /// All points, each with the name of its series.
    pub fn points(&self) -> impl Iterator<Item = (&str, &Point)> {
        self.series
            .iter()
            .flat_map(|series| series.points.iter().map(move |point| (series.name.as_str(), point)))
    }
}

impl Figure {
    /// Holds it against what a figure has to be, so that no report says what was not measured.
    ///
    /// # Errors
    /// [`Error::TooFewData`] for a value that no round gave, [`Error::Bug`] for a figure that is
    /// none.
    pub fn check(&self) -> Result<()> {
        let id = self.id.name();
        let bug = |what: String| Err(Error::Bug(format!("figure {id}: {what}")));
        if self.panels.is_empty() {
            return bug("nothing is drawn".into());
        }
        for panel in &self.panels {
            if panel.series.is_empty() {
                return bug(format!("{} has no series", panel.name));
            }
            for (series, point) in panel.points() {
                let Spread { median, least, greatest } = point.ours;
                let at = format!("{} of {series} at {}", panel.measure, point.place);
                if ![median, least, greatest].iter().all(|value| value.is_finite()) {
                    return Err(Error::TooFewData(format!(
                        "figure {id}: {at} came to nothing; give more --seconds"
                    )));
                }
                if !(least <= median && median <= greatest) {
                    return bug(format!("{at}: the median is outside its rounds"));
                }
                let paper = point.paper.map(|paper| paper.value);
                if paper.is_some_and(|value| !value.is_finite() || value <= 0.0) {
                    return bug(format!("{at}: the paper's value is none"));
                }
                let off = |value: f64| {
                    point.ratio.is_none_or(|ratio| (ratio * value - median).abs() > 1e-9 * median)
                };
                if point.ratio.is_some() != paper.is_some() || paper.is_some_and(off) {
                    return bug(format!("{at}: the ratio is not that of ours and the paper's"));
                }
            }
        }
        Ok(())
    }

    /// The name of a panel's drawing, without its ending.
    pub fn file_stem(&self, panel: &Panel) -> String {
        match self.panels.len() {
            1 => format!("figure-{}", self.id.name()),
            _ => format!("figure-{}-{}", self.id.name(), panel.name),
        }
    }
}

fn name<S: Serializer>(id: &PaperFigure, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(id.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let mut panel = Panel::new("speed-up", "times", "store", Drawn::Bars);
        let paper = Published { value: 12.0, place: "section 11.2" };
        panel.add("ours", "server", Spread::of(vec![9.0, 6.0, 5.0]), Some(paper));
        panel.add("ours", "WAN", Spread::of(vec![1.0, 2.0]), None);
        Figure {
            id: PaperFigure::Parallel,
            title: "T".into(),
            setting: "S".into(),
            differs: vec![],
            panels: vec![panel],
        }
    }

    #[test]
    fn rounds_become_median_and_spread_and_ratios_the_paper_s() {
        let figure = figure();
        figure.check().unwrap();
        let points = &figure.panels[0].series[0].points;
        assert_eq!(points[0].ours, Spread { median: 6.0, least: 5.0, greatest: 9.0 });
        assert_eq!((points[0].ratio, points[1].ratio), (Some(0.5), None));
        assert_eq!(points[1].ours.median, 1.5);
        assert_eq!(figure.panels[0].places(), ["server", "WAN"]);
    }

    /// The canary: whatever is wrong with a value is seen before anything is written.
    #[test]
    fn a_value_that_is_none_is_seen() {
        let with = |change: fn(&mut Point)| {
            let mut figure = figure();
            change(&mut figure.panels[0].series[0].points[0]);
            figure.check().unwrap_err().to_string()
        };
        for (change, words) in [
            ((|p| p.ours.least = f64::NAN) as fn(&mut Point), "more --seconds"),
            (|p| p.ours.median = f64::INFINITY, "more --seconds"),
            (|p| p.ours.median = 10.0, "outside its rounds"),
            (|p| p.ratio = Some(0.6), "the ratio is not"),
            (|p| p.ratio = None, "the ratio is not"),
            (|p| p.paper = None, "the ratio is not"),
            (|p| p.paper = Some(Published { value: 0.0, place: "" }), "the paper's value"),
            (|p| p.paper = Some(Published { value: f64::NAN, place: "" }), "the paper's value"),
        ] {
            let said = with(change);
            assert!(said.contains(words), "{words}: {said}");
        }
        let mut bare = figure();
        bare.panels.clear();
        assert!(bare.check().is_err());
    }
}
