//! A panel of a figure as a drawing.

use fogbank::Result;

use super::of_paper;
use crate::bench::groups::{Drawing, Form, Mark, Row};
use crate::bench::paper::figure::{Drawn, Figure, Panel};

/// Characters of a line below the title; longer ones end in dots.
const WORDS_MAX: usize = 120;

/// The drawing as an SVG document.
///
/// # Errors
/// [`fogbank::Error::Bug`] if it cannot be drawn.
pub fn svg(figure: &Figure, panel: &Panel) -> Result<String> {
    let places = panel.places();
    let at = |place: &str| places.iter().position(|known| *known == place);
    let mark = |point: &crate::bench::paper::figure::Point| {
        Some(Mark {
            place: at(&point.place)?,
            value: point.ours.median,
            least: point.ours.least,
            greatest: point.ours.greatest,
            published: point.paper.map(|paper| paper.value),
        })
    };
    let rows = panel.series.iter().map(|series| Row {
        name: &series.name,
        marks: series.points.iter().filter_map(mark).collect(),
    });
    let differs = match &figure.differs[..] {
        [] => String::new(),
        differs => short(&format!("not as in the paper: {}", differs.join("; "))),
    };
    let title = format!("{}: {}", of_paper(figure.id), figure.title);
    let (form, by_tens) = match panel.drawn {
        Drawn::Bars => (Form::Bars, false),
        Drawn::BarsByTens => (Form::Bars, true),
        Drawn::Curves => (Form::Curves, false),
        Drawn::CurvesByTens => (Form::Curves, true),
    };
    let drawing = Drawing {
        title: &title,
        words: [&short(&figure.setting), &differs],
        below: panel.below,
        left: &panel.measure,
        places: places.clone(),
        rows: rows.collect(),
        form,
        by_tens,
    };
    drawing.svg()
}

/// The whole stands in the table.
fn short(words: &str) -> String {
    match words.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => {
            let whole = words[..end].rfind(' ').unwrap_or(end);
            format!("{} ...", &words[..whole])
        }
        None => words.to_owned(),
    }
}
