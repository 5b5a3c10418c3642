//! One request at a time to a table, in this crate's terms: get, put, batches, queries.
//!
//! 1. A request waits for a place and keeps it over its tries (`retry`), as in object stores. A
//!    repeat is a clone of it: maps of the library's have an order of their own each time they are
//!    made.
//! 2. What a batch did not do, since the table was busy, is asked again, that and nothing else,
//!    after a wait of throttling. Which it is says the cloud, so it learns nothing.
//! 3. A reply may name items that were asked for, each once; anything else is a cloud that
//!    misbehaves.
//!
//! All reads are consistent: a cell is read soon after it was written, and never written again.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteRequest, KeysAndAttributes, PutRequest, ReturnValue, WriteRequest,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use bytes::Bytes;

use crate::dynamo::keys::Key;
use crate::dynamo::wire::Broken;
use crate::error::{Failure, NO_TABLE};
use crate::requests::RequestCount;
use crate::retry::{Attempt, Tries, Trouble, Twice};

/// The attributes of an item, as the library has them.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// A table of items.
pub(crate) struct Table {
    client: Client,
    name: String,
    tries: Tries,
    counts: [AtomicU64; 4],
}

/// What became of a put.
pub(crate) enum Put {
    /// Done; what was there before, if that was asked for.
    Done(Option<Attributes>),
    ConditionFailed,
    /// The condition did not hold at the last try; an earlier one may have been done.
    Doubtful,
}

/// Of how many items a list is, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ItemsMax {
    /// There are no more; more is a cloud that misbehaves.
    Refuse(u64),
    /// There may be more, which are left out.
    LeaveOut(u64),
}

/// When an item is put.
pub(crate) enum Condition<'a> {
    /// Whatever is there, which is returned.
    Always,
    IfAbsent,
    /// If it has this tag.
    IfTag(&'a str),
}

/// One change of a batch.
#[derive(Clone)]
pub(crate) enum Change {
    Put(Key, Bytes),
    Delete(Key),
}

impl Table {
    pub(crate) fn new(client: Client, name: String, tries: Tries) -> Self {
        Self { client, name, tries, counts: Default::default() }
    }

    /// Requests sent so far, tries counted singly.
    pub(crate) fn count(&self) -> RequestCount {
        let [gets, puts, lists, deletes] =
            [GETS, PUTS, LISTS, DELETES].map(|kind| self.counts[kind].load(Ordering::Relaxed));
        RequestCount { gets, puts, lists, deletes }
    }

    fn counted(&self, kind: usize) {
        self.counts[kind].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Attributes>, Failure> {
        let mut place = self.tries.place(Twice::Harmless).await;
        let request = self.client.get_item().table_name(&self.name).consistent_read(true);
        let request = request.set_key(Some(attributes_of(key)));
        loop {
            self.counted(GETS);
            match request.clone().send().await {
                Ok(reply) => {
                    place.answered();
                    return Ok(reply.item);
                }
                Err(error) => place.again(attempt(error), "GetItem").await?,
            }
        }
    }

    /// The data of those of `keys` that are there; all different, and as many as a batch may have.
    pub(crate) async fn get_many(&self, keys: Vec<Key>) -> Result<HashMap<Key, Bytes>, Failure> {
        self.get_of_many(keys, "p, s, d", data_of).await
    }

    /// Their tags.
    pub(crate) async fn get_tags(&self, keys: Vec<Key>) -> Result<HashMap<Key, String>, Failure> {
        self.get_of_many(keys, "p, s, t", |item| text_of(&item, "t").ok_or_else(unasked)).await
    }

    async fn get_of_many<T>(
        &self,
        keys: Vec<Key>,
        attributes: &str,
        take: fn(Attributes) -> Result<T, Failure>,
    ) -> Result<HashMap<Key, T>, Failure> {
        let mut found = HashMap::with_capacity(keys.len());
        let attributes_of = |key: Key| (attributes_of(&key), key);
        let mut wanted: Vec<_> = keys.into_iter().map(attributes_of).collect();
        let mut place = self.tries.place(Twice::Harmless).await;
        while !wanted.is_empty() {
            self.counted(GETS);
            let asked = KeysAndAttributes::builder()
                .consistent_read(true)
                .projection_expression(attributes)
                .set_keys(Some(wanted.iter().map(|(key, _)| key.clone()).collect()))
                .build()
                .map_err(|e| Failure::denied(e.to_string()))?;
            let request = self.client.batch_get_item().request_items(&self.name, asked);
            let reply = match request.send().await {
                Ok(reply) => reply,
                Err(error) => {
                    place.again(attempt(error), "BatchGetItem").await?;
                    continue;
                }
            };
            place.answered();
            let left = reply.unprocessed_keys.unwrap_or_default().remove(&self.name);
            let left: Option<HashSet<Key>> =
                left.iter().flat_map(|left| &left.keys).map(key_of).collect();
            let left = left.ok_or_else(unasked)?;
            let open: HashSet<&Key> = wanted.iter().map(|(_, key)| key).collect();
            for item in reply.responses.unwrap_or_default().remove(&self.name).unwrap_or_default() {
                let key = key_of(&item).filter(|key| open.contains(key)).ok_or_else(unasked)?;
                if found.insert(key, take(item)?).is_some() {
                    return Err(unasked());
                }
            }
            if left.iter().any(|key| !open.contains(key) || found.contains_key(key)) {
                return Err(unasked());
            }
            // What is left is sent as it was.
            wanted.retain(|(_, key)| left.contains(key));
            if !wanted.is_empty() {
                place.again(busy(), "BatchGetItem").await?;
            }
        }
        Ok(found)
    }

    pub(crate) async fn put(
        &self,
        key: &Key,
        attributes: Attributes,
        condition: Condition<'_>,
        twice: Twice,
    ) -> Result<Put, Failure> {
        let mut item = attributes;
        item.extend(attributes_of(key));
        let request = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let request = match condition {
            Condition::Always => request.return_values(ReturnValue::AllOld),
            Condition::IfAbsent => request.condition_expression("attribute_not_exists(p)"),
            Condition::IfTag(tag) => {
                request.condition_expression("t = :t").expression_attribute_values(":t", text(tag))
            }
        };
        let mut place = self.tries.place(twice).await;
        loop {
            self.counted(PUTS);
            match request.clone().send().await {
                Ok(reply) => {
                    place.answered();
                    return Ok(Put::Done(reply.attributes));
                }
                Err(error) if error.code() == Some("ConditionalCheckFailedException") => {
                    place.answered();
                    let is_doubtful = place.is_doubtful();
                    return Ok(if is_doubtful { Put::Doubtful } else { Put::ConditionFailed });
                }
                Err(error) => place.again(attempt(error), "PutItem").await?,
            }
        }
    }

    /// Makes all `changes`, of different items, as many as a batch may have.
    pub(crate) async fn change_many(&self, changes: Vec<Change>) -> Result<(), Failure> {
        let mut place = self.tries.place(Twice::Harmless).await;
        let deletes = matches!(changes.first(), Some(Change::Delete(_)));
        let mut wanted: Vec<_> = changes
            .iter()
            .map(write_request)
            .collect::<Option<_>>()
            .ok_or_else(|| Failure::denied("a change of a table that cannot be asked for"))?;
        while !wanted.is_empty() {
            self.counted(if deletes { DELETES } else { PUTS });
            let request = self.client.batch_write_item();
            match request.request_items(&self.name, wanted.clone()).send().await {
                Ok(reply) => {
                    place.answered();
                    let left = reply.unprocessed_items.unwrap_or_default().remove(&self.name);
                    let left = left.unwrap_or_default();
                    // What is said to be left is sent as it was, never as the reply has it.
                    let mut again = wanted.clone();
                    again.retain(|change| left.contains(change));
                    if again.len() != left.len() {
                        return Err(unasked());
                    }
                    wanted = again;
                    if !wanted.is_empty() {
                        place.again(busy(), "BatchWriteItem").await?;
                    }
                }
                Err(error) => place.again(attempt(error), "BatchWriteItem").await?,
            }
        }
        Ok(())
    }

    /// The items of a partition whose sort keys start with `prefix`, in their order: sort keys, and
    /// with `data_bytes` what they hold, which is so long.
    pub(crate) async fn query(
        &self,
        partition: &str,
        prefix: &str,
        data_bytes: Option<usize>,
        most: ItemsMax,
    ) -> Result<Vec<(String, Bytes)>, Failure> {
        let mut found: Vec<(String, Bytes)> = Vec::new();
        let (mut from, mut pages): (Option<Key>, u64) = (None, 0);
        let request = self
            .client
            .query()
            .table_name(&self.name)
            .consistent_read(true)
            .projection_expression(if data_bytes.is_some() { "s, d" } else { "s" })
            .expression_attribute_values(":p", text(partition));
        let mut request = match prefix {
            "" => request.key_condition_expression("p = :p"),
            prefix => request
                .key_condition_expression("p = :p AND begins_with(s, :s)")
                .expression_attribute_values(":s", text(prefix)),
        };
        let mut place = self.tries.place(Twice::Harmless).await;
        loop {
            self.counted(LISTS);
            let reply = match request.clone().send().await {
                Ok(reply) => reply,
                Err(error) => {
                    place.again(attempt(error), "Query").await?;
                    continue;
                }
            };
            place.answered();
            for item in reply.items.unwrap_or_default() {
                let sort = text_of(&item, "s").ok_or_else(unasked)?;
                let in_order = found.last().is_none_or(|(last, _)| *last < sort);
                let data = if data_bytes.is_some() { data_of(item)? } else { Bytes::new() };
                let fits =
                    sort.len() <= SORT_KEY_BYTES_MAX && data.len() == data_bytes.unwrap_or(0);
                let refused = matches!(most, ItemsMax::Refuse(most) if found.len() as u64 == most);
                if !in_order || !sort.starts_with(prefix) || !fits || refused {
                    return Err(unasked());
                }
                found.push((sort, data));
            }
            pages += 1;
            let last = reply.last_evaluated_key.filter(|key| !key.is_empty());
            let Some(last) = last else { return Ok(found) };
            let (ItemsMax::Refuse(items_max) | ItemsMax::LeaveOut(items_max)) = most;
            if matches!(most, ItemsMax::LeaveOut(_)) && found.len() as u64 >= items_max {
                return Ok(found);
            }
            // A page that does not come after the one before would never end.
            let sort = text_of(&last, "s").ok_or_else(unasked)?;
            let key = Key { partition: partition.into(), sort };
            let comes_on = from.is_none_or(|from| key.sort > from.sort);
            if !comes_on || key.sort.len() > SORT_KEY_BYTES_MAX || pages > items_max + EMPTY_PAGES {
                return Err(unasked());
            }
            request = request.set_exclusive_start_key(Some(attributes_of(&key)));
            from = Some(key);
        }
    }
}

/// The data of an item.
pub(crate) fn data_of(mut item: Attributes) -> Result<Bytes, Failure> {
    match item.remove("d") {
        Some(AttributeValue::B(data)) => Ok(data.into_inner().into()),
        _ => Err(Failure::misbehaved("an item without its data")),
    }
}

/// The text of an attribute.
pub(crate) fn text_of(item: &Attributes, name: &str) -> Option<String> {
    item.get(name)?.as_s().ok().cloned()
}

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn data(data: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(data))
}

fn attributes_of(key: &Key) -> Attributes {
    HashMap::from([("p".into(), text(&key.partition)), ("s".into(), text(&key.sort))])
}

fn key_of(item: &Attributes) -> Option<Key> {
    Some(Key { partition: text_of(item, "p")?, sort: text_of(item, "s")? })
}

fn write_request(change: &Change) -> Option<WriteRequest> {
    let request = WriteRequest::builder();
    Some(match change {
        Change::Put(key, bytes) => {
            let mut item = attributes_of(key);
            item.insert("d".into(), data(bytes));
            request.put_request(PutRequest::builder().set_item(Some(item)).build().ok()?).build()
        }
        Change::Delete(key) => {
            let key = DeleteRequest::builder().set_key(Some(attributes_of(key))).build().ok()?;
            request.delete_request(key).build()
        }
    })
}

fn unasked() -> Failure {
    Failure::misbehaved("a reply with items that were not asked for")
}

fn busy() -> Attempt {
    let words = "the table does not take what is asked for: it is throttled (its capacity, or its \
        account's)";
    Attempt::Failed(Trouble::Throttled, Failure::absent(words))
}

/// What an error of the library means.
fn attempt<E>(error: SdkError<E, HttpResponse>) -> Attempt
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let status = error.raw_response().map(|reply| reply.status().as_u16());
    let code: String = error.code().unwrap_or_default().chars().take(60).collect();
    if let Some(status) = status.filter(|status| (300..400).contains(status)) {
        return Attempt::Over(Failure::elsewhere(format!(
            "the table does not take the request ({status}): check region (AWS_REGION) and endpoint"
        )));
    }
    match &error {
        SdkError::ServiceError(_) => of_code(&code, status.unwrap_or_default()),
        SdkError::ResponseError(_) if status.is_some_and(|status| status < 500) => {
            Attempt::Over(Failure::misbehaved("a reply that is none of a table's"))
        }
        _ => {
            let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
            while let Some(found) = cause {
                if let Some(Broken { trouble, failure }) = found.downcast_ref() {
                    return match trouble {
                        Some(trouble) => Attempt::Failed(*trouble, failure.clone()),
                        None => Attempt::Over(failure.clone()),
                    };
                }
                if let Some(failure) = found.downcast_ref::<Failure>() {
                    return Attempt::Over(failure.clone()); // no credentials
                }
                cause = found.source();
            }
            let words = format!("no answer from the table ({code})");
            Attempt::Failed(Trouble::Unknown, Failure::absent(words))
        }
    }
}

fn of_code(code: &str, status: u16) -> Attempt {
    let denied = |words: &str| Attempt::Over(Failure::denied(format!("{words} ({code})")));
    match code {
        _ if THROTTLED.contains(&code) => busy(),
        _ if CONFLICTS.contains(&code) => {
            let words = format!("another request was under way ({code})");
            Attempt::Failed(Trouble::Refused, Failure::absent(words))
        }
        "ResourceNotFoundException" => Attempt::Over(Failure::gone(format!(
            "{NO_TABLE}; create it with a partition key p and a sort key s, both of type S, or \
             correct the store URL or AWS_REGION ({code})"
        ))),
        "ValidationException" => denied(
            "the table does not take the request: it needs a partition key p and a sort key s, \
             both of type S, and no others",
        ),
        _ if status >= 500 => {
            let words = format!("the table answered {status} {code}");
            Attempt::Failed(Trouble::Unknown, Failure::absent(words))
        }
        _ => denied(
            "the table refused the credentials: check the key in the environment, the machine's \
             clock, and that the key may get, put, delete and query items of that table",
        ),
    }
}

/// These say that nothing was done.
const THROTTLED: [&str; 5] = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "Throttling",
    "RequestLimitExceeded",
    "LimitExceededException",
];
const CONFLICTS: [&str; 2] = ["TransactionConflictException", "ReplicatedWriteConflictException"];
/// A table's own bound.
const SORT_KEY_BYTES_MAX: usize = 1024;
/// Pages that may bring no item.
const EMPTY_PAGES: u64 = 1000;
const GETS: usize = 0;
const PUTS: usize = 1;
const LISTS: usize = 2;
const DELETES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_done_for_certain_is_told_from_what_may_have_been() {
        let trouble = |code: &str, status| match of_code(code, status) {
            Attempt::Failed(trouble, _) => Some(trouble),
            Attempt::Over(_) => None,
        };
        assert_eq!(
            trouble("ProvisionedThroughputExceededException", 400),
            Some(Trouble::Throttled)
        );
        assert_eq!(trouble("ThrottlingException", 400), Some(Trouble::Throttled));
        assert_eq!(trouble("InternalServerError", 500), Some(Trouble::Unknown));
        assert_eq!(trouble("", 503), Some(Trouble::Unknown));
        assert_eq!(trouble("TransactionConflictException", 400), Some(Trouble::Refused));
        for over in ["ValidationException", "ResourceNotFoundException", "AccessDeniedException"] {
            assert_eq!(trouble(over, 400), None);
        }
    }
}
