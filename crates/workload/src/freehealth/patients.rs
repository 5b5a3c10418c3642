//! Who the patients are, and how they are found.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;
use rand::RngExt;

use super::lists::{self, Listing};
use super::numbers::Hospital;
use super::plan::Plan;
use super::reads::{get, row, rows};
use super::rows::{Kind, NAME, NOTE, Patient, Row, SHORT, text};
use super::transaction::Body;
use crate::chance;
use crate::database::{Effect, Result, Statements};

/// A new patient, with a name and a birth date that others have, too.
pub(super) struct CreatePatient {
    hospital: Hospital,
    patient: Patient,
}

#[async_trait]
impl Body for CreatePatient {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let user = plan.user(stream);
        let patient = Patient {
            name: some_name(plan, stream),
            birth: some_birth(plan, stream),
            user,
            street: text(NAME, stream),
            town: text(SHORT, stream),
            note: text(NOTE, stream),
        };
        Self { hospital: plan.hospital_of(user), patient }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let keys = [
            self.hospital.counter(Kind::Patient),
            Listing::named(&self.patient.name),
            Listing::PatientsByBirth.of(self.patient.birth),
            Listing::PatientsByUser.of(self.patient.user),
        ];
        let [counter, by_name, by_birth, by_user] = get(on, &keys).await?;
        let (id, counter) = self.hospital.take(counter)?;
        on.put(&keys[0], counter).await?;
        on.put(&Patient::key(id), self.patient.record()).await?;
        on.put(&keys[1], lists::with(by_name, id)?).await?;
        on.put(&keys[2], lists::with(by_birth, id)?).await?;
        on.put(&keys[3], lists::with(by_user, id)?).await?;
        Ok(Effect::DONE)
    }
}

/// One patient.
pub(super) struct GetData(u32);

#[async_trait]
impl Body for GetData {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.one(Kind::Patient, stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        row::<Patient>(on, self.0).await?;
        Ok(Effect::DONE)
    }
}

/// The names of several patients.
pub(super) struct GetNames(Vec<u32>);

#[async_trait]
impl Body for GetNames {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.some(Kind::Patient, 5, 15, stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        rows::<Patient>(on, &self.0).await?;
        Ok(Effect::DONE)
    }
}

/// Patients that are in all of some lists. What is looked for is what was true at first of one of
/// them, so that lists have something in common.
pub(super) struct LookUp(Vec<Key>);

#[async_trait]
impl Body for LookUp {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let patient = plan.one(Kind::Patient, stream);
        let by_name = Listing::named(&plan.name_of(patient));
        let by_user = Listing::PatientsByUser.of(plan.user_of(patient));
        let mut keys = match stream.random_range(0..3) {
            0 => vec![by_name],
            1 => vec![by_user],
            _ => vec![by_name, by_user],
        };
        if stream.random_bool(0.5) {
            keys.push(Listing::PatientsByBirth.of(plan.birth_of(patient)));
        }
        Self(keys)
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let mut common: Option<Vec<u32>> = None;
        for list in on.get_many(&self.0).await? {
            let mut ids = lists::ids(list)?;
            ids.retain(|id| common.as_ref().is_none_or(|common| common.contains(id)));
            common = Some(ids);
        }
        rows::<Patient>(on, &common.unwrap_or_default()).await?;
        Ok(Effect::DONE)
    }
}

/// Replaces one field of a patient. With a name or a birth date it moves to another list.
pub(super) struct UpdateData {
    id: u32,
    change: Change,
}

enum Change {
    Name(Bytes),
    Birth(u32),
    Street(Bytes),
    Town(Bytes),
    Note(Bytes),
}

impl Change {
    /// The list that a patient is in as to the field that changes, if there are lists by it.
    fn list_of(&self, patient: &Patient) -> Option<Key> {
        match self {
            Self::Name(_) => Some(Listing::named(&patient.name)),
            Self::Birth(_) => Some(Listing::PatientsByBirth.of(patient.birth)),
            _ => None,
        }
    }

    /// The list that it is in afterwards.
    fn list(&self) -> Option<Key> {
        match self {
            Self::Name(name) => Some(Listing::named(name)),
            Self::Birth(birth) => Some(Listing::PatientsByBirth.of(*birth)),
            _ => None,
        }
    }

    fn of(&self, mut patient: Patient) -> Patient {
        match self {
            Self::Name(name) => patient.name = name.clone(),
            Self::Birth(birth) => patient.birth = *birth,
            Self::Street(street) => patient.street = street.clone(),
            Self::Town(town) => patient.town = town.clone(),
            Self::Note(note) => patient.note = note.clone(),
        }
        patient
    }
}

#[async_trait]
impl Body for UpdateData {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let change = match stream.random_range(0..5) {
            0 => Change::Name(some_name(plan, stream)),
            1 => Change::Birth(some_birth(plan, stream)),
            2 => Change::Street(text(NAME, stream)),
            3 => Change::Town(text(SHORT, stream)),
            _ => Change::Note(text(NOTE, stream)),
        };
        Self { id: plan.one(Kind::Patient, stream), change }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let to = self.change.list();
        on.prefetch(to.as_slice()).await?;
        let patient = row::<Patient>(on, self.id).await?;
        let moved = self.change.list_of(&patient).zip(to).filter(|(from, to)| from != to);
        let record = self.change.of(patient).record();
        let Some((from, to)) = moved else {
            on.put(&Patient::key(self.id), record).await?;
            return Ok(Effect::DONE);
        };
        let keys = [from, to];
        let [from, to] = get(on, &keys).await?;
        on.put(&Patient::key(self.id), record).await?;
        on.put(&keys[0], lists::without(from, self.id)?).await?;
        on.put(&keys[1], lists::with(to, self.id)?).await?;
        Ok(Effect::DONE)
    }
}

fn some_name(plan: &Plan, stream: &mut Stream) -> Bytes {
    plan.name(chance::between(0, plan.names() - 1, stream))
}

fn some_birth(plan: &Plan, stream: &mut Stream) -> u32 {
    chance::between(0, plan.births() - 1, stream)
}
