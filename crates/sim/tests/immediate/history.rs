//! What was asked of an engine, and what it may come to.

use std::collections::VecDeque;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_oram::{Access, Address, Error, ImmediateEngine, ImmediateShape};
use rand_core::Rng;

use crate::engines::SHAPE;

/// All blocks.
pub type Blocks = Vec<Bytes>;

/// Blocks that were never written.
pub fn empty(shape: ImmediateShape) -> Blocks {
    vec![Bytes::from(vec![0; shape.value_bytes]); shape.capacity as usize]
}

/// Applies an access; what it is answered with.
pub fn apply(blocks: &mut Blocks, address: Address, access: &Access) -> Bytes {
    let block = &mut blocks[address.0 as usize];
    let after = access.applied_to(block);
    let before = std::mem::replace(block, after.clone());
    access.answer(before, after)
}

/// Random accesses, half of them to a few hot blocks; some write whole blocks, some swap a byte
/// that may be what is expected.
pub struct Workload(Stream, ImmediateShape);

impl Workload {
    pub fn new(seed: u64) -> Self {
        Self::on(SHAPE, seed)
    }

    pub fn on(shape: ImmediateShape, seed: u64) -> Self {
        Self(Randomness::repeatable(seed).stream(Purpose::Workload), shape)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.next_u32() % bound
    }

    pub fn next(&mut self) -> (Address, Access) {
        let ImmediateShape { capacity, value_bytes } = self.1;
        let hot = self.below(2) == 0;
        let address = Address(self.below(if hot { capacity.min(3) } else { capacity }));
        let whole = value_bytes as u32;
        let (offset, length) = match self.below(5) {
            0 | 1 => return (address, Access::Read),
            2 => (0, whole),
            3 => {
                let [expected, bytes] = [0, 1].map(|_| vec![self.below(2) as u8].into());
                return (address, Access::Swap { offset: self.below(4), expected, bytes });
            }
            _ => {
                let offset = self.below(whole);
                (offset, 1 + self.below(whole - offset))
            }
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.0.next_u32() as u8).collect();
        (address, Access::Write { offset, bytes: bytes.into() })
    }
}

/// The blocks after each prefix of the accesses submitted, and how many of them were answered.
pub struct History {
    prefixes: Vec<Blocks>,
    answered: usize,
    /// Answers in all lives.
    pub acknowledged: usize,
}

impl History {
    pub fn new() -> Self {
        Self::on(SHAPE)
    }

    pub fn on(shape: ImmediateShape) -> Self {
        Self { prefixes: vec![empty(shape)], answered: 0, acknowledged: 0 }
    }

    /// Runs accesses until the engine dies.
    pub async fn run(
        &mut self,
        engine: &dyn ImmediateEngine,
        work: &mut Workload,
        count: usize,
    ) -> Result<(), Error> {
        let mut tickets = Vec::new();
        for round in 0..count {
            let (address, access) = work.next();
            let mut blocks = self.prefixes[self.prefixes.len() - 1].clone();
            let expected = apply(&mut blocks, address, &access);
            self.prefixes.push(blocks);
            tickets.push((engine.submit(address, access), expected));
            if round % 6 == 5 || round + 1 == count {
                for (ticket, expected) in tickets.drain(..) {
                    assert_eq!(ticket.await?, expected, "another answer than a plain disk's");
                    self.answered += 1;
                    self.acknowledged += 1;
                }
            }
        }
        Ok(())
    }

    /// Runs `count` accesses, of which so many wait for an answer, until the engine dies.
    pub async fn run_ahead(
        &mut self,
        engine: &dyn ImmediateEngine,
        work: &mut Workload,
        (count, ahead): (usize, usize),
    ) -> Result<(), Error> {
        let mut tickets = VecDeque::new();
        for round in 0..count + ahead {
            if round < count {
                let (address, access) = work.next();
                let mut blocks = self.prefixes[self.prefixes.len() - 1].clone();
                let expected = apply(&mut blocks, address, &access);
                self.prefixes.push(blocks);
                tickets.push_back((engine.submit(address, access), expected));
            }
            if (tickets.len() > ahead || round >= count)
                && let Some((ticket, expected)) = tickets.pop_front()
            {
                assert_eq!(ticket.await?, expected, "another answer than a plain disk's");
                self.answered += 1;
                self.acknowledged += 1;
            }
        }
        Ok(())
    }

    /// What is there has to be what some prefix led to that holds all that was answered.
    pub fn check(&mut self, found: Blocks) -> Result<(), String> {
        let (answered, asked) = (self.answered, self.prefixes.len() - 1);
        let allowed = self.prefixes.iter().skip(answered).any(|blocks| *blocks == found);
        self.prefixes = vec![found];
        self.answered = 0;
        if allowed { Ok(()) } else { Err(format!("{answered} answered of {asked}")) }
    }
}

/// Every block, read at once.
pub async fn read_all(engine: &dyn ImmediateEngine) -> Result<Blocks, Error> {
    let tickets: Vec<_> = (0..engine.shape().capacity)
        .map(|block| engine.submit(Address(block), Access::Read))
        .collect();
    let mut blocks = Blocks::new();
    for ticket in tickets {
        blocks.push(ticket.await?);
    }
    Ok(blocks)
}
