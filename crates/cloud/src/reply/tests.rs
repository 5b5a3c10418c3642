//! Honest answers come back as they were; damaged ones are errors or answers of the right shape,
//! never a panic and never more than was asked for.

use std::time::Duration;

use bolero::{TypeGenerator, check};
use fogbank_store::ChunkName;

use super::*;
use crate::wire::messages;

struct Said(std::vec::IntoIter<Bytes>);

#[async_trait]
impl Messages for Said {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        Ok(self.0.next())
    }
}

fn said(reply: Reply) -> Vec<Bytes> {
    messages(groups(reply).unwrap()).map(|pieces| pieces.concat().into()).collect()
}

fn incoming(messages: Vec<Bytes>) -> Incoming<Said> {
    Incoming::new(Said(messages.into_iter()), 1 << 24)
}

/// Nothing here waits.
fn now<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match work.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => unreachable!("it waits for nothing"),
    }
}

fn cells() -> Vec<Cell> {
    let cell = |at: usize, length: usize| match at % 3 {
        0 => Cell::NotWritten,
        _ => Cell::Bytes(vec![at as u8; length].into()),
    };
    let small = (0..5000).map(|at| cell(at, 100));
    small.chain((0..3).map(|at| cell(at, 400_000))).chain((0..9).map(|at| cell(at, 1))).collect()
}

#[test]
fn honest_answers_come_back() {
    let cells = cells();
    let lengths: Vec<_> = cells.iter().map(|c| bytes_of(c).map(|b| b.len() as u32)).collect();
    let read = now(incoming(said(Reply::Cells(cells.clone()))).cells(lengths.into_iter()));
    assert_eq!(read.unwrap(), cells);
    let chunks = vec![None, Some(vec![1; 700_000].into()), Some("x".into()), None];
    let lengths = [None, Some(700_000), None, None];
    let read = now(incoming(said(Reply::Chunks(chunks.clone()))).chunks(lengths.into_iter()));
    assert_eq!(read.unwrap(), chunks);
    let names: Vec<_> =
        (0..90_000).map(|chunk| ChunkName { array: ArrayId(2), chunk, version: 1 << 40 }).collect();
    let read = now(incoming(said(Reply::Names(names.clone()))).names(ArrayId(2), SHAPE));
    assert_eq!(read.unwrap(), names);
    let blob = Some(("data".into(), BlobTag("t".into())));
    assert_eq!(now(incoming(said(Reply::Blob(blob.clone()))).blob()).unwrap(), blob);
    assert_eq!(now(incoming(said(Reply::Blob(None))).blob()).unwrap(), None);
    let done = PutOutcome::Done(BlobTag("t".into()));
    assert_eq!(now(incoming(said(Reply::Put(done.clone()))).put()).unwrap(), done);
    let names = vec!["a".to_owned(), "b/c".to_owned()];
    let read = now(incoming(said(Reply::BlobNames(names.clone()))).blob_names(""));
    assert_eq!(read.unwrap(), names);
    now(incoming(said(Reply::Done)).done()).unwrap();
}

#[test]
fn what_is_cut_or_goes_on_is_no_acknowledgement() {
    let misbehaved = |reply: Result<()>| matches!(reply, Err(StoreError::Misbehaved(_)));
    assert!(misbehaved(now(incoming(vec![]).done())), "silence is not yes");
    assert!(misbehaved(now(incoming(vec![Bytes::from_static(&[DONE, DONE])]).done())));
    assert!(misbehaved(now(incoming(vec![Bytes::from_static(&[SOME])]).done())));
    let two = vec![Cell::Bytes("ab".into()), Cell::Bytes("cd".into())];
    let honest = said(Reply::Cells(two)).concat();
    for (lengths, wrong) in [
        (vec![Some(2); 3], "too few"),
        (vec![Some(2); 1], "too many"),
        (vec![Some(3); 2], "of another length"),
        (vec![], "none asked for"),
    ] {
        let read = now(incoming(vec![honest.clone().into()]).cells(lengths.into_iter()));
        assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{wrong}");
    }
    for cut in 0..honest.len() {
        let part = Bytes::copy_from_slice(&honest[..cut]);
        let read = now(incoming(vec![part]).cells(vec![Some(2); 2].into_iter()));
        assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{cut}");
    }
    let endless = vec![Bytes::from(vec![PART; 1 << 20]); 100];
    assert!(now(incoming(endless).blob_names("")).is_err());
}

#[test]
fn a_tag_is_short() {
    let tag = |bytes| BlobTag("t".repeat(bytes).into());
    for (bytes, fits) in [(256, true), (257, false), (0, false)] {
        let blob = now(incoming(said(Reply::Blob(Some(("data".into(), tag(bytes)))))).blob());
        let put = now(incoming(said(Reply::Put(PutOutcome::Done(tag(bytes))))).put());
        if fits {
            assert!(blob.is_ok() && put.is_ok());
        } else {
            assert!(matches!(blob, Err(StoreError::Misbehaved(_))), "{blob:?}");
            assert!(matches!(put, Err(StoreError::Misbehaved(_))), "{put:?}");
        }
    }
}

/// How long a list is the server does not decide; what it says beyond is not taken.
#[test]
fn lists_end() {
    let shape = ArrayShape { chunks: 10, ..SHAPE };
    let version = |version| ChunkName { array: ArrayId(2), chunk: 1, version };
    let said_names = |many| said(Reply::Names((0..many).map(version).collect()));
    for (many, listed) in [(1103, 1103), (1104, 1104), (1105, 1104), (90_000, 1104)] {
        let read = now(incoming(said_names(many)).names(ArrayId(2), shape)).unwrap();
        assert_eq!(read.len(), listed);
    }
    let outside = vec![ChunkName { array: ArrayId(2), chunk: 10, version: 0 }];
    let read = now(incoming(said(Reply::Names(outside))).names(ArrayId(2), shape));
    assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{read:?}");
    let names = |many| (0..many).map(|at| format!("{at:07}")).collect::<Vec<_>>();
    let most = BLOBS_LISTED_MAX as usize;
    for (many, listed) in [(most, most), (most + 1, most)] {
        let read = now(incoming(said(Reply::BlobNames(names(many)))).blob_names("")).unwrap();
        assert_eq!(read.len(), listed);
    }
    for wrong in [vec![""; 1000], vec!["a", "a"], vec!["b", "a"]] {
        let wrong = wrong.into_iter().map(str::to_owned).collect();
        let read = now(incoming(said(Reply::BlobNames(wrong))).blob_names(""));
        assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{read:?}");
    }
    let read = now(incoming(said(Reply::BlobNames(names(2)))).blob_names("0000001"));
    assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{read:?}");
}

const SHAPE: ArrayShape = ArrayShape { chunks: 1 << 20, cells_per_chunk: 1, cell_bytes: 1 };

#[derive(Debug, Clone, TypeGenerator)]
struct Lie {
    which: u8,
    flips: Vec<(u16, u8)>,
    cut: Option<u16>,
    /// Where messages end.
    every: u8,
    noise: Vec<u8>,
}

#[test]
fn lies_are_errors_or_of_the_right_shape() {
    let small: Vec<_> =
        cells().into_iter().filter(|c| bytes_of(c).is_none_or(|b| b.len() < 9)).collect();
    let asked = small.len();
    let names = vec![ChunkName { array: ArrayId(2), chunk: 1, version: 2 }; 3];
    let honest = [
        said(Reply::Cells(small)).concat(),
        said(Reply::Chunks(vec![None, Some("four".into())])).concat(),
        said(Reply::Names(names)).concat(),
        said(Reply::Blob(Some(("data".into(), BlobTag("tag".into()))))).concat(),
        said(Reply::BlobNames(vec!["a".into(), "bc".into()])).concat(),
    ];
    let seconds = std::env::var("FOGBANK_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(5));
    check!().with_type::<Lie>().with_test_time(time).for_each(|lie| {
        let mut bytes = honest[usize::from(lie.which) % honest.len()].clone();
        for (at, mask) in &lie.flips {
            let at = usize::from(*at) % bytes.len();
            bytes[at] ^= mask;
        }
        if let Some(cut) = lie.cut {
            bytes.truncate(usize::from(cut) % (bytes.len() + 1));
        }
        bytes.extend_from_slice(&lie.noise);
        let pieces = bytes.chunks(usize::from(lie.every) + 1);
        let cut: Vec<Bytes> = pieces.map(Bytes::copy_from_slice).collect();
        let all = || incoming(cut.clone());
        if let Ok(read) = now(all().cells(vec![Some(1); asked].into_iter())) {
            assert_eq!(read.len(), asked);
            assert!(read.iter().all(|cell| bytes_of(cell).is_none_or(|bytes| bytes.len() == 1)));
        }
        if let Ok(read) = now(all().chunks([None, Some(4)].into_iter())) {
            assert!(read.len() == 2 && read[1].as_ref().is_none_or(|chunk| chunk.len() == 4));
        }
        let _any = (now(all().names(ArrayId(2), SHAPE)), now(all().blob()), now(all().put()));
        let _any = (now(all().blob_names("")), now(all().done()));
    });
}
