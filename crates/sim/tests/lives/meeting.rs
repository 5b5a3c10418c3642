//! A proxy that is held at any call of two epochs while another takes its store over.

use fogbank_sim::lives::{Ground, Hold, Meeting, Met, meet};
use fogbank_sim::scene::Shape;

use super::scale;

/// How the meetings ended, at every call until the first proxy is through with its epochs.
#[derive(Debug, Default)]
struct Counts {
    fenced: u64,
    refused: u64,
    second_refused: u64,
}

fn meeting(seed: u64, ground: Ground, hold: Hold) -> Meeting {
    Meeting { seed, shape: Shape::small(), full_every: 3, clients: 3, hold, ground }
}

fn at_every_call(seed: u64, ground: Ground) -> Counts {
    let mut counts = Counts::default();
    for call in 1.. {
        let mut never = 0;
        for before in [true, false] {
            let hold = Hold { call, before };
            match meet(&meeting(seed, ground, hold)).unwrap_or_else(|what| panic!("{what}")) {
                Met::Never => never += 1,
                Met::Fenced => counts.fenced += 1,
                Met::Refused => counts.refused += 1,
                Met::SecondRefused => counts.second_refused += 1,
            }
        }
        if never == 2 {
            println!("{} calls: {counts:?}", call - 1);
            return counts;
        }
    }
    counts
}

#[test]
fn a_proxy_that_was_held_while_another_took_over_is_fenced() {
    for seed in 1..=scale() {
        let counts = at_every_call(seed, Ground::Shared);
        assert!(counts.fenced > 40, "{counts:?}");
        assert_eq!((counts.refused, counts.second_refused), (0, 0));
    }
}

/// Whoever has a register of its own that is too old is refused. If it is not, the first is
/// stopped, but only a register that they shared could say whether by another proxy or by a lie.
#[test]
fn of_two_copies_of_the_trusted_side_one_goes_on() {
    for seed in 1..=scale() {
        let counts = at_every_call(seed, Ground::Copied);
        assert!(counts.second_refused > 30 && counts.fenced + counts.refused > 0, "{counts:?}");
    }
}

/// The canary: nothing stops a proxy that nobody has overtaken, and every check says so.
#[test]
fn a_proxy_that_goes_on_is_noticed() {
    let hold = Hold { call: 3, before: true };
    let said = meet(&meeting(3, Ground::Apart, hold)).expect_err("it goes on");
    for what in ["goes on", "acknowledged something", "read what the journal does not hold"] {
        assert!(said.contains(what), "{said}");
    }
}
