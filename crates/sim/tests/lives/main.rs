//! Stops at every call of the proxy to the cloud, and of the recoveries after them; a proxy that is
//! held there; a cloud that lies.
//!
//! `FOGBANK_SIM_SCALE` says of how many seeds.

mod meeting;
mod stories;
mod tampering;

use fogbank_sim::lives::{
    How, Lives, Printing, Stop, Told, play, play_with_a_book, play_with_a_transfer_that_never_was,
};
use fogbank_sim::scene::{Intensity, Shape, Workload};

fn scale() -> u64 {
    std::env::var("FOGBANK_SIM_SCALE").map_or(1, |text| text.parse().expect("a number"))
}

fn lives(seed: u64, stops: &[Stop]) -> Lives {
    Lives {
        seed,
        shape: Shape::small(),
        full_every: 3,
        clients: 3,
        workload: Workload::Idle,
        intensity: Intensity::Light,
        epochs: 7,
        stops: stops.to_vec(),
    }
}

fn told(lives: &Lives) -> Told {
    play(lives).unwrap_or_else(|what| panic!("{what}"))
}

/// Calls that a life makes which is cut short after its last epoch.
fn calls_of_first_life(seed: u64) -> u64 {
    told(&lives(seed, &[Stop { call: u64::MAX, how: How::Before }])).calls[0]
}

#[test]
fn nothing_is_lost_whichever_call_is_the_last() {
    (1..=scale()).for_each(stop_at_every_call);
}

fn stop_at_every_call(seed: u64) {
    let all = calls_of_first_life(seed);
    let (mut acknowledged, mut repeated) = (0, 0);
    for call in 1..=all {
        for how in How::ALL {
            let told = told(&lives(seed, &[Stop { call, how }]));
            acknowledged += told.acknowledged;
            repeated += told.repeated;
        }
    }
    println!("{all} calls, {} stops, {acknowledged} acknowledged, {repeated} repeated", 3 * all);
    assert!(repeated > all as usize / 2, "stops in the midst of epochs");
}

/// The second life ends too, mostly within its recovery.
#[test]
fn nor_if_the_recovery_stops_as_well() {
    (2..2 + scale()).for_each(stop_the_recovery_as_well);
}

fn stop_the_recovery_as_well(seed: u64) {
    let all = calls_of_first_life(seed);
    let (mut stories, mut acknowledged, mut repeated) = (0, 0, 0);
    for first in (1..=all).step_by(2) {
        for second in 1..=36 {
            let how = |n: u64| How::ALL[(n % 3) as usize];
            let stops = [
                Stop { call: first, how: how(first / 2 + second) },
                Stop { call: second, how: how(first + second / 3) },
            ];
            let told = told(&lives(seed, &stops));
            stories += 1;
            acknowledged += told.acknowledged;
            repeated += told.repeated;
        }
    }
    println!("{stories} stories, {acknowledged} acknowledged, {repeated} repeated");
    assert!(stories > 1_000);
}

/// The canary.
#[test]
fn a_transfer_that_is_not_there_is_missed() {
    let stop = Stop { call: 20, how: How::After };
    let said = play_with_a_transfer_that_never_was(&lives(3, &[stop])).expect_err("it is missed");
    assert!(said.starts_with("transfer 1 was acknowledged and is lost"), "{said}");
}

/// A program that takes several epochs, cut short at every call.
#[test]
fn a_large_program_is_there_whole_or_not_at_all() {
    (1..=scale()).for_each(|seed| {
        for printing in [Printing::Whole, Printing::Marked] {
            let (stories, torn, editions) = rewrite_the_book(seed, printing);
            println!("{printing:?}: {stories} stops, {editions} editions acknowledged");
            assert!(torn.is_empty() && editions > stories, "{editions}, {torn:#?}");
        }
    });
}

/// The canaries: an edition that two programs write is found torn, also if it is one of attributes.
#[test]
fn a_book_that_two_programs_write_is_torn() {
    for printing in [Printing::InHalves, Printing::MarkedInHalves] {
        let (stories, torn, _) = rewrite_the_book(5, printing);
        assert!(torn.len() > stories as usize / 20, "{} of {stories}", torn.len());
        assert!(torn.iter().all(|what| what.starts_with("the book is torn")), "{torn:#?}");
    }
}

/// How many stories there were, what was found in them, and how many editions were acknowledged.
fn rewrite_the_book(seed: u64, printing: Printing) -> (u64, Vec<String>, u64) {
    // Half of them print the first edition of one whose later ones are marks.
    let epochs = if matches!(printing, Printing::Whole | Printing::InHalves) { 11 } else { 16 };
    let lives = |stops: &[Stop]| Lives { clients: 1, epochs, ..lives(seed, stops) };
    let told = |stops: &[Stop]| play_with_a_book(&lives(stops), printing);
    let all = match told(&[Stop { call: u64::MAX, how: How::Before }]) {
        Ok(told) => told.calls[0],
        Err(what) => return (1, vec![what], 0),
    };
    let (mut stories, mut torn, mut editions) = (0, Vec::new(), 0);
    for call in 1..=all {
        for how in How::ALL {
            // Every third one is stopped in its recovery, too.
            let again = Stop { call: call % 37 + 1, how };
            let stops = [Stop { call, how }, again];
            let count = if call % 3 == 0 { 2 } else { 1 };
            stories += 1;
            match told(&stops[..count]) {
                Ok(told) => editions += told.editions,
                Err(what) => torn.push(what),
            }
        }
    }
    (stories, torn, editions)
}
