//! The honest values, for everything that ships.

use fogbank_store::{CellReads, ChunkName};

use crate::position::Location;

/// No leak.
#[derive(Debug, Default)]
pub(crate) struct Canary(());

#[rustfmt::skip] // one honest value a line
#[allow(clippy::unused_self)] // the same face as the canary that leaks
impl Canary {
    pub const fn takes_duplicates(&self) -> bool { false }
    pub fn omits(&self, _: u32, _: Option<u32>, _: impl Fn() -> bool) -> bool { false }
    pub const fn serves_residue(&self, _: u32, _: Option<Location>, _: u64) -> bool { false }
    pub const fn draw(&mut self, uniform: u32) -> u32 { uniform }
    pub const fn note_read(&mut self, _: u32, _: u32, _: u64) {}
    pub const fn note_write(&mut self, _: u32, _: u64) -> Option<u32> { None }
    pub const fn reads_max(&self, dummies: u16, _: bool) -> u16 { dummies }
    pub const fn order_dummies(&self, _: &mut [u16]) {}
    pub const fn forgets_read(&self) -> bool { false }
    pub const fn order_tick(&self, tick: u64) -> u64 { tick }
    pub const fn write_slots(&self, slots: usize, _: usize) -> usize { slots }
    pub const fn trust(&self) -> Trust { Trust(()) }
    pub const fn arrange(&self, _: &mut [(u16, u32)]) {}
    pub fn push(&self, message: &mut CellReads, name: ChunkName, slots: &[(u16, u32)]) {
        message.push(name, slots.iter().map(|(slot, _)| *slot));
    }
}

/// Nothing goes unverified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trust(());

#[rustfmt::skip]
#[allow(clippy::unused_self)] // the same face as the canary that leaks
impl Trust {
    pub const fn cell(self, _: u32) -> bool { false }
    pub const fn xor(self) -> bool { false }
}
