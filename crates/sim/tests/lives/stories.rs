//! Stories drawn from seeds: what `make sim` plays without end.

use std::collections::BTreeSet;

use fogbank_sim::lives::{Count, Ground, Story};
use fogbank_sim::scene::Workload;

use super::scale;

#[test]
fn drawn_stories_end_well() {
    let mut count = Count::default();
    for seed in 1..=60 * scale() {
        let story = Story::of(seed);
        count += story.play().unwrap_or_else(|what| panic!("{what}"));
    }
    println!("{count:?}");
    assert!(count.crashes > 40 && count.repeated > 10, "{count:?}");
    assert!(count.fenced > 0 && count.caught > 0, "{count:?}");
}

#[test]
fn a_seed_tells_the_same_story_again() {
    for seed in [1, 2, 3, 4, 5, 6, 7, 8] {
        let [first, second] = [(); 2].map(|()| Story::of(seed));
        assert_eq!(first.to_string(), second.to_string());
        assert_eq!(first.play(), second.play(), "{first}");
    }
}

#[test]
fn every_workload_and_every_kind_of_story_is_drawn() {
    let kind = |seed| match Story::of(seed) {
        Story::Lives(lives) => format!("{:?} {}", lives.workload, lives.stops.len()),
        Story::Meeting(meeting) => format!("{:?}", meeting.ground == Ground::Shared),
        Story::Lie { end, .. } => format!("{end:?}"),
    };
    let kinds: BTreeSet<String> = (1..=1_000).map(kind).collect();
    assert_eq!(kinds.len(), Workload::ALL.len() * 3 + 2 + 2, "{kinds:?}");
}
