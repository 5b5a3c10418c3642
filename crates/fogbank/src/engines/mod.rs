//! The engines that fogbank knows, an entry each.
//!
//! A new engine of volumes is a file in this folder, with its part of the configuration
//! ([`VolumeTail`]) and its entry, and a place in [`VOLUME_ENGINES`].

mod accesses;
mod multicloud;
mod partition;
pub(crate) mod ring;
mod tao;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::OpenOptions;
use crate::error::{Error, Result};
use crate::link::LinkArgs;
use crate::open::Sides;
use crate::plan::lines::{Line, of_bill};
use crate::plan::price::prices;
use crate::plan::volume::{VolumePlan, VolumeSite};
use crate::volume::{
    EncodeRecord, Flag, Flags, Flow, SECOND_STORE_FLAG, Volume, VolumeConfig, VolumeShape,
};

/// The engines of volumes. The first one is the default.
pub(crate) static VOLUME_ENGINES: [&VolumeEngine; 4] =
    [&tao::ENGINE, &partition::ENGINE, &multicloud::ENGINE, &ring::ENGINE];

/// The entry of an engine of volumes.
#[derive(Debug)]
pub struct VolumeEngine {
    /// As it is typed, and as it stands in the commit record.
    pub name: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// What `volume create` may be told.
    pub(crate) flags: &'static [&'static Flag],
    /// Which flags of [`Flow`] `volume serve` may be told.
    pub(crate) flow: &'static [&'static str],
    /// Whether it needs a second cloud, which does not collude with the first.
    pub(crate) has_two_clouds: bool,
    /// Why the other ones would do nothing.
    pub(crate) no_other_flow: &'static str,
    /// Why `volume serve --record` would be of no use, if it would not.
    pub(crate) no_record: Option<&'static str>,
    /// Makes the tail of a new volume.
    pub(crate) new: fn(&NewVolume<'_>) -> Result<Arc<dyn VolumeTail>>,
    /// Reads the tail in a commit record: see [`decode`].
    pub(crate) decode: fn(Value) -> serde_json::Result<Arc<dyn VolumeTail>>,
}

/// What a new volume is made of.
pub(crate) struct NewVolume<'a> {
    pub shape: VolumeShape,
    pub flags: &'a Flags,
    pub url: &'a str,
    /// Where the second cloud is, of an engine that needs one.
    pub second_store: Option<&'a str>,
}

/// An engine's own part of the configuration of a volume, and what the engine does with it. Its
/// fields stand in the commit record, after the head. Public.
#[async_trait]
pub(crate) trait VolumeTail: EncodeRecord + Debug + Send + Sync {
    /// Bytes of a block, if the tail says them in place of the head.
    fn block_bytes(&self) -> Option<usize> {
        None
    }

    /// Refuses what is outside the engine's limits: what is read is only claimed, and sizes follow
    /// from it.
    fn check(&self, shape: VolumeShape) -> Result<()>;

    /// That of a new volume of the same shape at `url`, and in a second cloud if the engine needs
    /// one; the same if nothing of it says where that is.
    fn placed(&self, _url: &str, _second: Option<&str>) -> Result<Option<Arc<dyn VolumeTail>>> {
        Ok(None)
    }

    /// Says what leaves, in lines of a banner.
    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<Line>>;

    /// Says what a volume at `url` costs, in lines of a banner.
    fn cost(&self, shape: VolumeShape, flow: Flow, url: &str) -> Result<Vec<Line>> {
        let (prices, link) = (prices(None, url)?, LinkArgs::default());
        let site = VolumeSite { url, prices: &prices, second_prices: None, link: &link };
        Ok(of_bill(&self.plan(shape, flow, &site)?.bill, url, false))
    }

    /// Says what a volume will need at `site`.
    fn plan(&self, shape: VolumeShape, flow: Flow, site: &VolumeSite<'_>) -> Result<VolumePlan>;

    /// Opens the volume, however it was left.
    async fn open(&self, opening: VolumeOpening) -> Result<Volume>;
}

/// A volume that is to be opened.
pub(crate) struct VolumeOpening {
    pub options: OpenOptions,
    pub sides: Sides,
    pub config: VolumeConfig,
    pub flow: Flow,
    /// Whether it is to be made.
    pub is_new: bool,
}

/// Reads a tail of the type `T`.
fn decode<T: VolumeTail + DeserializeOwned + 'static>(
    tail: Value,
) -> serde_json::Result<Arc<dyn VolumeTail>> {
    Ok(Arc::new(serde_json::from_value::<T>(tail)?))
}

impl VolumeEngine {
    /// The engine of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        VOLUME_ENGINES.into_iter().find(|engine| engine.name == name)
    }

    /// Reads what is typed.
    pub(crate) fn parser() -> impl TypedValueParser<Value = &'static Self> {
        let values =
            VOLUME_ENGINES.map(|engine| PossibleValue::new(engine.name).help(engine.about));
        PossibleValuesParser::new(values)
            .try_map(|name| Self::named(&name).ok_or("there is no such engine"))
    }

    /// Refuses a second cloud, said with `flag`, where there is no use for it, and its absence.
    pub(crate) fn check_second_store(&self, flag: &str, second_store: Option<&str>) -> Result<()> {
        let name = self.name;
        match (self.has_two_clouds, second_store) {
            (true, None) => Err(Error::Usage(format!(
                "the engine {name} needs two clouds: say where the second one is with {flag} \
                 grpc://HOST:PORT/TENANT"
            ))),
            (false, Some(_)) => Err(Error::Usage(format!(
                "{flag} is for volumes of the engine {}; leave it out: {name} has one cloud",
                names(|engine| engine.has_two_clouds).join(" or ")
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a second cloud of a volume that is there, where there is no use for it.
    pub(crate) fn check_given_second(&self, second_store: Option<&str>) -> Result<()> {
        match second_store {
            Some(second) => self.check_second_store(SECOND_STORE_FLAG, Some(second)),
            None => Ok(()),
        }
    }

    /// Refuses flags of `volume create` that would do nothing.
    pub(crate) fn check_flags(&self, given: &Flags) -> Result<()> {
        let Some(flag) = given.flags().find(|flag| !flag.is_in(self.flags)) else { return Ok(()) };
        let knowing = names(|engine| flag.is_in(engine.flags));
        Err(Error::Usage(format!(
            "--{} is for volumes of the engine {}; leave it out, or say --engine {}",
            flag.name,
            knowing.join(" or "),
            knowing[0]
        )))
    }

    /// Refuses to write a trace that would be of no use.
    pub(crate) fn check_record(&self) -> Result<()> {
        match self.no_record {
            None => Ok(()),
            Some(why) => Err(Error::Usage(format!("--record: {why}"))),
        }
    }

    /// Refuses flags of `volume serve` that would do nothing.
    pub(crate) fn check_flow(&self, flow: &Flow) -> Result<()> {
        let Some(flag) = flow.given().find(|flag| !self.flow.contains(flag)) else { return Ok(()) };
        let knowing = names(|engine| engine.flow.contains(&flag)).join(" or ");
        let (name, why) = (self.name, self.no_other_flow);
        Err(Error::Usage(format!(
            "{flag} is for volumes of the engine {knowing}; leave it out: {name} {why}"
        )))
    }
}

/// The names of the engines of volumes that are such.
pub(crate) fn names(such: impl Fn(&VolumeEngine) -> bool) -> Vec<&'static str> {
    let such = VOLUME_ENGINES.into_iter().filter(|engine| such(engine));
    such.map(|engine| engine.name).collect()
}
