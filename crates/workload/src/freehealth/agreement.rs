//! The last rule of the check: lists and objects agree, both ways.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fogbank_txn::Key;

use super::check::{Check, Counters, Numbers, broken, part};
use super::lists::{LIST_MAX, List, Listing};
use super::rows::{Content, Kind, Matter, Prescription, Row};
use crate::database::Result;

type Keys<'a> = Box<dyn Iterator<Item = Key> + Send + 'a>;

impl Check<'_> {
    /// Whatever is in such a list belongs there. As many objects are in none as have fallen out.
    pub async fn agreement(&self, listing: Listing, counters: &Counters) -> Result<()> {
        let unlisted = self.unlisted(listing, counters).await?;
        let fallen = self.lists(listing, counters).await?;
        if fallen == unlisted {
            return Ok(());
        }
        broken(format!(
            "lists: {unlisted} are in no {listing:?}, and {fallen} have fallen out of them"
        ))
    }

    /// How many objects are not in their list. They have to have fallen out of it.
    async fn unlisted(&self, listing: Listing, counters: &Counters) -> Result<u64> {
        let mut ids = self.ids(listing.kind(), counters);
        let mut unlisted = 0;
        while let Some(ids) = part(&mut ids) {
            let mut places = Vec::with_capacity(ids.len());
            for (id, record) in self.existing(listing.kind(), ids).await? {
                places.push((id, listing.place_of(record)?));
            }
            let lists =
                self.read_lists(places.iter().map(|(_, key)| key.clone()).collect()).await?;
            for (id, key) in places {
                unlisted += u64::from(!is_listed(listing, id, &key, lists.get(&key))?);
            }
        }
        Ok(unlisted)
    }

    /// How many objects have fallen out of lists. What is in them belongs there.
    async fn lists(&self, listing: Listing, counters: &Counters) -> Result<u64> {
        let mut keys = self.keys(listing, counters);
        let mut fallen = 0;
        while let Some(keys) = part(&mut keys) {
            let lists = self.read_lists(keys.into_iter().collect()).await?;
            let mut listed = Vec::new();
            for (key, list) in &lists {
                fallen += u64::from(list.fallen);
                distinct(listing, key, &list.ids)?;
                listed.extend(list.ids.iter().map(|id| (key, *id)));
            }
            let objects: Vec<Key> = listed.iter().map(|(_, id)| listing.kind().key(*id)).collect();
            let found = self.read(&objects).await?;
            for ((key, id), record) in listed.into_iter().zip(found) {
                belongs(listing, key, id, record)?;
            }
        }
        Ok(fallen)
    }

    /// The lists of these keys, each read once.
    async fn read_lists(&self, keys: BTreeSet<Key>) -> Result<BTreeMap<Key, List>> {
        let keys: Vec<Key> = keys.into_iter().collect();
        let found = self.read(&keys).await?;
        keys.into_iter().zip(found).map(|(key, list)| Ok((key, List::read(list)?))).collect()
    }

    /// The keys of all lists of a sort.
    fn keys<'a>(&'a self, listing: Listing, counters: &'a Counters) -> Keys<'a> {
        let of: Numbers<'a> = match listing {
            Listing::PatientsByName => {
                let names = (0..self.plan.names()).map(|number| self.plan.name(number));
                return Box::new(names.map(|name| Listing::named(&name)));
            }
            Listing::PatientsByBirth => Box::new(0..self.plan.births()),
            Listing::PatientsByUser | Listing::EpisodesByUser | Listing::HistoryByUser => {
                Box::new(0..self.plan.users)
            }
            Listing::ContentsByEpisode => self.ids(Kind::Episode, counters),
            Listing::EpisodesByPatient
            | Listing::PrescriptionsByPatient
            | Listing::HistoryByPatient => self.ids(Kind::Patient, counters),
        };
        Box::new(of.map(move |of| listing.of(of)))
    }

    /// The prescriptions that contents speak of exist.
    pub async fn prescribed(&self, counters: &Counters) -> Result<()> {
        let mut ids = self.ids(Kind::Content, counters);
        while let Some(ids) = part(&mut ids) {
            let mut prescribed = Vec::new();
            for (content, record) in self.existing(Kind::Content, ids).await? {
                if let Matter::Prescription(id) = Content::read(record)?.matter {
                    prescribed.push((content, id));
                }
            }
            let keys: Vec<Key> = prescribed.iter().map(|(_, id)| Prescription::key(*id)).collect();
            let found = self.read(&keys).await?;
            let missing = prescribed.into_iter().zip(found).find(|(_, record)| record.is_none());
            if let Some(((content, id), _)) = missing {
                return broken(format!(
                    "lists: episode content {content} is of prescription {id}, which does not exist"
                ));
            }
        }
        Ok(())
    }
}

/// Whether an object is in its list; if not, something has to have fallen out of that.
fn is_listed(listing: Listing, id: u32, key: &Key, list: Option<&List>) -> Result<bool> {
    let listed = list.is_some_and(|list| list.ids.contains(&id));
    if listed || list.is_some_and(|list| list.fallen > 0) {
        return Ok(listed);
    }
    let (list, name) = (called(listing, key), listing.kind().name());
    broken(format!("lists: {name} {id} is not in {list}"))
}

/// A list is no longer than it may be, and holds nothing twice.
fn distinct(listing: Listing, key: &Key, ids: &[u32]) -> Result<()> {
    let different: BTreeSet<&u32> = ids.iter().collect();
    if different.len() == ids.len() && ids.len() <= LIST_MAX {
        return Ok(());
    }
    broken(format!("lists: {} is too long or holds an id twice", called(listing, key)))
}

/// An object that is in a list belongs there.
fn belongs(listing: Listing, key: &Key, id: u32, record: Option<Bytes>) -> Result<()> {
    let place = record.map(|record| listing.place_of(record)).transpose()?;
    let what = match place {
        Some(place) if place == *key => return Ok(()),
        Some(_) => "belongs into another",
        None => "does not exist",
    };
    let (list, name) = (called(listing, key), listing.kind().name());
    broken(format!("lists: {name} {id} is in {list} and {what}"))
}

/// How errors speak of a list.
fn called(listing: Listing, key: &Key) -> String {
    match key.member().try_into() {
        Ok(number) if listing != Listing::PatientsByName => {
            format!("{listing:?} {}", u32::from_be_bytes(number))
        }
        _ => format!("{listing:?} {}", String::from_utf8_lossy(key.member())),
    }
}
