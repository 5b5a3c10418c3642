//! Each of these changes to honest lives breaks a rule and is found by its name. Few engines could
//! be made to do it: the vault would refuse a record more, and lengths and names are its own.

use std::sync::OnceLock;

use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_sim::scene::{Death, Fate};
use fogbank_store::trace::{
    Blame, ChunkCells, Client, Done, Event, Mark, Outcome, PublicConfig, Request, Sent,
};
use fogbank_store::{ArrayId, ArrayShape, Operation};

use crate::changes::{Change, Life, cut, expect, find, is_put, is_read, lengthen, read};

/// The rules that they break.
pub fn rules() -> impl Iterator<Item = &'static str> {
    AROUND.iter().chain(PYRAMIDS).map(|(_, rule, _)| *rule)
}

/// Two lives, the first of which dies in the middle.
fn honest() -> &'static (PublicConfig, Vec<Life>) {
    static HONEST: OnceLock<(PublicConfig, Vec<Life>)> = OnceLock::new();
    HONEST.get_or_init(|| {
        let mut scene = PartitionScene { accesses: 40, ..PartitionScene::new(Load::Uniform, 5) };
        scene.settings.engine.shell.records_at_once = 1;
        let deaths = [Some(Death { call: 300, how: Fate::Done }), None];
        read(2, |paths| drop(scene.record_lives(&[(&paths[0], deaths[0]), (&paths[1], deaths[1])])))
    })
}

/// The first from the middle of the first life on.
fn midway(lives: &[Life], is: impl Fn(&Request) -> bool) -> usize {
    find(&lives[0], lives[0].len() / 2, is)
}

fn is_record(request: &Request) -> bool {
    is_put(request, "journal/")
}

/// Whether the last two cells are of one partition.
fn ends_within_an_access(request: &Request) -> bool {
    let Request::ReadCells { reads } = request else { return false };
    matches!(&reads[..], [.., a, b] if a.chunk.chunk == b.chunk.chunk)
}

/// The end of the request at `at`.
fn end(life: &mut Life, at: usize) -> &mut Outcome {
    let Event::Sent(of) = &life[at] else { panic!("no request") };
    let id = of.id;
    let end = life.iter_mut().find_map(|event| match event {
        Event::Done(Done { outcome, id: of, .. }) if *of == id => Some(outcome),
        _ => None,
    });
    end.unwrap()
}

#[test]
fn each_is_found() {
    let (config, lives) = honest();
    expect(config, lives, AROUND);
    expect(config, lives, PYRAMIDS);
}

/// Of what is around the pyramids.
const AROUND: &[Change] = &[
    ("an array of larger cells is made", "array-shape", |lives| {
        let at = find(&lives[0], 0, |r| r.operation() == Some(Operation::CreateArray));
        let Event::Sent(sent) = &mut lives[0][at] else { panic!("a request") };
        let Request::CreateArray { shape, .. } = &mut sent.request else { panic!("an array") };
        *shape = ArrayShape { cell_bytes: shape.cell_bytes + 1, ..*shape };
    }),
    ("a record stands at another place", "blob-order", |lives| {
        let at = midway(lives, is_record);
        let Event::Sent(sent) = &mut lives[0][at] else { panic!("a request") };
        let Request::BlobPut { name, .. } = &mut sent.request else { panic!("a put") };
        *name = name.replace("journal/0", "journal/1");
    }),
    ("an opening reads no piece of its checkpoint", "blob-order", |lives| {
        let is = |r: &Request| matches!(r, Request::BlobGet { name } if name.starts_with("ch"));
        let at = find(&lives[1], 0, is);
        cut(&mut lives[1], at, 1);
    }),
    ("a checkpoint is longer", "blob-size", |lives| {
        let at = midway(lives, |r| is_put(r, "checkpoint/"));
        lengthen(&mut lives[0], at);
    }),
    ("a commit record is longer", "blob-size", |lives| {
        let at = midway(lives, |r| is_put(r, "commit"));
        lengthen(&mut lives[0], at);
    }),
    ("a commit record is not put", "commit-order", |lives| {
        let at = midway(lives, |r| is_put(r, "commit"));
        cut(&mut lives[0], at, 1);
    }),
    ("records are deleted twice", "commit-order", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::BlobDelete));
        again(&mut lives[0], at);
    }),
    ("the records of a checkpoint are kept", "commit-order", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::BlobDelete));
        cut(&mut lives[0], at, 1);
    }),
    ("a record is longer", "journal-size", |lives| {
        let at = midway(lives, is_record);
        lengthen(&mut lives[0], at);
    }),
    ("a record is not put", "record-due", |lives| {
        let at = midway(lives, is_record);
        cut(&mut lives[0], at, 1);
    }),
    ("a record leaves beside the one before", "records-at-once", |lives| {
        let before = midway(lives, is_record);
        let at = find(&lives[0], before + 1, is_record);
        let (mut event, when) = (lives[0].remove(at), lives[0][before].at());
        let Event::Sent(sent) = &mut event else { panic!("a request") };
        sent.at = when;
        lives[0].insert(before + 1, event);
    }),
    ("a read ends as a put", "reply-fits", |lives| {
        let at = midway(lives, is_read);
        *end(&mut lives[0], at) = Outcome::Put(true);
    }),
    ("it goes on after a failure", "silence-after-a-failure", |lives| {
        let at = midway(lives, is_read);
        *end(&mut lives[0], at) = Outcome::Failed(Blame::Misbehaved);
    }),
    ("it goes on after a lie that shows", "silence-after-a-lie", |lives| {
        let at = midway(lives, is_read);
        let Outcome::Cells(cells) = end(&mut lives[0], at) else { panic!("cells") };
        cells.pop();
    }),
    ("it goes on after a lie that the cloud tells of", "silence-after-a-lie", |lives| {
        let at = midway(lives, is_read);
        let mark = Mark { at: lives[0][at].at(), label: "lie".into(), number: 0 };
        lives[0].insert(at, Event::Mark(mark));
    }),
    ("an array is dropped", "unknown-operation", |lives| {
        let at = midway(lives, is_record);
        let (id, array) = (1 << 40, ArrayId(1));
        let (cloud, connection, when) = (0, 0, lives[0][at].at());
        let request = Request::DropArray { array };
        lives[0].insert(at, Event::Sent(Sent { id, at: when, cloud, connection, request }));
    }),
    ("a request goes over another connection", "unknown-operation", |lives| {
        let at = midway(lives, is_read);
        let Event::Sent(sent) = &mut lives[0][at] else { panic!("a request") };
        sent.connection = 1;
    }),
    ("an opening asks for a piece twice", "waits-for-all", |lives| {
        let is = |r: &Request| matches!(r, Request::BlobGet { name } if name.starts_with("ch"));
        let at = find(&lives[1], 0, is);
        again(&mut lives[1], at);
    }),
];

/// A message that reads several cells of one level, from the middle of the first life on: a job's.
fn of_a_job(request: &Request) -> bool {
    matches!(request, Request::ReadCells { reads } if reads.iter().any(|read| read.cells.len() > 1))
}

fn reads(life: &mut Life, at: usize) -> &mut Vec<ChunkCells> {
    let Event::Sent(sent) = &mut life[at] else { panic!("a request") };
    let Request::ReadCells { reads } = &mut sent.request else { panic!("a read") };
    reads
}

/// The same request once more, after the event at `at`.
fn again(life: &mut Life, at: usize) {
    let mut again = life[at].clone();
    let Event::Sent(sent) = &mut again else { panic!("a request") };
    sent.id = 1 << 40;
    life.insert(at + 1, again);
}

/// The answers from the middle of the first life on.
fn answers(lives: &[Life]) -> Vec<usize> {
    let life = &lives[0];
    let is = |at: &usize| matches!(life[*at], Event::ClientReply(_));
    (life.len() / 2..life.len()).filter(is).collect()
}

/// Of what the pyramids ask for and write, and of who is answered.
const PYRAMIDS: &[Change] = &[
    ("cells of accesses are not read", "access-per-request", |lives| {
        let at = midway(lives, |r| is_read(r) && !of_a_job(r));
        cut(&mut lives[0], at, 1);
    }),
    ("a message of accesses leaves twice", "access-per-request", |lives| {
        let at = midway(lives, |r| is_read(r) && !of_a_job(r));
        again(&mut lives[0], at);
    }),
    ("a message of accesses ends early", "cell-per-level", |lives| {
        let at = midway(lives, |r| is_read(r) && !of_a_job(r) && ends_within_an_access(r));
        reads(&mut lives[0], at).pop();
    }),
    ("a message of accesses reads a cell more", "access-per-request", |lives| {
        let at = midway(lives, |r| is_read(r) && !of_a_job(r));
        let reads = reads(&mut lives[0], at);
        reads.push(reads[0].clone());
    }),
    ("an access is said to read nothing that is none", "access-per-request", |lives| {
        let at = midway(lives, is_record);
        let label = "reads-nothing".into();
        let mark = Mark { at: lives[0][at].at(), label, number: 0 };
        lives[0].insert(at, Event::Mark(mark));
    }),
    ("another level is read than comes first", "cell-per-level", |lives| {
        let at = midway(lives, |r| matches!(r, Request::ReadCells { reads } if reads.len() > 1));
        reads(&mut lives[0], at).swap(0, 1);
    }),
    ("a partition is read that is none", "cell-per-level", |lives| {
        let at = midway(lives, |r| is_read(r) && !of_a_job(r));
        reads(&mut lives[0], at)[0].chunk.chunk = 1 << 20;
    }),
    ("a job is not read", "job-quota", |lives| {
        let at = midway(lives, of_a_job);
        cut(&mut lives[0], at, 1);
    }),
    ("a job reads a cell less", "job-quota", |lives| {
        let at = midway(lives, of_a_job);
        reads(&mut lives[0], at).last_mut().unwrap().cells.pop();
    }),
    ("a job reads a level in two reads", "reads-merged", |lives| {
        let at = midway(lives, of_a_job);
        let reads = reads(&mut lives[0], at);
        let several = reads.iter().position(|read| read.cells.len() > 1).unwrap();
        let cells = reads[several].cells.split_off(1);
        reads.insert(several + 1, ChunkCells { chunk: reads[several].chunk, cells });
    }),
    ("a job reads its cells in another order", "job-quota", |lives| {
        let at = midway(lives, of_a_job);
        let reads = reads(&mut lives[0], at);
        let several = reads.iter().position(|read| read.cells.len() > 1).unwrap();
        let cells = reads[several].cells.split_off(1);
        reads.insert(several, ChunkCells { chunk: reads[several].chunk, cells });
    }),
    ("a job reads another partition as well", "job-quota", |lives| {
        let at = midway(lives, of_a_job);
        let reads = reads(&mut lives[0], at);
        let mut more = reads[0].clone();
        more.chunk.chunk ^= 1;
        reads.push(more);
    }),
    ("a level is written shorter", "level-whole", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::WriteChunks));
        let Event::Sent(sent) = &mut lives[0][at] else { panic!("a request") };
        let Request::WriteChunks { writes } = &mut sent.request else { panic!("a write") };
        writes[0].1.bytes -= 1;
    }),
    ("a level is written as another generation", "level-whole", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::WriteChunks));
        let Event::Sent(sent) = &mut lives[0][at] else { panic!("a request") };
        let Request::WriteChunks { writes } = &mut sent.request else { panic!("a write") };
        writes[0].0.version += 1;
    }),
    ("levels are not written", "level-whole", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::WriteChunks));
        cut(&mut lives[0], at, 1);
    }),
    ("nothing is made durable", "commit-after-barrier", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::Barrier));
        cut(&mut lives[0], at, 1);
    }),
    ("a barrier leaves twice", "commit-order", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::Barrier));
        again(&mut lives[0], at);
    }),
    ("two answers change places", "reply-time", |lives| {
        let answers = answers(lives);
        let (Event::ClientReply(a), Event::ClientReply(b)) =
            (lives[0][answers[0]].clone(), lives[0][answers[1]].clone())
        else {
            panic!("answers")
        };
        let at = |of: &Client, at: u64| Event::ClientReply(Client { at, ..of.clone() });
        (lives[0][answers[0]], lives[0][answers[1]]) = (at(&b, a.at), at(&a, b.at));
    }),
    ("an answer is kept back", "reply-time", |lives| {
        let at = answers(lives)[0];
        lives[0].remove(at);
    }),
    ("the last answer is kept back", "reply-time", |lives| {
        let is = |event: &Event| matches!(event, Event::ClientReply(_));
        let last = lives[1].iter().rposition(is).unwrap();
        lives[1].remove(last);
    }),
    ("dead generations are kept", "superseded-deleted", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::DeleteChunks));
        cut(&mut lives[0], at, 1);
    }),
    ("a dead generation is kept", "superseded-deleted", |lives| {
        let at = midway(lives, |r| r.operation() == Some(Operation::DeleteChunks));
        let Event::Sent(sent) = &mut lives[0][at] else { panic!("a request") };
        let Request::DeleteChunks { chunks } = &mut sent.request else { panic!("a deletion") };
        chunks.pop();
    }),
    ("an opening lists another array", "blob-order", |lives| {
        let at = find(&lives[1], 0, |r| r.operation() == Some(Operation::ListChunks));
        let Event::Sent(sent) = &mut lives[1][at] else { panic!("a request") };
        sent.request = Request::ListChunks { array: ArrayId(77) };
    }),
    ("an opening lists an array twice", "waits-for-all", |lives| {
        let at = find(&lives[1], 0, |r| r.operation() == Some(Operation::ListChunks));
        again(&mut lives[1], at);
    }),
    ("an opening sweeps less", "superseded-deleted", |lives| {
        let list = find(&lives[1], 0, |r| r.operation() == Some(Operation::ListChunks));
        let at = find(&lives[1], list, |r| r.operation() == Some(Operation::DeleteChunks));
        let Event::Sent(sent) = &mut lives[1][at] else { panic!("a request") };
        let Request::DeleteChunks { chunks } = &mut sent.request else { panic!("a deletion") };
        chunks.pop();
    }),
    ("an opening sweeps twice", "waits-for-all", |lives| {
        let list = find(&lives[1], 0, |r| r.operation() == Some(Operation::ListChunks));
        let at = find(&lives[1], list, |r| r.operation() == Some(Operation::DeleteChunks));
        again(&mut lives[1], at);
    }),
    ("a recovery reads other cells", "replay-identical", |lives| {
        let at = find(&lives[1], 0, is_read);
        reads(&mut lives[1], at)[0].cells[0] ^= 1;
    }),
    ("a recovery reads less", "replay-identical", |lives| {
        let at = find(&lives[1], 0, is_read);
        cut(&mut lives[1], at, 1);
    }),
];
