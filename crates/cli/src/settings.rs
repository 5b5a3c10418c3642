//! `fogbank config check`: whether settings make a store, before one is made of them.

use fogbank::args::ConfigCheckArgs;
use fogbank::config::StoreConfig;
use fogbank::object_default::shape_for;
use fogbank::{Place, Result, across_a_link, check_scheme};
use fogbank_process::say;

/// Says what the settings stand for. Opens and changes nothing.
///
/// # Errors
/// [`fogbank::Error::Usage`] naming what is no setting, or out of its limits.
pub fn check(args: ConfigCheckArgs) -> Result<()> {
    let shape = args.shape.or_file(args.place.config.as_deref())?;
    let url = Place::from(&args.place).store_url();
    check_scheme(&url)?;
    let (shape, across) = (shape_for(&shape, &url)?, across_a_link(&url));
    let config = StoreConfig::derive_at(&shape, across, across)?;
    say!("the settings make a store of {} records at {url}", config.capacity);
    say!("{}", config.epochs());
    let flags = shape.spelled_out().flags();
    if !flags.is_empty() {
        say!("as flags: {}", flags.join(" "));
    }
    Ok(())
}
