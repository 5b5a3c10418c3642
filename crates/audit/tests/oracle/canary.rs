//! Each of these changes to an honest trace is a leak or breaks data; each has to be found, under
//! the name of the rule that it breaks.

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_oram::ring::RingSettings;
use fogbank_store::Link;
use fogbank_store::trace::{
    ChunkCells, Done, Event, JournalConfig, Mark, Outcome, PublicConfig, Request, Sent, VaultConfig,
};

use crate::drive::{Trace, Workload, nobody, recorded, recorded_on_beat, replay, settings};

async fn honest(settings: &RingSettings) -> Trace {
    recorded(settings, Workload::Uniform, 60).await
}

/// The rule that the trace breaks.
fn broken((config, events): &Trace) -> &'static str {
    match replay(config, events, &mut nobody()) {
        Ok(_) => "none",
        Err(Halt::Breach(breach)) => breach.rule,
        Err(Halt::Unpredictable { .. }) => "unpredictable",
        Err(Halt::Unfollowing { .. }) => "unfollowing",
    }
}

/// The first request past the middle that `is` one.
fn find(events: &[Event], is: impl Fn(&Request) -> bool) -> usize {
    let sent = |event: &Event| matches!(event, Event::Sent(sent) if is(&sent.request));
    (events.len() / 2..events.len()).find(|at| sent(&events[*at])).unwrap()
}

fn request(event: &mut Event) -> &mut Request {
    let Event::Sent(Sent { request, .. }) = event else { panic!("no request") };
    request
}

/// A read batch in the middle of the trace whose change leaves the message well formed.
fn batch(events: &mut [Event]) -> &mut Vec<ChunkCells> {
    let paths = |reads: &[ChunkCells]| reads.iter().filter(|read| read.cells.len() == 1).count();
    let at = find(events, |request| match request {
        Request::ReadCells { reads } => paths(reads) > 20 && paths(reads) < reads.len(),
        _ => false,
    });
    let Request::ReadCells { reads } = request(&mut events[at]) else { panic!("a batch") };
    reads
}

/// Where paths begin in a batch: at the root, which all share.
fn starts(reads: &[ChunkCells]) -> Vec<usize> {
    (0..reads.len())
        .filter(|at| reads[*at].chunk.chunk == 0 && reads[*at].cells.len() == 1)
        .collect()
}

fn retiring(reads: &[ChunkCells]) -> usize {
    reads.iter().position(|read| read.cells.len() > 1).unwrap()
}

/// What is changed, the rule that breaks, and how.
type Change = (&'static str, &'static str, fn(&mut Vec<Event>));

async fn expect(settings: &RingSettings, changes: &[Change]) {
    let honest = honest(settings).await;
    assert_eq!(broken(&honest), "none");
    for (change, rule, apply) in changes {
        let mut spoiled = honest.clone();
        apply(&mut spoiled.1);
        assert_ne!(spoiled.1, honest.1, "{change}");
        assert_eq!(broken(&spoiled), *rule, "{change}");
    }
}

#[tokio::test]
async fn reads_that_differ() {
    // Full trees: every path shows its leaf.
    let full = RingSettings { leaf_level: Some(4), ..settings(20, (4, 9, 3)) };
    expect(
        &full,
        &[
            ("a path is left out", "full-batch", |events| {
                let reads = batch(events);
                let starts = starts(reads);
                reads.drain(starts[0]..starts[1]);
            }),
            ("the batch ends early", "full-batch", |events| {
                let reads = batch(events);
                let last = *starts(reads).last().unwrap();
                reads.truncate(last);
            }),
            ("a bucket of a path is left out", "path-consistent", |events| {
                let reads = batch(events);
                let at = starts(reads)[0];
                reads.remove(at + 1);
            }),
            ("two buckets of a path change places", "path-consistent", |events| {
                let reads = batch(events);
                let at = starts(reads)[0];
                reads.swap(at, at + 1);
            }),
            ("another version is read", "current-version", |events| {
                let reads = batch(events);
                let at = starts(reads)[0];
                reads[at].chunk.version += 1;
            }),
            ("another bucket is read", "path-consistent", |events| {
                let reads = batch(events);
                let at = starts(reads)[0] + 1;
                reads[at].chunk.chunk += 1 << 3;
            }),
            ("a bucket outside the tree is read", "stored-only", |events| {
                let reads = batch(events);
                let at = starts(reads)[0] + 1;
                reads[at].chunk.chunk = 1 << 20;
            }),
            ("a cell is read twice", "slot-once", |events| {
                let reads = batch(events);
                let starts = starts(reads);
                reads[starts[1]].cells = reads[starts[0]].cells.clone();
            }),
            ("an eviction reads Z - 1 cells", "z-read", |events| {
                let reads = batch(events);
                let at = retiring(reads);
                reads[at].cells.pop();
            }),
            ("an eviction reads Z + 1 cells", "z-read", |events| {
                let reads = batch(events);
                let at = retiring(reads);
                let free = (0..13).rev().find(|cell| !reads[at].cells.contains(cell)).unwrap();
                reads[at].cells.push(free);
                reads[at].cells.sort_unstable();
            }),
            ("an eviction does not come", "eviction-due", |events| {
                let reads = batch(events);
                let at = retiring(reads);
                reads.remove(at);
            }),
            ("an eviction takes another path", "eviction-due", |events| {
                let reads = batch(events);
                let at = retiring(reads);
                reads.swap(at, at + 1);
            }),
        ],
    )
    .await;
}

#[tokio::test]
async fn reshuffles_that_differ() {
    // A is so long that buckets are worn out first.
    let worn = RingSettings { leaf_level: Some(4), ..settings(20, (4, 3, 9)) };
    let honest = honest(&worn).await;
    assert_eq!(broken(&honest), "none");
    let mut found = std::collections::BTreeSet::new();
    for at in honest.1.len() / 2..honest.1.len() {
        let Event::Sent(Sent { request: Request::ReadCells { reads }, .. }) = &honest.1[at] else {
            continue;
        };
        for read in (0..reads.len()).filter(|read| reads[*read].cells.len() == 4) {
            let mut spoiled = honest.clone();
            let Request::ReadCells { reads } = request(&mut spoiled.1[at]) else { continue };
            let retired = reads.remove(read);
            found.insert(broken(&spoiled));
            // In its place the bucket is read once more.
            let cells = vec![retired.cells[0]];
            let Request::ReadCells { reads } = request(&mut spoiled.1[at]) else { continue };
            reads.insert(read, ChunkCells { chunk: retired.chunk, cells });
            found.insert(broken(&spoiled));
        }
    }
    assert!(found.contains("reshuffle-due"), "{found:?}");
    assert!(found.contains("reads-per-version"), "{found:?}");
    assert!(!found.contains("none"), "{found:?}");
}

/// A bucket that an eviction has taken is read by the next path.
#[tokio::test]
async fn an_image_that_is_read() {
    let full = RingSettings { leaf_level: Some(4), ..settings(20, (4, 9, 3)) };
    let mut spoiled = honest(&full).await;
    let reads = batch(&mut spoiled.1);
    let image = reads[retiring(reads)].chunk;
    let next = reads.iter().rposition(|read| read.cells.len() == 1).unwrap();
    reads.insert(next, ChunkCells { chunk: image, cells: vec![0] });
    assert_eq!(broken(&spoiled), "image-unread");
}

#[tokio::test]
async fn a_combined_path_beyond_its_buckets() {
    let mut spoiled = honest(&RingSettings { xor: true, ..settings(200, (4, 5, 3)) }).await;
    assert_eq!(broken(&spoiled), "none");
    let xors =
        |request: &Request| matches!(request, Request::ReadXor { reads, .. } if !reads.is_empty());
    let at = find(&spoiled.1, xors);
    let Request::ReadXor { reads, .. } = request(&mut spoiled.1[at]) else { panic!("paths") };
    reads[0].cells[0] = u16::MAX;
    assert_eq!(broken(&spoiled), "slot-once");
}

#[tokio::test]
async fn a_head_that_asks_for_hours_is_refused() {
    let (config, _) = honest(&settings(20, (4, 5, 3))).await;
    fn vault(ring: &mut RingConfig, pieces: u32, delta_pieces: u32) {
        let bytes = 100;
        ring.keep_superseded = true;
        ring.vault = Some(VaultConfig {
            commit_bytes: bytes,
            commit_bytes_an_opening: bytes,
            piece_bytes: bytes,
            pieces,
            last_piece_bytes: bytes,
            pieces_at_once: 1,
            journal: JournalConfig {
                record_bytes: bytes,
                delta_piece_bytes: bytes,
                delta_pieces,
                delta_last_piece_bytes: bytes,
                full_every: 1,
            },
        });
    }
    let many = (1 << 20) + 1;
    let changes: [fn(&mut RingConfig, u32); 7] = [
        |ring, _| ring.read_batches = 10_001,
        |ring, _| ring.image_points = (1 << 10) + 1,
        |ring, _| (ring.read_batches, ring.read_batch) = (10_000, 2000),
        |ring, _| (ring.read_batch, ring.write_batch) = (1, u32::MAX),
        |ring, many| vault(ring, many, 1),
        |ring, many| vault(ring, 1, many),
        |ring, _| {
            vault(ring, 1, 1);
            ring.keep_superseded = false;
        },
    ];
    let follows = |change: &dyn Fn(&mut RingConfig)| {
        let mut ring: RingConfig = config.tail().unwrap();
        change(&mut ring);
        Oracle::new(&config.clone().with_tail(&ring)).is_ok()
    };
    assert!(follows(&|_| {}) && follows(&|ring| vault(ring, 1, 1)));
    for (case, change) in changes.into_iter().enumerate() {
        assert!(!follows(&|ring| change(ring, many)), "case {case}");
    }
}

fn windows_of(config: &PublicConfig, window_cells: u32) -> PublicConfig {
    let ring: RingConfig = config.tail().unwrap();
    config.clone().with_tail(RingConfig { window_cells, ..ring })
}

#[tokio::test]
async fn a_message_that_is_longer_than_a_window() {
    let (config, events) = honest(&settings(200, (4, 5, 3))).await;
    assert_eq!(broken(&(windows_of(&config, 20), events)), "full-window");
}

/// Had the engine shorter windows, it would send the same in more messages.
#[tokio::test]
async fn batches_in_windows_pass() {
    let (config, events) = honest(&settings(200, (4, 5, 3))).await;
    let config = windows_of(&config, 7);
    let mut cut = Vec::new();
    let mut id = 0;
    let mut events = events.into_iter();
    while let Some(event) = events.next() {
        let (Event::Sent(sent), Some(Event::Done(done))) = (event, events.next()) else {
            panic!("a request and its end")
        };
        let windows = windows(sent.request.clone(), done.outcome.clone(), 7);
        for (at, (request, outcome)) in windows.into_iter().enumerate() {
            let at = if at == 0 { sent.at } else { done.at };
            cut.push(Event::Sent(Sent { id, at, request, ..sent.clone() }));
            cut.push(Event::Done(Done { id, outcome, ..done.clone() }));
            id += 1;
        }
    }
    assert_eq!(replay(&config, &cut, &mut nobody()).err(), None);
}

fn windows(request: Request, outcome: Outcome, most: usize) -> Vec<(Request, Outcome)> {
    let (Request::ReadCells { reads }, Outcome::Cells(cells)) = (&request, &outcome) else {
        return vec![(request, outcome)];
    };
    let (mut all, mut window, mut count) = (Vec::new(), Vec::new(), 0);
    let mut cells = cells.iter().cloned();
    for (at, read) in reads.iter().enumerate() {
        count += read.cells.len();
        window.push(read.clone());
        if count >= most || at + 1 == reads.len() {
            let reply = cells.by_ref().take(count).collect();
            let reads = std::mem::take(&mut window);
            all.push((Request::ReadCells { reads }, Outcome::Cells(reply)));
            count = 0;
        }
    }
    all
}

#[tokio::test]
async fn writes_that_differ() {
    fn write(events: &mut [Event], is: impl Fn(&Request) -> bool) -> (usize, &mut Request) {
        let at = find(events, is);
        (at, request(&mut events[at]))
    }
    expect(
        &settings(200, (4, 5, 3)),
        &[
            ("an image is left out", "images-written", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::WriteChunks { .. }));
                let Request::WriteChunks { writes } = request else { panic!() };
                writes.pop();
            }),
            ("an image is written twice", "images-written", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::WriteChunks { .. }));
                let Request::WriteChunks { writes } = request else { panic!() };
                writes.push(writes[0].clone());
            }),
            ("images are out of order", "images-written", |events| {
                let several =
                    |r: &Request| matches!(r, Request::WriteChunks { writes } if writes.len() > 1);
                let (_, request) = write(events, several);
                let Request::WriteChunks { writes } = request else { panic!() };
                writes.swap(0, 1);
            }),
            ("an image has an older version", "images-written", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::WriteChunks { .. }));
                let Request::WriteChunks { writes } = request else { panic!() };
                writes[0].0.version -= 1;
            }),
            ("an image is shorter", "cell-size", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::WriteChunks { .. }));
                let Request::WriteChunks { writes } = request else { panic!() };
                writes[0].1.bytes -= 1;
            }),
            ("an image is not told cell by cell", "cell-size", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::WriteChunks { .. }));
                let Request::WriteChunks { writes } = request else { panic!() };
                writes[0].1.fingerprints.truncate(1);
            }),
            ("nothing is written", "images-written", |events| {
                let at = find(events, |r| matches!(r, Request::WriteChunks { .. }));
                events.drain(at..at + 2);
            }),
            ("a version stays", "superseded-deleted", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::DeleteChunks { .. }));
                let Request::DeleteChunks { chunks } = request else { panic!() };
                chunks.pop();
            }),
            ("nothing is deleted", "superseded-deleted", |events| {
                let at = find(events, |r| matches!(r, Request::DeleteChunks { .. }));
                events.drain(at..at + 2);
            }),
            ("a bucket that is rewritten is deleted early", "superseded-deleted", |events| {
                let at = find(events, |r| matches!(r, Request::Barrier));
                let at = at + 2;
                let Event::Sent(_) = &events[at] else { panic!() };
                events.swap(at - 2, at);
                events.swap(at - 1, at + 1);
            }),
            ("chunks are read whole", "unknown-operation", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::Barrier));
                *request = Request::ReadChunks { chunks: Vec::new() };
            }),
            ("another cloud is asked", "unknown-operation", |events| {
                let at = find(events, |r| matches!(r, Request::Barrier));
                let Event::Sent(sent) = &mut events[at] else { panic!() };
                sent.cloud = 1;
            }),
            ("a blob is written", "unknown-operation", |events| {
                let (_, request) = write(events, |r| matches!(r, Request::Barrier));
                *request = Request::BlobGet { name: "hits".into() };
            }),
            ("an epoch has a read batch more", "batches-per-epoch", |events| {
                let at = find(events, |r| matches!(r, Request::WriteChunks { .. }));
                let read = (0..at).rev().find(|at| has_paths(&events[*at])).unwrap();
                let again = [events[read].clone(), events[read + 1].clone()];
                events.splice(at..at, again);
            }),
        ],
    )
    .await;
}

fn has_paths(event: &Event) -> bool {
    let Event::Sent(Sent { request: Request::ReadCells { reads }, .. }) = event else {
        return false;
    };
    reads.iter().any(|read| read.cells.len() == 1)
}

#[tokio::test]
async fn lies_that_are_not_met_with_silence() {
    expect(
        &settings(200, (4, 5, 3)),
        &[
            ("a forged cell", "silence-after-a-lie", |events| {
                let Outcome::Cells(cells) = reply(events) else { panic!() };
                cells[3].as_mut().unwrap().fingerprints[0] ^= 1;
            }),
            ("a missing cell", "silence-after-a-lie", |events| {
                let Outcome::Cells(cells) = reply(events) else { panic!() };
                cells[3] = None;
            }),
            ("a short cell", "silence-after-a-lie", |events| {
                let Outcome::Cells(cells) = reply(events) else { panic!() };
                cells[3].as_mut().unwrap().bytes -= 1;
            }),
            ("swapped cells", "silence-after-a-lie", |events| {
                let Outcome::Cells(cells) = reply(events) else { panic!() };
                cells.swap(1, 2);
            }),
            ("a cell too few", "silence-after-a-lie", |events| {
                let Outcome::Cells(cells) = reply(events) else { panic!() };
                cells.pop();
            }),
            ("a store that says it lied", "silence-after-a-lie", |events| {
                let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
                let at_ns = events[at].at();
                events.insert(
                    at + 1,
                    Event::Mark(Mark { at: at_ns, label: "lie".into(), number: 0 }),
                );
            }),
            ("a store that is absent", "silence-after-a-failure", |events| {
                *reply(events) = Outcome::Failed(fogbank_store::trace::Blame::Absent);
            }),
            ("a reply of another kind", "reply-fits", |events| {
                *reply(events) = Outcome::Listed(3);
            }),
            ("a reply to nothing", "reply-fits", |events| {
                let at = find(events, |r| matches!(r, Request::ReadCells { .. }));
                let again = events[at + 1].clone();
                events.insert(at + 2, again);
            }),
        ],
    )
    .await;
}

fn reply(events: &mut [Event]) -> &mut Outcome {
    let at = find(events, |r| matches!(r, Request::ReadCells { reads } if reads.len() > 8));
    let Event::Done(Done { outcome, .. }) = &mut events[at + 1] else { panic!() };
    outcome
}

#[tokio::test]
async fn a_lie_that_is_the_last_word_is_no_breach() {
    let mut trace = honest(&settings(200, (4, 5, 3))).await;
    let at = find(&trace.1, |r| matches!(r, Request::ReadCells { reads } if reads.len() > 8));
    let Outcome::Cells(cells) = reply(&mut trace.1) else { panic!() };
    cells[3] = None;
    trace.1.truncate(at + 2);
    assert_eq!(broken(&trace), "none");
}

/// A crash leaves a trace that just ends.
#[tokio::test]
async fn any_beginning_of_a_trace_passes() {
    let (config, events) = honest(&settings(200, (4, 5, 3))).await;
    for end in (0..events.len()).step_by(7) {
        assert_eq!(replay(&config, &events[..end], &mut nobody()).err(), None);
    }
}

#[tokio::test]
async fn a_trace_without_its_beginning_is_no_breach() {
    let mut trace = honest(&settings(200, (4, 5, 3))).await;
    trace.1.drain(..10);
    let first = trace.1.iter().position(|event| matches!(event, Event::Sent(_))).unwrap();
    trace.1.drain(..first);
    assert_eq!(broken(&trace), "unpredictable");
}

/// A trace by the beat, with a reply so late now and then that points have to be skipped.
async fn by_the_beat() -> Trace {
    let millis = std::time::Duration::from_millis;
    let link = Link { round_trip: millis(20), jitter: millis(60), ..Link::instant() };
    recorded_on_beat(&settings(200, (4, 5, 3)), link, 80).await
}

fn at_mut(event: &mut Event) -> &mut u64 {
    match event {
        Event::Sent(sent) => &mut sent.at,
        Event::Done(done) => &mut done.at,
        _ => panic!("a request or its end"),
    }
}

#[tokio::test(start_paused = true)]
async fn departures_that_differ() {
    let honest = by_the_beat().await;
    assert_eq!(broken(&honest), "none");
    let requests: Vec<usize> = (honest.1.len() / 2..honest.1.len())
        .filter(|at| matches!(&honest.1[*at], Event::Sent(_)))
        .take(60)
        .collect();
    let mut caught_up = 0;
    for at in requests {
        let mut late = honest.clone();
        *at_mut(&mut late.1[at]) += 1;
        assert_eq!(broken(&late), "on-grid", "a nanosecond later");
        // As soon as the reply before is there, whether a point had to be skipped or not.
        let mut early = honest.clone();
        *at_mut(&mut early.1[at]) = early.1[at - 1].at();
        let rule = broken(&early);
        assert!(["on-grid", "no-catch-up"].contains(&rule), "{rule}");
        caught_up += u32::from(rule == "no-catch-up");
    }
    assert!(caught_up > 5, "{caught_up}");
}

/// A point passes before the images of an epoch leave, whatever their sealing takes.
#[tokio::test(start_paused = true)]
async fn images_that_leave_a_point_earlier_or_later() {
    let honest = by_the_beat().await;
    let ring: RingConfig = honest.0.tail().unwrap();
    assert!(ring.image_points == 1 && ring.quantum_ns > 0);
    let is_image = |event: &Event| {
        matches!(event, Event::Sent(Sent { request: Request::WriteChunks { .. }, .. }))
    };
    let images: Vec<_> = (0..honest.1.len()).filter(|at| is_image(&honest.1[*at])).collect();
    assert!(images.len() > 20, "{}", images.len());
    for index in images {
        for later in [false, true] {
            let mut moved = honest.clone();
            let at = at_mut(&mut moved.1[index]);
            *at = if later { *at + ring.quantum_ns } else { *at - ring.quantum_ns };
            assert_ne!(broken(&moved), "none", "{index}, later: {later}");
        }
    }
    for image_points in [0, 2] {
        let other = honest.0.clone().with_tail(RingConfig { image_points, ..ring.clone() });
        assert_ne!(broken(&(other, honest.1.clone())), "none");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_before_the_end_of_the_one_before() {
    let honest = by_the_beat().await;
    let at = find(&honest.1, |r| matches!(r, Request::Barrier));
    assert!(matches!(honest.1[at - 1], Event::Done(_)));
    let mut spoiled = honest.clone();
    spoiled.1.swap(at - 1, at);
    assert_eq!(broken(&spoiled), "waits-for-all");
}
