//! `fogbank serve`: a store for Redis clients, until a signal says stop.
//!
//! The port is bound before the store is opened, so a port that is taken changes nothing. Clients
//! have threads of their own; messages leave from others. Told to stop, it takes nothing more, runs
//! a fixed number of epochs for what it has taken, and closes the store: when that begins tells
//! nothing of clients. What was acknowledged is kept.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::observers::Observers;
use crate::settings::Settings;
use bytesize::ByteSize;
use fogbank::args::ServeArgs;
use fogbank::config::StoreConfig;
use fogbank::plan::lines;
use fogbank::side_check::check_apart;
use fogbank::traffic::Traffic;
use fogbank::{Error, Opened, Place, Result};
use fogbank_env::{ClientThreads, Metrics, Nanos, free_beside, open_to_others, quoted};
use fogbank_front::resp::{self, Limits, Listener, TlsFiles};
use fogbank_process::{say, say_error};
use fogbank_terminal::{
    address, end_at_once_at_another_signal, log_to_standard_error, stop_signal,
};
use tokio::sync::oneshot;

/// How long clients have to take their answers once the server is told to stop, if that is longer
/// than it takes to close.
const STOP_GRACE_NANOS: Nanos = 3_000_000_000;

/// Serves until SIGTERM, SIGINT or SIGHUP, then closes the store.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn run(args: ServeArgs) -> Result<()> {
    log_to_standard_error();
    let settings = Settings::of(&args)?;
    let clients = client_threads()?;
    // Bound there, so that whoever connects wakes those threads and no others.
    let bound = clients.handle().spawn(Listener::bind(settings.listen.clone())).await;
    let listener = bound.map_err(|e| Error::Bug(e.to_string()))?.map_err(explain)?;
    let metrics = Metrics::default();
    let observers = Observers::start(&args, &metrics)?;
    let options = settings
        .options(&args)
        .metrics(metrics.clone())
        .clock(observers.clock.clone())
        .live(observers.live.clone())
        .uptime(settings.uptime)
        .clients(clients.handle().clone());
    // Until clients are served nothing can be lost: a signal ends a start as it ends any process.
    let opened = options.open().await?;
    let greeting = greeting(&settings.place, &opened, listener.address(), &args, &observers);
    let signal = stop_signal()?; // whoever reads the greeting may stop it at once
    greeting.iter().for_each(|line| say!("{line}"));
    let advisor = Arc::new(opened.config().clone());
    let listener = listener.watched_by(observers.watcher()).advised_by(advisor);
    let kept = opened.is_kept();
    let closed = serve_until_stopped(listener, opened, metrics, signal, &clients).await;
    let finished = observers.finish();
    closed?;
    finished?;
    say_error!(
        "closed; {}",
        if kept {
            "everything acknowledged is kept"
        } else {
            "the store was in memory and is gone"
        }
    );
    Ok(())
}

/// Where the store is; nothing else that is named may be there, too.
pub fn place(args: &ServeArgs) -> Result<Place> {
    let place = Place::from(&args.place);
    check_apart("--record", args.record.as_deref(), &place.store_url())?;
    check_apart("--history", args.history.as_deref(), &place.store_url())?;
    let files = [&args.password_file, &args.tls_cert, &args.tls_key, &args.place.config];
    place.check_free(&files.map(|file| file.as_deref()))?;
    Ok(place)
}

/// Serves until a signal or until the epochs stop by themselves (the cloud is absent or lied). Then
/// the store closes, however many wait and whether they take their answers; those have a moment for
/// that meanwhile. What was not answered did not happen.
async fn serve_until_stopped(
    listener: Listener,
    opened: Opened,
    metrics: Metrics,
    signal: impl Future<Output = ()> + Send + 'static,
    clients: &ClientThreads,
) -> Result<()> {
    let (proxy, clock, kept) = (opened.proxy().clone(), opened.clock(), opened.is_kept());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = listener.serve(proxy.clone(), clock.clone(), metrics, async {
        let _told = stopped.await;
    });
    let serving = clients.handle().spawn(serving);
    tokio::select! {
        () = signal => {
            let _as_before = end_at_once_at_another_signal(); // then it cannot be hurried
            say_error!("stopping: finishing what was begun and closing the store{}", told(&opened));
        }
        reason = proxy.stopped() => say_stopped("the epochs have ended", reason, kept),
    }
    let _gone = stop.send(());
    proxy.begin_to_close();
    drop(proxy);
    let patience = clock.now() + STOP_GRACE_NANOS;
    let closed = opened.close().await;
    tokio::select! { biased;
        _ended = serving => {}
        () = clock.sleep_until(patience) => {
            say_error!("clients were still taking their answers; they get no more");
        }
    }
    closed
}

/// How long closing takes, if somebody may not want to wait for it.
fn told(opened: &Opened) -> String {
    let at_once = match opened.is_kept() {
        true => "another signal ends it at once, and the next start finds everything acknowledged",
        false => "another signal ends it at once",
    };
    match opened.config().closing_s() {
        short if short < 10 => String::new(),
        long => format!(", which takes up to {long} s; {at_once}"),
    }
}

/// Threads for what clients ask for, apart from those that let messages leave.
pub fn client_threads() -> Result<ClientThreads> {
    let none = |e| Error::CannotUse(format!("the system gives no threads: {e}"));
    let settle = || {
        // Where it is refused they are as urgent as others.
        let _as_before = fogbank_process::usual_slices();
    };
    ClientThreads::start(settle).map_err(none)
}

/// Says why it ends that nobody has stopped, and what to do.
pub fn say_stopped(what: &str, reason: impl std::fmt::Display + Into<Error>, kept: bool) {
    say_error!("fogbank: {what}: {reason}");
    say_error!("fogbank: {}", reason.into().advice(kept));
}

/// How to listen, and what clients may do.
pub fn listen_settings(args: &ServeArgs) -> Result<resp::Settings> {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Ok(resp::Settings {
        address: address("--listen", &args.listen)?,
        password: args.password_file.as_deref().map(read_password).transpose()?,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        limits: Limits { connections_max: args.max_connections, ..Limits::default() },
        secret_metrics: args.secret_metrics,
        reclaim_quota: None,
    })
}

fn read_password(path: &Path) -> Result<String> {
    let refused = |e: std::io::Error| {
        let path = path.display();
        Error::Usage(format!("cannot read --password-file {path}: {e}; give the path of its file"))
    };
    let mut file = File::open(path).map_err(refused)?;
    if open_to_others(&file).map_err(refused)?.is_some() {
        let (shown, path) = (path.display(), quoted(path));
        let what = format!("others can read --password-file {shown}; first: chmod 600 {path}");
        return Err(Error::Usage(what));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(refused)?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Error::Usage(format!(
            "the first line of --password-file {} is empty; put the password there",
            path.display()
        ))),
    }
}

/// The same of an error of the front end, with what helps.
pub fn explain(error: resp::Error) -> Error {
    match &error {
        resp::Error::AddressInUse(resp::Place::Tcp(address)) => Error::Usage(format!(
            "{error}; stop it, or choose another port: --listen {}",
            free_beside(*address)
        )),
        _ => Error::Usage(error.to_string()),
    }
}

/// Where everything is, what traffic it makes and what to type next.
fn greeting(
    place: &Place,
    opened: &Opened,
    address: SocketAddr,
    args: &ServeArgs,
    observers: &Observers,
) -> Vec<String> {
    let config = opened.config();
    let show = |size: usize| ByteSize::b(size as u64).display().iec().to_string();
    let mut lines = vec![format!("fogbank {}", fogbank_process::VERSION)];
    let mut say = |line: String| lines.push(line);
    say(format!("  cloud side    {} (untrusted: sees only the beat)", place.store_url()));
    let trusted = place.trusted();
    let register = opened.register();
    match opened.is_kept() {
        true => say(format!(
            "  trusted side  {} (key and {register}: keep and back up)",
            trusted.display()
        )),
        false => say(format!(
            "  trusted side  in memory as well: nothing is kept in {}",
            trusted.display()
        )),
    }
    say(format!(
        "  store         {} records of {}, longer values take several",
        config.capacity,
        show(config.value_size)
    ));
    let rests = args.schedule.rest_after.is_some();
    say(format!("  traffic       {}", traffic(config, rests)));
    let bill = lines::of_store(config, &place.store_url(), rests);
    bill.iter().for_each(|(what, said)| say(format!("  {what:<13} {said}")));
    if let Some(seen) = args.schedule.seen() {
        say(format!("  schedule      {seen}"));
    }
    if !address.ip().is_loopback() && (args.password_file.is_none() || args.tls_cert.is_none()) {
        say(format!(
            "  warning       other machines can reach {address}{}: give --password-file, \
             --tls-cert and --tls-key, or listen on 127.0.0.1",
            if args.password_file.is_none() { " without a password" } else { " in clear" }
        ));
    }
    let (host, port) = (within_reach(address).ip(), address.port());
    let tls = args.tls_cert.as_ref().map(|path| format!(" --tls --cacert {}", quoted(path)));
    let tls = tls.unwrap_or_default();
    let auth = if args.password_file.is_some() { " --askpass" } else { "" };
    say(format!(
        "  next          redis-cli -h {host} -p {port}{tls}{auth}     then: SET name value"
    ));
    observers.greeting().iter().for_each(|line| say(format!("  {line}")));
    say(format!(
        "  stop          Ctrl-C or SIGTERM; {}",
        match opened.is_kept() {
            true => "after a crash, start it again: nothing acknowledged is lost",
            false => "the store is in memory: everything in it is lost when this process ends",
        }
    ));
    say(format!("listening on {address}"));
    lines
}

/// Where whoever is on this machine finds what listens at `address`: "any" is no address to
/// connect to everywhere.
pub fn within_reach(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// What flows, used or not.
fn traffic(config: &StoreConfig, rests: bool) -> String {
    let traffic = match Traffic::of(config) {
        Ok(traffic) => traffic,
        Err(why) => return format!("not known: {why}"),
    };
    match traffic.bytes_per_s(config) {
        Some(bytes) => format!(
            "at most {:.2} MB/s both ways once every bucket is written, {:.0} GB/day, {}",
            bytes / 1e6,
            bytes * 86_400.0 / 1e9,
            lines::when(rests)
        ),
        None => format!(
            "back to back ({:.1} MB an epoch); its pace shows how busy the proxy is",
            (traffic.bytes_read(config) + traffic.bytes_written(config)) / 1e6
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_read_from_a_file_that_nobody_else_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let said = |path: &Path| read_password(path).unwrap_err().to_string();
        assert!(said(&path).contains("give the path of its file"), "{}", said(&path));
        let of_folder = said(folder.path());
        assert!(of_folder.contains("it is a folder") && !of_folder.contains("chmod"));
        std::fs::write(&path, "secret\n").unwrap();
        for (mode, is_private) in [(0o644, false), (0o640, false), (0o600, true), (0o400, true)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            match is_private {
                true => assert_eq!(read_password(&path).unwrap(), "secret"),
                false => assert!(said(&path).contains("chmod 600"), "{}", said(&path)),
            }
        }
    }
}
