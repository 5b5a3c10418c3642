//! What was asked beside what the cloud saw, label by label, on one axis of time.

use maud::{Markup, PreEscaped, html as markup};

use fogbank_picture::{Keys, Picture, Side};

use crate::report::paint::{Painted, paint};
use crate::report::{Label, Report, words};

/// The section of all labels.
pub fn section(report: &Report) -> Markup {
    markup! {
        @if !report.labels.is_empty() {
            section {
                h2 { "What was asked, what the cloud saw" }
                p.prose {
                    "Time goes from left to right. In an amber picture each row is a record that \
                     clients asked for: a favourite is a bright line, a scan a slope. In a blue \
                     one each row is a place in the cloud. Blue may show the clock, the \
                     configuration, the fixed order in which buckets are rewritten, and a new \
                     store filling from its top; nothing of the amber beside it."
                }
                @if !report.is_secret() { (nothing_told()) }
                (legend(report.is_secret()))
                div.labels.alone[!report.is_secret()] {
                    @for label in &report.labels { (pair(label, report.is_secret())) }
                }
            }
        }
    }
}

/// `told` is whether the history of any label is known.
fn pair(label: &Label, told: bool) -> Markup {
    let mut seen = label.seen.as_ref().map(|seen| seen.picture()).unwrap_or_default();
    let mut asked = label.asked.as_ref().map(Keys::picture);
    if let Some(asked) = &mut asked {
        asked.follow(&mut seen);
    }
    markup! {
        article.label {
            h3 {
                span.name { (label.name) }
                span.small {
                    (words::count(label.runs.into())) @if label.runs == 1 { " run" } @else { " runs" }
                    ", " (words::duration(label.sizes.duration_ns))
                    @if label.runs > 1 { "; the first is drawn" }
                }
            }
            div.pair {
                @match (&asked, &label.asked) {
                    (Some(picture), Some(keys)) => {
                        (figure(picture, Side::Trusted, &asked_for(keys)))
                    },
                    _ => @if told { (nothing_told()) },
                }
                (figure(&seen, Side::Cloud, &went_by(label)))
            }
        }
    }
}

fn asked_for(keys: &Keys) -> String {
    let (reads, writes) = keys.commands();
    let [reads, writes, keys] = [reads, writes, keys.keys()].map(words::count);
    if keys == "0" {
        return "Nothing".into();
    }
    format!("{keys} keys, {reads} reads, {writes} writes; rows in the order of first use")
}

fn went_by(label: &Label) -> String {
    let sizes = label.seen.as_ref().map(|seen| seen.sizes()).unwrap_or_default();
    let [requests, cells, chunks] =
        [sizes.requests, sizes.cells_read, sizes.chunks_written].map(words::count);
    format!("{requests} requests, {cells} cells read, {chunks} whole chunks written")
}

fn figure(picture: &Picture, side: Side, caption: &str) -> Markup {
    let painted = paint(picture, side);
    let (class, title) = match side {
        Side::Trusted => ("trusted", "What was asked"),
        Side::Cloud => ("cloud", "What the cloud saw"),
    };
    markup! {
        figure class=(class) {
            h4 { (title) @if side == Side::Trusted { " " span.mark { "secret" } } }
            div.plot {
                @match side {
                    Side::Trusted => (keys(picture)),
                    Side::Cloud => (places(&painted)),
                }
                img.heat src=(painted.address) alt=(format!("{title}: {caption}"));
                (load(&picture.load()))
                (times(picture))
            }
            figcaption { (caption) "." }
        }
    }
}

/// The axis of keys: the first and the last.
fn keys(picture: &Picture) -> Markup {
    let keys = picture.bands.first().map_or(0, |band| band.map.places());
    markup! {
        div.places aria-hidden="true" {
            @if keys > 0 { span.first { "key 1" } }
            @if keys > 1 { span.last { "key " (words::count(keys)) } }
        }
    }
}

/// The axis of places: the title of every band that has room for one.
fn places(painted: &Painted) -> Markup {
    let mut free_from = 0.0;
    let shown = painted.bands.iter().filter(|(middle, _)| {
        let room = *middle >= free_from;
        if room {
            free_from = middle + LABEL_SHARE;
        }
        room
    });
    markup! {
        div.places aria-hidden="true" {
            @for (middle, title) in shown {
                span style=(format!("top:{:.1}%", middle * 100.0)) { (title) }
            }
        }
    }
}

/// The touches of every column, as a line that starts at none.
fn load(load: &[u64]) -> Markup {
    let most = load.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut path = String::from("M0 40");
    for (column, count) in load.iter().enumerate() {
        let height = 40.0 - 38.0 * *count as f64 / most;
        path.push_str(&format!("V{height:.1}H{}", column + 1));
    }
    path.push_str("V40Z");
    let view = format!("0 0 {} 40", load.len().max(1));
    markup! {
        span.loads aria-hidden="true" { "touches" }
        svg.load viewBox=(view) preserveAspectRatio="none" role="img" aria-label="touches over time" {
            path d=(path) {}
        }
    }
}

/// The axis of time: the beginning, the middle and the end.
fn times(picture: &Picture) -> Markup {
    let span = picture.span_ns();
    markup! {
        div.times aria-hidden="true" {
            span { "0" } span { (words::duration(span / 2)) } span { (words::duration(span)) }
        }
    }
}

fn nothing_told() -> Markup {
    markup! {
        p.untold {
            "What was asked, only the trusted side knows: a history recorded beside the trace and \
             given with " code { "--history" } " is drawn here. No check reads it."
        }
    }
}

fn legend(told: bool) -> Markup {
    let scale = |side: Side| {
        let colours = side.palette();
        let stops: Vec<String> =
            colours.iter().map(|[r, g, b]| format!("rgb({r},{g},{b})")).collect();
        format!("background:linear-gradient(90deg,{})", stops.join(","))
    };
    // Where no, one, three and eight times the average are, by the scale of `picture::shade`.
    let ticks = [("none", 0.0), ("average", 31.5), ("3 times", 63.1), ("8 times or more", 100.0)];
    markup! {
        div.legend {
            span.small { "Touches of a square, against the average of its band:" }
            div.scale {
                @if told { div.bar style=(PreEscaped(scale(Side::Trusted))) {} }
                div.bar style=(PreEscaped(scale(Side::Cloud))) {}
                div.ticks {
                    @for (text, at) in ticks { span style=(format!("left:{at}%")) { (text) } }
                }
            }
        }
    }
}

/// The height that a label of a band needs.
const LABEL_SHARE: f64 = 0.05;
