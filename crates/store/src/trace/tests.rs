//! What is recorded is what is read, through rotation, damage and a cut tail.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, SystemClock};
use proptest::prelude::*;

use super::*;
use crate::{
    ArrayId, ArrayShape, BlobLog, CellReads, ChunkName, ChunkWrite, Fault, FaultRule, Faulty,
    LOG_KEPT_BYTES, Log, LogEntry, MemoryStore, PutCondition, Recorded, RecordedLog, Store,
    XorCells, conformance, log_conformance,
};

const ARRAY: ArrayId = ArrayId(3);
const SHAPE: ArrayShape = ArrayShape { chunks: 50, cells_per_chunk: 40, cell_bytes: 5 };

#[tokio::test(start_paused = true)]
async fn conforms_and_every_request_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions::default());
    let store = Recorded::new(MemoryStore::new(), trace.clone());
    conformance::run(&store).await;
    let summary = trace.finish().unwrap();
    assert_eq!((summary.files, summary.waits), (1, 0));
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.config(), b"{\"public\":1}");
    let mut requests = 0;
    for exchange in Exchanges::new(reader) {
        let Exchange::Request(sent, Some(done)) = exchange.unwrap() else {
            panic!("a request without its end")
        };
        assert_eq!((sent.id, done.id), (requests, requests));
        assert!(sent.at <= done.at);
        requests += 1;
    }
    assert_eq!(summary.events, 2 * requests);
}

#[tokio::test(start_paused = true)]
async fn says_what_travelled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions::default());
    let faulty = Faulty::new(MemoryStore::new());
    faulty.add(FaultRule::nth(Some(crate::Operation::Barrier), 2, Fault::After));
    let hangs = FaultRule::nth(Some(crate::Operation::Barrier), 3, Fault::Hang);
    faulty.add(hangs);
    let store = Recorded::new(faulty, trace.clone()).cloud(1).connection(700);
    store.create_array(ARRAY, SHAPE).await.unwrap();
    let name = |chunk, version| ChunkName { array: ARRAY, chunk, version };
    let data = conformance::content(SHAPE, name(7, 1));
    let write = ChunkWrite { chunk: name(7, 1), data: data.clone() };
    store.write_chunks(vec![write]).await.unwrap();
    tokio::time::advance(std::time::Duration::from_millis(5)).await;
    let mut reads = CellReads::default();
    reads.push(name(7, 1), [3]);
    reads.push(name(6, 1), [0]);
    store.read_cells(&reads).await.unwrap();
    store.read_chunks(&[name(7, 1), name(7, 0)]).await.unwrap();
    trace.mark("opening", 2).unwrap();
    trace.client_request(9, 1, 100).unwrap();
    trace.client_reply(9, 1, 200).unwrap();
    store.barrier().await.unwrap();
    store.barrier().await.unwrap_err();
    {
        let mut gone = Box::pin(store.barrier());
        let polled = std::future::poll_fn(|c| std::task::Poll::Ready(gone.as_mut().poll(c)));
        assert!(polled.await.is_pending());
    }
    let tag = store.blob_put("b", Bytes::from("xyz"), PutCondition::IfAbsent).await.unwrap();
    assert!(tag != crate::PutOutcome::ConditionFailed);
    drop(store);
    drop(trace); // the last handle writes what is left
    let events: Vec<Event> = TraceReader::open(&path).unwrap().map(Result::unwrap).collect();
    let cell = |at: usize| fingerprint(&data[at * 5..at * 5 + 5]);
    let whole = ChunkSeen { bytes: 200, fingerprints: (0..40).map(cell).collect() };
    let sent = |event: &Event| match event {
        Event::Sent(sent) => {
            assert_eq!((sent.cloud, sent.connection), (1, 700));
            Some((sent.at, sent.request.clone()))
        }
        _ => None,
    };
    let requests: Vec<_> = events.iter().filter_map(sent).collect();
    assert_eq!(requests[1].1, Request::WriteChunks { writes: vec![(name(7, 1), whole.clone())] });
    let asked = |chunk, cells| ChunkCells { chunk, cells };
    let expected = vec![asked(name(7, 1), vec![3]), asked(name(6, 1), vec![0])];
    assert_eq!(requests[2].1, Request::ReadCells { reads: expected });
    assert_eq!(requests[2].0 - requests[1].0, 5_000_000, "the clock's nanoseconds");
    let put = Request::BlobPut {
        name: "b".into(),
        bytes: 3,
        condition: Condition::IfAbsent,
        fingerprint: fingerprint(b"xyz"),
    };
    assert_eq!(requests.last().unwrap().1, put);
    let outcome = |event: &Event| match event {
        Event::Done(done) => Some(done.outcome.clone()),
        _ => None,
    };
    let outcomes: Vec<_> = events.iter().filter_map(outcome).collect();
    let one = ChunkSeen { bytes: 5, fingerprints: vec![cell(3)] };
    assert_eq!(outcomes[2], Outcome::Cells(vec![Some(one), None]));
    assert_eq!(outcomes[3], Outcome::Chunks(vec![Some(whole), None]));
    assert_eq!(
        outcomes[4..],
        [Outcome::Done, Outcome::Failed(Blame::Absent), Outcome::Abandoned, Outcome::Put(true)]
    );
    let at = events[8].at();
    let client = |bytes| Client { at, connection: 9, number: 1, bytes };
    assert_eq!(
        events[8..11],
        [
            Event::Mark(Mark { at, label: "opening".into(), number: 2 }),
            Event::ClientRequest(client(100)),
            Event::ClientReply(client(200)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_recorded_log_is_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let trace = begun(&folder.path().join("trace"), TraceOptions::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    log_conformance::run(async || {
        let log = BlobLog::open(store.clone(), clock(), LOG_KEPT_BYTES).await.unwrap();
        RecordedLog::new(Arc::new(log), trace.clone())
    })
    .await;
    let summary = trace.finish().unwrap();
    assert!(summary.events > 100, "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_log_and_what_it_tells_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = BlobLog::open(store, clock(), LOG_KEPT_BYTES).await.unwrap();
    let log = RecordedLog::new(Arc::new(log), trace.clone());
    let entry = LogEntry { session: 70_000, turn: 1, bytes: "an entry".into() };
    assert_eq!(log.append(entry.clone()).await.unwrap(), Some(0));
    log.publish(0, "a result".into()).await.unwrap();
    let mut told = log.follow(0).await.unwrap();
    for _ in 0..2 {
        told.recv().await.unwrap().unwrap();
    }
    log.append(LogEntry { turn: 0, ..entry }).await.unwrap_err();
    log.forget(1).await.unwrap();
    trace.finish().unwrap();
    let (mut calls, mut ends, mut heard) = (Vec::new(), Vec::new(), Vec::new());
    for event in TraceReader::open(&path).unwrap().map(Result::unwrap) {
        match event {
            Event::Sent(Sent { id, request: Request::Log(call), .. }) => {
                assert_eq!(id as usize, calls.len());
                calls.push(call);
            }
            Event::Done(Done { id, outcome, .. }) => {
                assert_eq!(id as usize, ends.len());
                ends.push(outcome);
            }
            Event::Heard(Heard { id, place, is_result, bytes, fingerprint, .. }) => {
                heard.push((id, place, is_result, bytes, fingerprint));
            }
            other => panic!("{other:?}"),
        }
    }
    let (entry, result) = (fingerprint(b"an entry"), fingerprint(b"a result"));
    let append = |turn| LogCall::Append { session: 70_000, turn, bytes: 8, fingerprint: entry };
    let publish = LogCall::Publish { place: 0, bytes: 8, fingerprint: result };
    let follow = LogCall::Follow { from: 0 };
    assert_eq!(calls, [append(1), publish, follow, append(0), LogCall::Forget { before: 1 }]);
    let failed = Outcome::Failed(Blame::Caller);
    let done = || Outcome::Done;
    assert_eq!(ends, [Outcome::Placed(Some(0)), done(), done(), failed, done()]);
    assert_eq!(heard, [(2, 0, false, 8, entry), (2, 0, true, 8, result)]);
}

/// Batches of megabytes are fingerprinted on all cores: the bytes in the trace are the same.
#[tokio::test]
async fn large_batches_say_what_small_ones_say() {
    let folder = tempfile::tempdir().unwrap();
    let shape = ArrayShape { chunks: 50, cells_per_chunk: 40, cell_bytes: 5000 };
    let names: Vec<_> =
        (0..30).map(|c| ChunkName { array: ARRAY, chunk: 49 - c, version: 2 }).collect();
    let write = |&chunk| ChunkWrite { chunk, data: conformance::content(shape, chunk) };
    let mut seen = Vec::new();
    let kinds = [Fingerprints::Whole, Fingerprints::Tail];
    for (batch, fingerprints) in [1, 30].into_iter().flat_map(|b| kinds.map(|kind| (b, kind))) {
        let path = folder.path().join(format!("trace-of-{batch}-{fingerprints:?}"));
        let trace = begun(&path, TraceOptions { fingerprints, ..TraceOptions::default() });
        let store = Recorded::new(MemoryStore::new(), trace);
        store.create_array(ARRAY, shape).await.unwrap();
        for names in names.chunks(batch) {
            store.write_chunks(names.iter().map(write).collect()).await.unwrap();
            store.read_chunks(names).await.unwrap();
            let mut reads = CellReads::default();
            names.iter().for_each(|&name| reads.push(name, 0..40));
            store.read_cells(&reads).await.unwrap();
        }
        drop(store);
        let (mut writes, mut chunks, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for event in TraceReader::open(&path).unwrap() {
            match event.unwrap() {
                Event::Sent(Sent { request: Request::WriteChunks { writes: some }, .. }) => {
                    writes.extend(some);
                }
                Event::Done(Done { outcome: Outcome::Chunks(some), .. }) => chunks.extend(some),
                Event::Done(Done { outcome: Outcome::Cells(some), .. }) => cells.extend(some),
                _ => {}
            }
        }
        assert_eq!((writes.len(), chunks.len(), cells.len()), (30, 30, 1200));
        seen.push((writes, chunks, cells));
    }
    assert_eq!(seen[0], seen[2]);
    assert_eq!(seen[1], seen[3]);
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test]
async fn goes_on_in_further_files_and_misses_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let small = TraceOptions { file_bytes: 500, block_bytes: 60, ..TraceOptions::default() };
    let trace = begun(&path, small);
    for number in 0..500 {
        trace.mark("mark", number).unwrap();
    }
    let summary = trace.finish().unwrap();
    assert!(summary.files > 5, "{summary:?}");
    assert_eq!(numbers(&path).0, (0..500).collect::<Vec<_>>());
    let again = TraceWriter::create(&path, b"", clock(), TraceOptions::default());
    assert!(again.is_err(), "an older trace is never overwritten");
    std::fs::remove_file(folder.path().join("trace.3")).unwrap();
    let (read, end) = numbers(&path); // nothing after the gap is believed
    assert!(read.len() < 500 && end.is_none());
    let mut reader = TraceReader::open(&path).unwrap();
    reader.by_ref().for_each(drop);
    let cut = reader.truncated().unwrap();
    assert_eq!((&cut.path, cut.bytes), (&folder.path().join("trace.2"), 0));
    std::fs::rename(folder.path().join("trace.4"), folder.path().join("trace.3")).unwrap();
    assert!(matches!(numbers(&path).1, Some(TraceError::Corrupt { .. })));
}

#[test]
fn a_cut_tail_is_reported_and_any_flipped_bit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions { block_bytes: 80, ..TraceOptions::default() });
    for number in 0..30 {
        trace.mark("mark", number).unwrap();
    }
    drop(trace);
    let whole = std::fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged");
    let (mut cuts, mut between_blocks) = (0, 0);
    for length in 0..whole.len() {
        std::fs::write(&damaged, &whole[..length]).unwrap();
        match TraceReader::open(&damaged) {
            Ok(mut reader) => {
                let read: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
                assert!(read.len() < 30 || whole.len() - length <= END_BYTES);
                let cut = reader.truncated().unwrap_or_else(|| panic!("cut at {length} unnoticed"));
                assert_eq!(cut.offset + cut.bytes, length as u64);
                cuts += 1;
                between_blocks += u32::from(cut.bytes == 0);
            }
            Err(error) => {
                assert!(matches!(error, TraceError::Corrupt { .. } | TraceError::NotATrace(_)))
            }
        }
    }
    assert!(cuts > whole.len() / 2 && between_blocks > 3);
    std::fs::write(&damaged, &whole).unwrap();
    let mut reader = TraceReader::open(&damaged).unwrap();
    assert_eq!((reader.by_ref().count(), reader.truncated()), (30, None));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&damaged, &bytes).unwrap();
        let failed = match TraceReader::open(&damaged) {
            Err(_) => true,
            // A length that grew past the end of the file is a cut; the events before it stand.
            Ok(mut reader) => {
                reader.by_ref().any(|event| event.is_err()) || reader.truncated().is_some()
            }
        };
        assert!(failed, "the flipped bit at byte {at} went unnoticed");
    }
    // The format before, with the check of its head put right.
    let mut before = whole.clone();
    before[8] = 2;
    let config_bytes = u32::from_le_bytes(before[24..28].try_into().unwrap()) as usize;
    let check = block::FILE_HEAD_BYTES + config_bytes;
    let sum = xxhash_rust::xxh3::xxh3_64(&before[..check]);
    before[check..check + 8].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&damaged, &before).unwrap();
    assert_eq!(TraceReader::open(&damaged).unwrap().filter(|event| event.is_ok()).count(), 30);
    for other in [1, 4] {
        let mut bytes = whole.clone();
        bytes[8] = other;
        std::fs::write(&damaged, &bytes).unwrap();
        let error = TraceReader::open(&damaged).unwrap_err().to_string();
        let words = format!("has trace format {other}; this build reads 2 to 3: record again");
        assert!(error.contains(&words), "{error}");
    }
}

#[test]
fn nothing_is_recorded_after_the_end_nor_believed_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions::default());
    trace.mark("mark", 0).unwrap();
    let summary = trace.finish().unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(summary.bytes, whole.len() as u64);
    let refused = trace.mark("mark", 1).unwrap_err().to_string();
    assert!(refused.contains("the trace was ended"), "{refused}");
    assert_eq!(trace.finish().unwrap(), summary, "there is one end");
    drop(trace);
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    let (head, end) = whole.split_at(whole.len() - END_BYTES);
    let (_, block) = head.split_at(head.len() - END_BYTES - "..............mark".len());
    for more in [&[0][..], block, end] {
        std::fs::write(&path, [&whole, more].concat()).unwrap();
        let (read, error) = numbers(&path);
        assert!(matches!(error, Some(TraceError::Corrupt { .. })), "{error:?}");
        assert_eq!(read, [0]);
    }
    std::fs::write(&path, &whole).unwrap();
    std::fs::write(folder.path().join("trace.1"), "more").unwrap();
    assert!(matches!(numbers(&path).1, Some(TraceError::Corrupt { .. })));
}

#[test]
fn the_head_says_which_fingerprints_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [Fingerprints::Whole, Fingerprints::Tail];
    let all = kinds.into_iter().flat_map(|cells| [true, false].map(|replies| (cells, replies)));
    for (number, (cells, replies)) in all.enumerate() {
        let path = folder.path().join(number.to_string());
        let options = TraceOptions {
            fingerprints: cells,
            reply_fingerprints: replies,
            file_bytes: 1,
            block_bytes: 1,
            flush_requests: false,
        };
        let trace = begun(&path, options);
        (0..3).for_each(|number| trace.mark("m", number).unwrap());
        drop(trace);
        let reader = TraceReader::open(&path).unwrap();
        assert_eq!(reader.fingerprinting(), Fingerprinting { cells, replies });
    }
    std::fs::copy(folder.path().join("3.1"), folder.path().join("0.1")).unwrap();
    let (_, error) = numbers(&folder.path().join("0"));
    assert!(matches!(error, Some(TraceError::Corrupt { .. })), "{error:?}");
}

/// Differing tails have differing fingerprints, whatever little differs; nothing else of a cell
/// counts.
#[test]
fn a_tail_is_told_by_any_bit_of_it_and_by_no_other() {
    let cell: Vec<u8> = (0..40).collect();
    let mut seen = std::collections::HashSet::from([Fingerprints::Tail.of(&cell)]);
    for bit in 0..8 * cell.len() {
        let mut other = cell.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        let is_new = seen.insert(Fingerprints::Tail.of(&other));
        assert_eq!(is_new, bit >= 8 * 24, "bit {bit}");
    }
    let counted = |number: u64| {
        let mut cell = vec![0; 40];
        cell[24..32].copy_from_slice(&number.to_le_bytes());
        Fingerprints::Tail.of(&cell)
    };
    let both_ends: Vec<u64> = (0..10_000).map(counted).collect();
    let mut high: Vec<u64> = both_ends.iter().map(|print| print >> 40).collect();
    high.sort_unstable();
    high.dedup();
    assert!(high.len() > 9_900, "the high bits are spread too: {}", high.len());
    assert_eq!(Fingerprints::Tail.of(b"short"), Fingerprints::Whole.of(b"short"));
}

/// A million events pass through a reader that holds one block at a time.
#[test]
fn a_million_events_in_flat_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions { file_bytes: 4 << 20, ..TraceOptions::default() });
    for number in 0..1_000_000 {
        trace.client_request((number % 8) as u32, number, 64).unwrap();
    }
    let summary = trace.finish().unwrap();
    assert!(summary.files > 1 && summary.bytes < 12_000_000, "{summary:?}");
    let mut reader = TraceReader::open(&path).unwrap();
    let mut next = 0;
    for event in reader.by_ref() {
        let Event::ClientRequest(client) = event.unwrap() else { panic!("another event") };
        assert_eq!(client.number, next);
        next += 1;
    }
    assert_eq!(next, 1_000_000);
    assert!(reader.memory_bytes() < 200_000, "{}", reader.memory_bytes());
}

#[test]
fn a_left_over_part_is_refused_before_anything_is_written() {
    for left in ["trace.1", "trace.7"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(folder.path().join("trace.one"), "another's").unwrap();
        std::fs::write(folder.path().join(left), "left").unwrap();
        let refused = TraceWriter::create(&path, b"", clock(), TraceOptions::default());
        let error = refused.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains(left), "{error}");
        assert!(!path.exists());
        std::fs::remove_file(folder.path().join(left)).unwrap();
        begun(&path, TraceOptions::default());
    }
}

#[test]
fn a_few_bytes_cannot_claim_many_cells() {
    use super::decode::Position;
    use super::encode::{KIND_DONE, OUTCOME_CELLS_ALIKE};
    use super::spare::{BLOCK_CELLS_MAX, EVENT_CELLS_MAX, Spare};
    let reply = |cells: usize| {
        let mut bytes = vec![KIND_DONE, 0, 1, OUTCOME_CELLS_ALIKE, 0];
        super::wire::put_varint(&mut bytes, cells as u64);
        bytes.push(32);
        bytes
    };
    let read = |runs: usize| {
        let mut bytes = vec![2, 0, 0, 0];
        super::wire::put_varint(&mut bytes, runs as u64);
        for _ in 0..runs {
            bytes.extend([0, 0, 0]);
            super::wire::put_varint(&mut bytes, 0x10000 * 4 + 1);
            bytes.push(0);
        }
        bytes
    };
    let mut spare = Spare::default();
    let mut decode = |bytes: &[u8], whole_block: bool| {
        if whole_block {
            spare.begin_block();
        }
        let mut position = Position { at: 0, next_id: 1 };
        super::wire::Bytes(bytes).event(&mut position, &mut spare).is_some()
    };
    assert!(decode(&reply(EVENT_CELLS_MAX), true));
    assert!(!decode(&reply(EVENT_CELLS_MAX + 1), true));
    assert!(decode(&read(EVENT_CELLS_MAX >> 16), true));
    assert!(!decode(&read((EVENT_CELLS_MAX >> 16) + 1), true));
    assert!(decode(&reply(EVENT_CELLS_MAX), true));
    for _ in 1..BLOCK_CELLS_MAX / EVENT_CELLS_MAX {
        assert!(decode(&reply(EVENT_CELLS_MAX), false));
    }
    assert!(!decode(&reply(1), false));
}

/// An empty name takes one byte of a block and 24 of memory, and a label may be as long as its
/// block.
#[test]
fn names_labels_and_texts_count_like_cells() {
    use super::decode::Position;
    use super::encode::{KIND_DONE, KIND_MARK, OUTCOME_CHUNKS};
    use super::spare::{BLOCK_CELLS_MAX, EVENT_CELLS_MAX, Spare, TEXT_BYTES_A_CELL};
    let list = |head: &[u8], count: usize, item: &[u8], tail: &[u8]| {
        let mut bytes = head.to_vec();
        super::wire::put_varint(&mut bytes, count as u64);
        bytes.extend(item.repeat(count));
        bytes.extend(tail);
        bytes
    };
    // A block that may hold so many cells more.
    let decode = |left: usize, bytes: &[u8]| {
        let mut spare = Spare::default();
        spare.begin_block();
        for claimed in [EVENT_CELLS_MAX, BLOCK_CELLS_MAX - EVENT_CELLS_MAX - left] {
            spare.begin_event();
            spare.claim(claimed).unwrap();
        }
        let mut position = Position { at: 0, next_id: 1 };
        super::wire::Bytes(bytes).event(&mut position, &mut spare).is_some()
    };
    let lists: [(&str, usize, &[u8], &[u8]); 7] = [
        ("blobs deleted, each a name and its text", 2, &[9, 0, 0, 0], &[0]),
        ("chunks deleted", 1, &[5, 0, 0, 0], &[0; 3]),
        ("chunks read", 1, &[3, 0, 0, 0], &[0; 3]),
        ("chunks written", 1, &[4, 0, 0, 0], &[0; 5]),
        ("reads of no cell", 1, &[2, 0, 0, 0], &[0; 4]),
        ("groups of paths", 1, &[12, 0, 0, 0, 0], &[0]),
        ("chunks in a reply", 1, &[KIND_DONE, 0, 1, OUTCOME_CHUNKS], &[0]),
    ];
    for (what, cost, head, item) in lists {
        let bytes = list(head, 50, item, &[]);
        assert!(decode(50 * cost, &bytes), "{what}");
        assert!(!decode(50 * cost - 1, &bytes), "{what}");
    }
    let put = [&[8, 0, 0, 0][..], &[0; 10], &[2]].concat(); // a blob without a name
    let texts: [(&str, usize, &[u8], &[u8]); 5] = [
        ("label", 0, &[KIND_MARK, 0, 0], &[]),
        ("blob got", 0, &[7, 0, 0, 0], &[]),
        ("blobs listed", 0, &[10, 0, 0, 0], &[]),
        ("blob put", 0, &[8, 0, 0, 0], &[0; 10]),
        ("tag beside the name", 1, &put, &[]),
    ];
    for (what, before, head, tail) in texts {
        let bytes = list(head, 50 * TEXT_BYTES_A_CELL, b"a", tail);
        assert!(decode(before + 51, &bytes), "{what}");
        assert!(!decode(before + 50, &bytes), "{what}");
    }
}

#[test]
fn a_part_of_another_configuration_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let options = || TraceOptions { file_bytes: 1, block_bytes: 1, ..TraceOptions::default() };
    for name in ["a", "b"] {
        let path = folder.path().join(name);
        let trace = TraceWriter::create(&path, name.as_bytes(), clock(), options()).unwrap();
        (0..3).for_each(|number| trace.mark("m", number).unwrap());
    }
    assert!(numbers(&folder.path().join("a")).1.is_none());
    std::fs::copy(folder.path().join("b.1"), folder.path().join("a.1")).unwrap();
    let (_, error) = numbers(&folder.path().join("a"));
    assert!(matches!(error, Some(TraceError::Corrupt { .. })), "{error:?}");
}

#[test]
fn a_trace_that_cannot_go_on_stops_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let small = TraceOptions { file_bytes: 100, block_bytes: 10, ..TraceOptions::default() };
    let trace = begun(&path, small);
    std::fs::write(folder.path().join("trace.1"), "in the way").unwrap();
    let failure =
        (0..1000).find_map(|number| trace.flush().and_then(|()| trace.mark("mark", number)).err());
    let failure = failure.unwrap().to_string();
    assert!(failure.contains("the trace cannot be written"), "{failure}");
    let store = Recorded::new(Faulty::new(MemoryStore::new()), trace);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(store.barrier()).is_err(), "what is not recorded is not forwarded");
}

proptest! {
    /// Whatever is written and read, the trace says it.
    #[test]
    fn requests_come_back(calls in prop::collection::vec(any_call(), 1..20), fingerprints: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let options = TraceOptions { reply_fingerprints: fingerprints, ..TraceOptions::default() };
        let trace = begun(&path, options);
        let store = Recorded::new(MemoryStore::new(), trace.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut expected = Vec::new();
        runtime.block_on(async {
            for call in &calls {
                expected.push(call.make(&store).await);
            }
        });
        drop((store, trace));
        let exchanges = Exchanges::new(TraceReader::open(&path).unwrap());
        let read: Vec<Request> = exchanges.map(|exchange| match exchange.unwrap() {
            Exchange::Request(sent, Some(_)) => sent.request,
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(read, expected);
    }
}

#[derive(Debug, Clone)]
enum AnyCall {
    Create(ArrayShape),
    Cells(Vec<(ChunkName, Vec<u16>)>),
    Xor(Vec<(ChunkName, Vec<u16>)>),
    Chunks(Vec<ChunkName>),
    Delete(Vec<ChunkName>),
    Write(Vec<(ChunkName, Vec<u8>)>),
    Put(String, Vec<u8>, u8),
    Blobs(Vec<String>),
}

impl AnyCall {
    /// Makes the call, whatever becomes of it, and says what must be in the trace.
    async fn make(&self, store: &Recorded<MemoryStore>) -> Request {
        let reads = |list: &[(ChunkName, Vec<u16>)]| {
            let mut reads = CellReads::default();
            list.iter().for_each(|(name, cells)| reads.push(*name, cells.iter().copied()));
            let seen = |(chunk, cells): &(ChunkName, Vec<u16>)| ChunkCells {
                chunk: *chunk,
                cells: cells.clone(),
            };
            (reads, list.iter().map(seen).collect::<Vec<_>>())
        };
        match self.clone() {
            AnyCall::Create(shape) => {
                let _ = store.create_array(ArrayId(9), shape).await;
                Request::CreateArray { array: ArrayId(9), shape }
            }
            AnyCall::Cells(list) => {
                let (reads, seen) = reads(&list);
                let _ = store.read_cells(&reads).await;
                Request::ReadCells { reads: seen }
            }
            AnyCall::Xor(list) => {
                let (reads, seen) = reads(&list);
                let groups = vec![list.len() as u32];
                let _ = store.read_xor(&reads, &groups).await;
                Request::ReadXor { reads: seen, groups }
            }
            AnyCall::Chunks(chunks) => {
                let _ = store.read_chunks(&chunks).await;
                Request::ReadChunks { chunks }
            }
            AnyCall::Delete(chunks) => {
                let _ = store.delete_chunks(&chunks).await;
                Request::DeleteChunks { chunks }
            }
            AnyCall::Write(list) => {
                let write = |(chunk, data): &(ChunkName, Vec<u8>)| ChunkWrite {
                    chunk: *chunk,
                    data: data.clone().into(),
                };
                let _ = store.write_chunks(list.iter().map(write).collect()).await;
                let seen = |(chunk, data): &(ChunkName, Vec<u8>)| {
                    let fingerprints = vec![fingerprint(data)]; // the array was never made
                    (*chunk, ChunkSeen { bytes: data.len() as u64, fingerprints })
                };
                Request::WriteChunks { writes: list.iter().map(seen).collect() }
            }
            AnyCall::Put(name, data, condition) => {
                let seen = fingerprint(&data);
                let bytes = data.len() as u64;
                let (asked, condition) = match condition % 3 {
                    0 => (PutCondition::Always, Condition::Always),
                    1 => (PutCondition::IfAbsent, Condition::IfAbsent),
                    _ => (
                        PutCondition::IfUnchanged(crate::BlobTag("tag".into())),
                        Condition::IfUnchanged("tag".into()),
                    ),
                };
                let _ = store.blob_put(&name, data.into(), asked).await;
                Request::BlobPut { name, bytes, condition, fingerprint: seen }
            }
            AnyCall::Blobs(names) => {
                let all: Vec<&str> = names.iter().map(String::as_str).collect();
                let _ = store.blob_delete(&all).await;
                Request::BlobDelete { names }
            }
        }
    }
}

fn any_call() -> impl Strategy<Value = AnyCall> {
    let name = || {
        (any::<u16>().prop_filter("made elsewhere", |&a| a != 9), any::<u32>(), any::<u64>())
            .prop_map(|(array, chunk, version)| ChunkName { array: ArrayId(array), chunk, version })
    };
    let cells = || {
        prop_oneof![
            prop::collection::btree_set(any::<u16>(), 0..40),
            prop::collection::btree_set(1000..1100u16, 0..100),
            (any::<u16>(), 0..50u16).prop_map(|(a, n)| (a..=a.saturating_add(n)).collect()),
        ]
        .prop_map(|set| set.into_iter().collect::<Vec<u16>>())
    };
    let reads = move || prop::collection::vec((name(), cells()), 0..10);
    let data = || prop::collection::vec(any::<u8>(), 0..100);
    prop_oneof![
        any::<(u32, u16, u32)>().prop_map(|(chunks, cells_per_chunk, cell_bytes)| {
            AnyCall::Create(ArrayShape { chunks, cells_per_chunk, cell_bytes })
        }),
        reads().prop_map(AnyCall::Cells),
        reads().prop_map(AnyCall::Xor),
        prop::collection::vec(name(), 0..20).prop_map(AnyCall::Chunks),
        prop::collection::vec(name(), 0..20).prop_map(AnyCall::Delete),
        prop::collection::vec((name(), data()), 0..5).prop_map(AnyCall::Write),
        (".{0,40}", data(), any::<u8>()).prop_map(|(n, d, c)| AnyCall::Put(n, d, c)),
        prop::collection::vec(".{0,20}", 0..5).prop_map(AnyCall::Blobs),
    ]
}

/// The block that ends a trace.
const END_BYTES: usize = super::block::BLOCK_HEAD_BYTES;

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn begun(path: &Path, options: TraceOptions) -> TraceWriter {
    TraceWriter::create(path, b"{\"public\":1}", clock(), options).unwrap()
}

/// The numbers of the marks of a trace, and the error that ended the reading.
fn numbers(path: &Path) -> (Vec<u64>, Option<TraceError>) {
    let mut numbers = Vec::new();
    for event in TraceReader::open(path).unwrap() {
        match event {
            Ok(Event::Mark(mark)) => numbers.push(mark.number),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return (numbers, Some(error)),
        }
    }
    (numbers, None)
}

/// Whoever is killed in the middle of a call leaves a trace in which the call stands.
#[tokio::test]
async fn a_request_is_in_the_file_before_it_is_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    for (flush_requests, expected) in [(true, 2), (false, 0)] {
        let path = folder.path().join(flush_requests.to_string());
        let trace = begun(&path, TraceOptions { flush_requests, ..TraceOptions::default() });
        let (seen, file) = (Arc::new(fogbank_env::Mutex::new(0)), path.clone());
        let (watch, store) = (seen.clone(), crate::Faulty::new(MemoryStore::new()));
        store.on_call(move |_, _| {
            let events = TraceReader::open(&file).unwrap().map_while(Result::ok);
            *watch.lock() = events.filter(|event| matches!(event, Event::Sent(_))).count();
            None
        });
        let store = Recorded::new(store, trace.clone());
        store.barrier().await.unwrap();
        store.barrier().await.unwrap();
        assert_eq!(*seen.lock(), expected, "{flush_requests}");
    }
}

/// What comes to one cloud of two is read as the request as which it was written.
#[test]
fn what_comes_is_read_as_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = begun(&path, TraceOptions::default());
    let said = Shown::Said { name: "look/7".into(), bytes: 9, fingerprint: 11 };
    let chunk = ChunkName { array: CellsOf::Moved.array(), chunk: 3, version: 5 };
    let seen = ChunkSeen { bytes: 64, fingerprints: vec![1, u64::MAX] };
    let cells = Shown::Cells { chunk, seen };
    for (from, shown) in [(0, &said), (1, &cells)] {
        trace.comes(from, shown).unwrap();
    }
    trace.finish().unwrap();
    let read = TraceReader::open(&path).unwrap().map(|event| match event.unwrap() {
        Event::Sent(sent) => (sent.id, sent.cloud, sent.request),
        other => panic!("{other:?}"),
    });
    let due: [(u64, u8, Request); 2] = [(0, 0, said.into()), (1, 1, cells.into())];
    assert_eq!(read.collect::<Vec<_>>(), due);
    assert_eq!(CellsOf::of(chunk.array), Some(CellsOf::Moved));
    assert_eq!(CellsOf::of(ArrayId(5)), None);
}
