//! ext4 on a volume: the plug is pulled while files are written; and `fogbank mount`.
//!
//! 1. Writers make files of random bytes, named by a checksum, and sync file and folder.
//! 2. The process is killed at a random moment, and two clouds with it. What is mounted is taken
//!    away, as a reboot would.
//! 3. The volume is served and mounted again, which replays the file system's journal; `fsck` finds
//!    nothing then, and every file that was synced is there, whole.
//!
//! `FOGBANK_PLUGS` says how many plugs are pulled (2), `FOGBANK_KILL_SEED` draws the moments.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fogbank_env::{Mutex, Purpose, Randomness, Stream};
use rand_core::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::can_mount::can_mount;
use crate::mounted::Attached;
use crate::server::Server;
use crate::{MULTICLOUD, PARTITION, Volume, fogbank, number, run, said};

const WRITERS: u64 = 3;

/// Writes files until the disk is gone, and notes those that were synced.
fn write_on(folder: &Path, synced: &Mutex<Vec<String>>, mut random: Stream) {
    let write = |content: &[u8]| -> std::io::Result<String> {
        let name = format!("{:016x}", xxh3_64(content));
        let mut file = File::create(folder.join(&name))?;
        file.write_all(content)?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(name)
    };
    loop {
        let mut content = vec![0; 1 + (random.next_u64() % 40_000) as usize];
        random.fill_bytes(&mut content);
        let Ok(name) = write(&content) else { return };
        synced.lock().push(name);
    }
}

/// Why a file that was synced is not what was written.
fn check(folder: &Path, name: &str) -> Result<(), String> {
    let content = std::fs::read(folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
    match format!("{:016x}", xxh3_64(&content)) == name {
        true => Ok(()),
        false => Err(format!("{name} has other bytes than were written")),
    }
}

#[test]
fn every_synced_file_outlives_a_pulled_plug() {
    pull_plugs(&[]);
}

#[test]
fn every_synced_file_on_partitions_outlives_a_pulled_plug() {
    pull_plugs(&PARTITION);
}

#[test]
fn every_synced_file_in_two_clouds_outlives_pulled_plugs() {
    pull_plugs(&MULTICLOUD);
}

fn pull_plugs(shape: &[&str]) {
    if !can_mount() {
        return;
    }
    let seed = number("FOGBANK_KILL_SEED").unwrap_or(11);
    let mut random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let volume = Volume::of("32MiB", shape);
    let mut server = volume.serve();
    let mut disk = Attached::new(volume.folder.path(), &volume.uri());
    disk.format();
    let mut checked = 0;
    for _ in 0..number("FOGBANK_PLUGS").unwrap_or(2) {
        let (folder, synced) = (disk.mount().to_owned(), Mutex::new(Vec::new()));
        let after = Duration::from_millis(500 + random.next_u64() % 2_000);
        let drawn = Randomness::repeatable(random.next_u64());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (folder, synced) = (&folder, &synced);
                let random = drawn.split(writer).stream(Purpose::Workload);
                scope.spawn(move || write_on(folder, synced, random));
            }
            std::thread::sleep(after);
            volume.pull_plug(server);
        });
        drop(disk);
        server = volume.serve();
        disk = Attached::new(volume.folder.path(), &volume.uri());
        disk.mount();
        disk.unmount();
        run("/usr/sbin/fsck.ext4", &["-f", "-n", &disk.device]);
        let folder = disk.mount();
        for name in synced.into_inner() {
            check(folder, &name).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            std::fs::remove_file(folder.join(&name)).unwrap();
            checked += 1;
        }
        disk.unmount();
    }
    println!("{checked} synced files were there");
    assert!(checked > 0);
    drop(disk);
    assert!(server.terminate().success());
}

/// The canary: a file that is not there, and one that is not what it was, are seen.
#[test]
fn files_that_are_lost_or_other_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("{:016x}", xxh3_64(b"what was written"));
    assert!(check(folder.path(), &name).is_err());
    std::fs::write(folder.path().join(&name), "what was not written").unwrap();
    assert!(check(folder.path(), &name).unwrap_err().contains("other bytes"));
    std::fs::write(folder.path().join(&name), "what was written").unwrap();
    check(folder.path(), &name).unwrap();
}

fn is_mounted(place: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == place.to_str())
}

#[test]
fn a_volume_in_two_clouds_is_mounted_and_keeps_what_was_written() {
    if !can_mount() {
        return;
    }
    let volume = Volume::of("16MiB", &MULTICLOUD);
    let place = volume.path("place");
    std::fs::create_dir(&place).unwrap();
    let mount = || {
        let options = [&["--mkfs", "ext4"][..], &volume.store()].concat();
        Server::try_mount(&volume.data(), &place, &options).unwrap_or_else(|said| panic!("{said}"))
    };
    let mut mounted = mount();
    std::fs::write(place.join("name"), "what was written").unwrap();
    assert!(mounted.terminate().success());
    let mut again = mount();
    assert_eq!(std::fs::read(place.join("name")).unwrap(), b"what was written");
    assert!(again.terminate().success());
    assert!(!is_mounted(&place) && again.last_words().contains("unmounted and closed"));
}

#[test]
fn a_volume_is_mounted_by_one_command_and_unmounted_by_a_signal() {
    if !can_mount() {
        return;
    }
    let volume = Volume::new("32MiB");
    let place = volume.path("place");
    std::fs::create_dir(&place).unwrap();
    let mount = |options: &[&str]| Server::try_mount(&volume.data(), &place, options);
    let told = mount(&[]).err().expect("there is no file system yet");
    assert!(told.contains("say --mkfs ext4"), "{told}");
    let mut mounted = mount(&["--mkfs", "ext4"]).unwrap_or_else(|said| panic!("{said}"));
    std::fs::write(place.join("name"), "what was written").unwrap();
    assert!(mounted.terminate().success());
    assert!(!is_mounted(&place) && mounted.last_words().contains("unmounted and closed"));
    // A unit of a service says the same at every start.
    let mut again = mount(&["--mkfs", "ext4"]).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(std::fs::read(place.join("name")).unwrap(), b"what was written");
    assert!(again.terminate().success());
    assert!(!is_mounted(&place) && again.last_words().contains("unmounted and closed"));
    // While a file is open it waits, and goes on once that is closed.
    let mut mounted = mount(&[]).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(std::fs::read(place.join("name")).unwrap(), b"what was written");
    let open = File::open(place.join("name")).unwrap();
    mounted.ask_to_end();
    mounted.hears("waiting until nobody uses it");
    assert!(is_mounted(&place));
    drop(open);
    assert!(mounted.wait().success());
    assert!(!is_mounted(&place));
    // Whoever unmounts by hand leaves it nothing to wait for.
    let mut mounted = mount(&[]).unwrap_or_else(|said| panic!("{said}"));
    run("umount", &[place.to_str().unwrap()]);
    assert!(mounted.terminate().success());
    assert!(mounted.last_words().contains("unmounted and closed"));
    // A container that began meanwhile holds a mount of its own, which nobody here sees.
    let mut mounted = mount(&[]).unwrap_or_else(|said| panic!("{said}"));
    let mut container = Command::new("unshare").args(["--mount", "sleep", "600"]).spawn().unwrap();
    std::fs::write(place.join("late"), "not synced").unwrap();
    std::thread::sleep(Duration::from_secs(1)); // it has a name space by then
    mounted.ask_to_end();
    mounted.hears("another mount name space");
    container.kill().unwrap();
    container.wait().unwrap();
    assert!(mounted.wait().success());
    let mut mounted = mount(&[]).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(std::fs::read_to_string(place.join("late")).unwrap(), "not synced");
    assert!(mounted.terminate().success());
    // A folder that is in use is no place for a file system.
    std::fs::write(place.join("file"), "").unwrap();
    let told = mount(&[]).err().expect("it is not empty");
    assert!(told.contains("is not empty"), "{told}");
}

/// Blocks that were changed while nobody served them: before, an absent cloud (69) or a disk
/// without a file system, with the advice to make a new one over it.
#[test]
fn a_volume_that_was_changed_is_an_attack_when_it_is_mounted() {
    if !can_mount() {
        return;
    }
    let volume = Volume::new("8MiB");
    let place = volume.path("place");
    std::fs::create_dir(&place).unwrap();
    let mount = || {
        let (data, place) = (volume.data(), place.clone());
        Command::new(env!("CARGO_BIN_EXE_fogbank"))
            .arg("mount")
            .args([data, place])
            .output()
            .unwrap()
    };
    let mut made = Server::try_mount(&volume.data(), &place, &["--mkfs", "ext4"]).unwrap();
    std::fs::write(place.join("name"), vec![7; 1 << 20]).unwrap();
    assert!(made.terminate().success());
    let array = std::fs::read_dir(volume.data().join("cloud/arrays")).unwrap().next();
    let array = array.unwrap().unwrap().path();
    let cells = array.join("cells");
    let kept = std::fs::read(&cells).unwrap();
    std::fs::write(&cells, vec![0x5a; kept.len()]).unwrap();
    let output = mount();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = said(&output);
    assert!(told.contains("does not verify") && !told.contains("--mkfs"), "{told}");
    assert!(!is_mounted(&place));
    std::fs::write(&cells, kept).unwrap();
    for name in ["frames", "shape"] {
        let file = array.join(name);
        let kept = std::fs::read(&file).unwrap();
        std::fs::write(&file, "noise").unwrap();
        assert_eq!(mount().status.code(), Some(1), "{name}: {}", said(&mount()));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(mount().status.code(), Some(1), "{name}");
        std::fs::write(&file, kept).unwrap();
    }
    let mut mounted = Server::try_mount(&volume.data(), &place, &[]).unwrap();
    assert_eq!(std::fs::read(place.join("name")).unwrap(), vec![7; 1 << 20]);
    assert!(mounted.terminate().success());
}

#[test]
fn what_is_missing_for_a_mount_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (data, place) = (folder.path().join("data"), folder.path().join("place"));
    let mount = || fogbank(&["mount", data.to_str().unwrap(), place.to_str().unwrap()]);
    let told = said(&mount());
    assert!(told.contains("give an empty folder"), "{told}");
    std::fs::create_dir(&place).unwrap();
    let mut without = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    let output =
        without.arg("mount").args([&data, &place]).env("PATH", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let told = said(&output);
    assert!(told.contains("nbdfuse is not installed") && told.contains("libnbd-bin"), "{told}");
    assert!(!data.exists());
}
