//! The initial records, one after the other: table by table, each filled from a stream of its own.

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_txn::Key;

use super::drugs;
use super::lists::Listing;
use super::numbers::{self, Hospital};
use super::plan::Plan;
use super::rows::{
    CONTENT, Content, Drug, Episode, FREE, History, Kind, Matter, NAME, NOTE, Patient,
    Prescription, Row, SHORT, User, date, text,
};
use super::users;

/// Texts are the same in every run: they matter to nobody.
const SEED: u64 = 0x4652_4545;

/// All initial records.
pub(super) fn records(plan: Plan) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let objects = Kind::ALL.into_iter().flat_map(move |kind| objects(plan, kind));
    let lists = Listing::ALL.into_iter().flat_map(move |listing| first_lists(plan, listing));
    counters(plan).chain(staff(plan)).chain(pharmacy(plan)).chain(objects).chain(lists)
}

fn counters(plan: Plan) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let hospitals = (0..plan.hospitals).map(move |number| Hospital { number, of: plan.hospitals });
    hospitals.flat_map(move |hospital| {
        Kind::ALL.map(|kind| {
            let next = hospital.counted(plan.count(kind));
            (hospital.counter(kind), numbers::record(next))
        })
    })
}

fn staff(plan: Plan) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let mut stream = stream(10);
    (0..plan.users).flat_map(move |id| {
        let (login, password) = (users::login(id), users::password(id));
        let index = (users::by_login(&login), numbers::record(id));
        let user = User { login, password, name: text(NAME, &mut stream) };
        [(User::key(id), user.record()), index]
    })
}

fn pharmacy(plan: Plan) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let mut stream = stream(11);
    (0..plan.drugs).flat_map(move |id| {
        let drug = Drug { name: text(NAME, &mut stream), text: text(FREE, &mut stream) };
        let list = drugs::record(&plan.interactions(id));
        [(Drug::key(id), drug.record()), (drugs::interactions(id), list)]
    })
}

fn objects(plan: Plan, kind: Kind) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let mut stream = stream(kind as u64);
    (0..plan.count(kind)).map(move |id| {
        let stream = &mut stream;
        let record = match kind {
            Kind::Patient => patient(&plan, id, stream).record(),
            Kind::Episode => episode(&plan, id, stream).record(),
            Kind::Content => content(&plan, id, stream).record(),
            Kind::Prescription => prescription(&plan, id, stream).record(),
            Kind::History => history(&plan, id, stream).record(),
        };
        (kind.key(id), record)
    })
}

fn patient(plan: &Plan, id: u32, stream: &mut Stream) -> Patient {
    Patient {
        name: plan.name_of(id),
        birth: plan.birth_of(id),
        user: plan.user_of(id),
        street: text(NAME, stream),
        town: text(SHORT, stream),
        note: text(NOTE, stream),
    }
}

fn episode(plan: &Plan, id: u32, stream: &mut Stream) -> Episode {
    Episode {
        patient: plan.patient_of(Kind::Episode, id),
        user: plan.user_of(id),
        valid: true,
        date: date(stream),
        title: text(SHORT, stream),
        text: text(FREE, stream),
    }
}

fn content(plan: &Plan, id: u32, stream: &mut Stream) -> Content {
    let (episode, prescription) = plan.content(id);
    let matter = match prescription {
        Some(prescription) => Matter::Prescription(prescription),
        None if id.is_multiple_of(2) => Matter::Consultation,
        None => Matter::Laboratory,
    };
    Content { episode, matter, text: text(CONTENT, stream) }
}

fn prescription(plan: &Plan, id: u32, stream: &mut Stream) -> Prescription {
    Prescription {
        patient: plan.patient_of(Kind::Prescription, id),
        drug: plan.drug(stream),
        user: plan.user_of(id),
        dose: text(SHORT, stream),
        text: text(FREE, stream),
    }
}

fn history(plan: &Plan, id: u32, stream: &mut Stream) -> History {
    History {
        patient: plan.patient_of(Kind::History, id),
        user: plan.user_of(id),
        date: date(stream),
        title: text(SHORT, stream),
        text: text(FREE, stream),
    }
}

/// Lists that are not empty at first.
fn first_lists(plan: Plan, listing: Listing) -> impl Iterator<Item = (Key, Bytes)> + Send {
    let owners = match listing {
        Listing::PatientsByName => plan.names(),
        Listing::PatientsByBirth => plan.births(),
        Listing::PatientsByUser | Listing::EpisodesByUser | Listing::HistoryByUser => plan.users,
        Listing::ContentsByEpisode => plan.count(Kind::Episode),
        _ => plan.patients,
    };
    (0..owners).filter_map(move |of| {
        let key = match listing {
            Listing::PatientsByName => Listing::named(&plan.name(of)),
            _ => listing.of(of),
        };
        let list = plan.list(listing, of);
        (!list.ids.is_empty()).then(|| (key, list.record()))
    })
}

fn stream(table: u64) -> Stream {
    Randomness::repeatable(SEED).split(table).stream(Purpose::Workload)
}
