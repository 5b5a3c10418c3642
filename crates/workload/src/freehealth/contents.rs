//! What episodes have come to.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use rand::RngExt;

use super::lists::{self, Listing};
use super::numbers::Hospital;
use super::plan::Plan;
use super::reads::{get, row, rows};
use super::rows::{CONTENT, Content, Kind, Matter, Prescription, Row, text};
use super::transaction::Body;
use crate::database::{Effect, Result, Statements};

/// A consultation or a laboratory's findings; prescriptions have a transaction of their own.
pub(super) struct AddContent {
    hospital: Hospital,
    content: Content,
}

#[async_trait]
impl Body for AddContent {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let hospital = plan.hospital_of(plan.user(stream));
        let consulted = stream.random_bool(0.5);
        let matter = if consulted { Matter::Consultation } else { Matter::Laboratory };
        let episode = plan.one(Kind::Episode, stream);
        Self { hospital, content: Content { episode, matter, text: text(CONTENT, stream) } }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let list = Listing::ContentsByEpisode.of(self.content.episode);
        let keys = [self.hospital.counter(Kind::Content), list];
        let [counter, list] = get(on, &keys).await?;
        let (id, counter) = self.hospital.take(counter)?;
        on.put(&keys[0], counter).await?;
        on.put(&Content::key(id), self.content.record()).await?;
        on.put(&keys[1], lists::with(list, id)?).await?;
        Ok(Effect::DONE)
    }
}

/// All that an episode has come to, with the prescriptions.
pub(super) struct GetContent(u32);

#[async_trait]
impl Body for GetContent {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.one(Kind::Episode, stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let list = on.get(&Listing::ContentsByEpisode.of(self.0)).await?;
        let contents = rows::<Content>(on, &lists::ids(list)?).await?;
        let prescribed = contents.iter().filter_map(|content| match content.matter {
            Matter::Prescription(id) => Some(id),
            _ => None,
        });
        rows::<Prescription>(on, &prescribed.collect::<Vec<u32>>()).await?;
        Ok(Effect::DONE)
    }
}

/// Writes one content anew.
pub(super) struct UpdateContent {
    id: u32,
    text: Bytes,
}

#[async_trait]
impl Body for UpdateContent {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self { id: plan.one(Kind::Content, stream), text: text(CONTENT, stream) }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let content = row::<Content>(on, self.id).await?;
        let content = Content { text: self.text.clone(), ..content };
        on.put(&Content::key(self.id), content.record()).await?;
        Ok(Effect::DONE)
    }
}
