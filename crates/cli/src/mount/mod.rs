//! `fogbank mount DIR MOUNTPOINT`: the file system on a volume, until a signal says stop.
//!
//! 1. Tools and rights are looked for before anything is touched.
//! 2. The volume is served on a socket in a folder that only we may enter.
//! 3. `nbdfuse` and a loop device make a disk of it (`stack`), which is mounted.
//! 4. On a signal the file system is unmounted, which writes what it holds; while somebody uses it,
//!    we wait. A second signal does not: it goes on as if the power had failed, after the kernel
//!    has been told to forget the mount.
//! 5. Then the disk is taken down, and the volume closed.
//!
//! The cloud sees what it sees of any volume that is served.

mod stack;
mod tools;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank::args::{FileSystem, MountArgs, OpenArgs, StoreArgs};
use fogbank::site::SitePlace;
use fogbank::volume::{Flow, Volume};
use fogbank::{Disk, Error, Place, Result};
use fogbank_env::Clock;
use fogbank_front::nbd::{self, Listener, Settings};
use fogbank_process::say_error;
use tokio::sync::Notify;

use fogbank_terminal::{log_to_standard_error, stop_signal};

use crate::serve::{client_threads, say_stopped};
use crate::volume_server::tell_cost;
use stack::Stack;

/// Between two tries to unmount what is in use.
const RETRY_NANOS: u64 = 1_000_000_000;

/// Mounts until SIGTERM, SIGINT or SIGHUP, or until the engine stops by itself; then closes the
/// volume.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn run(args: MountArgs) -> Result<()> {
    log_to_standard_error();
    let flow = Flow::of(&args.flow)?;
    let (data, store, registers) = (args.data.clone(), args.store.clone(), args.registers.clone());
    let place = Place::from(&OpenArgs {
        place: StoreArgs { data, store, registers },
        second_store: args.second_store.clone(),
        second_journal: args.second_journal.clone(),
    });
    let site = SitePlace::new(&place.data);
    match site.is_there() {
        true => mounted(&args, &site, &place, flow).await.map_err(Error::in_a_site),
        false => mounted(&args, &site, &place, flow).await,
    }
}

async fn mounted(args: &MountArgs, site: &SitePlace, place: &Place, flow: Flow) -> Result<()> {
    if site.is_there() {
        site.check_mounted(place, &flow)?;
    }
    tools::check(&args.mount_point, args.mkfs.is_some())?;
    let signal = stop_signal()?;
    let disk = open(site, place, flow).await?;
    let folder = PrivateFolder::new()?;
    let socket = folder.0.join("nbd");
    let settings = Settings { place: nbd::Place::Unix(socket.clone()), ..Settings::default() };
    let listener = Listener::bind(settings).await.map_err(|e| Error::CannotUse(e.to_string()))?;
    let (engine, clock, stop) = (disk.engine(), disk.clock(), Arc::new(Notify::new()));
    let stopping = stop.clone();
    let clients = client_threads()?;
    let serving = clients.handle().spawn(async move {
        listener.serve(engine, clock, async move { stopping.notified().await }).await;
    });
    let mut stack = Stack::new(disk.clock(), site.is_there());
    let outcome = use_until_stopped(args, &disk, (&folder.0, &socket), &mut stack, signal).await;
    stack.take_down().await;
    stop.notify_one();
    serving.await.map_err(|e| Error::Bug(e.to_string()))?;
    // What has stopped the engine is why the tools and the kernel complain, not the other way
    // round.
    disk.close().await?;
    outcome?;
    say_error!("unmounted and closed; everything that was written is kept");
    Ok(())
}

/// Opens what is at the place: a volume, or the disk of a site.
async fn open(site: &SitePlace, place: &Place, flow: Flow) -> Result<Disk> {
    if site.is_there() {
        return site.open().await;
    }
    let volume = Volume::open(place.clone(), flow).await?;
    tell_cost(volume.config(), &place.store_url(), flow)?;
    Ok(volume.into_disk())
}

/// From the first step to the file system unmounted.
async fn use_until_stopped(
    args: &MountArgs,
    disk: &Disk,
    (folder, socket): (&Path, &Path),
    stack: &mut Stack,
    signal: impl Future<Output = ()>,
) -> Result<()> {
    tokio::pin!(signal);
    let mut stopped = disk.stopped();
    let set_up = async {
        stack.attach(folder, socket).await?;
        if args.mkfs == Some(FileSystem::Ext4) {
            stack.make_ext4().await?;
        }
        stack.mount(&args.mount_point).await
    };
    // A signal meanwhile is heard afterwards: no step is left half done.
    tokio::select! {
        done = set_up => done?,
        reason = &mut stopped => return Err(reason.into()),
    }
    say_error!(
        "{}, mounted at {}; Ctrl-C or SIGTERM unmounts it",
        disk.size(),
        args.mount_point.display()
    );
    tokio::select! {
        () = &mut signal => {}
        gone = stack.gone() => return Err(gone),
        reason = &mut stopped => say_stopped("the engine has stopped", reason, true),
    }
    unmount(stack, &*disk.clock()).await
}

/// Unmounts once nobody uses the file system any more, or at a second signal.
async fn unmount(stack: &mut Stack, clock: &dyn Clock) -> Result<()> {
    let again = stop_signal()?;
    tokio::pin!(again);
    let mut told = false;
    loop {
        let Err(error) = stack.unmount().await else { return Ok(()) };
        if !told {
            say_error!(
                "fogbank: {error}; waiting until nobody uses it (once more Ctrl-C: do not wait)"
            );
            told = true;
        }
        tokio::select! {
            () = &mut again => return Err(Error::CannotUse(
                "not unmounted in order: what was not synced may be lost, as at a power failure".into(),
            )),
            () = clock.sleep_until(clock.now() + RETRY_NANOS) => {}
        }
    }
}

/// A folder that only we may enter, gone when it is dropped.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn new() -> Result<Self> {
        // Short, for addresses of sockets are; and no other process has this name.
        let path = PathBuf::from(format!("/run/fogbank-{}", std::process::id()));
        // One that had the number before us may have been killed.
        std::fs::remove_dir_all(&path).ok();
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
