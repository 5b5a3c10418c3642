//! All that the proxy may have done, as far as a trace leaves that open until later: each is a
//! machine of its own, and those end that do not fit what comes. Of most engines there is one.

use fogbank_env::Nanos;
use fogbank_store::trace::Event;

use super::instants::Instants;
use super::{Immediate, Plane};
use crate::oracle::Machine;
use crate::oracle::fault::{Stop, Summary};
use crate::{Observation, Observer};

/// More than these are not followed.
const WORLDS_MAX: usize = 512;
const MANY: &str = "too much of it is open for too long";

/// See the module.
pub(in crate::oracle) struct Worlds<P: Plane> {
    instants: Instants,
    worlds: Vec<Immediate<P>>,
}

impl<P: Plane> Worlds<P> {
    /// One.
    pub fn new(instants: Instants, world: Immediate<P>) -> Self {
        Self { instants, worlds: vec![world] }
    }

    fn take(&mut self, at: Nanos, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        while self.worlds.iter().any(|world| world.at < at) {
            self.each(out, |world, instants, _| match world.at < at {
                true => world.step(at, instants),
                false => Ok(()),
            })?;
        }
        self.each(out, |world, _, out| world.take(event, out))
    }

    /// Each does so; what it may have been instead is followed from there on.
    fn each(
        &mut self,
        out: &mut dyn Observer,
        mut one: impl FnMut(&mut Immediate<P>, &Instants, &mut dyn Observer) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (mut left, mut ended): (Vec<Immediate<P>>, Option<Stop>) = (Vec::new(), None);
        for mut world in std::mem::take(&mut self.worlds) {
            let nobody = &mut |_: &Observation<'_>| {};
            let out: &mut dyn Observer = if left.is_empty() { &mut *out } else { nobody };
            match one(&mut world, &self.instants, out) {
                Ok(()) => {
                    let others = world.plane.others();
                    let others =
                        others.into_iter().map(|plane| Immediate { plane, ..world.clone() });
                    let others: Vec<Immediate<P>> = others.collect();
                    for other in std::iter::once(world).chain(others) {
                        if !left.iter().any(|known| known.is_same(&other)) {
                            left.push(other);
                        }
                    }
                }
                Err(stop) => _ = ended.get_or_insert(stop),
            }
        }
        self.worlds = left;
        match ended.filter(|_| self.worlds.is_empty()) {
            Some(stop) => Err(stop),
            None if self.worlds.len() > WORLDS_MAX => Err(Stop::Unpredictable(MANY)),
            None => Ok(()),
        }
    }
}

impl<P: Plane> Machine for Worlds<P> {
    fn seed(&mut self, seed: u64) {
        self.worlds.iter_mut().for_each(|world| world.plane.seed(seed));
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        let known = self.instants.take(event)?;
        known.iter().try_for_each(|(at, event)| self.take(*at, event, out))
    }

    fn end_trace(&mut self, out: &mut dyn Observer) -> Result<(), Stop> {
        // What was decided in the last quantum may not have left any more.
        self.worlds.iter_mut().for_each(|world| world.is_ending = true);
        let known = self.instants.end();
        known.iter().try_for_each(|(at, event)| self.take(*at, event, out))
    }

    fn next_trace(&mut self) {
        self.worlds.iter_mut().for_each(Immediate::next_trace);
    }

    fn summary(&self) -> Summary {
        self.worlds.first().map(Immediate::summary).unwrap_or_default()
    }
}

impl<P: Plane> Immediate<P> {
    /// Whether both will do the same.
    fn is_same(&self, other: &Self) -> bool {
        let state = |one: &Self| {
            (
                one.stage,
                one.is_recording,
                one.has_departed,
                one.is_last,
                one.cut_due,
                one.checkpoint,
            )
        };
        state(self) == state(other)
            && self.silent == other.silent
            && self.plane.is_same(&other.plane)
    }
}
