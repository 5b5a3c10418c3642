//! A chart as SVG: curves that were measured, and single values that were published, over two axes.
//!
//! Text is left to whoever shows the file, so no font is looked for, and the same figures give the
//! same bytes on every machine.

use fogbank::{Error, Result};
use plotters::prelude::*;

/// A chart.
pub struct Chart<'a> {
    /// What it shows.
    pub title: &'a str,
    /// In which setting.
    pub setting: &'a str,
    /// What is on the axis below.
    pub below: &'a str,
    /// The axis on the left and its curves.
    pub left: Axis<'a>,
    /// That on the right.
    pub right: Option<Axis<'a>>,
}

/// An axis of values with the curves that are read from it.
#[derive(Clone)]
pub struct Axis<'a> {
    /// What is on it.
    pub words: &'a str,
    /// Curves, at least one.
    pub curves: Vec<Curve>,
}

/// Points by rising x.
#[derive(Clone)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Whose they are.
    pub source: Source,
}

/// Whose points they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Measured here: a line with dots.
    Measured,
    /// Published elsewhere: crosses, nothing is known of what is between.
    Published,
}

const SIZE: (u32, u32) = (800, 480);
/// The font of all words.
pub const FONT: &str = "sans-serif";
/// The legend has the room above all points to itself.
const ROOM_ABOVE: f64 = 1.4;
const ROOM_RIGHT: f64 = 1.05;
/// Apart for those too who see fewer colours.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(230, 159, 0),
    RGBColor(0, 140, 110),
    RGBColor(150, 90, 160),
    RGBColor(90, 90, 90),
];

impl Chart<'_> {
    /// The chart as an SVG document.
    pub fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|e| Error::Bug(format!("a chart cannot be drawn: {e}")))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(self.title, (FONT, 20))?.titled(self.setting, (FONT, 13))?;
        let axes: Vec<&Axis<'_>> = std::iter::once(&self.left).chain(&self.right).collect();
        let tops: Vec<f64> =
            axes.iter().map(|axis| top(axis.points().map(|at| at.1)) * ROOM_ABOVE).collect();
        let across = axes.iter().flat_map(|axis| axis.points()).map(|at| at.0);
        let across = 0.0..top(across) * ROOM_RIGHT;
        let other = *tops.last().unwrap_or(&1.0);
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .set_label_area_size(LabelAreaPosition::Left, 60)
            .set_label_area_size(LabelAreaPosition::Bottom, 48)
            .set_label_area_size(LabelAreaPosition::Right, 60)
            .build_cartesian_2d(across.clone(), 0.0..tops[0])?
            .set_secondary_coord(across, 0.0..other);
        let words = (FONT, 14);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_desc(self.below).y_desc(self.left.words);
        mesh.x_label_formatter(&number).y_label_formatter(&number);
        mesh.label_style((FONT, 13)).axis_desc_style(words).draw()?;
        if let Some(right) = &self.right {
            let mut axis = chart.configure_secondary_axes();
            axis.y_label_formatter(&number);
            axis.y_desc(right.words).label_style((FONT, 13)).axis_desc_style(words).draw()?;
        }
        for ((axis, height), colour) in axes.iter().zip(&tops).zip(COLOURS) {
            // All is drawn in the coordinates of the left axis.
            let place = |at: &(f64, f64)| (at.0, at.1 / height * tops[0]);
            for curve in &axis.curves {
                let points = curve.points.iter().map(place);
                let drawn = match curve.source {
                    Source::Measured => {
                        let line = LineSeries::new(points.clone(), colour.stroke_width(2));
                        chart.draw_series(line)?;
                        chart.draw_series(points.map(|at| Circle::new(at, 4, colour.filled())))?
                    }
                    Source::Published => chart
                        .draw_series(points.map(|at| Cross::new(at, 6, colour.stroke_width(2))))?,
                };
                drawn.label(&curve.name);
                match curve.source {
                    Source::Measured => {
                        drawn.legend(move |at| Circle::new(at, 4, colour.filled()));
                    }
                    Source::Published => {
                        drawn.legend(move |at| Cross::new(at, 6, colour.stroke_width(2)));
                    }
                }
            }
        }
        let mut labels = chart.configure_series_labels();
        labels.background_style(WHITE.mix(0.9)).border_style(BLACK.mix(0.3));
        labels.label_font((FONT, 13)).position(SeriesLabelPosition::UpperLeft).draw()?;
        root.present()?;
        Ok(())
    }
}

impl Axis<'_> {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.curves.iter().flat_map(|curve| curve.points.iter().copied())
    }
}

/// As short as it can be told.
#[allow(clippy::trivially_copy_pass_by_ref)] // how labels are asked for
pub fn number(value: &f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// The end of an axis that begins at zero.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.fold(0.0, f64::max);
    if most > 0.0 { most } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)], source: Source) -> Curve {
        Curve { name: name.into(), points: points.to_vec(), source }
    }

    #[test]
    fn what_is_measured_is_a_line_with_dots_and_what_is_published_is_crosses() {
        let measured = curve("ours <&>", &[(1.0, 2.0), (2.0, 3.0), (3.0, 3.0)], Source::Measured);
        let published = curve("theirs", &[(1.0, 1.0), (3.0, 2.0)], Source::Published);
        let right = curve("slow", &[(1.0, 500.0), (3.0, 700.0)], Source::Measured);
        let chart = |right| Chart {
            title: "T",
            setting: "S",
            below: "B",
            left: Axis { words: "L", curves: vec![measured.clone(), published.clone()] },
            right,
        };
        let one = chart(None).svg().unwrap();
        let both = chart(Some(Axis { words: "R", curves: vec![right] })).svg().unwrap();
        let count = |svg: &str, what: &str| svg.matches(what).count();
        // A dot a point, and one in the legend.
        assert_eq!((count(&one, "<circle"), count(&both, "<circle")), (4, 7));
        for words in ["ours &lt;&amp;&gt;", "theirs", "slow", ">\nT\n", "S", "B", "L", "R"] {
            assert!(both.contains(words), "{words}: {both}");
        }
        // The canary: a chart without the published values draws fewer strokes.
        let without = Axis { words: "L", curves: vec![measured.clone()] };
        let without = Chart { left: without, ..chart(None) }.svg().unwrap();
        assert!(count(&without, "<line") + 3 <= count(&one, "<line"));
        assert!(!without.contains("theirs"));
    }

    #[test]
    fn charts_of_nothing_and_of_zeros_are_drawn() {
        for points in [&[][..], &[(0.0, 0.0)]] {
            let left = Axis { words: "L", curves: vec![curve("c", points, Source::Measured)] };
            let chart = Chart { title: "T", setting: "S", below: "B", left, right: None };
            assert!(chart.svg().unwrap().ends_with("</svg>\n"));
        }
    }
}
