//! Stays and visits of patients.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;
use rand::RngExt;

use super::lists::{self, Listing};
use super::numbers::Hospital;
use super::plan::Plan;
use super::reads::{get, row, rows};
use super::rows::{Episode, FREE, Kind, Row, SHORT, date, text};
use super::transaction::Body;
use crate::database::{Effect, Result, Statements};

/// A patient comes.
pub(super) struct CreateEncounter {
    hospital: Hospital,
    episode: Episode,
}

#[async_trait]
impl Body for CreateEncounter {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let user = plan.user(stream);
        let episode = Episode {
            patient: plan.one(Kind::Patient, stream),
            user,
            valid: true,
            date: date(stream),
            title: text(SHORT, stream),
            text: text(FREE, stream),
        };
        Self { hospital: plan.hospital_of(user), episode }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let keys = [
            self.hospital.counter(Kind::Episode),
            Listing::EpisodesByPatient.of(self.episode.patient),
            Listing::EpisodesByUser.of(self.episode.user),
        ];
        let [counter, by_patient, by_user] = get(on, &keys).await?;
        let (id, counter) = self.hospital.take(counter)?;
        on.put(&keys[0], counter).await?;
        on.put(&Episode::key(id), self.episode.record()).await?;
        on.put(&keys[1], lists::with(by_patient, id)?).await?;
        on.put(&keys[2], lists::with(by_user, id)?).await?;
        Ok(Effect::DONE)
    }
}

/// Episodes of a patient or a user; half of the time those alone that are valid.
pub(super) struct GetEpisodes {
    list: Key,
    valid_only: bool,
}

#[async_trait]
impl Body for GetEpisodes {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let list = if stream.random_bool(0.5) {
            Listing::EpisodesByPatient.of(plan.one(Kind::Patient, stream))
        } else {
            Listing::EpisodesByUser.of(plan.user(stream))
        };
        Self { list, valid_only: stream.random_bool(0.5) }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let ids = lists::ids(on.get(&self.list).await?)?;
        let mut episodes = rows::<Episode>(on, &ids).await?;
        episodes.retain(|episode| episode.valid || !self.valid_only);
        Ok(Effect::DONE)
    }
}

/// An episode is no longer valid, or still not.
pub(super) struct Invalidate(u32);

#[async_trait]
impl Body for Invalidate {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.one(Kind::Episode, stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let episode = Episode { valid: false, ..row(on, self.0).await? };
        on.put(&Episode::key(self.0), episode.record()).await?;
        Ok(Effect::DONE)
    }
}

/// Replaces fields of a few episodes.
pub(super) struct UpdateEpisodes {
    ids: Vec<u32>,
    changes: Vec<Change>,
}

/// What is replaced in one episode: each field or not, with equal chances.
struct Change {
    date: Option<u32>,
    title: Option<Bytes>,
    text: Option<Bytes>,
}

impl Change {
    fn draw(stream: &mut Stream) -> Self {
        Self {
            date: stream.random_bool(0.5).then(|| date(stream)),
            title: stream.random_bool(0.5).then(|| text(SHORT, stream)),
            text: stream.random_bool(0.5).then(|| text(FREE, stream)),
        }
    }

    fn is_none(&self) -> bool {
        self.date.is_none() && self.title.is_none() && self.text.is_none()
    }

    fn of(&self, episode: Episode) -> Episode {
        Episode {
            date: self.date.unwrap_or(episode.date),
            title: self.title.clone().unwrap_or(episode.title),
            text: self.text.clone().unwrap_or(episode.text),
            ..episode
        }
    }
}

#[async_trait]
impl Body for UpdateEpisodes {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let ids = plan.some(Kind::Episode, 1, 5, stream);
        let changes = ids.iter().map(|_| Change::draw(stream)).collect();
        Self { ids, changes }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let episodes = rows::<Episode>(on, &self.ids).await?;
        for ((id, change), episode) in self.ids.iter().zip(&self.changes).zip(episodes) {
            if !change.is_none() {
                on.put(&Episode::key(*id), change.of(episode).record()).await?;
            }
        }
        Ok(Effect::DONE)
    }
}
