//! Drugs, and which of them must not be taken together.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;

use super::lists::LIST_MAX;
use super::plan::Plan;
use super::reads::{get, rows};
use super::rows::Drug;
use super::transaction::Body;
use crate::database::{Effect, Result, Statements};
use crate::record::{Fields, Reader};

/// The key of the list of drugs that one interacts with.
pub(super) fn interactions(drug: u32) -> Key {
    Key::new(b"di", &drug.to_be_bytes())
}

/// The drugs in such a list.
pub(super) fn read(list: Option<Bytes>) -> Result<Vec<u32>> {
    Reader::must(list, "list of interactions")?.list()
}

/// A list of these drugs.
pub(super) fn record(drugs: &[u32]) -> Bytes {
    Fields::new().list(drugs).done()
}

/// Two drugs turn out to interact: each enters the list of the other. Declines if they are known
/// to, or if one has as many as a list can hold; none may fall out of these lists.
pub(super) struct AddInteraction(u32, u32);

#[async_trait]
impl Body for AddInteraction {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let (first, second) = plan.pair(stream);
        Self(first, second)
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let Self(first, second) = *self;
        let keys = [interactions(first), interactions(second)];
        let [of_first, of_second] = get(on, &keys).await?;
        let (mut of_first, mut of_second) = (read(of_first)?, read(of_second)?);
        let full = of_first.len().max(of_second.len()) >= LIST_MAX;
        if full || of_first.contains(&second) {
            return Ok(Effect::DECLINED);
        }
        of_first.push(second);
        of_second.push(first);
        on.put(&keys[0], record(&of_first)).await?;
        on.put(&keys[1], record(&of_second)).await?;
        Ok(Effect::DONE)
    }
}

/// Two drugs turn out not to interact. Declines if nobody said so.
pub(super) struct RemoveInteraction(u32, u32);

#[async_trait]
impl Body for RemoveInteraction {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let (first, second) = plan.pair(stream);
        Self(first, second)
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let Self(first, second) = *self;
        let keys = [interactions(first), interactions(second)];
        let [of_first, of_second] = get(on, &keys).await?;
        let (mut of_first, mut of_second) = (read(of_first)?, read(of_second)?);
        if !of_first.contains(&second) {
            return Ok(Effect::DECLINED);
        }
        of_first.retain(|other| *other != second);
        of_second.retain(|other| *other != first);
        on.put(&keys[0], record(&of_first)).await?;
        on.put(&keys[1], record(&of_second)).await?;
        Ok(Effect::DONE)
    }
}

/// What a drug interacts with.
pub(super) struct GetInteractions(u32);

#[async_trait]
impl Body for GetInteractions {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.drug(stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let others = read(on.get(&interactions(self.0)).await?)?;
        rows::<Drug>(on, &others).await?;
        Ok(Effect::DONE)
    }
}
