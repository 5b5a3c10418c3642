//! A program that is given what is public and nothing else, and writes what one cloud of two is
//! sent.
//!
//! It is the specification, asked what is due; what is free it draws as its law says. It is told
//! how many accesses there are. So whatever a cloud is sent by an engine that keeps to the
//! specification, this could have written without a single block, but for times: if nobody tells
//! the two apart, nothing of what was asked is in it.
//!
//! Each access is over before the next begins, and with it the jobs that it makes due.

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::ChunkName;
use fogbank_store::trace::{CellsOf, ChunkSeen, Condition, Event, Request, Sent};
use rand_core::Rng;

use super::partition::count;
use super::said::Named;
use super::{Multicloud, MulticloudConfig, Refused, Stop, TURN_EVERY};
use crate::Observation;
use crate::oracle::Machine;
use crate::oracle::shape::below;

/// See the module.
pub struct Simulator {
    machine: Multicloud,
    random: Stream,
    /// Evictions of each partition, also those of which the cloud is told nothing.
    given: Vec<u64>,
    turn: (u16, u8),
    events: Vec<Event>,
}

impl Simulator {
    /// Of a volume of this configuration; what is free follows from `seed`.
    ///
    /// # Errors
    /// [`Refused`] for one that the specification does not follow.
    pub fn new(config: &MulticloudConfig, seed: u64) -> Result<Self, Refused> {
        let random = Randomness::repeatable(seed).stream(Purpose::Shuffle);
        let machine = Multicloud::new(config)?;
        let given = machine.partitions.iter().map(|of| of.given).collect();
        Ok(Self { machine, random, given, turn: (0, 0), events: Vec::new() })
    }

    /// What the cloud is sent of so many accesses, whatever they ask for.
    ///
    /// # Errors
    /// The rule that the simulator itself breaks.
    pub fn accesses(mut self, accesses: u64) -> Result<Vec<Event>, String> {
        for read in 0..accesses {
            let partitions = self.machine.layout.0.partitions;
            let partition = below(&mut self.random, partitions) as u16;
            self.reads(read, partition)?;
            self.given[usize::from(partition)] += 1;
            self.turn.1 += 1;
            let turn = self.turn.0;
            if self.turn.1 == TURN_EVERY {
                self.turn = (self.machine.layout.after(turn), 0);
                self.given[usize::from(turn)] += 1;
            }
            for of in [partition, turn] {
                self.works(of)?;
            }
        }
        Ok(self.events)
    }

    fn is_holder(&self, partition: u16) -> bool {
        partition % 2 == u16::from(self.machine.layout.0.cloud)
    }

    fn reads(&mut self, read: u64, partition: u16) -> Result<(), String> {
        let of = &self.machine.partitions[usize::from(partition)];
        if of.levels.is_empty() {
            return Ok(()); // nobody is told anything
        }
        if self.is_holder(partition) {
            let mut places: Vec<String> = Vec::new();
            for (level, held) in &of.levels {
                let unread: Vec<u32> = held.unread.iter().copied().collect();
                let place = unread[below(&mut self.random, unread.len() as u32) as usize];
                places.push(format!("{level}.{}.{place}", held.job));
            }
            for last in (1..places.len()).rev() {
                places.swap(last, below(&mut self.random, last as u32 + 1) as usize);
            }
            let seed = self.random.next_u64();
            return self.says(0, format!("look/{read}/{partition}/{}", places.join(",")), seed);
        }
        let cells = self.machine.layout.filled(partition, of.done).len() as u32;
        let index = below(&mut self.random, cells);
        self.says(0, format!("want/{read}/{partition}/{cells}/{index}"), 0)?;
        self.sends(1, (CellsOf::Blinded, 0, read), cells)
    }

    /// The jobs of a partition that are due.
    fn works(&mut self, partition: u16) -> Result<(), String> {
        loop {
            let of = &self.machine.partitions[usize::from(partition)];
            let ends = of.done + self.machine.layout.batch();
            if self.given[usize::from(partition)] < ends {
                return Ok(());
            }
            let job = ends << 16;
            match self.is_holder(partition) {
                true => self.holds(partition, job)?,
                false => self.shuffles(partition, job)?,
            }
            self.says(0, format!("commit/{partition}/{job}"), 0)?;
        }
    }

    /// What the job reads, as the holder has it.
    fn sources(&self, partition: u16, job: u64) -> Vec<Named> {
        let of = &self.machine.partitions[usize::from(partition)];
        let written = |(level, ends): (u8, u64)| {
            (level, of.levels.get(&level).map_or(ends << 16, |held| held.job))
        };
        self.machine.layout.sources(partition, count(job)).into_iter().map(written).collect()
    }

    fn holds(&mut self, partition: u16, job: u64) -> Result<(), String> {
        let (ends, named) = (count(job), self.sources(partition, job));
        let level = self.machine.layout.written(ends);
        let sources = words(&named);
        if level < self.machine.layout.top() || named.is_empty() {
            self.says(0, format!("recall/{partition}/{job}/{sources}"), 0)?;
        } else {
            let list = self.draws_list(partition, &named);
            let kind = if self.machine.layout.refreshes(ends) { "fetch" } else { "carry" };
            let seed = if kind == "carry" { self.random.next_u64() } else { 0 };
            self.says(0, format!("{kind}/{partition}/{job}/{sources}/{list}"), seed)?;
        }
        let cells = self.machine.layout.size(level, ends);
        self.sends(1, (CellsOf::Level, partition, job), cells)?;
        self.says(0, format!("records/{partition}/{job}/{}", cells + 1), 0)
    }

    /// Of each level its quota of unread cells.
    fn draws_list(&mut self, partition: u16, sources: &[Named]) -> String {
        let (mut marks, mut first) = (Vec::new(), 0);
        for (level, written) in sources {
            let held = &self.machine.partitions[usize::from(partition)].levels[level];
            let mut unread: Vec<u32> = held.unread.iter().copied().collect();
            for _ in 0..self.machine.layout.quota(*level) {
                let drawn = below(&mut self.random, unread.len() as u32) as usize;
                marks.push(first + unread.swap_remove(drawn));
            }
            first += self.machine.layout.size(*level, count(*written));
        }
        let mut list = vec![0u64; first.div_ceil(64) as usize];
        marks.iter().for_each(|cell| list[*cell as usize / 64] |= 1 << (cell % 64));
        list.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join(",")
    }

    fn shuffles(&mut self, partition: u16, job: u64) -> Result<(), String> {
        let layout = self.machine.layout.clone();
        let (ends, named) = (count(job), layout.sources(partition, count(job)));
        let level = layout.written(ends);
        let sources: Vec<Named> = named.iter().map(|(level, ends)| (*level, ends << 16)).collect();
        let seed = self.random.next_u64();
        self.says(0, format!("mix/{partition}/{job}/{level}/{}", words(&sources)), seed)?;
        self.sends(0, (CellsOf::Upload, partition, job), layout.uploads(ends))?;
        if level == layout.top() && !named.is_empty() && !layout.refreshes(ends) {
            let moved = named.iter().map(|(level, _)| layout.quota(*level)).sum();
            self.sends(1, (CellsOf::Moved, partition, job), moved)?;
        }
        Ok(())
    }

    fn says(&mut self, from: u8, name: String, fingerprint: u64) -> Result<(), String> {
        let (bytes, condition) = (name.len() as u64, Condition::Always);
        self.takes(from, Request::BlobPut { name, bytes, condition, fingerprint })
    }

    /// So many cells that look like nothing before.
    fn sends(
        &mut self,
        from: u8,
        (kind, partition, version): (CellsOf, u16, u64),
        cells: u32,
    ) -> Result<(), String> {
        let fingerprints = (0..cells).map(|_| self.random.next_u64()).collect();
        let bytes = u64::from(cells) * u64::from(self.machine.layout.0.cell_bytes);
        let chunk = ChunkName { array: kind.array(), chunk: partition.into(), version };
        let writes = vec![(chunk, ChunkSeen { bytes, fingerprints })];
        self.takes(from, Request::WriteChunks { writes })
    }

    fn takes(&mut self, cloud: u8, request: Request) -> Result<(), String> {
        let id = self.events.len() as u64;
        let event = Event::Sent(Sent { id, at: 0, cloud, connection: 0, request });
        let taken = self.machine.event(&event, &mut |_: &Observation<'_>| {});
        self.events.push(event);
        taken.map_err(|stop| match stop {
            Stop::Fault(fault) => format!("{}: {} / {}", fault.rule, fault.expected, fault.seen),
            Stop::Unpredictable(why) => why.into(),
            Stop::Unfollowing(why) => why,
        })
    }
}

fn words(sources: &[Named]) -> String {
    sources.iter().map(|(level, job)| format!("{level}.{job}")).collect::<Vec<_>>().join(",")
}
