//! Lists of ids by what their objects have in common. Objects of a patient are found by them.
//!
//! 1. A list without a record is empty.
//! 2. The newest id comes last. At most [`LIST_MAX`] are kept: from a full list the oldest id falls
//!    out when one is added. The list says how many have, since one that was full may have room
//!    again: patients move out of lists.

use bytes::Bytes;
use fogbank_txn::Key;

use super::rows::{Content, Episode, History, Kind, Patient, Prescription, Row};
use crate::database::Result;
use crate::record::{Fields, Reader};

/// Ids in a list at most: 406 bytes.
pub(super) const LIST_MAX: usize = 100;

/// What there are lists by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    PatientsByName,
    PatientsByBirth,
    PatientsByUser,
    EpisodesByPatient,
    EpisodesByUser,
    ContentsByEpisode,
    PrescriptionsByPatient,
    HistoryByPatient,
    HistoryByUser,
}

impl Listing {
    pub const ALL: [Self; 9] = [
        Self::PatientsByName,
        Self::PatientsByBirth,
        Self::PatientsByUser,
        Self::EpisodesByPatient,
        Self::EpisodesByUser,
        Self::ContentsByEpisode,
        Self::PrescriptionsByPatient,
        Self::HistoryByPatient,
        Self::HistoryByUser,
    ];

    /// What is in these lists.
    pub fn kind(self) -> Kind {
        match self {
            Self::PatientsByName | Self::PatientsByBirth | Self::PatientsByUser => Kind::Patient,
            Self::EpisodesByPatient | Self::EpisodesByUser => Kind::Episode,
            Self::ContentsByEpisode => Kind::Content,
            Self::PrescriptionsByPatient => Kind::Prescription,
            Self::HistoryByPatient | Self::HistoryByUser => Kind::History,
        }
    }

    fn group(self) -> &'static [u8] {
        match self {
            Self::PatientsByName => b"pn",
            Self::PatientsByBirth => b"pb",
            Self::PatientsByUser => b"pu",
            Self::EpisodesByPatient => b"ep",
            Self::EpisodesByUser => b"eu",
            Self::ContentsByEpisode => b"ce",
            Self::PrescriptionsByPatient => b"rp",
            Self::HistoryByPatient => b"hp",
            Self::HistoryByUser => b"hu",
        }
    }

    /// The key of the list of that patient, user, episode or birth date.
    pub fn of(self, number: u32) -> Key {
        Key::new(self.group(), &number.to_be_bytes())
    }

    /// The key of the list of patients with that name.
    pub fn named(name: &[u8]) -> Key {
        Key::new(Self::PatientsByName.group(), name)
    }

    /// The key of the list that an object with this record has to be in.
    pub fn place_of(self, record: Bytes) -> Result<Key> {
        Ok(match self {
            Self::PatientsByName => Self::named(&Patient::read(record)?.name),
            Self::PatientsByBirth => self.of(Patient::read(record)?.birth),
            Self::PatientsByUser => self.of(Patient::read(record)?.user),
            Self::EpisodesByPatient => self.of(Episode::read(record)?.patient),
            Self::EpisodesByUser => self.of(Episode::read(record)?.user),
            Self::ContentsByEpisode => self.of(Content::read(record)?.episode),
            Self::PrescriptionsByPatient => self.of(Prescription::read(record)?.patient),
            Self::HistoryByPatient => self.of(History::read(record)?.patient),
            Self::HistoryByUser => self.of(History::read(record)?.user),
        })
    }
}

/// A list by something.
#[derive(Debug, Clone, Default)]
pub(super) struct List {
    pub ids: Vec<u32>,
    /// How many belong into it and have fallen out.
    pub fallen: u32,
}

impl List {
    pub fn read(record: Option<Bytes>) -> Result<Self> {
        let Some(record) = record else { return Ok(Self::default()) };
        let mut from = Reader::of(record);
        Ok(Self { fallen: from.u32()?, ids: from.list()? })
    }

    pub fn record(&self) -> Bytes {
        Fields::new().u32(self.fallen).list(&self.ids).done()
    }

    /// The newest of some ids.
    pub fn newest(ids: impl ExactSizeIterator<Item = u32>) -> Self {
        let older = ids.len().saturating_sub(LIST_MAX);
        Self { fallen: older as u32, ids: ids.skip(older).collect() }
    }
}

/// The ids in a list.
pub(super) fn ids(list: Option<Bytes>) -> Result<Vec<u32>> {
    Ok(List::read(list)?.ids)
}

/// A list to which an object is added.
pub(super) fn with(list: Option<Bytes>, id: u32) -> Result<Bytes> {
    let mut list = List::read(list)?;
    list.ids.push(id);
    let newest = List::newest(list.ids.into_iter());
    let fallen = list.fallen.saturating_add(newest.fallen);
    Ok(List { fallen, ..newest }.record())
}

/// A list out of which an object moves. One that is not in it has fallen out before.
pub(super) fn without(list: Option<Bytes>, id: u32) -> Result<Bytes> {
    let mut list = List::read(list)?;
    match list.ids.iter().position(|listed| *listed == id) {
        Some(at) => drop(list.ids.remove(at)),
        None => list.fallen = list.fallen.saturating_sub(1),
    }
    Ok(list.record())
}
