//! The witness of a site (`fogbank_durable::shared`), as a client has it: a copy of the list of
//! servers that keep it, in `DIR/proxy/witness`. Each command that opens the site asks them.
//!
//! The list has tokens, so only its owner may read it. All clients of a site need the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_durable::shared::{SeenRegister, Site, Witnessed};
use fogbank_env::Randomness;
use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::{DepartureGrid, GridStore};

use super::{At, SitePlace};
use crate::error::{Error, Result};
use crate::registers::ServerList;

const WITNESS: &str = "witness";

impl SitePlace {
    /// Refuses what is no list of servers.
    ///
    /// # Errors
    /// [`Error::Usage`] if others can read it, or it names no servers.
    pub fn check_witness(list: &Path) -> Result<()> {
        ServerList::of(list).map(drop)
    }

    /// Has the servers of a list keep the witness for this client from now on.
    ///
    /// # Errors
    /// As [`SitePlace::check_witness`]; [`Error::CannotUse`] if it cannot be noted.
    pub fn witnessed_by(&self, list: &Path) -> Result<()> {
        let (servers, path) = (ServerList::of(list)?, self.witness_list());
        fogbank_env::write_secret(&path, servers.text().as_bytes())
            .map_err(|e| Error::CannotUse(format!("{}: {e}", path.display())))
    }

    /// The file with the list, if there is a witness.
    pub fn witness_list(&self) -> PathBuf {
        self.0.join(WITNESS)
    }

    /// The servers that keep it, if any do.
    pub(super) fn witness(&self) -> Result<Option<ServerList>> {
        let path = self.witness_list();
        match path.try_exists() {
            Ok(true) => ServerList::of(&path).map(Some),
            Ok(false) => Ok(None),
            Err(e) => Err(Error::CannotUse(format!("{}: {e}", path.display()))),
        }
    }

    /// What this client has seen, behind the witness if there is one. What that asks of the server
    /// leaves at points of the grid, too.
    pub(super) async fn witnessed(
        &self,
        seen: Arc<dyn SeenRegister>,
        (master, id): (&MasterKey, StoreId),
        (at, grid): (&At, &DepartureGrid),
        random: &Randomness,
    ) -> Result<Arc<dyn SeenRegister>> {
        let Some(servers) = self.witness()? else { return Ok(seen) };
        let register = Arc::new(servers.register(master, random, &at.clock)?);
        let paced = Arc::new(GridStore::new(at.patient(at.store.clone()), grid.clone()));
        let site = Arc::new(Site::look(paced, (master, id)).await?);
        Ok(Arc::new(Witnessed::of(seen, register, (site, id)).await?))
    }
}
