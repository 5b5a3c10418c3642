//! Lives of a store whose events are changed afterwards, and what the oracle makes of them.

use fogbank_sim::scene::{Cast, Death, Fate, Scene, Workload, record_lives};
use fogbank_store::trace::{PublicConfig, Request};

pub use crate::changes::{
    Change, Life, broken, cut, find, is_put, is_read, judged, lengthen, request,
};

/// Lives of one store, each of which dies when a call of this number is done, and one that goes on.
pub fn lives(dies: &[u64]) -> (PublicConfig, Vec<Life>) {
    lives_of(&scene(), dies)
}

/// A scene of the usual shape.
pub fn scene() -> Scene {
    Scene { cast: Cast::Journalled, epochs: 8, ..Scene::new(Workload::Uniform, 9) }
}

/// The same of another scene.
pub fn lives_of(scene: &Scene, dies: &[u64]) -> (PublicConfig, Vec<Life>) {
    let deaths = dies.iter().map(|call| Some(Death { call: *call, how: Fate::Done }));
    let deaths: Vec<_> = deaths.chain([None]).collect();
    crate::changes::read(deaths.len(), |paths| {
        let lives: Vec<_> = paths.iter().zip(deaths).collect();
        record_lives(scene, &lives).unwrap();
    })
}

/// Each change breaks its rule.
pub fn expect(dies: &[u64], changes: &[Change]) {
    let (config, honest) = lives(dies);
    crate::changes::expect(&config, &honest, changes);
}

/// Takes out what is asked from the one place to the other.
pub fn cut_between(life: &mut Life, from: usize, to: usize) {
    let sent = life[from..to].iter().filter(|event| request(event).is_some()).count();
    cut(life, from, sent);
}

/// A call at which a proxy dies that has read something in an epoch and has a batch of it to come.
pub fn within_an_epoch() -> u64 {
    let is = |dies: &u64| {
        let (_, lives) = lives(&[*dies]);
        let life = &lives[1];
        let at = |is: &dyn Fn(&Request) -> bool| {
            life.iter().position(|event| request(event).is_some_and(is)).unwrap()
        };
        let (read, record) = (at(&is_read), find(life, at(&is_read), |r| is_put(r, "journal/")));
        let seen = lives[0].iter().any(|event| request(event) == request(&life[read]));
        seen && record < at(&|r| matches!(r, Request::WriteChunks { .. }))
    };
    (60..90).find(is).unwrap()
}
