//! What somebody is told who has a volume in two clouds, and what helps.

use std::path::Path;

use crate::client::{BLOCK, Client};
use crate::server::Server;
use crate::{MULTICLOUD, Volume, fogbank, run, said};

impl Volume {
    /// One in two clouds.
    fn in_two_clouds() -> Self {
        Self::of("1MiB", &MULTICLOUD)
    }

    /// The end of a command on it, and what it said.
    fn told(&self, command: &[&str]) -> (Option<i32>, String) {
        let data = self.data();
        let at = ["--data", data.to_str().unwrap()];
        let output = fogbank(&[command, &at, &self.store()].concat());
        (output.status.code(), said(&output))
    }

    /// Writes a block while it is served.
    fn write(&self, block: u64, byte: u8) {
        let mut server = self.serve();
        let mut client = Client::connect(&self.socket()).unwrap();
        client.write(1, block, &[byte; BLOCK]).unwrap();
        assert_eq!(client.reply().unwrap(), 1);
        drop(client);
        assert!(server.terminate().success());
    }

    /// Why it cannot be served.
    fn refused(&self) -> String {
        let refused = Server::try_volume(&self.data(), &self.socket(), &self.store());
        refused.err().expect("it is refused")
    }
}

/// The words for a store of one cloud sent people to keep a copy of a folder that is of no use when
/// it is older, and to a flag that does nothing.
#[test]
fn what_to_back_up_is_said_and_what_an_older_copy_does() {
    let volume = Volume::in_two_clouds();
    let trusted = volume.data().join("proxy");
    let [older, newest, file] = ["older", "newest", "file"].map(|name| volume.path(name));
    // 1. Whoever makes or serves one is told what to keep.
    let to_keep = |said: &str| {
        let words =
            ["and journal: an older copy opens nothing", "back up", "fogbank backup --data"];
        for words in words {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(!said.contains("keep and back up"), "{said}");
    };
    to_keep(&volume.made);
    let mut server = volume.serve();
    to_keep(server.greeting());
    assert!(server.terminate().success());
    // 2. An older copy of the trusted side opens nothing, and what does is named.
    run("cp", &["-r", path(&trusted), path(&older)]);
    volume.write(0, 7);
    let (code, told) = volume.told(&["backup", "--to", path(&file)]);
    assert_eq!(code, Some(0), "{told}");
    std::fs::rename(&trusted, &newest).unwrap();
    std::fs::rename(&older, &trusted).unwrap();
    let told = volume.refused();
    assert!(told.contains("older") && told.contains("fogbank restore"), "{told}");
    // 3. Nothing accepts it, and that is said before anything is done.
    let names = |folder: &Path| {
        let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut all: Vec<_> = names.by_ref().collect();
        all.sort();
        all
    };
    for lost in [None, Some("register"), Some("second-store")] {
        let away = volume.path("away");
        if let Some(name) = lost {
            std::fs::rename(trusted.join(name), &away).unwrap();
            let told = volume.refused();
            assert!(!told.contains("--accept-rollback-risk"), "{told}");
        }
        let before = names(&trusted);
        let (code, told) = volume.told(&["recover", "--accept-rollback-risk"]);
        assert_eq!(code, Some(64), "{told}");
        for words in ["leave --accept-rollback-risk out", "newest copy", "fogbank restore"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert_eq!(names(&trusted), before);
        if let Some(name) = lost {
            std::fs::rename(&away, trusted.join(name)).unwrap();
        }
    }
    // 4. The newest one serves on.
    std::fs::remove_dir_all(&trusted).unwrap();
    std::fs::rename(&newest, &trusted).unwrap();
    volume.write(1, 8);
}

/// Every command that opens a volume can be told that its second cloud has moved, and from then on
/// knows it.
#[test]
fn every_command_can_be_told_where_the_second_cloud_is_now() {
    let mut volume = Volume::in_two_clouds();
    volume.write(0, 7);
    let [file, socket] = ["file", "other-socket"].map(|name| volume.path(name));
    let nbd = format!("unix:{}", socket.display());
    let commands: [&[&str]; 4] = [
        &["verify"],
        &["recover"],
        &["backup", "--to", path(&file)],
        &["volume", "serve", "--nbd", &nbd],
    ];
    for command in commands {
        volume.clouds.as_mut().unwrap().move_second();
        let second = volume.clouds.as_ref().unwrap().url(1).to_owned();
        let told = ["--second-store", &second];
        if command[0] != "volume" {
            let (code, told) = volume.told(&[command, &told].concat());
            assert_eq!(code, Some(0), "{command:?}: {told}");
        } else {
            let flags = [&volume.store()[..], &told].concat();
            let server = Server::try_volume(&volume.data(), &socket, &flags);
            assert!(server.expect("it serves").terminate().success());
        }
        let (code, told) = volume.told(&["verify"]);
        assert_eq!(code, Some(0), "after {command:?}: {told}");
    }
    // Whatever else opens one takes the flag, too.
    for command in [&["rotate-key"][..], &["mount"]] {
        let help = said(&fogbank(&[command, &["--help"]].concat()));
        assert!(help.contains("--second-store <URL>"), "{command:?}: {help}");
    }
}

/// A second place for the journal is said once, is told by whoever serves the volume, and is of no
/// use where the cloud has the journal.
#[test]
fn a_second_place_for_the_journal_is_said_once() {
    let volume = Volume::in_two_clouds();
    let second = volume.path("other-disk");
    let (code, told) = volume.told(&["verify", "--second-journal", path(&second)]);
    assert_eq!(code, Some(0), "{told}");
    volume.write(0, 7);
    let mut server = volume.serve();
    let says = format!("second place  {}", second.display());
    assert!(server.greeting().contains(&says), "{}", server.greeting());
    assert!(server.terminate().success());
    let names = |folder: &Path| {
        let blobs = std::fs::read_dir(folder.join("journal/blobs")).unwrap();
        blobs.map(|entry| entry.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&second), names(&volume.data().join("proxy")));
    assert!(!second.join("key").exists());
    let (data, other) = (volume.path("one-cloud"), volume.path("no-disk"));
    let create = ["volume", "create", "--size", "1MiB", "--data", path(&data)];
    let output = fogbank(&[&create[..], &["--second-journal", path(&other)]].concat());
    let told = said(&output);
    assert_eq!(output.status.code(), Some(64), "{told}");
    assert!(told.contains("--second-journal is for volumes in two clouds"), "{told}");
    assert!(!other.exists() && !data.exists(), "{told}");
    for command in [&["rotate-key"][..], &["mount"], &["backup"], &["volume", "serve"]] {
        let help = said(&fogbank(&[command, &["--help"]].concat()));
        assert!(help.contains("--second-journal <FOLDER>"), "{command:?}: {help}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
