//! What every store owes, as one suite that every back end and every wrapper runs.
//!
//! Each check takes a fresh array or its own blob names, so one store serves for all of them. A
//! failed check panics with the promise that was broken: this module is for tests only.

use bytes::Bytes;

use crate::{
    ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome, Result,
    Store, StoreError, read_xor_or_fold,
};

/// Runs all checks on a store that holds none of arrays 100 to 199 and no blob under
/// `conformance/`.
pub async fn run<S: Store + ?Sized>(store: &S) {
    run_with(store, &AWKWARD).await;
}

/// The same with only these awkward shapes, for a back end to which some are too much to ask.
pub async fn run_with<S: Store + ?Sized>(store: &S, shapes: &[ArrayShape]) {
    for (number, &shape) in shapes.iter().enumerate() {
        round_trips(store, ArrayId(100 + number as u16), shape).await;
    }
    not_written(store, ArrayId(120)).await;
    versions_side_by_side(store, ArrayId(121)).await;
    rewriting_is_refused(store, ArrayId(122)).await;
    deletes_and_lists(store, ArrayId(123)).await;
    many_at_once(store, ArrayId(124)).await;
    wrong_use(store, ArrayId(125)).await;
    arrays_come_and_go(store, ArrayId(126)).await;
    xor_is_the_xor(store, ArrayId(127)).await;
    reads_over_arrays(store, ArrayId(128), ArrayId(129)).await;
    blobs(store).await;
    conditional_puts(store).await;
    one_of_many_wins(store).await;
}

/// Shapes that find off-by-one errors: single cells, odd lengths, pages missed by one.
pub const AWKWARD: [ArrayShape; 7] = [
    ArrayShape { chunks: 1, cells_per_chunk: 1, cell_bytes: 1 },
    ArrayShape { chunks: u32::MAX, cells_per_chunk: 3, cell_bytes: 17 },
    ArrayShape { chunks: 7, cells_per_chunk: 9, cell_bytes: 4095 },
    ArrayShape { chunks: 7, cells_per_chunk: 2, cell_bytes: 4097 },
    ArrayShape { chunks: 1000, cells_per_chunk: 8, cell_bytes: 512 },
    ArrayShape { chunks: 5, cells_per_chunk: u16::MAX, cell_bytes: 3 },
    ArrayShape { chunks: 2, cells_per_chunk: 64, cell_bytes: 70_001 },
];

/// The bytes that the checks write for a chunk version: distinct for every cell of every version.
pub fn content(shape: ArrayShape, name: ChunkName) -> Bytes {
    let mut state = (u64::from(name.chunk) << 32) ^ name.version ^ u64::from(name.array.0) << 20;
    let mut data = vec![0; shape.chunk_bytes()];
    for byte in &mut data {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        *byte = (state >> 40) as u8;
    }
    Bytes::from(data)
}

/// What is written comes back, cell by cell and whole, in the order asked.
pub async fn round_trips<S: Store + ?Sized>(store: &S, array: ArrayId, shape: ArrayShape) {
    create(store, array, shape).await;
    let mut chunks = vec![0, shape.chunks - 1, shape.chunks / 2];
    chunks.dedup();
    chunks.sort_unstable_by(|a, b| b.cmp(a));
    chunks.dedup();
    let names: Vec<_> =
        chunks.iter().map(|&chunk| ChunkName { array, chunk, version: 3 }).collect();
    write(store, shape, &names).await;
    assert_eq!(
        must(store.read_chunks(&names).await),
        names.iter().map(|&name| Some(content(shape, name))).collect::<Vec<_>>(),
        "whole chunks come back in the order asked"
    );
    let last = shape.cells_per_chunk - 1;
    let mut sets: Vec<Vec<u16>> = vec![vec![0], vec![last], vec![], (0..=last).collect()];
    sets.push((0..=last).step_by(2).collect());
    sets.push(if last > 0 { vec![0, last] } else { vec![0] });
    for &name in &names {
        for set in &sets {
            let mut reads = CellReads::default();
            reads.push(name, set.iter().copied());
            check_cells(store, shape, &reads).await;
        }
    }
}

/// A place that was never written is a value, not an error.
pub async fn not_written<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 50, cells_per_chunk: 4, cell_bytes: 100 };
    create(store, array, shape).await;
    let name = |chunk, version| ChunkName { array, chunk, version };
    write(store, shape, &[name(7, 1)]).await;
    let mut reads = CellReads::default();
    reads.push(name(7, 0), [0, 3]);
    reads.push(name(7, 1), [1]);
    reads.push(name(7, 2), [0]);
    reads.push(name(8, 1), [0, 1, 2, 3]);
    let cells = must(store.read_cells(&reads).await);
    let written: Vec<_> = cells.iter().map(|cell| *cell != Cell::NotWritten).collect();
    assert_eq!(written, [false, false, true, false, false, false, false, false]);
    let chunks = must(store.read_chunks(&[name(49, 0), name(7, 1)]).await);
    assert_eq!(chunks, [None, Some(content(shape, name(7, 1)))]);
    assert!(must(store.read_cells(&CellReads::default()).await).is_empty(), "nothing asked");
    assert!(must(store.read_chunks(&[]).await).is_empty(), "nothing asked");
}

/// Versions of one chunk live side by side.
pub async fn versions_side_by_side<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 3, cells_per_chunk: 5, cell_bytes: 33 };
    create(store, array, shape).await;
    let versions = [0, 1, 2, u64::MAX, 1 << 40];
    let names = versions.map(|version| ChunkName { array, chunk: 1, version });
    for name in names {
        write(store, shape, &[name]).await;
    }
    for name in names {
        assert_eq!(must(store.read_chunks(&[name]).await), [Some(content(shape, name))]);
    }
}

/// A chunk version never changes; writing the same bytes again is fine.
pub async fn rewriting_is_refused<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 4, cells_per_chunk: 2, cell_bytes: 64 };
    create(store, array, shape).await;
    let name = ChunkName { array, chunk: 2, version: 9 };
    write(store, shape, &[name]).await;
    write(store, shape, &[name]).await;
    let other = ChunkWrite { chunk: name, data: Bytes::from(vec![0; shape.chunk_bytes()]) };
    caller_error(store.write_chunks(vec![other.clone()]).await, "other bytes for a version");
    let fresh = ChunkName { version: 10, ..name };
    let twice = vec![ChunkWrite { chunk: fresh, data: content(shape, fresh) }, {
        ChunkWrite { chunk: fresh, ..other }
    }];
    caller_error(store.write_chunks(twice).await, "two contents of one version in one batch");
    assert_eq!(must(store.read_chunks(&[name]).await), [Some(content(shape, name))]);
}

/// A deleted version is not written any more; a list names what is there.
pub async fn deletes_and_lists<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 300, cells_per_chunk: 2, cell_bytes: 40 };
    create(store, array, shape).await;
    assert!(must(store.list_chunks(array).await).is_empty());
    let names: Vec<_> = (0..300)
        .flat_map(|chunk| [1, 2].map(|version| ChunkName { array, chunk, version }))
        .collect();
    write(store, shape, &names).await;
    let (gone, stay): (Vec<_>, Vec<_>) =
        names.iter().copied().partition(|name| name.version == 1 || name.chunk % 7 == 0);
    must(store.delete_chunks(&gone).await);
    must(store.delete_chunks(&gone).await); // fine if they are not there
    let mut listed = must(store.list_chunks(array).await);
    listed.sort_unstable();
    assert_eq!(listed, stay);
    assert!(must(store.read_chunks(&gone).await).iter().all(Option::is_none));
    for &name in &stay {
        assert_eq!(must(store.read_chunks(&[name]).await), [Some(content(shape, name))]);
    }
    // What was freed is used again, with a barrier between or without.
    for round in 3..8 {
        let names: Vec<_> =
            (0..100).map(|chunk| ChunkName { array, chunk, version: round }).collect();
        write(store, shape, &names).await;
        if round % 2 == 0 {
            must(store.barrier().await);
        }
        let read = must(store.read_chunks(&names).await);
        assert!(read.iter().zip(&names).all(|(r, &n)| r.as_ref() == Some(&content(shape, n))));
        must(store.delete_chunks(&names).await);
    }
    for &name in &stay {
        assert_eq!(must(store.read_chunks(&[name]).await), [Some(content(shape, name))]);
    }
}

/// A batch large enough to be split among threads comes back in order.
pub async fn many_at_once<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 5000, cells_per_chunk: 12, cell_bytes: 128 };
    create(store, array, shape).await;
    let names: Vec<_> =
        (0..2000).map(|i| ChunkName { array, chunk: i * 7 % 5000, version: 1 }).collect();
    write(store, shape, &names).await;
    let mut reads = CellReads::default();
    for (index, &name) in names.iter().rev().enumerate() {
        let cell = (index % 12) as u16;
        let cells = [cell, cell + 1, cell + 4];
        reads.push(name, cells.into_iter().filter(|&cell| cell < 12));
        let absent = ChunkName { version: 2, ..name };
        reads.push(absent, [cell]);
    }
    let cells = must(store.read_cells(&reads).await);
    let mut cells = cells.iter();
    for read in reads.iter() {
        let whole = content(shape, read.chunk);
        for &cell in read.cells {
            let expected = match read.chunk.version {
                1 => Cell::Bytes(whole.slice(cell as usize * 128..(cell as usize + 1) * 128)),
                _ => Cell::NotWritten,
            };
            assert_eq!(cells.next(), Some(&expected));
        }
    }
    let read = must(store.read_chunks(&names).await);
    assert!(read.iter().zip(&names).all(|(r, &n)| r.as_ref() == Some(&content(shape, n))));
}

/// What the shape does not allow is the caller's error and changes nothing.
pub async fn wrong_use<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 4, cells_per_chunk: 3, cell_bytes: 10 };
    create(store, array, shape).await;
    let inside = ChunkName { array, chunk: 0, version: 1 };
    let reads = |chunk: ChunkName, cells: &[u16]| {
        let mut reads = CellReads::default();
        reads.push(inside, [0]);
        reads.push(chunk, cells.iter().copied());
        reads
    };
    let outside = ChunkName { chunk: 4, ..inside };
    let nowhere = ChunkName { array: ArrayId(199), ..inside };
    caller_error(store.read_cells(&reads(outside, &[0])).await, "a chunk outside");
    no_array(store.read_cells(&reads(nowhere, &[0])).await);
    caller_error(store.read_cells(&reads(inside, &[3])).await, "a cell outside");
    caller_error(store.read_cells(&reads(inside, &[1, 1])).await, "a cell twice");
    caller_error(store.read_cells(&reads(inside, &[2, 0])).await, "cells that decrease");
    caller_error(store.read_chunks(&[inside, outside]).await, "a chunk outside");
    no_array(store.read_chunks(&[nowhere]).await);
    no_array(store.list_chunks(nowhere.array).await);
    for (chunk, bytes) in [(inside, 29), (inside, 31), (inside, 0), (outside, 30)] {
        let good = ChunkName { chunk: 1, ..inside };
        let batch = vec![
            ChunkWrite { chunk: good, data: content(shape, good) },
            ChunkWrite { chunk, data: Bytes::from(vec![1; bytes]) },
        ];
        caller_error(store.write_chunks(batch).await, "a write that does not fit");
    }
    no_array(
        store.write_chunks(vec![ChunkWrite { chunk: nowhere, data: vec![1; 30].into() }]).await,
    );
    assert!(must(store.list_chunks(array).await).is_empty(), "a refused batch changes nothing");
    must(store.delete_chunks(&[nowhere, outside]).await);
    let none = ArrayShape { chunks: 0, ..shape };
    caller_error(store.create_array(ArrayId(198), none).await, "an array of nothing");
}

/// Creating again with the same shape is fine, with another one is not; a dropped array is gone.
pub async fn arrays_come_and_go<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: u32::MAX, cells_per_chunk: 100, cell_bytes: 4096 };
    create(store, array, shape).await;
    create(store, array, shape).await;
    let other = ArrayShape { cell_bytes: 10, ..shape };
    caller_error(store.create_array(array, other).await, "another shape");
    let name = ChunkName { array, chunk: 5, version: 1 };
    write(store, shape, &[name]).await;
    must(store.drop_array(array).await);
    must(store.drop_array(array).await);
    no_array(store.read_chunks(&[name]).await);
    create(store, array, other).await;
    assert_eq!(must(store.read_chunks(&[name]).await), [None], "nothing survives a drop");
    write(store, other, &[name]).await;
    must(store.barrier().await);
    assert_eq!(must(store.read_chunks(&[name]).await), [Some(content(other, name))]);
}

/// The store's XOR, if it offers one, is what the reader would have computed.
pub async fn xor_is_the_xor<S: Store + ?Sized>(store: &S, array: ArrayId) {
    let shape = ArrayShape { chunks: 64, cells_per_chunk: 6, cell_bytes: 77 };
    create(store, array, shape).await;
    let name = |chunk| ChunkName { array, chunk, version: 1 };
    write(store, shape, &(0..64).map(name).collect::<Vec<_>>()).await;
    let mut reads = CellReads::default();
    let mut groups = Vec::new();
    for group in 0..10 {
        for level in 0..=group {
            reads.push(name((group * 5 + level) % 64), [(level % 6) as u16]);
        }
        groups.push(reads.len() as u32);
    }
    reads.push(name(1), [0, 2, 5]); // several cells of a chunk
    groups.push(reads.len() as u32);
    reads.push(name(2), [0]);
    reads.push(ChunkName { version: 2, ..name(2) }, [0]); // one not written
    reads.push(name(3), [0]);
    groups.push(reads.len() as u32);
    let cells = must(store.read_cells(&reads).await);
    let expected = must(crate::xor::fold(&reads, &groups, &cells));
    assert_eq!(expected.last(), Some(&Cell::NotWritten));
    assert_eq!(by_bytes(&reads, &groups, &cells), expected, "lanes against single bytes");
    assert_eq!(must(read_xor_or_fold(store, &reads, &groups).await), expected);
    for wrong in [&[reads.len() as u32 + 1][..], &[2, 1, reads.len() as u32], &[1], &[0, 14]] {
        caller_error(read_xor_or_fold(store, &reads, wrong).await, "groups that do not cut");
    }
    if let Some(offer) = store.xor() {
        assert_eq!(must(offer.read_xor(&reads, &groups).await), expected);
        caller_error(offer.read_xor(&reads, &[1]).await, "reads left over");
        assert!(must(offer.read_xor(&CellReads::default(), &[]).await).is_empty());
    }
}

/// One batch may touch several arrays.
pub async fn reads_over_arrays<S: Store + ?Sized>(store: &S, one: ArrayId, two: ArrayId) {
    let small = ArrayShape { chunks: 9, cells_per_chunk: 2, cell_bytes: 8 };
    let large = ArrayShape { chunks: 9, cells_per_chunk: 4, cell_bytes: 300 };
    create(store, one, small).await;
    create(store, two, large).await;
    let name = |array, chunk| ChunkName { array, chunk, version: 4 };
    let mut writes = Vec::new();
    for chunk in 0..9 {
        let (a, b) = (name(one, chunk), name(two, chunk));
        writes.push(ChunkWrite { chunk: a, data: content(small, a) });
        writes.push(ChunkWrite { chunk: b, data: content(large, b) });
    }
    must(store.write_chunks(writes).await);
    let mut reads = CellReads::default();
    for chunk in 0..9 {
        reads.push(name(two, chunk), [3]);
        reads.push(name(one, chunk), [1]);
    }
    let cells = must(store.read_cells(&reads).await);
    for chunk in 0..9 {
        let (a, b) = (content(small, name(one, chunk)), content(large, name(two, chunk)));
        assert_eq!(cells[2 * chunk as usize], Cell::Bytes(b.slice(900..1200)));
        assert_eq!(cells[2 * chunk as usize + 1], Cell::Bytes(a.slice(8..16)));
    }
}

/// Blobs come back under awkward names and lengths, and lists are by prefix and in order.
pub async fn blobs<S: Store + ?Sized>(store: &S) {
    let mut names: Vec<String> = ["a", "b/c", "b/c/d", "b.d", "%2F", "..", "ü ", "b/\u{1}", "B"]
        .iter()
        .map(|name| format!("conformance/{name}"))
        .collect();
    names.sort_unstable();
    for (index, name) in names.iter().enumerate() {
        assert_eq!(must(store.blob_get(name).await), None);
        let data = Bytes::from(vec![index as u8; index * 10_007]);
        let PutOutcome::Done(put) = must(store.blob_put(name, data, PutCondition::Always).await)
        else {
            panic!("an unconditional put must be done");
        };
        let (_, tag) = must(store.blob_get(name).await).expect("what was put is there");
        assert_eq!(tag, put, "a put returns the tag that a read returns");
    }
    for (index, name) in names.iter().enumerate() {
        let (data, _) = must(store.blob_get(name).await).expect("what was put is there");
        assert_eq!(data, vec![index as u8; index * 10_007]);
    }
    assert_eq!(must(store.blob_list("conformance/").await), names);
    assert_eq!(
        must(store.blob_list("conformance/b/").await),
        ["conformance/b/\u{1}", "conformance/b/c", "conformance/b/c/d"]
    );
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    must(store.blob_delete(&all[1..]).await);
    must(store.blob_delete(&all[1..]).await);
    assert_eq!(must(store.blob_list("conformance/").await), all[..1]);
    must(store.blob_delete(&all).await);
    assert_eq!(must(store.blob_get(all[0]).await), None);
    caller_error(store.blob_put("", Bytes::new(), PutCondition::Always).await, "no name");
    let long = "/".repeat(300);
    caller_error(store.blob_put(&long, Bytes::new(), PutCondition::Always).await, "a long name");
}

/// A put happens exactly if its condition holds.
pub async fn conditional_puts<S: Store + ?Sized>(store: &S) {
    let name = "conformance/conditional";
    let put = async |data: &'static str, condition| match must(
        store.blob_put(name, Bytes::from_static(data.as_bytes()), condition).await,
    ) {
        PutOutcome::Done(tag) => Some(tag),
        PutOutcome::ConditionFailed => None,
    };
    let there = async || must(store.blob_get(name).await).map(|(data, _)| data);
    let one = put("one", PutCondition::IfAbsent).await.expect("nothing was there");
    assert_eq!(put("two", PutCondition::IfAbsent).await, None);
    assert_eq!(there().await, Some(Bytes::from("one")));
    let two = put("two", PutCondition::IfUnchanged(one.clone())).await.expect("it was unchanged");
    assert_ne!(one, two);
    assert_eq!(put("three", PutCondition::IfUnchanged(one)).await, None);
    assert_eq!(there().await, Some(Bytes::from("two")));
    let four = put("four", PutCondition::Always).await.expect("always");
    assert_eq!(put("five", PutCondition::IfUnchanged(two)).await, None);
    must(store.blob_delete(&[name]).await);
    assert_eq!(put("six", PutCondition::IfUnchanged(four)).await, None, "a blob that is gone");
    assert_eq!(there().await, None);
    assert!(put("seven", PutCondition::IfAbsent).await.is_some());
    must(store.blob_delete(&[name]).await);
}

/// Of many puts under one condition, one is done and its bytes are there.
pub async fn one_of_many_wins<S: Store + ?Sized>(store: &S) {
    let name = "conformance/race";
    let mut condition = PutCondition::IfAbsent;
    for round in 0..5u8 {
        // No two contents alike: to a store whose tags follow from the content, such as an object
        // store's entity tags, a blob that is put again as it was is unchanged.
        let content = |racer: u8| Bytes::from(vec![8 * round + racer; 1000]);
        let racers = (0..8).map(|racer| store.blob_put(name, content(racer), condition.clone()));
        let outcomes = join_all(racers).await;
        let winners: Vec<_> = outcomes
            .into_iter()
            .enumerate()
            .filter_map(|(racer, outcome)| match must(outcome) {
                PutOutcome::Done(tag) => Some((racer as u8, tag)),
                PutOutcome::ConditionFailed => None,
            })
            .collect();
        assert_eq!(winners.len(), 1, "exactly one of the puts is done");
        let there = must(store.blob_get(name).await).expect("the winner's blob is there");
        assert_eq!(there, (content(winners[0].0), winners[0].1.clone()));
        condition = PutCondition::IfUnchanged(there.1);
    }
    must(store.blob_delete(&[name]).await);
}

async fn check_cells<S: Store + ?Sized>(store: &S, shape: ArrayShape, reads: &CellReads) {
    let cells = must(store.read_cells(reads).await);
    assert_eq!(cells.len(), reads.cell_count(), "one reply a cell");
    let mut cells = cells.into_iter();
    for read in reads.iter() {
        let whole = content(shape, read.chunk);
        for &cell in read.cells {
            let start = cell as usize * shape.cell_bytes as usize;
            let expected = whole.slice(start..start + shape.cell_bytes as usize);
            assert_eq!(cells.next(), Some(Cell::Bytes(expected)), "cell {cell} of {read:?}");
        }
    }
}

async fn create<S: Store + ?Sized>(store: &S, array: ArrayId, shape: ArrayShape) {
    must(store.create_array(array, shape).await);
}

async fn write<S: Store + ?Sized>(store: &S, shape: ArrayShape, names: &[ChunkName]) {
    let writes = names.iter().map(|&chunk| ChunkWrite { chunk, data: content(shape, chunk) });
    must(store.write_chunks(writes.collect()).await);
}

/// The XOR in the most obvious way, for comparison with the fast one.
fn by_bytes(reads: &CellReads, groups: &[u32], cells: &[Cell]) -> Vec<Cell> {
    let mut cells = cells.iter();
    let mut start = 0;
    let mut folded = Vec::new();
    for &end in groups {
        let count: usize = (start..end as usize).map(|read| reads.get(read).cells.len()).sum();
        start = end as usize;
        let group: Vec<&Cell> = cells.by_ref().take(count).collect();
        let bytes: Option<Vec<&Bytes>> = group
            .iter()
            .map(|cell| if let Cell::Bytes(bytes) = cell { Some(bytes) } else { None })
            .collect();
        folded.push(bytes.map_or(Cell::NotWritten, |bytes| {
            let xor = |at: usize| bytes.iter().fold(0, |sum, cell| sum ^ cell[at]);
            Cell::Bytes((0..bytes[0].len()).map(xor).collect::<Vec<u8>>().into())
        }));
    }
    folded
}

/// All futures at once on this task: enough to interleave calls without a runtime's help.
pub(crate) async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    use std::task::Poll;
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in &mut waiting {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *done = Some(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}

#[track_caller]
fn must<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("a call that must succeed failed: {error}"),
    }
}

#[track_caller]
fn caller_error<T: std::fmt::Debug>(result: Result<T>, what: &str) {
    assert!(
        matches!(result, Err(StoreError::Caller(_))),
        "{what} is the caller's error: {result:?}"
    );
}

#[track_caller]
fn no_array<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::NoArray(_))), "there is no such array: {result:?}");
}
