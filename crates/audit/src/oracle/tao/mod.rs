//! `tao`: accesses are served as they come, many at once. Free are leaves and ciphertexts.
//!
//! The machine goes by what the cloud does and sees, and by what it may know: when accesses arrive
//! and are answered, if the trace has it. From that follow, in virtual time and to the record:
//!
//! 1. Journal records, with so many parts as accesses wait and there is room for, one at a time;
//!    and that their paths leave when a record is durable, at once or at the link's pace
//!    (`accesses`, `turns`).
//! 2. The buckets that a path names, and in which versions (`tree`, `subtree`).
//! 3. Write-backs: after which replies, of which buckets, in which messages (`writebacks`).
//! 4. Cuts, checkpoints, deletions, closes (`checkpoints`); points of a fixed rate (`grid`).
//! 5. That answers leave at the last reply to any path up to their own (T3).
//! 6. What an opening reads again after a stop (`recovery`).
//!
//! What is due *at once* may come anywhere within its instant, and so in any order with what else
//! is due in it; of a proxy that keeps to a grid the instants are its points (`instants`). Nothing
//! else is tolerated; so traces by a real clock, in which work takes time, are refused.
//!
//! | rule | what has to be | what is free in it, and its law |
//! |---|---|---|
//! | `record-parts` | a record of all that wait and have room, or of as many as a rate says | |
//! | `path-per-access` | a path for every access of a durable record, in its turn | the leaf: uniform |
//! | `path-consistent` | buckets on one way down, as far as it is stored | |
//! | `stored-only`, `current-version` | a bucket that was written, in its newest version | |
//! | `fresh-subtree` | what is not here is asked for, and what is here is not | |
//! | `write-back-due` | a write-back after every k paths that came back | |
//! | `write-back-union` | the union of their buckets, each once, in order | ciphertexts |
//! | `write-back-windows`, `cell-size` | in messages of a public size, so many under way at once | |
//! | `reply-time` | an access is answered with the last reply to any path up to its own (T3) | |
//! | `replay-exact` | a recovery reads the paths that the journal names, in its order | |
//!
//! A leaf whose path shows a part of it is completed among those that fit (`tree`). Rules of what
//! is around it stand in `immediate`.

mod accesses;
mod config;
mod engine;
mod recovery;
mod subtree;
mod tree;
mod writebacks;

use std::collections::BTreeMap;

use fogbank_env::Nanos;
use fogbank_store::trace::{Client, Request, Sent, TraceClock};
use fogbank_store::{ArrayShape, ChunkName};

use self::accesses::Accesses;
pub use self::config::TaoConfig;
use self::config::check;
pub(super) use self::engine::NAME;
use self::recovery::{Journalled, Replay};
use self::tree::{Shown, Tree};
use self::writebacks::WriteBacks;
use super::chain::Parts;
use super::fault::{Refused, Step, Stop};
use super::immediate::instants::Instants;
use super::immediate::stored::Stored;
use super::immediate::{Immediate, Part, Plane, Shell, Stage};
use super::replies::Expected;
use crate::Observer;

/// What a message of its own is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Own {
    Path((u64, usize), Shown),
    Again,
    Images((u64, usize)),
}

/// Why a pace may be too slow to be followed (`turns`).
const SLOW: &str = "while buckets are written for the first time nobody can tell at this pace \
                    which message of a write-back is its last";

/// What `tao` has behind what is shared.
pub(super) struct Tao {
    config: TaoConfig,
    tree: Tree,
    accesses: Accesses,
    write_backs: WriteBacks,
    cut_after: u64,
    /// The versions of the newest checkpoint, and of the one that is being committed.
    saved: Vec<u64>,
    saving: Option<Vec<u64>>,
    /// By name: what was seen of records that the newest checkpoint may not hold.
    journal: BTreeMap<String, Journalled>,
    replay: Replay,
}

impl Tao {
    pub fn machine(clock: TraceClock, config: &TaoConfig) -> Result<Immediate<Self>, Refused> {
        let shape = check(clock, config)?;
        let plane = Self {
            config: config.clone(),
            tree: Tree::new(shape, config.array, config.quantum_ns > 0),
            accesses: Accesses::new(config),
            write_backs: WriteBacks::new(config),
            cut_after: 0,
            saved: vec![0; shape.buckets() as usize],
            saving: None,
            journal: BTreeMap::new(),
            replay: Replay::default(),
        };
        let shell = Shell {
            vault: config.vault.clone(),
            parts: Parts { bytes: config.part_bytes, most: config.parts_max, records_at_once: 1 },
            cuts_quietly: true,
            cell_bytes: config.cell_bytes,
            quantum_ns: config.quantum_ns,
            rate: config.rate,
            clients: config.clients,
        };
        Ok(Immediate::new(shell, Instants::new(config.quantum_ns), plane))
    }

    /// Accesses for which there is room.
    fn room(&self) -> usize {
        match self.write_backs.under_way() < self.config.write_backs_max as usize {
            true => self.accesses.room(),
            false => 0,
        }
    }
}

impl Plane for Tao {
    type Part = Own;

    fn seed(&mut self, seed: u64) {
        self.tree.seed(seed);
    }

    fn restart(&mut self) {
        self.accesses.restart();
        self.write_backs.restart();
        self.tree.subtree.restart();
        self.replay = Replay::default();
        self.journal.values_mut().for_each(|record| record.number = None);
        self.cut_after = 0;
    }

    fn array(&self, nth: usize) -> Option<(u16, ArrayShape)> {
        let (chunks, cells_per_chunk) = (self.tree.shape.buckets(), self.tree.shape.slots());
        let cell_bytes = self.config.cell_bytes;
        (nth == 0)
            .then_some((self.config.array, ArrayShape { chunks, cells_per_chunk, cell_bytes }))
    }

    /// Its buckets are those of the newest checkpoint.
    fn claimed(&mut self, opening: u32) {
        self.write_backs.opening = opening;
        for (chunk, version) in (0..).zip(&self.saved) {
            self.tree.set_version(chunk, *version);
        }
    }

    fn begin_replay(machine: &mut Immediate<Self>) {
        machine.begin_replay();
    }

    fn arrive(&mut self, client: &Client) {
        self.accesses.arrive(client);
    }

    fn answer(&mut self, client: &Client) -> Step {
        self.accesses.answer(client)
    }

    fn have_left(&self) -> bool {
        self.accesses.have_left()
    }

    fn may_record(&self) -> bool {
        self.accesses.may_record(self.room())
    }

    fn record(
        machine: &mut Immediate<Self>,
        name: &str,
        (parts, ends): (usize, bool),
    ) -> Step<(bool, bool)> {
        let plane = &mut machine.plane;
        plane.accesses.record(parts, plane.room())?;
        let number = Some(plane.accesses.put - 1);
        let journalled = Journalled { number, parts, paths: Vec::new() };
        plane.journal.insert(name.into(), journalled);
        let is_last =
            plane.write_backs.tick >= plane.cut_after + plane.config.write_backs_a_checkpoint;
        Ok((is_last, ends))
    }

    fn recorded(machine: &mut Immediate<Self>, _: &str) {
        machine.plane.accesses.durable(machine.at);
    }

    fn forget_record(&mut self, name: &str) {
        self.journal.remove(name);
    }

    fn before(machine: &mut Immediate<Self>, request: Option<&Request>) -> Result<(), Stop> {
        let tick = match request {
            Some(Request::WriteChunks { writes }) => Some(WriteBacks::tick_of(writes)),
            _ => None,
        };
        let plane = &mut machine.plane;
        if request.is_some() && plane.write_backs.is_open_at(machine.at) {
            return Err(Stop::Unpredictable(SLOW));
        }
        let tree = (&mut plane.tree, plane.accesses.put);
        plane.write_backs.close_full(machine.at, tick, tree)?;
        machine.take_paths();
        Ok(())
    }

    fn request(
        machine: &mut Immediate<Self>,
        sent: &Sent,
        out: &mut dyn Observer,
    ) -> Result<Option<Own>, Stop> {
        Ok(Some(match &sent.request {
            Request::ReadChunks { chunks }
                if matches!(machine.stage, Stage::Replaying | Stage::Recovering) =>
            {
                machine.read_again(chunks, out)?
            }
            Request::ReadChunks { chunks } => {
                let plane = &mut machine.plane;
                let of = plane.accesses.path(machine.at, chunks.len())?;
                let shown = plane.tree.path(chunks, machine.at)?;
                plane.tree.ask(shown);
                machine.note_path(shown, out);
                let mut journal = machine.plane.journal.values_mut();
                if let Some(record) = journal.rfind(|one| one.number == Some(of.0)) {
                    record.paths.push(shown);
                }
                Own::Path(of, shown)
            }
            Request::WriteChunks { writes } => {
                if !machine.plane.write_backs.has_begun(WriteBacks::tick_of(writes)) {
                    machine.close_if_idle();
                }
                let plane = &mut machine.plane;
                let tree = (&mut plane.tree, plane.accesses.put);
                Own::Images(plane.write_backs.send(machine.at, writes, tree, out)?)
            }
            _ => return Ok(None),
        }))
    }

    fn expected(&self, request: &Request) -> Option<(Expected, Vec<u64>)> {
        let Request::ReadChunks { chunks } = request else { return None };
        let bytes = u64::from(self.config.reals) * u64::from(self.config.cell_bytes);
        Some((Expected::Buckets(bytes), self.tree.prints(chunks)))
    }

    /// All replies to write-backs of a moment are taken before anything leaves; all, on a grid.
    fn passed_over(machine: &mut Immediate<Self>, part: &Part<Own>) -> Step {
        let plane = &mut machine.plane;
        match part {
            Part::Own(Own::Images(_)) => Ok(()),
            _ if plane.config.quantum_ns > 0 => Ok(()),
            _ => {
                let tree = (&mut plane.tree, plane.accesses.put);
                plane.write_backs.close_full(machine.at, None, tree)
            }
        }
    }

    fn ended(machine: &mut Immediate<Self>, part: Own) {
        let plane = &mut machine.plane;
        match part {
            Own::Path(of, shown) => {
                plane.accesses.back(of);
                plane.write_backs.flush(shown, machine.at, &mut plane.tree);
            }
            Own::Again => machine.again_ended(),
            Own::Images(message) => plane.write_backs.ended(message),
        }
    }

    fn next_turn(&mut self, at: Nanos) -> Option<Nanos> {
        let turns = [self.accesses.turn_after(at), self.write_backs.turn_after(at)];
        turns.into_iter().flatten().min()
    }

    fn check_settled(machine: &mut Immediate<Self>) -> Step {
        machine.plane.accesses.check_settled(machine.at)?;
        machine.plane.write_backs.check_settled(machine.at)
    }

    fn is_quiet(&self) -> bool {
        !self.accesses.are_under_way()
    }

    fn is_idle(&self) -> bool {
        self.write_backs.is_idle()
    }

    /// What is queued is written back first.
    fn cut(&mut self) -> u64 {
        self.write_backs.begin(&self.tree);
        self.write_backs.begin_saving(&self.tree);
        self.cut_after = self.write_backs.tick;
        self.cut_after
    }

    fn is_acknowledged(&self, mark: u64) -> bool {
        self.write_backs.acknowledged(mark)
    }

    fn committing(&mut self) {
        self.saving = Some(self.write_backs.take_saved());
    }

    fn committed(&mut self) {
        if let Some(saved) = self.saving.take() {
            self.saved = saved;
        }
    }

    fn superseded(&mut self, mark: u64, closes: bool) -> Vec<ChunkName> {
        let oldest = if closes { u64::MAX } else { self.accesses.oldest() };
        self.write_backs.take_superseded(mark, oldest)
    }

    fn stored(&mut self) -> &mut Stored {
        &mut self.tree.stored
    }

    fn check_sweep(&self, names: &[ChunkName], of: (u64, u32)) -> Step {
        self.tree.stored.check_sweep(names, of, |name| self.tree.is_current(name))
    }

    fn current(&self) -> u64 {
        self.tree.current()
    }

    fn images(&self) -> u64 {
        self.write_backs.images
    }
}
