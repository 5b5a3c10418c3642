//! The live view: what is asked beside what the cloud sees, while it runs.
//!
//! 1. [`Live`] counts: the front end tells it what is asked, [`Watched`] what passes to the store.
//! 2. [`Views`] serves: the dashboard and the secret figures on addresses of the trusted side, the
//!    public figures for Prometheus wherever asked.
//!
//! Invariants: what is counted and how does not depend on whether anybody looks; a viewer takes no
//! lock that counting waits for and no thread that drives epochs; what is asked is kept in memory
//! only; what is secret leaves this machine only if that was asked for in so many words.

mod live;
mod page;
mod rolling;
mod snapshot;
mod watched;

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use fogbank_env::{Metrics, Mutex, Nanos, Visibility, cannot_listen};
use fogbank_front::is_of_this_machine;
use fogbank_pages::{Pages, Site, Sites, figures};

use crate::args::ViewArgs;
use crate::error::{Error, Result};

pub use live::Live;
pub use watched::Watched;

/// Addresses that are bound and serve nothing yet.
#[derive(Default)]
pub struct Views {
    dashboard: Option<TcpListener>,
    public: Option<TcpListener>,
    secret: Option<TcpListener>,
}

/// Views being served; dropping it ends them.
pub struct Viewing(#[allow(dead_code)] Sites); // held for its end

impl Views {
    /// Binds what is asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] for an address that cannot be used, or that would show secrets to other
    /// machines without `--secrets-anywhere`.
    pub fn bind(args: &ViewArgs) -> Result<Self> {
        let [dashboard, public, secret] = Self::each(args, |view, address| {
            let socket = TcpListener::bind(address).map_err(|e| view.cannot(address, &e))?;
            socket.set_nonblocking(true).map_err(|e| view.wrong(&e))?;
            Ok(socket)
        })?;
        Ok(Self { dashboard, public, secret })
    }

    /// Whether what is asked for can be bound, if nobody else has it. Binds none of it.
    ///
    /// # Errors
    /// As [`Views::bind`].
    pub fn check(args: &ViewArgs) -> Result<()> {
        Self::each(args, |view, address| {
            is_of_this_machine(address).map_err(|e| view.cannot(address, &e))
        })
        .map(drop)
    }

    /// What `of` makes of each address that is asked for.
    fn each<T>(
        args: &ViewArgs,
        of: impl Fn(&View<'_>, SocketAddr) -> Result<T>,
    ) -> Result<[Option<T>; 3]> {
        let one = |flag, wanted: &Option<String>, is_secret: bool| {
            let Some(wanted) = wanted.as_deref() else { return Ok(None) };
            let view = View { flag, wanted };
            of(&view, view.address(is_secret && !args.secrets_anywhere)?).map(Some)
        };
        Ok([
            one("--dashboard", &args.dashboard, true)?,
            one("--metrics", &args.metrics, false)?,
            one("--secret-metrics-address", &args.secret_metrics_address, true)?,
        ])
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.dashboard.is_none() && self.public.is_none() && self.secret.is_none()
    }

    /// What to tell the user: what is served, where, and whether others can reach a secret.
    pub fn greeting(&self) -> Vec<String> {
        let told = |what: &str, socket: &Option<TcpListener>, secret: bool| {
            let address = socket.as_ref()?.local_addr().ok()?;
            let warning = match secret && !address.ip().is_loopback() {
                true => "  WARNING: whoever reaches this address sees what is asked",
                false => "",
            };
            let path = if what == "dashboard" { "" } else { "metrics" };
            Some(format!("{what:<13} http://{address}/{path}{warning}"))
        };
        let all = [
            told("dashboard", &self.dashboard, true),
            told("metrics", &self.public, false),
            told("secret", &self.secret, true),
        ];
        all.into_iter().flatten().collect()
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if the system has no thread for it.
    pub fn start(self, live: Arc<Live>, metrics: Metrics) -> Result<Viewing> {
        let sites = [
            (self.dashboard, dashboard(live, metrics.clone()), true),
            (self.public, figures(metrics.clone(), Visibility::Public), false),
            (self.secret, figures(metrics.clone(), Visibility::Secret), true),
        ];
        let sites = sites.into_iter().filter_map(|(socket, pages, secret)| {
            socket.map(|socket| Site { socket, pages, secret })
        });
        let started = Sites::start(sites.collect());
        started.map(Viewing).map_err(|e| Error::CannotUse(format!("cannot serve views: {e}")))
    }
}

/// What was typed of one of them.
struct View<'a> {
    flag: &'a str,
    wanted: &'a str,
}

impl View<'_> {
    fn wrong(&self, why: &dyn Display) -> Error {
        Error::Usage(format!("{} {}: {why}", self.flag, self.wanted))
    }

    fn cannot(&self, address: SocketAddr, why: &io::Error) -> Error {
        Error::Usage(cannot_listen(self.flag, address, why))
    }

    fn address(&self, must_be_local: bool) -> Result<SocketAddr> {
        let found = self.wanted.to_socket_addrs();
        let mut found = found.map_err(|e| self.wrong(&format!("{e}; give HOST:PORT")))?;
        let address = found.next().ok_or_else(|| self.wrong(&"no such host"))?;
        if must_be_local && !address.ip().is_loopback() {
            return Err(self.wrong(
                &"this shows what clients ask, without password or encryption, and other machines \
                  could reach it; give an address of this machine (127.0.0.1), or \
                  --secrets-anywhere if that network is trusted like the proxy",
            ));
        }
        Ok(address)
    }
}

fn dashboard(live: Arc<Live>, metrics: Metrics) -> Pages {
    // All who look within a moment get one look: their number costs nothing.
    let last: Mutex<Option<(Nanos, Vec<u8>)>> = Mutex::default();
    let look = move || {
        let now = live.clock.now();
        let mut last = last.lock();
        match &*last {
            Some((at, text)) if now < at + LOOK_NANOS_MIN => text.clone(),
            _ => {
                let text = snapshot::snapshot(&live, &metrics).to_string().into_bytes();
                last.insert((now, text)).1.clone()
            }
        }
    };
    Arc::new(move |path| match path {
        "/live.json" => Some(("application/json", look())),
        other => page::page(other),
    })
}

/// A look is as new as this.
const LOOK_NANOS_MIN: Nanos = 250_000_000;
