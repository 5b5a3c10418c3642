//! One page with all figures: a file that loads nothing, runs no script and stands on its own.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::table::{SILENT, cells};
use super::{Report, of_paper};
use crate::bench::paper::figure::{Figure, Panel};

/// The whole page.
pub fn html(report: &Report) -> String {
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { "Figures of the papers - Fogbank" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Figures of the papers, with Fogbank's values" }
                    p { "Repeat it with " code { (report.command) } }
                    p { "Measured on " (report.machine.words()) ". Stores are in memory at the far \
                         end of a modelled link; every value read was held against what was \
                         written." }
                    p { "A value is the median of its rounds, least and greatest beside it. What \
                         the papers tell in words stands beside ours; where only a drawing has \
                         it, " (SILENT) "." }
                    nav { ul {
                        @for figure in &report.figures {
                            li { a href={ "#" (figure.id.name()) } { (of_paper(figure.id)) } ": " (figure.title) }
                        }
                    } }
                }
                main {
                    @for (figure, drawn) in report.figures.iter().zip(&report.drawn) {
                        (section(figure, drawn))
                    }
                }
                footer { "Written by fogbank " (env!("CARGO_PKG_VERSION")) "." }
            }
        }
    };
    page.into_string()
}

fn section(figure: &Figure, drawn: &[String]) -> Markup {
    markup! {
        section id=(figure.id.name()) {
            h2 { (of_paper(figure.id)) ": " (figure.title) }
            p { (figure.setting) }
            @if !figure.differs.is_empty() {
                p { strong { "Not as in the paper:" } }
                ul { @for differs in &figure.differs { li { (differs) } } }
            }
            @for (panel, svg) in figure.panels.iter().zip(drawn) {
                // The drawing has escaped its words already.
                figure { (PreEscaped(svg)) }
                (table(panel))
            }
        }
    }
}

fn table(panel: &Panel) -> Markup {
    markup! {
        table {
            caption { (panel.measure) }
            thead { tr {
                th { (panel.below) } th { "series" } th { "ours" } th { "least to greatest" }
                th { "paper" } th { "ratio" } th { "where" }
            } }
            tbody {
                @for (series, point) in panel.points() {
                    tr {
                        td { (point.place) } td { (series) }
                        @for cell in cells(point) { td.number { (cell) } }
                        td { (point.paper.map_or("", |paper| paper.place)) }
                    }
                }
            }
        }
    }
}

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use crate::args::PaperFigure;

    use super::*;
    use crate::bench::machine::Machine;
    use crate::bench::paper::figure::{Drawn, Spread};
    use crate::bench::paper::published::Published;

    #[test]
    fn a_page_has_its_drawings_and_escapes_its_words() {
        let mut panel = Panel::new("gain", "times <1>", "store", Drawn::Bars);
        let paper = Published { value: 8.0, place: "section 11 & more" };
        panel.add("<b>ours", "server", Spread::of(vec![4.0]), Some(paper));
        let figure = Figure {
            id: PaperFigure::Buffering,
            title: "<script>T".into(),
            setting: "a < b".into(),
            differs: vec!["& smaller".into()],
            panels: vec![panel],
        };
        let report = Report {
            command: "fogbank --x '<y>'".into(),
            machine: Machine { cores: 2, processor: Some("A <B>".into()), memory_bytes: None },
            figures: vec![figure],
            drawn: vec![vec!["<svg></svg>".into()]],
            folder: "".into(),
            html: true,
        };
        let page = html(&report);
        for words in [
            "<svg></svg>",
            "&lt;script&gt;T",
            "&lt;b&gt;ours",
            "A &lt;B&gt;",
            "'&lt;y&gt;'",
            "&amp; smaller",
            "section 11 &amp; more",
            "<td class=\"number\">0.500</td>",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(!page.contains("<script>"), "{page}");
    }
}
