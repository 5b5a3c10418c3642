//! A figure as a table of text: ours, the paper's, and the ratio.

use std::fmt::Write;

use super::of_paper;
use crate::bench::paper::figure::{Figure, Point};

/// What stands where the paper tells nothing.
pub const SILENT: &str = "-";

/// The table of a figure.
pub fn of(figure: &Figure) -> String {
    let mut text = format!("{}: {}\n", of_paper(figure.id), figure.title);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  setting: {}", figure.setting);
    for differs in &figure.differs {
        let _ = writeln!(text, "  not as in the paper: {differs}");
    }
    for panel in &figure.panels {
        let rows: Vec<[String; 6]> = std::iter::once([
            panel.below.to_owned(),
            panel.measure.clone(),
            "ours".into(),
            "least to greatest".into(),
            "paper".into(),
            "ratio".into(),
        ])
        .chain(panel.points().map(|(series, point)| {
            let [ours, spread, paper, ratio] = cells(point);
            [point.place.clone(), series.to_owned(), ours, spread, paper, ratio]
        }))
        .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or(0)).collect();
        for row in &rows {
            let mut line = String::from(" ");
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 | 1 => write!(line, " {cell:<width$} "),
                    _ => write!(line, " {cell:>width$} "),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

/// Ours, its spread, the paper's, the ratio.
pub fn cells(point: &Point) -> [String; 4] {
    [
        number(point.ours.median),
        format!("{} to {}", number(point.ours.least), number(point.ours.greatest)),
        point.paper.map_or(SILENT.into(), |paper| number(paper.value)),
        point.ratio.map_or(SILENT.into(), number),
    ]
}

/// Three figures, or all before the point.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::PaperFigure;

    use super::*;
    use crate::bench::paper::figure::{Drawn, Panel, Spread};
    use crate::bench::paper::published::Published;

    #[test]
    fn a_table_has_ours_the_papers_and_the_ratio() {
        let mut panel = Panel::new("gain", "times", "store", Drawn::Bars);
        let paper = Published { value: 12.0, place: "" };
        panel.add("ours", "server", Spread::of(vec![6.0]), Some(paper));
        panel.add("ours", "WAN", Spread::of(vec![123.4, 1_234.5]), None);
        let figure = Figure {
            id: PaperFigure::Parallel,
            title: "T".into(),
            setting: "S".into(),
            differs: vec!["D".into()],
            panels: vec![panel],
        };
        let text = of(&figure);
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..3], ["Obladi,", "figure", "10a:"]);
        assert_eq!(rows[2], ["not", "as", "in", "the", "paper:", "D"]);
        assert_eq!(rows[4], ["server", "ours", "6.00", "6.00", "to", "6.00", "12.0", "0.500"]);
        assert_eq!(rows[5], ["WAN", "ours", "679", "123", "to", "1234", "-", "-"]);
    }
}
