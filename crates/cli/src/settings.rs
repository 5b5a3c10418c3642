//! `fogbank config check`: whether settings make a store that is served, before one is made of
//! them.

use fogbank::args::ServeArgs;
use fogbank::{OpenOptions, Result};
use fogbank_process::say;

use crate::serve;

/// Says what the settings stand for. Opens and changes nothing.
///
/// # Errors
/// [`fogbank::Error::Usage`] naming what is no setting, or out of its limits.
pub fn check(args: ServeArgs) -> Result<()> {
    let place = serve::place(&args)?;
    args.schedule.uptime()?;
    serve::listen_settings(&args)?.check().map_err(serve::explain)?;
    let shape = args.shape.or_file(args.place.config.as_deref())?;
    let options = OpenOptions::new(place.clone()).shape(shape.clone()).record(args.record);
    let config = options.check()?;
    say!("the settings make a store of {} records at {}", config.capacity, place.store_url());
    say!("{}", config.epochs());
    let flags = shape.spelled_out().flags();
    if !flags.is_empty() {
        say!("as flags: {}", flags.join(" "));
    }
    Ok(())
}
