//! What a client and its two clouds say to each other, counted by what it is for: bytes of
//! messages, as they are encoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fogbank_mix::Shape;
use fogbank_mix::message::{FromHolder, FromShuffler, HEADER_BYTES, Reached, ToHolder, ToShuffler};
use fogbank_mix::session::{
    FromCloud, MixCloud, Opening, QUEUED_MAX, Session, SessionError, ToCloud,
};
use fogbank_mix::signed::PublicKey;
use tokio::sync::mpsc;

/// What messages are for.
pub const PARTS: [&str; 5] = ["read", "eviction", "refresh", "records", "small"];
const READ: usize = 0;
const EVICTION: usize = 1;
/// Of these, refreshes.
pub const REFRESH: usize = 2;
const RECORDS: usize = 3;
const SMALL: usize = 4;

/// Bytes so far, by part.
#[derive(Default)]
pub struct Parts([AtomicU64; PARTS.len()]);

impl Parts {
    /// So far.
    pub fn bytes(&self) -> [u64; PARTS.len()] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }

    fn add(&self, (part, bytes): (usize, usize)) {
        self.0[part].fetch_add((AROUND + bytes) as u64, Ordering::Relaxed);
    }
}

/// A cloud whose messages are counted.
pub struct CountedCloud {
    /// The cloud.
    pub inner: Arc<dyn MixCloud>,
    /// The counts.
    pub parts: Arc<Parts>,
}

#[async_trait]
impl MixCloud for CountedCloud {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        let mut session = self.inner.open(opening).await?;
        let (sender, mut sent) = mpsc::channel(QUEUED_MAX);
        let (come, receiver) = mpsc::channel(QUEUED_MAX);
        let (shape, up, down) = (opening.shape, self.parts.clone(), self.parts.clone());
        tokio::spawn(async move {
            while let Some(message) = sent.recv().await {
                up.add(of_client(&shape, &message));
                if session.sender.send(message).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(message) = session.receiver.recv().await {
                message.iter().for_each(|message| down.add(of_cloud(message)));
                if come.send(message).await.is_err() {
                    break;
                }
            }
        });
        let (reached, key) = (session.reached, session.key);
        Ok(Session { sender, receiver, reached, key })
    }

    async fn reached(&self, opening: &Opening) -> Result<Option<Reached>, SessionError> {
        self.inner.reached(opening).await
    }

    async fn key(&self, opening: &Opening) -> Result<PublicKey, SessionError> {
        self.inner.key(opening).await
    }
}

/// Bytes of a message of the client.
#[cfg(test)]
pub fn bytes_of_asked(shape: &Shape, message: &ToCloud) -> usize {
    AROUND + of_client(shape, message).1
}

/// Bytes of a message of a cloud.
#[cfg(test)]
pub fn bytes_of_told(message: &FromCloud) -> usize {
    AROUND + of_cloud(message).1
}

/// Role and header.
const AROUND: usize = 1 + HEADER_BYTES;
/// Bytes of partition and job, of a source, of a seed, and of a place.
const JOB: usize = 2 + 8;
const SOURCE: usize = 1 + 8;
const SEED: usize = 32;
const PLACE: usize = 1 + 8 + 4;

/// What a message of the client is for, and its bytes behind role and header.
fn of_client(shape: &Shape, message: &ToCloud) -> (usize, usize) {
    let sources = |count: usize| JOB + 1 + count * SOURCE;
    match message {
        ToCloud::Holder(ToHolder::Look(look)) => (SMALL, 8 + 2 + SEED + look.places.len() * PLACE),
        ToCloud::Holder(ToHolder::Recall(job)) => (SMALL, sources(job.sources.0.len())),
        ToCloud::Holder(ToHolder::Hand(job)) => (SMALL, sources(job.sources.0.len())),
        ToCloud::Holder(ToHolder::Carry(job)) => {
            (SMALL, sources(job.sources.0.len()) + SEED + 8 * job.list.words().len())
        }
        ToCloud::Holder(ToHolder::Fetch(job)) => {
            (REFRESH, sources(job.sources.0.len()) + 8 * job.list.words().len())
        }
        ToCloud::Holder(ToHolder::NewRecords(job)) => (RECORDS, JOB + 16 * job.records.len()),
        ToCloud::Holder(ToHolder::Commit(_)) | ToCloud::Shuffler(ToShuffler::Commit(_)) => {
            (SMALL, JOB)
        }
        ToCloud::Shuffler(ToShuffler::Want(_)) => (SMALL, 8 + 2 + 1 + 1),
        ToCloud::Shuffler(ToShuffler::Mix(job)) => {
            (SMALL, 1 + sources(job.sources.0.len()) + 2 * SEED)
        }
        ToCloud::Shuffler(ToShuffler::Upload(job)) => {
            let is_refresh = shape.refreshes(job.generation.count());
            (if is_refresh { REFRESH } else { EVICTION }, JOB + job.cells.bytes().len())
        }
        ToCloud::Shuffler(ToShuffler::Strip(job)) => (SMALL, JOB + SEED * job.pads.len()),
        // Of a check that failed, which ends the run.
        ToCloud::Holder(ToHolder::Prove(_))
        | ToCloud::Shuffler(ToShuffler::Prove(_) | ToShuffler::ProveRead(_)) => (SMALL, JOB),
        ToCloud::Session(_) => (SMALL, Reached::BYTES),
    }
}

fn of_cloud(message: &FromCloud) -> (usize, usize) {
    match message {
        FromCloud::Holder(FromHolder::Records(read)) => (RECORDS, 8 + 16 * read.records.len()),
        FromCloud::Holder(FromHolder::JobRecords(job)) => (RECORDS, JOB + 16 * job.records.len()),
        FromCloud::Holder(FromHolder::Fetched(job)) => (REFRESH, JOB + job.cells.bytes().len()),
        FromCloud::Holder(FromHolder::LevelDigest(_)) => (SMALL, JOB + 32),
        FromCloud::Holder(FromHolder::Stored(_)) => (SMALL, JOB),
        FromCloud::Shuffler(FromShuffler::Answer(read)) => {
            (READ, 8 + 32 + read.cells.bytes().len())
        }
        FromCloud::Shuffler(FromShuffler::MovedDigest(_)) => (SMALL, JOB + 32),
        FromCloud::Shuffler(FromShuffler::Lost(_)) => (SMALL, JOB),
        FromCloud::Holder(FromHolder::Proof(proof))
        | FromCloud::Shuffler(FromShuffler::Proof(proof)) => {
            (SMALL, 64 + proof.cells.bytes().len())
        }
    }
}

#[cfg(test)]
mod tests {
    use fogbank_mix::message::{Answer, Look, Place, Upload, Want};
    use fogbank_mix::{Cells, Generation, Seed};
    use fogbank_oram::ImmediateShape;
    use fogbank_oram::multicloud::MulticloudSettings;

    use super::*;

    #[test]
    fn lengths_are_those_of_the_messages() {
        let shape = ImmediateShape { capacity: 64, value_bytes: 32 };
        let shape = MulticloudSettings::new(shape, 1).unwrap().public().unwrap();
        let (partition, generation, cells) = (0, Generation::new(2, 0), Cells::zeros(48, 3));
        let place = Place { level: 1, generation, place: 1 };
        let (pads, places) = (Seed::new([1; 32]), vec![place.clone(), place]);
        for message in [
            ToCloud::Holder(Look { read: 1, partition, pads, places }.into()),
            ToCloud::Shuffler(Want { read: 1, partition, cells: 2, index: 1 }.into()),
            ToCloud::Shuffler(Upload { partition, generation, cells: cells.clone() }.into()),
            ToCloud::Session(Reached::default().into()),
        ] {
            assert_eq!(bytes_of_asked(&shape, &message), message.encode().len(), "{message:?}");
        }
        let answer = FromCloud::Shuffler(Answer { read: 1, digest: [0; 32], cells }.into());
        assert_eq!(bytes_of_told(&answer), answer.encode().len());
    }
}
