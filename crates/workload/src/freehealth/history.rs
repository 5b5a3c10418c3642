//! What patients have had in the past.

use async_trait::async_trait;
use fogbank_env::Stream;

use super::lists::{self, Listing};
use super::numbers::Hospital;
use super::plan::Plan;
use super::reads::{get, rows};
use super::rows::{FREE, History, Kind, Row, SHORT, date, text};
use super::transaction::Body;
use crate::database::{Effect, Result, Statements};

/// All that a patient has had.
pub(super) struct GetHistory(u32);

#[async_trait]
impl Body for GetHistory {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.one(Kind::Patient, stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let list = on.get(&Listing::HistoryByPatient.of(self.0)).await?;
        rows::<History>(on, &lists::ids(list)?).await?;
        Ok(Effect::DONE)
    }
}

/// Something more that a patient has had.
pub(super) struct SaveHistory {
    hospital: Hospital,
    entry: History,
}

#[async_trait]
impl Body for SaveHistory {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let user = plan.user(stream);
        let entry = History {
            patient: plan.one(Kind::Patient, stream),
            user,
            date: date(stream),
            title: text(SHORT, stream),
            text: text(FREE, stream),
        };
        Self { hospital: plan.hospital_of(user), entry }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let keys = [
            self.hospital.counter(Kind::History),
            Listing::HistoryByPatient.of(self.entry.patient),
            Listing::HistoryByUser.of(self.entry.user),
        ];
        let [counter, by_patient, by_user] = get(on, &keys).await?;
        let (id, counter) = self.hospital.take(counter)?;
        on.put(&keys[0], counter).await?;
        on.put(&History::key(id), self.entry.record()).await?;
        on.put(&keys[1], lists::with(by_patient, id)?).await?;
        on.put(&keys[2], lists::with(by_user, id)?).await?;
        Ok(Effect::DONE)
    }
}
