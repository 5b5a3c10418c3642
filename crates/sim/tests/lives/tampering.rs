//! Every byte of every object of a small store is changed, every object is taken away or exchanged
//! for everything of its kind that there ever was, and what was deleted comes back.
//!
//! A sample of it; all of it with `FOGBANK_SIM_SCALE` above 1. `FOGBANK_SIM_SEED` shifts the sample.

use fogbank_env::{Purpose, Randomness};
use fogbank_sim::lives::{Broken, End, Lie, Outcome, Tally, Volume};
use fogbank_sim::scene::Shape;
use rand_core::Rng;

/// Lies of one kind that are told if not all are.
const SAMPLE: usize = 600;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

fn volume(end: End) -> Volume {
    volume_of(Volume::shape(), end)
}

fn volume_of(shape: Shape, end: End) -> Volume {
    Volume::make(1, shape, end).unwrap_or_else(|what| panic!("{what}"))
}

fn sample(mut lies: Vec<Lie>) -> Vec<Lie> {
    if number("FOGBANK_SIM_SCALE", 1) > 1 {
        return lies;
    }
    let seed = number("FOGBANK_SIM_SEED", 1);
    let mut stream = Randomness::repeatable(seed).stream(Purpose::Workload);
    while lies.len() > SAMPLE {
        lies.swap_remove(stream.next_u64() as usize % lies.len());
    }
    lies
}

fn tell(volume: &Volume, lies: Vec<Lie>, what: &str) -> Tally {
    let (all, told) = (lies.len(), sample(lies));
    let tally = volume.tell_all(&told).unwrap_or_else(|what| panic!("{what}"));
    println!("{what}: {} of {all} told, {tally:?}", told.len());
    tally
}

fn every_lie_is_caught_or_nobody_asks(volume: &Volume) {
    println!("{} bytes in {:?}", volume.bytes(), volume.kinds());
    let flips = tell(volume, volume.flips(), "flipped bytes");
    assert!(flips.caught > flips.unread, "{flips:?}");
    let exchanges = tell(volume, volume.exchanges(), "exchanged objects");
    assert!(exchanges.caught > 0 && exchanges.unread > 0, "{exchanges:?}");
}

#[test]
fn a_changed_object_of_a_closed_store_is_noticed_or_never_read() {
    every_lie_is_caught_or_nobody_asks(&volume(End::Closed));
}

#[test]
fn a_changed_object_of_a_crashed_store_is_noticed_or_never_read() {
    let volume = volume(End::Crashed);
    let kinds: Vec<&str> = volume.kinds().into_keys().collect();
    assert_eq!(kinds, ["checkpoint", "chunk", "commit", "delta", "journal"]);
    every_lie_is_caught_or_nobody_asks(&volume);
}

#[test]
fn nor_where_paths_are_read_as_one_cell() {
    let shape = Shape { xor: true, ..Volume::shape() };
    every_lie_is_caught_or_nobody_asks(&volume_of(shape, End::Crashed));
}

/// The canaries: a check that expects another record finds the honest answer wrong, one in which
/// somebody speaks after the error hears it, and an honest cloud is not suspected.
#[test]
fn the_check_can_fail() {
    for end in [End::Closed, End::Crashed] {
        let volume = volume(end);
        assert_eq!(volume.tell(&Lie::None, Broken::Nothing), Ok(Outcome::Unread));
        let wrong = volume.tell(&Lie::None, Broken::Records).expect_err("a wrong answer");
        assert!(wrong.starts_with("WRONG ANSWER"), "{wrong}");
        let caught = &volume.flips()[..1];
        assert_eq!(volume.tell_all(caught).expect("an outcome").caught, 1);
        let loud = volume.tell(&caught[0], Broken::Silence).expect_err("a call");
        assert!(loud.starts_with("1 calls after the error"), "{loud}");
    }
}
