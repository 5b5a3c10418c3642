//! What patients are prescribed.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;

use super::drugs::{self, interactions};
use super::lists::{self, Listing};
use super::numbers::Hospital;
use super::plan::Plan;
use super::reads::{get, other_number, parse, rows};
use super::rows::{CONTENT, Content, FREE, Kind, Matter, Prescription, Row, SHORT, text};
use super::transaction::Body;
use crate::chance;
use crate::database::{Effect, Result, Statements};

/// A patient's prescriptions.
pub(super) struct GetPrescriptions(u32);

#[async_trait]
impl Body for GetPrescriptions {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.one(Kind::Patient, stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let list = on.get(&Listing::PrescriptionsByPatient.of(self.0)).await?;
        rows::<Prescription>(on, &lists::ids(list)?).await?;
        Ok(Effect::DONE)
    }
}

/// Prescribes a drug, at an episode of the patient. Declines if the drug interacts with one that
/// the patient has.
pub(super) struct PrescribeDrug {
    hospital: Hospital,
    episode: u32,
    prescription: Prescription,
    content: Bytes,
}

#[async_trait]
impl Body for PrescribeDrug {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let patient = plan.one(Kind::Patient, stream);
        let episodes = plan.of_patient(Kind::Episode, patient);
        let user = plan.user(stream);
        Self {
            hospital: plan.hospital_of(user),
            episode: chance::between(episodes.start, episodes.end - 1, stream),
            prescription: Prescription {
                patient,
                drug: plan.drug(stream),
                user,
                dose: text(SHORT, stream),
                text: text(FREE, stream),
            },
            content: text(CONTENT, stream),
        }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let written = self.written();
        on.prefetch(&written).await?;
        let list = Listing::PrescriptionsByPatient.of(self.prescription.patient);
        let keys = [list, interactions(self.prescription.drug)];
        let [list, interactions] = get(on, &keys).await?;
        let (has, conflicts) = (lists::ids(list.clone())?, drugs::read(interactions)?);
        // The counters come with the last that decides: a round for them alone would keep them open
        // to others for longer.
        let mut wanted: Vec<Key> = has.iter().copied().map(Prescription::key).collect();
        wanted.extend(written.iter().cloned());
        let mut found = on.get_many(&wanted).await?;
        let hot = found.split_off(has.len().min(found.len()));
        for (id, record) in has.into_iter().zip(found) {
            if conflicts.contains(&parse::<Prescription>(id, record)?.drug) {
                return Ok(Effect::DECLINED);
            }
        }
        let hot = hot.try_into().map_err(|_| other_number())?;
        self.prescribe(on, &keys[0], list, written, hot).await
    }
}

impl PrescribeDrug {
    /// The counters of prescriptions and contents, and the episode's list.
    fn written(&self) -> [Key; 3] {
        let counter = |kind| self.hospital.counter(kind);
        let contents = Listing::ContentsByEpisode.of(self.episode);
        [counter(Kind::Prescription), counter(Kind::Content), contents]
    }

    async fn prescribe(
        &self,
        on: &dyn Statements,
        key: &Key,
        list: Option<Bytes>,
        keys: [Key; 3],
        found: [Option<Bytes>; 3],
    ) -> Result<Effect> {
        let [prescriptions, contents, of_episode] = found;
        let (id, prescriptions) = self.hospital.take(prescriptions)?;
        let (content_id, contents) = self.hospital.take(contents)?;
        on.put(&keys[0], prescriptions).await?;
        on.put(&keys[1], contents).await?;
        let matter = Matter::Prescription(id);
        let content = Content { episode: self.episode, matter, text: self.content.clone() };
        on.put(&Prescription::key(id), self.prescription.record()).await?;
        on.put(&Content::key(content_id), content.record()).await?;
        on.put(key, lists::with(list, id)?).await?;
        on.put(&keys[2], lists::with(of_episode, content_id)?).await?;
        Ok(Effect::DONE)
    }
}
