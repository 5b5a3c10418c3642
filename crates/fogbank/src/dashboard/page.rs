//! The page of the dashboard: a frame that its script fills once a second.

use fogbank_picture::{STYLE, Side};
use maud::{DOCTYPE, Markup, html};

/// What stands at `path`.
pub fn page(path: &str) -> Option<(&'static str, Vec<u8>)> {
    Some(match path {
        "/" => ("text/html; charset=utf-8", frame().into_string().into()),
        "/page.css" => ("text/css; charset=utf-8", [STYLE, LIVE_STYLE].concat().into()),
        "/page.js" => ("text/javascript; charset=utf-8", SCRIPT.into()),
        _ => return None,
    })
}

fn frame() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-trusted=(palette(Side::Trusted)) data-cloud=(palette(Side::Cloud)) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Fogbank, live" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/page.css";
                script src="/page.js" defer {}
            }
            body {
                p.secret role="note" {
                    strong { "Secret." } " This page shows what is asked. It belongs on the trusted side."
                }
                header.live {
                    h1 { "Fogbank, live" }
                    p #state role="status" { "Waiting for the first look." }
                }
                main {
                    (tiles())
                    section { (pictures()) }
                    section { (rhythm()) }
                    section { (figures()) }
                }
            }
        }
    }
}

fn tiles() -> Markup {
    let tile = |id: &str, name: &str, side: &str| {
        html! { div class=(side) { dt { (name) } dd id=(id) { "-" } } }
    };
    html! {
        dl.facts {
            (tile("rate", "Answers a second", "trusted"))
            (tile("p50", "Latency, median", "trusted"))
            (tile("p99", "Latency, 99 of 100", "trusted"))
            (tile("traffic", "Traffic with the cloud", "cloud"))
            (tile("epochs", "Epochs", "cloud"))
        }
    }
}

fn pictures() -> Markup {
    html! {
        div.pair {
            (picture("keys", "trusted", html! { "What is asked " span.mark { "secret" } }, "keys",
                "Each row is a handful of keys, by a hash; a favourite is a bright line."))
            (picture("places", "cloud", html! { "What the cloud sees" }, "touches",
                "Each row is a few buckets of the tree, one band a level. It may show the clock, \
                 the fixed order in which buckets are rewritten and a new store filling from its \
                 top; nothing of the picture beside it."))
        }
    }
}

fn picture(id: &str, side: &str, title: Markup, load: &str, caption: &str) -> Markup {
    html! {
        figure class=(side) {
            h4 { (title) }
            div.plot {
                div.places id=(format!("{id}-axis")) aria-hidden="true" {}
                canvas.heat id=(id) role="img" aria-label=(caption) {}
                span.loads aria-hidden="true" { (load) }
                canvas.load id=(format!("{id}-load")) role="img" aria-label=(format!("{load} over time")) {}
                (times())
            }
            figcaption { (caption) }
        }
    }
}

fn times() -> Markup {
    html! { div.times aria-hidden="true" { span.from { "-" } span.half { "-" } span { "now" } } }
}

fn rhythm() -> Markup {
    html! {
        div.pair {
            figure.trusted {
                h4 { "How fast answers come " span.mark { "secret" } }
                div.plot {
                    div.places #latency-axis aria-hidden="true" {}
                    canvas.chart #latency role="img" aria-label="latency over time" {}
                    (times())
                }
                figcaption { "Line: median. Haze: 99 of 100 are below its top." }
            }
            figure.cloud {
                h4 { "The beat" }
                div.plot {
                    div.places aria-hidden="true" {
                        span.low-half { "writes" } span.high-half { "reads" }
                    }
                    canvas.chart #beat role="img" aria-label="messages to the cloud over time" {}
                    div.times aria-hidden="true" { span #beat-from { "-" } span { "now" } }
                }
                figcaption #beat-caption { "Messages to the cloud." }
            }
        }
    }
}

fn figures() -> Markup {
    html! {
        details.figures {
            summary { strong { "All figures" } }
            div.pair {
                div { h4 { "Public: the cloud could count them" } dl #public {} }
                div { h4 { "Secret " span.mark { "secret" } } dl #secret {} }
            }
        }
    }
}

/// Six hexadecimal digits a shade.
fn palette(side: Side) -> String {
    side.palette().iter().flatten().map(|byte| format!("{byte:02x}")).collect()
}

const LIVE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
