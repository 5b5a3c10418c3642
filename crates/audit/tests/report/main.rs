//! The report: what the page shows, that it loads nothing, that it believes no label, and that a
//! history stays out of everything but its picture.

mod configuration;
mod history;
mod sample;

use fogbank_audit::Verdict;
use fogbank_audit::report::paint::paint;
use fogbank_audit::report::{Label, Report, Seen, html, json, text};
use fogbank_picture::Side;
use fogbank_store::trace::{ChunkCells, Event, Request, Sent};
use fogbank_store::{ArrayId, ArrayShape, ChunkName};

use sample::{Dice, LEAF_LEVEL, events, finding, report, seen, uniform};

/// How often `part` is in `whole`.
fn times(whole: &str, part: &str) -> usize {
    whole.matches(part).count()
}

#[test]
fn the_page_loads_nothing() {
    for verdict in [Verdict::Passed, Verdict::Failed, Verdict::TooFew] {
        let page = html(&report(verdict, 20, true));
        for foreign in ["http:", "https:", "\"//", "<script", "<link", "<iframe", "@import", "url("]
        {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert_eq!(times(&page, "src="), times(&page, "src=\"data:image/png;base64,"));
        assert!(page.contains("default-src 'none'"));
        assert!(page.len() < 200_000, "{}", page.len());
    }
}

#[test]
fn labels_subjects_and_words_are_not_believed() {
    let hostile = "</title><script>alert(1)</script>\"' onload=x \u{1b}[2J&amp;";
    let mut whole = report(Verdict::Failed, 5, true);
    whole.labels[0].name = hostile.into();
    whole.breaches[0].subject = hostile.into();
    whole.breaches[0].breach.seen = hostile.into();
    let mut bad = finding(hostile, hostile, Verdict::Failed, None);
    bad.words = hostile.into();
    whole.findings.push(bad);
    let page = html(&whole);
    assert!(!page.contains("<script") && !page.contains("\" onload"));
    assert!(times(&page, "&lt;script&gt;") >= 6);
    assert!(page.contains("&amp;amp;"));
    assert!(!text(&whole).contains('\u{1b}'));
    assert_eq!(json(&whole)["labels"][0]["label"], hostile);
}

#[test]
fn the_page_says_first_what_matters_most() {
    let page = html(&report(Verdict::Failed, 20, true));
    let mut last = 0;
    for part in [
        "Secret.",
        "The cloud can learn something it should not.",
        "3 of 27 checks failed: leaves-lagged, two-histories.",
        "What was asked",
        "What the cloud saw",
        "Where a trace differs",
        "15 paths of 8 buckets",
        "The checks",
        "Leaves lagged",
        "Two histories",
        "Ciphertexts fresh",
        "What this does not prove",
    ] {
        let at = page[last..].find(part);
        last += at.unwrap_or_else(|| panic!("{part} is missing or too early"));
    }
    assert_eq!(times(&page, "<figure class=\"trusted\">"), 3);
    assert_eq!(times(&page, "<figure class=\"cloud\">"), 3);
    assert_eq!(times(&page, "<details"), 9);
    assert_eq!(times(&page, "<details class=\"failed\" open>"), 2);
}

#[test]
fn every_verdict_has_its_words() {
    let said = |report: &Report| {
        let page = html(report);
        let start = page.find("<h1>").unwrap();
        let end = page.find("</h1>").unwrap();
        (report.verdict(), page[start..end].rsplit('>').nth(1).unwrap().to_string())
    };
    let cases = [
        (Verdict::Passed, "No leak found.<"),
        (Verdict::Failed, "The cloud can learn something it should not.<"),
        (Verdict::TooFew, "No leak found, but too little data to say.<"),
    ];
    for (verdict, words) in cases {
        let (found, said) = said(&report(verdict, 2, false));
        assert_eq!((found, format!("{said}<")), (verdict, words.replace('<', "</span<")));
    }
    assert_eq!(Report::default().verdict(), Verdict::TooFew);
    assert!(html(&Report::default()).contains("Nothing was checked"));
    let broken = Report { breaches: vec![sample::breach()], ..Report::default() };
    assert_eq!(broken.verdict(), Verdict::Failed);
}

#[test]
fn text_has_a_line_a_finding_and_json_the_same() {
    let whole = report(Verdict::TooFew, 5, false);
    let text = text(&whole);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 28);
    assert!(lines[1].starts_with("too few  two-histories (one favourite / idle): figure 0.0021"));
    assert!(lines[26].starts_with("passed   two-histories (scan / idle)"));
    assert!(lines[27].starts_with("No leak found, but too little data to say. 3 of 27 checks"));
    let json = json(&whole);
    assert_eq!(
        (json["verdict"].as_str(), json["findings"][0]["check"].as_str()),
        (Some("too-few"), Some("leaves-lagged"))
    );
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(27));
    assert_eq!(json["sizes"]["events"], json["labels"][0]["sizes"]["events"].as_u64().unwrap() * 3);
}

/// Shades of the leaves' band: how many squares have the last colour.
fn glaring(seen: &Seen) -> usize {
    let picture = seen.picture();
    let leaves = picture.bands.iter().find(|band| band.title == format!("level {LEAF_LEVEL}"));
    let leaves = leaves.expect("the level of the leaves");
    let rows = (0..leaves.map.rows()).flat_map(|row| leaves.shades(row, picture.columns()));
    rows.filter(|shade| *shade == 63).count()
}

/// The canary of the picture: it can show a leak.
#[test]
fn a_path_that_is_read_too_often_is_a_bright_line() {
    let honest = seen(&events(100, 1, |_, dice| uniform(dice)));
    let leaky =
        |access: u64, dice: &mut Dice| if access.is_multiple_of(4) { uniform(dice) } else { 77 };
    assert_eq!(glaring(&honest), 0);
    assert!(glaring(&seen(&events(100, 1, leaky))) > 90);
}

#[test]
fn a_tree_has_a_band_a_level_and_a_beat() {
    let one = seen(&events(30, 3, |_, dice| uniform(dice)));
    let picture = one.picture();
    let titles: Vec<&str> = picture.bands.iter().map(|band| band.title.as_str()).collect();
    assert_eq!((titles[0], titles[7], titles[8], titles.len()), ("level 2", "level 9", "blobs", 9));
    // Every path read and every eviction has one bucket on each level.
    let touches = 30 * (3 * 16 + 1);
    assert!(picture.bands[..8].iter().all(|band| band.map.sum() == touches));
    assert!(picture.columns() > 120 && picture.columns() <= 240);
    let epoch = sample::INTERVAL_NS * 4;
    assert_eq!(epoch % picture.column_ns(), 0, "a column is a part of an epoch");
    assert_eq!(paint(&picture, Side::Cloud).bands.len(), 9);
}

#[test]
fn long_traces_make_no_larger_pictures() {
    let size = |epochs| {
        let picture = seen(&events(epochs, 3, |_, dice| uniform(dice))).picture();
        (picture.columns() <= 240, paint(&picture, Side::Cloud).address.len() < 60_000)
    };
    assert_eq!((size(1), size(3_000)), ((true, true), (true, true)));
}

#[test]
fn what_no_configuration_explains_is_shown_by_array() {
    let mut seen = Seen::new(b"not ours");
    let mut id = 0;
    let mut send = |request| {
        id += 1;
        let sent = Sent { id, at: 1_000 * id, cloud: 0, connection: 0, request };
        seen.event(&Event::Sent(sent));
    };
    let shape = ArrayShape { chunks: 1_000, cells_per_chunk: 4, cell_bytes: 8 };
    send(Request::CreateArray { array: ArrayId(0), shape });
    for array in 0..40 {
        let chunk = ChunkName { array: ArrayId(array), chunk: u32::MAX, version: 0 };
        send(Request::ReadCells { reads: vec![ChunkCells { chunk, cells: vec![1, 2] }] });
    }
    assert_eq!(seen.sizes().cells_read, 80);
    let picture = seen.picture();
    assert_eq!((picture.bands.len(), picture.sum()), (6, 80));
    let mut label = Label::new("");
    label.add(seen);
    assert!(html(&Report { labels: vec![label], ..Report::default() }).contains("others"));
}
