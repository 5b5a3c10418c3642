//! The records of FreeHealth: their keys and their fields.

use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;

use crate::chance;
use crate::database::Result;
use crate::record::{Fields, Reader};

/// Most bytes of a short text: a place, a title, a dose, a password.
pub(super) const SHORT: u32 = 32;
/// Most bytes of a name or an address.
pub(super) const NAME: u32 = 64;
/// Most bytes of a patient's note, beside whose other fields there is less room.
pub(super) const NOTE: u32 = 250;
/// Most bytes of a free text.
pub(super) const FREE: u32 = 400;
/// Most bytes of what was found at an episode.
pub(super) const CONTENT: u32 = 450;

/// Kinds of objects that are created, each with counters of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Patient,
    Episode,
    Prescription,
    Content,
    History,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::Patient, Self::Episode, Self::Prescription, Self::Content, Self::History];

    /// What it is, for errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Patient => Patient::NAME,
            Self::Episode => Episode::NAME,
            Self::Content => Content::NAME,
            Self::Prescription => Prescription::NAME,
            Self::History => History::NAME,
        }
    }

    pub fn key(self, id: u32) -> Key {
        match self {
            Self::Patient => Patient::key(id),
            Self::Episode => Episode::key(id),
            Self::Content => Content::key(id),
            Self::Prescription => Prescription::key(id),
            Self::History => History::key(id),
        }
    }
}

/// A record of a table.
pub(super) trait Row: Sized {
    /// What it is, for errors.
    const NAME: &'static str;
    const GROUP: &'static [u8];

    fn read(record: Bytes) -> Result<Self>;

    fn record(&self) -> Bytes;

    fn key(id: u32) -> Key {
        Key::new(Self::GROUP, &id.to_be_bytes())
    }
}

/// Who a patient is.
#[derive(Debug, Clone)]
pub(super) struct Patient {
    pub name: Bytes,
    /// In days.
    pub birth: u32,
    /// Who has created it; so for the others.
    pub user: u32,
    pub street: Bytes,
    pub town: Bytes,
    pub note: Bytes,
}

impl Row for Patient {
    const NAME: &'static str = "patient";
    const GROUP: &'static [u8] = b"p";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        Ok(Self {
            name: from.text()?,
            birth: from.u32()?,
            user: from.u32()?,
            street: from.text()?,
            town: from.text()?,
            note: from.text()?,
        })
    }

    fn record(&self) -> Bytes {
        let fields = Fields::new().text(&self.name).u32(self.birth).u32(self.user);
        fields.text(&self.street).text(&self.town).text(&self.note).done()
    }
}

/// A patient's stay or visit.
#[derive(Debug, Clone)]
pub(super) struct Episode {
    pub patient: u32,
    pub user: u32,
    pub valid: bool,
    /// In days; so for the others.
    pub date: u32,
    pub title: Bytes,
    pub text: Bytes,
}

impl Row for Episode {
    const NAME: &'static str = "episode";
    const GROUP: &'static [u8] = b"e";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        Ok(Self {
            patient: from.u32()?,
            user: from.u32()?,
            valid: from.u32()? != 0,
            date: from.u32()?,
            title: from.text()?,
            text: from.text()?,
        })
    }

    fn record(&self) -> Bytes {
        let fields = Fields::new().u32(self.patient).u32(self.user).u32(u32::from(self.valid));
        fields.u32(self.date).text(&self.title).text(&self.text).done()
    }
}

/// What an episode has come to, by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matter {
    /// Type 1, with the prescription.
    Prescription(u32),
    /// Type 2.
    Consultation,
    /// Type 3.
    Laboratory,
}

/// One content of an episode.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub episode: u32,
    pub matter: Matter,
    pub text: Bytes,
}

impl Row for Content {
    const NAME: &'static str = "episode content";
    const GROUP: &'static [u8] = b"c";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        let episode = from.u32()?;
        let matter = match (from.u32()?, from.u32()?) {
            (1, prescription) => Matter::Prescription(prescription),
            (2, _) => Matter::Consultation,
            _ => Matter::Laboratory,
        };
        Ok(Self { episode, matter, text: from.text()? })
    }

    fn record(&self) -> Bytes {
        let (matter, prescription) = match self.matter {
            Matter::Prescription(prescription) => (1, prescription),
            Matter::Consultation => (2, 0),
            Matter::Laboratory => (3, 0),
        };
        let fields = Fields::new().u32(self.episode).u32(matter).u32(prescription);
        fields.text(&self.text).done()
    }
}

/// A drug prescribed to a patient.
#[derive(Debug, Clone)]
pub(super) struct Prescription {
    pub patient: u32,
    pub drug: u32,
    pub user: u32,
    pub dose: Bytes,
    pub text: Bytes,
}

impl Row for Prescription {
    const NAME: &'static str = "prescription";
    const GROUP: &'static [u8] = b"r";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        Ok(Self {
            patient: from.u32()?,
            drug: from.u32()?,
            user: from.u32()?,
            dose: from.text()?,
            text: from.text()?,
        })
    }

    fn record(&self) -> Bytes {
        let fields = Fields::new().u32(self.patient).u32(self.drug).u32(self.user);
        fields.text(&self.dose).text(&self.text).done()
    }
}

/// Something of a patient's past.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub patient: u32,
    pub user: u32,
    pub date: u32,
    pub title: Bytes,
    pub text: Bytes,
}

impl Row for History {
    const NAME: &'static str = "past medical history";
    const GROUP: &'static [u8] = b"h";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        Ok(Self {
            patient: from.u32()?,
            user: from.u32()?,
            date: from.u32()?,
            title: from.text()?,
            text: from.text()?,
        })
    }

    fn record(&self) -> Bytes {
        let fields = Fields::new().u32(self.patient).u32(self.user).u32(self.date);
        fields.text(&self.title).text(&self.text).done()
    }
}

/// A drug.
#[derive(Debug, Clone)]
pub(super) struct Drug {
    pub name: Bytes,
    pub text: Bytes,
}

impl Row for Drug {
    const NAME: &'static str = "drug";
    const GROUP: &'static [u8] = b"d";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        Ok(Self { name: from.text()?, text: from.text()? })
    }

    fn record(&self) -> Bytes {
        Fields::new().text(&self.name).text(&self.text).done()
    }
}

/// Someone who works at a hospital.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub login: Bytes,
    pub password: Bytes,
    pub name: Bytes,
}

impl Row for User {
    const NAME: &'static str = "user";
    const GROUP: &'static [u8] = b"u";

    fn read(record: Bytes) -> Result<Self> {
        let mut from = Reader::of(record);
        Ok(Self { login: from.text()?, password: from.text()?, name: from.text()? })
    }

    fn record(&self) -> Bytes {
        Fields::new().text(&self.login).text(&self.password).text(&self.name).done()
    }
}

/// A text of at most `most` bytes and at least half of that.
pub(super) fn text(most: u32, stream: &mut Stream) -> Bytes {
    chance::text(most / 2, most, stream).into()
}

/// Some day of a century.
pub(super) fn date(stream: &mut Stream) -> u32 {
    chance::between(0, 36_524, stream)
}
