//! Every byte of every object of a small store is changed, every object is taken away or exchanged
//! for everything of its kind that there ever was, and what was deleted comes back.
//!
//! `FOGBANK_SIM_SCALE` says how many such stores.

use fogbank_sim::lives::{Broken, End, Lie, Outcome, Tally, Volume};
use fogbank_sim::scene::Shape;

use super::scale;

fn volume(seed: u64, shape: Shape, end: End) -> Volume {
    Volume::make(seed, shape, end).unwrap_or_else(|what| panic!("{what}"))
}

fn tell(volume: &Volume, lies: &[Lie], what: &str) -> Tally {
    let tally = volume.tell_all(lies).unwrap_or_else(|what| panic!("{what}"));
    println!("{} {what}: {tally:?}", lies.len());
    tally
}

fn every_lie_is_caught_or_nobody_asks(shape: &Shape, end: End) {
    for seed in 1..=scale() {
        let volume = volume(seed, shape.clone(), end);
        println!("seed {seed}: {} bytes in {:?}", volume.bytes(), volume.kinds());
        let flips = tell(&volume, &volume.flips(), "flipped bytes");
        let exchanges = tell(&volume, &volume.exchanges(), "exchanged objects");
        for tally in [flips, exchanges] {
            assert!(tally.caught > tally.unread && tally.unread > 0, "{tally:?}");
            // Windows of a batch are on their way together, and one batch of this shape is one
            // window.
            assert!(tally.calls_after <= 1, "{tally:?}");
        }
    }
}

#[test]
fn a_changed_object_of_a_closed_store_is_noticed_or_never_read() {
    every_lie_is_caught_or_nobody_asks(&Volume::shape(), End::Closed);
}

#[test]
fn a_changed_object_of_a_crashed_store_is_noticed_or_never_read() {
    let kinds = volume(1, Volume::shape(), End::Crashed);
    let kinds: Vec<&str> = kinds.kinds().into_keys().collect();
    assert_eq!(kinds, ["checkpoint", "chunk", "commit", "delta", "journal"]);
    every_lie_is_caught_or_nobody_asks(&Volume::shape(), End::Crashed);
}

#[test]
fn nor_where_paths_are_read_as_one_cell() {
    every_lie_is_caught_or_nobody_asks(&Shape { xor: true, ..Volume::shape() }, End::Crashed);
}

/// The canaries: a check that expects another record finds the honest answer wrong, one in which
/// somebody speaks after the error hears it, and an honest cloud is not suspected.
#[test]
fn the_check_can_fail() {
    for end in [End::Closed, End::Crashed] {
        let volume = volume(1, Volume::shape(), end);
        assert_eq!(volume.tell(&Lie::None, Broken::Nothing), Ok(Outcome::Unread));
        let wrong = volume.tell(&Lie::None, Broken::Records).expect_err("a wrong answer");
        assert!(wrong.starts_with("WRONG ANSWER"), "{wrong}");
        let caught = &volume.flips()[..1];
        assert_eq!(volume.tell_all(caught).expect("an outcome").caught, 1);
        let loud = volume.tell(&caught[0], Broken::Silence).expect_err("a call");
        assert!(loud.starts_with("1 calls after the error"), "{loud}");
    }
}
