//! `fogbank volume create` and `serve`: what they refuse, what tools get back, how they end.

use std::path::Path;
use std::process::Command;

use fogbank_env::{Purpose, Randomness, write_secret};
use rand_core::Rng;

use crate::client::{BLOCK, Client};
use crate::server::{Server, free_port};
use crate::{MULTICLOUD, PARTITION, RING, Volume, fogbank, run, said};

/// What the program says when it refuses, with the exit code for wrong usage.
fn refused(arguments: &[&str]) -> String {
    let output = fogbank(arguments);
    assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", said(&output));
    said(&output)
}

#[test]
fn sizes_that_make_no_disk_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    for (size, block, why) in [
        ("0", "4KiB", "give 512 B to 4.0 PiB"),
        ("10000", "4KiB", "no whole number of blocks"),
        ("64MiB", "5000", "a power of two"),
        ("64MiB", "256", "give 512 B to 1.0 MiB"),
        ("64MiB", "2MiB", "give 512 B to 1.0 MiB"),
        ("1EiB", "4KiB", "give 512 B to 4.0 PiB"),
    ] {
        let told = refused(&["volume", "create", "--size", size, "--block", block, "--data", data]);
        assert!(told.contains(why), "{size} {block}: {told}");
        assert!(!Path::new(data).exists(), "{size} {block} left something");
    }
}

#[test]
fn a_volume_that_would_be_gone_or_unreachable_is_refused() {
    let volume = Volume::new("8MiB");
    let (data, empty) = (volume.data(), volume.path("empty"));
    let create = ["volume", "create", "--size", "8MiB", "--store", "memory:", "--data"];
    let told = refused(&[&create[..], &[empty.to_str().unwrap()]].concat());
    assert!(told.contains("memory:") && !empty.exists(), "{told}");
    let serve = ["volume", "serve", "--data", data.to_str().unwrap(), "--nbd"];
    let told = refused(&[&serve[..], &["foo"]].concat());
    assert!(told.contains("--nbd") && told.contains("unix:PATH"), "{told}");
    assert!(volume.serve().terminate().success());
}

/// A rate that does not fit says which would, before anything of the volume is touched.
#[test]
fn a_rate_off_the_grid_is_refused_and_opens_nothing() {
    let volume = Volume::of("8MiB", &["--quantum-us", "3000"]);
    let data = volume.data();
    let openings = || std::fs::read(data.join("proxy/register")).unwrap();
    let before = openings();
    let socket = format!("unix:{}", volume.socket().display());
    let serve = ["volume", "serve", "--data", data.to_str().unwrap(), "--nbd", &socket];
    for (rate, tick, why) in [
        ("70", "15", "a multiple of 200"),
        ("100", "10", "multiples of 3ms, which --tick-ms 10 is not"),
        ("1000000", "30", "at most 256 accesses leave at a tick, so 8533 a second"),
    ] {
        let told = refused(&[&serve[..], &["--fixed-rate", rate, "--tick-ms", tick]].concat());
        assert!(told.contains(why), "{told}");
    }
    assert!(openings() == before);
    assert!(volume.serve().terminate().success());
}

/// A pace that cannot be kept is refused; at one that can the disk works.
#[test]
fn a_pace_is_refused_where_nothing_waits_and_served_elsewhere() {
    let off_grid = Volume::of("1MiB", &["--quantum-us", "0"]);
    let (data, socket) = (off_grid.data(), format!("unix:{}", off_grid.socket().display()));
    let serve = ["volume", "serve", "--data", data.to_str().unwrap(), "--nbd", &socket];
    for (pace, why) in
        [(["--send-mb-s", "10"], "--quantum-us 0"), (["--receive-mb-s", "0"], "give 0.001")]
    {
        let told = refused(&[&serve[..], &pace].concat());
        assert!(told.contains(why) && told.contains(pace[0]), "{told}");
    }
    let volume = Volume::new("4MiB");
    let (data, socket) = (volume.data(), format!("unix:{}", volume.socket().display()));
    let serve = ["volume", "serve", "--data", data.to_str().unwrap(), "--nbd", &socket];
    let told = refused(&[&serve[..], &["--fixed-rate", "1000", "--receive-mb-s", "1"]].concat());
    assert!(told.contains("--receive-mb-s says 1.000") && told.contains("give a"), "{told}");
    let [there, back] = ["there", "back"].map(|name| volume.path(name).display().to_string());
    std::fs::write(&there, [7; 1 << 18]).unwrap();
    let mut server = volume.serve_with(&["--send-mb-s", "20", "--receive-mb-s", "20"]);
    run("nbdcopy", &[&there, &volume.uri()]);
    run("nbdcopy", &[&volume.uri(), &back]);
    assert!(std::fs::read(&back).unwrap().starts_with(&[7; 1 << 18]));
    assert!(server.terminate().success());
}

#[test]
fn a_volume_is_no_store_of_keys_and_the_other_way_round() {
    let volume = Volume::new("8MiB");
    let data = volume.data();
    let data = data.to_str().unwrap();
    let told = refused(&["volume", "create", "--size", "8MiB", "--data", data]);
    assert!(told.contains("there is a store at") && told.contains("already"), "{told}");
    let told = refused(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    assert!(told.contains("fogbank volume serve"), "{told}");
    // A flag that is for keys alone is named, and what is for volumes.
    let to = volume.path("never").display().to_string();
    for (flag, arguments) in [
        ("--presence", &["verify", "--presence"][..]),
        ("--salvage", &["backup", "--salvage", "--to", &to]),
        ("--repair", &["verify", "--repair", "--to", &to]),
        ("--capacity", &["rotate-key", "--capacity", "9", "--to", &to]),
        ("--second-store", &["verify", "--second-store", "grpc://h:7/t"]),
        ("--second-store", &["recover", "--second-store", "grpc://h:7/t"]),
    ] {
        let told = refused(&[arguments, &["--data", data]].concat());
        let says = format!("{flag} is for ");
        assert!(told.contains(&says) && !Path::new(&to).exists(), "{arguments:?}: {told}");
        let is_for_keys = ["--presence", "--salvage", "--repair"].contains(&flag);
        assert!(!is_for_keys || told.contains("leave it out. While nobody serves"), "{told}");
    }
    let socket = format!("unix:{}", volume.socket().display());
    let empty = volume.path("empty");
    let empty = empty.to_str().unwrap();
    let told = refused(&["volume", "serve", "--nbd", &socket, "--data", empty]);
    assert!(told.contains("fogbank volume create") && !Path::new(empty).exists(), "{told}");
    let keys = volume.path("keys");
    let mut store = Server::fogbank(&keys, &[]);
    assert!(store.terminate().success());
    let told = refused(&["volume", "serve", "--nbd", &socket, "--data", keys.to_str().unwrap()]);
    assert!(told.contains("it is no volume; serve it with fogbank serve"), "{told}");
    assert!(volume.serve().terminate().success());
}

/// Of every engine, also while it is served, and in two clouds.
#[test]
fn a_volume_is_inspected_and_nothing_is_changed() {
    for (shape, engine) in
        [(&[][..], "tao"), (&PARTITION, "partition"), (&RING, "ring"), (&MULTICLOUD, "multicloud")]
    {
        let volume = Volume::of("1MiB", shape);
        let data = volume.data().display().to_string();
        let inspect = |more: &[&str]| {
            let told =
                fogbank(&[&["inspect", "--data", &data], more, &volume.store()[..]].concat());
            assert!(told.status.success(), "{engine}: {}", said(&told));
            said(&told)
        };
        let closed = inspect(&[]);
        let disk = format!("a disk of 1.0 MiB in 256 blocks of 4.0 KiB, engine {engine}");
        for line in [&disk, "state       closed", "newest state by key and register", "held "] {
            assert!(closed.contains(line), "{line}: {closed}");
        }
        let mut server = volume.serve();
        assert!(inspect(&[]).contains("the next opening recovers it"), "{engine}");
        assert!(server.terminate().success());
        let told: serde_json::Value = serde_json::from_str(&inspect(&["--json"])).unwrap();
        let is = (&told["state"], &told["openings"], &told["config"]["volume"]);
        assert_eq!(is, (&"closed".into(), &2.into(), &engine.into()));
    }
}

/// What is looked after a store with does the same to a volume: every block is read, goes into one
/// file, and comes back under a new key.
#[test]
fn a_volume_is_verified_backed_up_restored_and_gets_another_key() {
    let volume = Volume::new("1MiB");
    let [there, back, file, new, other] = ["there", "back", "file", "new", "other"]
        .map(|name| volume.path(name).display().to_string());
    let data = volume.data().display().to_string();
    std::fs::write(&there, [7; 1 << 16]).unwrap();
    let mut server = volume.serve();
    run("nbdcopy", &[&there, &volume.uri()]);
    assert!(server.terminate().success());
    let done = |arguments: &[&str]| {
        let output = fogbank(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = done(&["verify", "--data", &data]);
    assert!(told.contains("everything that is in use is what was written; 256 blocks"), "{told}");
    done(&["backup", "--data", &data, "--to", &file]);
    let key = format!("{data}/proxy/key");
    let told = done(&["restore", "--from", &file, "--key", &key, "--data", &new]);
    assert!(told.contains(&format!("next: fogbank volume serve --data {new}")), "{told}");
    let told = done(&["rotate-key", "--data", &new, "--to", &other]);
    assert!(told.contains("fogbank volume serve"), "{told}");
    let socket = volume.path("restored.socket");
    let mut server = Server::try_volume(Path::new(&other), &socket, &[]).unwrap();
    run("nbdcopy", &[&format!("nbd+unix:///?socket={}", socket.display()), &back]);
    assert!(std::fs::read(&back).unwrap().starts_with(&[7; 1 << 16]));
    assert!(server.terminate().success());
}

/// A disk is not lost with its register, if whoever owns it says that what the cloud shows will do.
#[test]
fn a_volume_whose_register_is_lost_comes_back_if_that_is_accepted() {
    for shape in [&[][..], &PARTITION, &RING] {
        let volume = Volume::of("4MiB", shape);
        let [there, back] = ["there", "back"].map(|name| volume.path(name).display().to_string());
        std::fs::write(&there, [7; 1 << 16]).unwrap();
        let mut server = volume.serve();
        run("nbdcopy", &[&there, &volume.uri()]);
        assert!(server.terminate().success());
        let data = volume.data();
        std::fs::remove_file(data.join("proxy/register")).unwrap();
        let told =
            Server::try_volume(&data, &volume.socket(), &[]).err().expect("it has no register");
        assert!(told.contains("fogbank recover --accept-rollback-risk"), "{told}");
        let recover = ["recover", "--data", data.to_str().unwrap()];
        assert!(!fogbank(&recover).status.success());
        let output = fogbank(&[&recover[..], &["--accept-rollback-risk"]].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("recovered the volume"), "{}", said(&output));
        let mut server = volume.serve();
        run("nbdcopy", &[&volume.uri(), &back]);
        assert!(std::fs::read(&back).unwrap().starts_with(&[7; 1 << 16]));
        assert!(server.terminate().success());
        let output = fogbank(&recover);
        assert!(
            output.status.success() && said(&output).contains("everything acknowledged is kept")
        );
    }
}

/// A volume that is being served is no reason to give its register up.
#[test]
fn a_register_that_is_in_use_is_left_alone() {
    let volume = Volume::new("4MiB");
    let mut server = volume.serve();
    let data = volume.data();
    let recover = ["recover", "--accept-rollback-risk", "--data", data.to_str().unwrap()];
    let told = fogbank(&recover);
    assert!(!told.status.success() && !said(&told).contains("register is"), "{}", said(&told));
    let proxy = std::fs::read_dir(data.join("proxy")).unwrap();
    let mut names = proxy.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.contains("replaced")));
    assert!(server.terminate().success());
    assert!(volume.serve().terminate().success());
}

/// Copies random bytes there, starts again, and copies them back, over several connections.
fn round_trip(folder: &Path, uri: &str, start: impl Fn() -> Server) {
    let [there, back] = ["there", "back"].map(|name| folder.join(name).display().to_string());
    let mut content = vec![0; 4 << 20];
    Randomness::repeatable(7).stream(Purpose::Workload).fill_bytes(&mut content);
    std::fs::write(&there, &content).unwrap();
    let mut server = start();
    let shape = ["--connections=4", "--requests=16", "--flush"];
    run("nbdcopy", &[&shape[..], &[&there, uri]].concat());
    assert!(server.terminate().success());
    let mut server = start();
    run("nbdcopy", &[&shape[..], &[uri, &back]].concat());
    assert!(std::fs::read(&back).unwrap() == content, "they differ");
    assert!(server.terminate().success());
    let words = server.last_words();
    assert!(words.contains("closed; everything acknowledged is kept"), "{words}");
}

#[test]
fn nbdcopy_gets_back_what_it_put_after_a_restart() {
    for shape in [&[][..], &PARTITION, &RING, &MULTICLOUD] {
        let volume = Volume::of("4MiB", shape);
        round_trip(volume.folder.path(), &volume.uri(), || volume.serve());
    }
}

/// What is sent whatever is asked for is said when the volume is made.
#[test]
fn a_volume_of_epochs_says_what_they_cost() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let socket = format!("unix:{}/socket", folder.path().display());
    let at = ["--data", &data];
    let create = ["volume", "create", "--size", "8MiB"];
    let told = said(&fogbank(&[&create[..], &RING, &at].concat()));
    assert!(told.contains("epochs of 40 ms, at most 64 blocks read and 64 written"), "{told}");
    let serve = ["volume", "serve", "--fixed-rate", "100", "--nbd", &socket];
    let told = refused(&[&serve[..], &at].concat());
    assert!(told.contains("one rate and shape whatever is asked"), "{told}");
}

#[test]
fn nbdcopy_gets_back_what_it_put_on_a_storage_server() {
    let folder = tempfile::tempdir().unwrap();
    let [cloud, data, socket] = ["cloud", "data", "socket"].map(|name| folder.path().join(name));
    let port = free_port();
    let url = Server::cloud_tenant(&cloud, port);
    let _cloud = Server::cloud(&cloud, port);
    let at = ["--data", data.to_str().unwrap(), "--store", &url];
    let told = fogbank(&[&["volume", "create", "--size", "4MiB"], &at[..]].concat());
    assert!(told.status.success(), "{}", said(&told));
    round_trip(folder.path(), &format!("nbd+unix:///?socket={}", socket.display()), || {
        Server::try_volume(&data, &socket, &["--store", &url]).unwrap()
    });
}

/// What is to be typed next is what works: in clear there would be no disk.
#[test]
fn a_disk_in_tls_is_told_as_one() {
    let volume = Volume::new("1MiB");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| volume.path(name));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    write_secret(&key, made.signing_key.serialize_pem().as_bytes()).unwrap();
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let server = volume.serve_with(&["--tls-cert", certificate, "--tls-key", key]);
    let told = server.greeting();
    assert!(told.contains("nbds+unix:///?socket=") && !told.contains("nbd+unix"), "{told}");
    drop(server);
    assert!(volume.serve().greeting().contains("nbd+unix:///?socket="));
}

#[test]
fn fio_finds_what_it_wrote() {
    check_by_fio(&Volume::new("8MiB"), "1m");
    check_by_fio(&Volume::of("8MiB", &PARTITION), "1m");
    check_by_fio(&Volume::of("8MiB", &RING), "256k");
    check_by_fio(&Volume::of("8MiB", &MULTICLOUD), "1m");
}

/// fio writes at random over several connections, and checks what it reads.
fn check_by_fio(volume: &Volume, size: &str) {
    let mut server = volume.serve();
    let uri = format!("--uri={}", volume.uri());
    let mixed = ["--name=mixed", "--ioengine=nbd", &uri, "--rw=randrw", "--bsrange=512-32k"];
    let size = format!("--size={size}");
    let parts = ["--blockalign=512", &size, "--offset_increment=2m", "--numjobs=4"];
    let checks = ["--iodepth=8", "--verify=crc32c", "--verify_fatal=1", "--thread"];
    let mut fio = Command::new(crate::server::tool("fio"));
    let output =
        fio.current_dir(volume.folder.path()).args(mixed).args(parts).args(checks).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(server.terminate().success());
}

/// What is in the folder of the cloud, and when each file was changed last.
fn left_at(folder: &Path) -> Vec<(std::path::PathBuf, u64, std::time::SystemTime)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut left = Vec::new();
    for path in entries {
        // What is deleted meanwhile shows by its absence.
        let Ok(about) = std::fs::metadata(&path) else { continue };
        match about.is_dir() {
            true => left.extend(left_at(&path)),
            false => left.push((path, about.len(), about.modified().unwrap())),
        }
    }
    left.sort();
    left
}

#[test]
fn a_volume_of_epochs_rests_while_nobody_has_the_disk() {
    let volume = Volume::of("4MiB", &RING);
    let cloud = volume.data().join("cloud");
    let mut server = volume.serve_with(&["--rest-after", "1s"]);
    let rests = || {
        (0..60).any(|_| {
            let before = left_at(&cloud);
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            left_at(&cloud) == before
        })
    };
    assert!(rests());
    let before = left_at(&cloud);
    let mut client = Client::connect(&volume.socket()).unwrap();
    let block = vec![7; BLOCK];
    client.write(1, 3, &block).unwrap();
    assert_eq!(client.reply().unwrap(), 1);
    assert!(left_at(&cloud) != before);
    drop(client);
    assert!(rests());
    // It closes though it rests, and keeps what was written.
    assert!(server.terminate().success());
    let mut server = volume.serve_with(&["--rest-after", "1s"]);
    let mut client = Client::connect(&volume.socket()).unwrap();
    assert_eq!(client.read(3, 1).unwrap(), block);
    drop(client);
    assert!(server.terminate().success());
}

#[test]
fn only_a_volume_of_epochs_rests() {
    let volume = Volume::new("8MiB");
    let data = volume.data();
    let serve = ["volume", "serve", "--data", data.to_str().unwrap(), "--rest-after"];
    let told = refused(&[&serve[..], &["10m"]].concat());
    assert!(told.contains("--rest-after") && told.contains("tao"), "{told}");
    let output = fogbank(&[&serve[..], &["soon"]].concat());
    assert!(said(&output).contains("such as 90s, 10m or 1h"), "{}", said(&output));
}
