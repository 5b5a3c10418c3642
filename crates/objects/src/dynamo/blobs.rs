//! Blobs as items: one each, put conditionally if asked; a long one has parts.
//!
//! An item holds its content `d`, none if it is only the head of a long one, and its tag `t`: a
//! fingerprint of the content, and the number of its parts.
//!
//! 1. A long blob's parts are put first, under the tag that their head will have: nobody sees them.
//! 2. Its head is put, under the condition if there is one. That is the put: it is there whole, or
//!    not.
//! 3. The parts of what it replaced are deleted, or its own if the condition did not hold.
//!
//! A reader who finds the head but not all parts met a put in between and begins again. A blob is
//! deleted the other way round, parts first, so that a stop in between leaves a name that is
//! listed. A stop before 2 leaves parts that nobody sees until the table is deleted: two megabytes
//! of a record, at worst.
//!
//! If its condition does not hold after a try of which nobody knows what became, the blob is read,
//! as in object stores. The head of a long one is put once only, and again if it was refused for
//! certain: a later try could come when another has deleted the blob, and make a head without
//! parts. What became of it, whoever put it reads back.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::{Bytes, BytesMut};
use fogbank_store::shape::{BLOBS_LISTED_MAX, check_blob_name};
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Result, StoreError};
use futures_util::{StreamExt, TryStreamExt, stream};
use xxhash_rust::xxh3::xxh3_128;

use crate::dynamo::chunks::{Chunks, GETS_AT_ONCE, batches};
use crate::dynamo::table::{
    Attributes, Change, Condition, ItemsMax, Put, data, data_of, text, text_of,
};
use crate::names::SHARDS;
use crate::retry::Twice;

/// The blobs of a store.
pub(crate) struct Blobs<'a>(pub Chunks<'a>);

/// What the item of a blob says.
struct Head {
    tag: String,
    parts: usize,
    data: Bytes,
}

impl Blobs<'_> {
    pub(crate) async fn get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let Some(item) = self.0.table.get(&self.0.keys.blob(name)).await? else {
                return Ok(None);
            };
            let head = Head::of(item)?;
            if let Some(whole) = self.whole(name, &head).await? {
                return Ok(Some((whole, BlobTag(head.tag.into()))));
            }
            if last.as_ref() == Some(&head.tag) {
                break;
            }
            last = Some(head.tag);
        }
        Err(StoreError::Misbehaved("a blob without all of its parts".into()))
    }

    /// The content behind a head; `None` if not all of its parts are there.
    async fn whole(&self, name: &str, head: &Head) -> Result<Option<Bytes>> {
        if head.parts == 0 {
            return Ok(Some(head.data.clone()));
        }
        let keys = (0..head.parts).map(|part| self.0.keys.part(name, &head.tag, part)).collect();
        let mut whole = BytesMut::new();
        for batch in batches(keys, GETS_AT_ONCE, |_| PART_BYTES) {
            let mut found = self.0.table.get_many(batch.clone()).await?;
            for key in &batch {
                match found.remove(key) {
                    Some(part) => whole.extend_from_slice(&part),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(whole.freeze()))
    }

    pub(crate) async fn put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        check_blob_name(name)?;
        let parts = if data.len() <= PART_BYTES { 0 } else { data.len().div_ceil(PART_BYTES) };
        if parts > PARTS_MAX {
            return Err(StoreError::Caller(format!("a blob of {} bytes is too long", data.len())));
        }
        let tag = format!("{:032x}-{parts}", xxh3_128(&data));
        let pieces = (0..parts).map(|part| {
            let piece = data.slice(part * PART_BYTES..data.len().min((part + 1) * PART_BYTES));
            Change::Put(self.0.keys.part(name, &tag, part), piece)
        });
        self.0.change(pieces.collect()).await?;
        let head = head_of(&tag, if parts == 0 { &data } else { &[] });
        let when = match &condition {
            PutCondition::Always => Condition::Always,
            PutCondition::IfAbsent => Condition::IfAbsent,
            PutCondition::IfUnchanged(seen) => Condition::IfTag(&seen.0),
        };
        let is_alone = parts == 0 || condition == PutCondition::Always;
        let twice = if is_alone { Twice::Harmless } else { Twice::Harmful };
        let mut put = self.0.table.put(&self.0.keys.blob(name), head, when, twice).await?;
        if matches!(put, Put::Doubtful) {
            put = match condition.settled(self.get(name).await?, &data) {
                PutOutcome::Done(_) => Put::Done(None),
                PutOutcome::ConditionFailed => Put::ConditionFailed,
            };
        }
        let (outcome, unused) = match (put, condition) {
            (Put::Done(_), PutCondition::IfUnchanged(seen)) => (true, Some(seen.0.into())),
            (Put::Done(old), _) => (true, old.and_then(|old| text_of(&old, "t"))),
            _ if parts == 0 => (false, None),
            _ => {
                let there = self.0.table.get(&self.0.keys.blob(name)).await?;
                let there = there.and_then(|item| text_of(&item, "t"));
                (false, (there.as_ref() != Some(&tag)).then(|| tag.clone()))
            }
        };
        if let Some(unused) = unused.filter(|unused: &String| !outcome || *unused != tag) {
            self.0.change(self.parts_gone(name, &unused)).await?;
        }
        Ok(if outcome {
            PutOutcome::Done(BlobTag(tag.into()))
        } else {
            PutOutcome::ConditionFailed
        })
    }

    /// The deletion of the parts behind a head of this `tag`.
    fn parts_gone(&self, name: &str, tag: &str) -> Vec<Change> {
        let keys = (0..parts_of(tag)).map(|part| self.0.keys.part(name, tag, part));
        keys.map(Change::Delete).collect()
    }

    pub(crate) async fn delete(&self, names: &[&str]) -> Result<()> {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let heads: Vec<_> = names.iter().map(|name| (*name, self.0.keys.blob(name))).collect();
        let mut parts = Vec::new();
        for batch in batches(heads, GETS_AT_ONCE, |_| PART_BYTES) {
            let keys = batch.iter().map(|(_, key)| key.clone()).collect();
            let tags = self.0.table.get_tags(keys).await?;
            for (name, key) in &batch {
                if let Some(tag) = tags.get(key) {
                    parts.extend(self.parts_gone(name, tag));
                }
            }
        }
        self.0.change(parts).await?;
        let heads = names.iter().map(|name| Change::Delete(self.0.keys.blob(name)));
        self.0.change(heads.collect()).await
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let most = ItemsMax::LeaveOut(BLOBS_LISTED_MAX / u64::from(SHARDS));
        let shards = (0..SHARDS).map(|shard| async move {
            let partition = self.0.keys.blob_shard(shard);
            self.0.table.query(&partition, prefix, None, most).await
        });
        let listed: Vec<_> = stream::iter(shards).buffered(SHARDS as usize).try_collect().await?;
        let mut names: Vec<_> = listed.into_iter().flatten().map(|(name, _)| name).collect();
        names.sort_unstable();
        Ok(names)
    }
}

impl Head {
    fn of(item: Attributes) -> Result<Self> {
        let tag = text_of(&item, "t");
        let tag = tag.filter(|tag| tag.len() <= TAG_BYTES_MAX);
        let tag = tag.ok_or_else(|| StoreError::Misbehaved("a blob without its tag".into()))?;
        Ok(Self { parts: parts_of(&tag), tag, data: data_of(item)? })
    }
}

/// The attributes of a head.
pub(crate) fn head_of(tag: &str, content: &[u8]) -> Attributes {
    let content: AttributeValue = data(content);
    HashMap::from([("t".to_owned(), text(tag)), ("d".to_owned(), content)])
}

/// How many parts stand behind a head of this tag; none that we put if it is longer than ours are.
fn parts_of(tag: &str) -> usize {
    if tag.len() > TAG_BYTES_MAX {
        return 0;
    }
    let parts = tag.split_once('-').and_then(|(_, parts)| parts.parse().ok());
    parts.filter(|&parts| parts <= PARTS_MAX).unwrap_or(0)
}

/// Of an item's 400 KiB, less its keys.
pub(crate) const PART_BYTES: usize = 380 << 10;
/// 64 MiB: what is held in memory.
const PARTS_MAX: usize = (64 << 20) / PART_BYTES;
/// A fingerprint in hexadecimal, and a number below [`PARTS_MAX`]. A name of every part has it in
/// it.
const TAG_BYTES_MAX: usize = 32 + 1 + 3;
/// Readings of a blob that is replaced all the time.
const TRIES_MAX: usize = 8;
