//! What `fogbank serve` is told, checked before anything is opened; and `fogbank config check`,
//! which stops there.

use fogbank::args::{ServeArgs, ShapeArgs};
use fogbank::dashboard::Views;
use fogbank::history::HistoryLog;
use fogbank::{OpenOptions, Place, Result, Uptime};
use fogbank_front::resp;
use fogbank_process::say;

use crate::serve;

/// What holds of a store however it was left.
pub struct Settings {
    pub place: Place,
    pub uptime: Uptime,
    pub listen: resp::Settings,
    pub shape: ShapeArgs,
}

impl Settings {
    /// Of what was typed. Changes nothing.
    ///
    /// # Errors
    /// [`fogbank::Error::Usage`] naming what is no setting, or out of its limits.
    pub fn of(args: &ServeArgs) -> Result<Self> {
        let place = serve::place(args)?;
        let uptime = args.schedule.uptime()?;
        let listen = serve::listen_settings(args)?;
        listen.check().map_err(serve::explain)?;
        Views::check(&args.view)?;
        args.history.as_deref().map_or(Ok(()), HistoryLog::check)?;
        let shape = args.shape.clone().or_file(args.place.config.as_deref())?;
        Ok(Self { place, uptime, listen, shape })
    }

    /// To open the store.
    pub fn options(&self, args: &ServeArgs) -> OpenOptions {
        let options = OpenOptions::new(self.place.clone()).shape(self.shape.clone());
        options.record(args.record.clone())
    }
}

/// Says what the settings stand for. Changes nothing, and opens nothing but to look what a store
/// that is there was made with.
///
/// # Errors
/// As [`Settings::of`]; if there is a store of other settings, which differ.
pub async fn check(args: &ServeArgs) -> Result<()> {
    let settings = Settings::of(args)?;
    let (config, is_there) = settings.options(args).check().await?;
    let Settings { place, shape, .. } = settings;
    let (records, url) = (config.capacity, place.store_url());
    match is_there {
        true => say!("the settings are those of the store of {records} records at {url}"),
        false => say!("the settings make a store of {records} records at {url}"),
    }
    say!("{}", config.epochs());
    let flags = shape.spelled_out().flags();
    if !flags.is_empty() {
        say!("as flags: {}", flags.join(" "));
    }
    Ok(())
}
