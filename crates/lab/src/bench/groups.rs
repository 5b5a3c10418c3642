//! A drawing of values that stand at places side by side, by name and not by distance: as bars or
//! as curves, with their spread, and with a cross where something was published.
//!
//! Text is left to whoever shows the file, so no font is looked for, and the same values give the
//! same bytes on every machine.

use fogbank::{Error, Result};
use plotters::prelude::*;

use super::chart::{COLOURS, FONT, number};

/// A drawing.
pub struct Drawing<'a> {
    /// What it shows.
    pub title: &'a str,
    /// Lines below it; an empty one takes no room.
    pub words: [&'a str; 2],
    /// What the places are.
    pub below: &'a str,
    /// What the values are.
    pub left: &'a str,
    /// The names of the places.
    pub places: Vec<&'a str>,
    /// Values by series.
    pub rows: Vec<Row<'a>>,
    /// How they are drawn.
    pub form: Form,
    /// Whether each step of the axis is ten times the one before.
    pub by_tens: bool,
}

/// Values of a series.
pub struct Row<'a> {
    /// What it is.
    pub name: &'a str,
    /// By rising place.
    pub marks: Vec<Mark>,
}

/// A value.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The number of its place.
    pub place: usize,
    /// It.
    pub value: f64,
    /// The least of its rounds.
    pub least: f64,
    /// The greatest of its rounds.
    pub greatest: f64,
    /// What was published in its stead.
    pub published: Option<f64>,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bars side by side.
    Bars,
    /// Dots with lines between.
    Curves,
}

const SIZE: (u32, u32) = (880, 500);
/// The part of a place that its bars take.
const BARS: f64 = 0.8;
/// Half the width of the ends of a spread, in places.
const WHISKER: f64 = 0.04;
/// The legend has the room above all values to itself.
const ROOM_ABOVE: f64 = 1.35;
/// The least power of ten that is drawn: a value that is none has no logarithm.
const TENS_MIN: f64 = -3.0;

impl Drawing<'_> {
    /// The drawing as an SVG document.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be drawn.
    pub fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|e| Error::Bug(format!("values cannot be drawn: {e}")))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut root = root.titled(self.title, (FONT, 18))?;
        for words in self.words.iter().filter(|words| !words.is_empty()) {
            root = root.titled(words, (FONT, 12))?;
        }
        let count = self.places.len().max(1);
        let (floor, top) = self.heights();
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .set_label_area_size(LabelAreaPosition::Left, 70)
            .set_label_area_size(LabelAreaPosition::Bottom, 48)
            .build_cartesian_2d((0..count - 1).into_segmented(), floor..top)?
            .set_secondary_coord(0.0..count as f64, floor..top);
        let name = |at: &SegmentValue<usize>| match at {
            SegmentValue::CenterOf(place) => {
                self.places.get(*place).copied().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
        let label = |height: &f64| label(*height, self.by_tens);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).disable_x_mesh().x_labels(count);
        mesh.x_desc(self.below).y_desc(self.left);
        mesh.x_label_formatter(&name).y_label_formatter(&label);
        if self.by_tens {
            mesh.y_labels((top - floor).ceil() as usize + 1);
        }
        mesh.label_style((FONT, 13)).axis_desc_style((FONT, 14)).draw()?;
        for (number, row) in self.rows.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let spot = |mark: &Mark| (self.across(number, mark.place), self.height(mark.value));
            let drawn = match self.form {
                Form::Bars => {
                    let half = BARS / self.rows.len() as f64 / 2.0;
                    let bar = move |(x, y): (f64, f64)| {
                        Rectangle::new(
                            [(x - half, floor), (x + half, y)],
                            colour.mix(0.75).filled(),
                        )
                    };
                    chart.draw_secondary_series(row.marks.iter().map(spot).map(bar))?
                }
                Form::Curves => {
                    let line = LineSeries::new(row.marks.iter().map(spot), colour.stroke_width(2));
                    chart.draw_secondary_series(line)?;
                    let dot = move |at| Circle::new(at, 4, colour.filled());
                    chart.draw_secondary_series(row.marks.iter().map(spot).map(dot))?
                }
            };
            drawn.label(row.name).legend(move |at| Circle::new(at, 5, colour.filled()));
            let dark = BLACK.mix(0.7);
            for mark in &row.marks {
                let x = self.across(number, mark.place);
                let [least, greatest] = [mark.least, mark.greatest].map(|value| self.height(value));
                let ends = |y| vec![(x - WHISKER, y), (x + WHISKER, y)];
                let strokes = [vec![(x, least), (x, greatest)], ends(least), ends(greatest)];
                let stroke = |points| PathElement::new(points, dark.stroke_width(1));
                chart.draw_secondary_series(strokes.into_iter().map(stroke))?;
            }
            let told = row.marks.iter().filter_map(|mark| {
                Some((self.across(number, mark.place), self.height(mark.published?)))
            });
            // Within a bar of its own colour it would not be seen.
            let cross = |at| Cross::new(at, 6, BLACK.stroke_width(2));
            chart.draw_secondary_series(told.map(cross))?;
        }
        if self.published().next().is_some() {
            let nothing: [Cross<(f64, f64), i32>; 0] = [];
            let drawn = chart.draw_secondary_series(nothing)?;
            drawn.label("the paper").legend(|at| Cross::new(at, 5, BLACK.stroke_width(2)));
        }
        let mut labels = chart.configure_series_labels();
        labels.background_style(WHITE.mix(0.9)).border_style(BLACK.mix(0.3));
        labels.label_font((FONT, 12)).position(SeriesLabelPosition::UpperLeft).draw()?;
        root.present()?;
        Ok(())
    }

    /// Where a value of a row stands.
    fn across(&self, row: usize, place: usize) -> f64 {
        let middle = place as f64 + 0.5;
        match self.form {
            Form::Curves => middle,
            Form::Bars => {
                let rows = self.rows.len() as f64;
                middle + (row as f64 + 0.5 - rows / 2.0) * BARS / rows
            }
        }
    }

    fn height(&self, value: f64) -> f64 {
        if self.by_tens { value.max(0.0).log10().max(TENS_MIN) } else { value }
    }

    /// The ends of the axis.
    fn heights(&self) -> (f64, f64) {
        let marks = self.rows.iter().flat_map(|row| &row.marks);
        let values = marks.flat_map(|mark| [mark.least, mark.greatest]).chain(self.published());
        let heights: Vec<f64> = values.map(|value| self.height(value)).collect();
        let most = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = heights.iter().copied().fold(f64::INFINITY, f64::min);
        match self.by_tens {
            false if most > 0.0 && most.is_finite() => (0.0, most * ROOM_ABOVE),
            true if most.is_finite() => {
                // A whole step below the least, so that its bar is seen.
                let floor = (least - 0.3).floor();
                (floor, floor + (most - floor).max(1.0) * ROOM_ABOVE)
            }
            _ => (0.0, 1.0),
        }
    }

    fn published(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().flat_map(|row| &row.marks).filter_map(|mark| mark.published)
    }
}

/// As short as it can be told.
fn label(height: f64, by_tens: bool) -> String {
    if !by_tens {
        return number(&height);
    }
    let value = 10_f64.powf(height);
    let digit = 10_f64.powf(value.log10().floor() - 1.0);
    number(&((value / digit).round() * digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(place: usize, value: f64, published: Option<f64>) -> Mark {
        Mark { place, value, least: value * 0.9, greatest: value * 1.1, published }
    }

    fn drawing(form: Form, by_tens: bool, published: Option<f64>) -> String {
        let rows = vec![
            Row { name: "ours <&>", marks: vec![mark(0, 5.0, published), mark(1, 7.0, None)] },
            Row { name: "other", marks: vec![mark(1, 50_000.0, None)] },
        ];
        let drawing = Drawing {
            title: "T",
            words: ["S", ""],
            below: "B",
            left: "L",
            places: vec!["server", "far away"],
            rows,
            form,
            by_tens,
        };
        drawing.svg().unwrap()
    }

    #[test]
    fn values_stand_at_their_places_as_bars_or_dots_with_crosses_where_published() {
        let count = |svg: &str, what: &str| svg.matches(what).count();
        for by_tens in [false, true] {
            let bars = drawing(Form::Bars, by_tens, Some(12.0));
            let curves = drawing(Form::Curves, by_tens, Some(12.0));
            for words in
                ["ours &lt;&amp;&gt;", "other", "server", "far away", "the paper", "B", "L"]
            {
                assert!(bars.contains(words) && curves.contains(words), "{words}: {bars}");
            }
            // A dot a value, and one a row in the legend.
            assert_eq!((count(&bars, "<circle"), count(&curves, "<circle")), (2, 5));
            assert!(count(&bars, "<rect") >= count(&curves, "<rect") + 3);
            // The canary: without a published value there is a cross less, and none in the legend.
            let without = drawing(Form::Bars, by_tens, None);
            assert!(!without.contains("the paper"));
            assert!(count(&without, "<line") + 4 <= count(&bars, "<line"), "{without}");
        }
    }

    #[test]
    fn nothing_and_zeros_are_drawn() {
        for by_tens in [false, true] {
            for marks in [vec![], vec![mark(0, 0.0, None)]] {
                let rows = vec![Row { name: "r", marks }];
                let (words, places) = (["", ""], vec!["p"]);
                let form = Form::Bars;
                let drawing = Drawing {
                    title: "T",
                    words,
                    below: "B",
                    left: "L",
                    places,
                    rows,
                    form,
                    by_tens,
                };
                assert!(drawing.svg().unwrap().ends_with("</svg>\n"));
            }
        }
    }

    #[test]
    fn steps_of_ten_are_told_in_round_numbers() {
        let told = [-1.0, 0.0, 2.0, 2.5, 4.0].map(|height| label(height, true));
        assert_eq!(told, ["0.1", "1", "100", "320", "10000"]);
        assert_eq!(label(0.5, false), "0.5");
    }
}
