//! How many of everything there are at first, and what belongs to what: all of it by arithmetic, so
//! that any initial record can be made without the others.
//!
//! 1. Initial objects are numbered from 0 without gaps; those of one patient follow each other.
//! 2. The object `id` is of hospital `id % hospitals` and is its number `id / hospitals`. What is
//!    created later goes on from there, at the hospital of the user who creates it.
//! 3. Patients share names and birth dates with a few others: names in turns, birth dates in rows.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use fogbank_env::Stream;
use rand::RngExt;

use super::FreeHealth;
use super::lists::{LIST_MAX, List, Listing};
use super::numbers::Hospital;
use super::rows::Kind;

/// Initial patients with the same name or birth date.
const NAMESAKES: u32 = 4;
/// Birth dates there are, in days: a century.
const BIRTHS_MAX: u32 = 36_525;
/// Most hospitals: a check reads their counters together.
const HOSPITALS_MAX: u32 = 10_000;
/// Most initial objects of one kind a patient.
const PER_PATIENT_MAX: u32 = 1_000;

/// Sizes that make sense: nothing is empty, every id fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub hospitals: u32,
    pub users: u32,
    pub drugs: u32,
    pub patients: u32,
    /// Of each patient.
    pub episodes: u32,
    /// Of each patient.
    pub prescriptions: u32,
    /// Of each patient.
    pub history: u32,
    /// A drug interacts at first with those up to so many before and after it.
    reach: u32,
}

impl Plan {
    pub fn of(sizes: &FreeHealth) -> Self {
        let each = |count: u32| count.clamp(1, PER_PATIENT_MAX);
        let (episodes, prescriptions) =
            (each(sizes.episodes_per_patient), each(sizes.prescriptions_per_patient));
        let history = each(sizes.history_per_patient);
        // Three quarters of all ids are left for what is created.
        let patients_max = u32::MAX / 4 / (episodes + prescriptions).max(history);
        let drugs = sizes.drugs.clamp(2, u32::MAX / 4);
        let reach_max = (LIST_MAX as u32 / 2).min(drugs / 2);
        Self {
            hospitals: sizes.hospitals.clamp(1, HOSPITALS_MAX),
            users: sizes.users.max(1),
            drugs,
            patients: sizes.patients.clamp(1, patients_max),
            episodes,
            prescriptions,
            history,
            reach: sizes.interactions_per_drug.div_ceil(2).clamp(1, reach_max),
        }
    }

    /// Initial objects of a kind.
    pub fn count(&self, kind: Kind) -> u32 {
        self.patients * self.per_patient(kind)
    }

    fn per_patient(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Patient => 1,
            Kind::Episode => self.episodes,
            // One for each episode, then one for each prescription.
            Kind::Content => self.episodes + self.prescriptions,
            Kind::Prescription => self.prescriptions,
            Kind::History => self.history,
        }
    }

    /// Initial objects of a kind that are a patient's.
    pub fn of_patient(&self, kind: Kind, patient: u32) -> Range<u32> {
        let each = self.per_patient(kind);
        patient * each..(patient + 1) * each
    }

    /// Whose an initial object is.
    pub fn patient_of(&self, kind: Kind, id: u32) -> u32 {
        id / self.per_patient(kind)
    }

    /// The user who has created an initial object.
    pub fn user_of(&self, id: u32) -> u32 {
        id % self.users
    }

    /// Different names of patients.
    pub fn names(&self) -> u32 {
        self.patients.div_ceil(NAMESAKES)
    }

    /// One of the names. Short, although the column may hold 64 bytes: it is part of a key.
    pub fn name(&self, number: u32) -> Bytes {
        format!("Patient{number:08}").into()
    }

    /// The name of an initial patient.
    pub fn name_of(&self, patient: u32) -> Bytes {
        self.name(patient % self.names())
    }

    /// Different birth dates: they are days from 0.
    pub fn births(&self) -> u32 {
        self.names().min(BIRTHS_MAX)
    }

    /// The birth date of an initial patient.
    pub fn birth_of(&self, patient: u32) -> u32 {
        patient / self.born_together()
    }

    fn born_together(&self) -> u32 {
        self.patients.div_ceil(self.births())
    }

    /// An initial list; of those by name, the one of that number. Of many ids the newest are in it.
    pub fn list(&self, listing: Listing, of: u32) -> List {
        let turns = |kind| List::newest((of..self.count(kind)).step_by(self.users as usize));
        let whole = |kind| List::newest(self.of_patient(kind, of));
        match listing {
            Listing::PatientsByName => {
                List::newest((of..self.patients).step_by(self.names() as usize))
            }
            Listing::PatientsByBirth => {
                let from = (of * self.born_together()).min(self.patients);
                List::newest(from..(from + self.born_together()).min(self.patients))
            }
            Listing::PatientsByUser => turns(Kind::Patient),
            Listing::EpisodesByPatient => whole(Kind::Episode),
            Listing::EpisodesByUser => turns(Kind::Episode),
            Listing::ContentsByEpisode => self.contents_of(of),
            Listing::PrescriptionsByPatient => whole(Kind::Prescription),
            Listing::HistoryByPatient => whole(Kind::History),
            Listing::HistoryByUser => turns(Kind::History),
        }
    }

    /// A patient's prescriptions are spread over the patient's episodes in turns.
    fn contents_of(&self, episode: u32) -> List {
        let (patient, turn) = (episode / self.episodes, episode % self.episodes);
        let Range { start, end } = self.of_patient(Kind::Content, patient);
        let prescribed = (start + self.episodes + turn..end).step_by(self.episodes as usize);
        let mut ids = vec![start + turn];
        ids.extend(prescribed);
        List::newest(ids.into_iter())
    }

    /// The episode of an initial content, and its prescription if it is of one.
    pub fn content(&self, id: u32) -> (u32, Option<u32>) {
        let patient = self.patient_of(Kind::Content, id);
        let turn = id - self.of_patient(Kind::Content, patient).start;
        let prescription = turn.checked_sub(self.episodes);
        let episode = self.of_patient(Kind::Episode, patient).start + turn % self.episodes;
        (episode, prescription.map(|turn| patient * self.prescriptions + turn))
    }

    /// The drugs that one interacts with at first.
    pub fn interactions(&self, drug: u32) -> Vec<u32> {
        let both = |by| [(drug + by) % self.drugs, (drug + self.drugs - by) % self.drugs];
        (1..=self.reach).flat_map(both).collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// Two different drugs, about half of whose pairs interact at first: drawn from all pairs, one
    /// to be removed would hardly ever be there.
    pub fn pair(&self, stream: &mut Stream) -> (u32, u32) {
        let first = self.drug(stream);
        let by = stream.random_range(1..=(2 * self.reach).min(self.drugs - 1));
        (first, (first + by) % self.drugs)
    }

    pub fn drug(&self, stream: &mut Stream) -> u32 {
        stream.random_range(0..self.drugs)
    }

    pub fn user(&self, stream: &mut Stream) -> u32 {
        stream.random_range(0..self.users)
    }

    /// An initial object of a kind.
    pub fn one(&self, kind: Kind, stream: &mut Stream) -> u32 {
        stream.random_range(0..self.count(kind))
    }

    /// Initial objects of a kind, all different, from `from` to `to` of them if there are so many.
    pub fn some(&self, kind: Kind, from: u32, to: u32, stream: &mut Stream) -> Vec<u32> {
        let wanted = stream.random_range(from..=to).min(self.count(kind)) as usize;
        let mut ids = Vec::with_capacity(wanted);
        while ids.len() < wanted {
            let id = self.one(kind, stream);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Where a user works.
    pub fn hospital_of(&self, user: u32) -> Hospital {
        Hospital { number: user % self.hospitals, of: self.hospitals }
    }
}
