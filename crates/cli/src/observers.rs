//! What looks at a running server: the live view, the figures, the history. All of it is off unless
//! asked for, and ends with the server.

use std::sync::Arc;

use fogbank::args::ServeArgs;
use fogbank::dashboard::{Live, Viewing, Views};
use fogbank::history::HistoryLog;
use fogbank::{Error, Result, counted};
use fogbank_env::{Clock, Metrics, Nanos, Purpose, Randomness, SystemClock};
use fogbank_front::resp::Watcher;
use fogbank_process::say_error;
use rand_core::Rng;

/// Everything that looks at one server.
pub struct Observers {
    /// The clock that what is seen and what is recorded share.
    pub clock: Arc<dyn Clock>,
    /// The live view, if anything is served of it.
    pub live: Option<Arc<Live>>,
    history: Option<Arc<HistoryLog>>,
    greeting: Vec<String>,
    _viewing: Option<Viewing>,
}

impl Observers {
    /// Binds and begins to serve what is asked for: before the store is opened, so that an address
    /// that is taken changes nothing.
    pub fn start(args: &ServeArgs, metrics: &Metrics) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let views = Views::bind(&args.view)?;
        let mut greeting = views.greeting();
        let (mut live, mut viewing) = (None, None);
        if !views.is_empty() {
            let counted = Live::new(clock.clone(), salt()?, metrics);
            viewing = Some(views.start(counted.clone(), metrics.clone())?);
            live = Some(counted);
        }
        let history = args.history.as_deref();
        let history = history.map(|path| HistoryLog::create(path, clock.clone(), salt()?));
        if let Some(path) = &args.history {
            greeting.push(format!("history       {} (secret: what is asked)", path.display()));
        }
        Ok(Self { clock, live, history: history.transpose()?, greeting, _viewing: viewing })
    }

    /// Who is to be told what is asked.
    pub fn watcher(&self) -> Option<Arc<dyn Watcher>> {
        let live = self.live.clone().map(|live| live as Arc<dyn Watcher>);
        let history = self.history.clone().map(|history| history as Arc<dyn Watcher>);
        match (live, history) {
            (Some(live), Some(history)) => Some(Arc::new(Both(live, history))),
            (live, history) => live.or(history),
        }
    }

    /// Lines for the user: what looks, and where.
    pub fn greeting(&self) -> &[String] {
        &self.greeting
    }

    /// Writes what is left of the history, and says if anything is not in it.
    ///
    /// # Errors
    /// If it is incomplete.
    pub fn finish(self) -> Result<()> {
        let left_out = self.history.map_or(Ok(0), |history| history.finish())?;
        if left_out > 0 {
            let keys = counted(left_out, "key", "keys");
            say_error!("fogbank: not in the history: {keys} asked");
        }
        Ok(())
    }
}

struct Both(Arc<dyn Watcher>, Arc<dyn Watcher>);

impl Watcher for Both {
    fn asked(&self, changes: bool, key: &[u8]) {
        self.0.asked(changes, key);
        self.1.asked(changes, key);
    }

    fn answered(&self, nanos: Nanos) {
        self.0.answered(nanos);
        self.1.answered(nanos);
    }
}

/// Fresh randomness to hash keys under. It has nothing to do with the engine's.
fn salt() -> Result<u64> {
    let seed = fogbank_seal::system_seed()
        .map_err(|_| Error::CannotUse("the system has no randomness to give".into()))?;
    Ok(Randomness::from_seed(seed).stream(Purpose::Workload).next_u64())
}
