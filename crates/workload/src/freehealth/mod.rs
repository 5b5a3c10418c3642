//! FreeHealth: the record-keeping of hospitals, after the electronic medical record of that name.
//!
//! 1. Users at hospitals keep patients' episodes, with what they have come to, prescriptions and
//!    past medical history. Drugs interact in pairs; what a patient has forbids some of the others.
//! 2. Objects have numbers that a counter of the hospital gives out, and are found by lists of ids.
//!    A list holds 100 ids; from a full one the oldest falls out, and the list says how many have.
//!    Nothing falls out of a drug's interactions: a full list of them takes no more.
//! 3. 21 transactions in the mix of [`Workload::kinds`]. All parameters are drawn among what there
//!    was at first: what is created makes lists longer and is read through them.
//! 4. Free texts, of up to 500 or 1,000 bytes in the original, are cut so that no record is larger
//!    than 500 bytes: a record then is one block, and what is measured is transactions and not the
//!    length of texts.
//! 5. A transaction asks for all that it can at once, and last for what it writes, counters first:
//!    one that it has read early and writes late is one that others have read meanwhile.
//!
//! Invariants, held after each run: counters have gone up as often as objects were created; exactly
//! the objects below the counters exist; interactions are mutual; objects are in their lists or
//! have fallen out, and lists hold nothing else.
//!
//! Contention sits on the counters, and on the lists by user.

mod agreement;
mod check;
mod contents;
mod drugs;
mod episodes;
mod history;
mod lists;
mod loading;
mod numbers;
mod patients;
mod plan;
mod prescriptions;
mod reads;
mod rows;
#[cfg(test)]
mod tests;
mod transaction;
mod users;

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::Stream;

use self::check::Check;
use self::plan::Plan;
use self::rows::Kind;
use crate::chance;
use crate::database::{Database, Procedure, Result};
use crate::workload::{Ledger, Records, Workload};

const KINDS: [(&str, u32); 21] = [
    ("add drug interaction", 1),
    ("remove drug interaction", 1),
    ("get drug interactions", 3),
    ("get prescriptions", 6),
    ("prescribe drug", 10),
    ("add episode content", 10),
    ("create encounter", 8),
    ("get episode content", 7),
    ("get episodes", 6),
    ("invalidate episode", 1),
    ("update episode content", 7),
    ("update episodes", 2),
    ("create patient", 1),
    ("get patient data", 8),
    ("get patient names", 5),
    ("look up patient", 6),
    ("update patient data", 3),
    ("get past medical history", 4),
    ("save past medical history", 2),
    ("check login", 6),
    ("get user", 3),
];

type Draw = fn(usize, &Plan, &mut Stream) -> Box<dyn Procedure>;

/// How each of [`KINDS`] is drawn.
const DRAWS: [Draw; KINDS.len()] = [
    transaction::draw::<drugs::AddInteraction>,
    transaction::draw::<drugs::RemoveInteraction>,
    transaction::draw::<drugs::GetInteractions>,
    transaction::draw::<prescriptions::GetPrescriptions>,
    transaction::draw::<prescriptions::PrescribeDrug>,
    transaction::draw::<contents::AddContent>,
    transaction::draw::<episodes::CreateEncounter>,
    transaction::draw::<contents::GetContent>,
    transaction::draw::<episodes::GetEpisodes>,
    transaction::draw::<episodes::Invalidate>,
    transaction::draw::<contents::UpdateContent>,
    transaction::draw::<episodes::UpdateEpisodes>,
    transaction::draw::<patients::CreatePatient>,
    transaction::draw::<patients::GetData>,
    transaction::draw::<patients::GetNames>,
    transaction::draw::<patients::LookUp>,
    transaction::draw::<patients::UpdateData>,
    transaction::draw::<history::GetHistory>,
    transaction::draw::<history::SaveHistory>,
    transaction::draw::<users::CheckLogin>,
    transaction::draw::<users::GetUser>,
];

/// Which of [`KINDS`] create objects of a kind.
fn creators(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::Patient => &[12],
        Kind::Episode => &[6],
        Kind::Content => &[4, 5],
        Kind::Prescription => &[4],
        Kind::History => &[18],
    }
}

/// FreeHealth. Sizes that make no sense are taken for the nearest that do.
#[derive(Debug, Clone, Copy)]
pub struct FreeHealth {
    /// Hospitals, each with counters of its own.
    pub hospitals: u32,
    /// Users, who work at the hospitals in turns.
    pub users: u32,
    /// Drugs.
    pub drugs: u32,
    /// Drugs that each drug interacts with at first, at least; at most 100.
    pub interactions_per_drug: u32,
    /// Patients there are at first.
    pub patients: u32,
    /// Episodes of each patient at first.
    pub episodes_per_patient: u32,
    /// Prescriptions of each patient at first.
    pub prescriptions_per_patient: u32,
    /// Entries of past medical history of each patient at first.
    pub history_per_patient: u32,
}

impl Default for FreeHealth {
    fn default() -> Self {
        Self {
            hospitals: 10,
            users: 50,
            drugs: 300,
            interactions_per_drug: 5,
            patients: 100,
            episodes_per_patient: 10,
            prescriptions_per_patient: 5,
            history_per_patient: 5,
        }
    }
}

impl FreeHealth {
    /// Few of everything, for tests: lists soon are full.
    pub fn small() -> Self {
        Self {
            hospitals: 3,
            users: 4,
            drugs: 60,
            interactions_per_drug: 4,
            patients: 30,
            episodes_per_patient: 4,
            prescriptions_per_patient: 2,
            history_per_patient: 2,
        }
    }
}

#[async_trait]
impl Workload for FreeHealth {
    fn name(&self) -> &str {
        "FreeHealth"
    }

    fn kinds(&self) -> Vec<(&str, u32)> {
        KINDS.to_vec()
    }

    fn records(&self) -> Records<'_> {
        Box::new(loading::records(Plan::of(self)))
    }

    fn draw(&self, stream: &mut Stream) -> Box<dyn Procedure> {
        let kind = chance::kind(&KINDS, stream);
        DRAWS[kind](kind, &Plan::of(self), stream)
    }

    fn fresh(&self) -> Arc<dyn Workload> {
        Arc::new(*self)
    }

    async fn check(&self, database: &dyn Database, ledger: &Ledger) -> Result<()> {
        Check { plan: Plan::of(self), database }.all(ledger).await
    }
}
