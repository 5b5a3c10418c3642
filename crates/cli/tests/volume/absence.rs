//! A cloud that goes away while somebody has a disk or a store on it, and comes back: whoever runs
//! the server reads one line of each, however many calls have failed.

use std::path::Path;

use crate::client::{BLOCK, Client};
use crate::server::{Server, free_port};
use crate::{MULTICLOUD, PARTITION, RING, Volume, fogbank, said};

const BACK: &str = "answers again, after ";

/// The server has said so while `away` was done, and since then that its cloud is back; once each.
fn tells(mut server: Server, cloud: &str, starts: impl FnOnce() -> Server) {
    let away = format!("{cloud} does not answer, trying again: ");
    server.hears(&away);
    let _cloud = starts();
    let back = server.hears(&format!("{cloud} {BACK}"));
    let (_, after) = back.split_once(BACK).unwrap();
    let seconds = after.strip_suffix(" s").and_then(|number| number.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{back}");
    server.ask_to_end();
    let words = server.last_words();
    assert!(!words.contains("does not answer") && !words.contains(BACK), "{words}");
    assert!(server.wait().success(), "{words}");
}

/// A storage server of one tenant.
struct Cloud {
    data: std::path::PathBuf,
    port: u16,
    url: String,
}

impl Cloud {
    fn new(folder: &Path) -> Self {
        let (data, port) = (folder.join("cloud"), free_port());
        let url = Server::cloud_tenant(&data, port);
        Self { data, port, url }
    }

    fn start(&self) -> Server {
        Server::cloud(&self.data, self.port)
    }
}

fn made(arguments: &[&str]) {
    let output = fogbank(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
}

#[test]
fn a_disk_says_that_its_cloud_is_away_and_back() {
    for shape in [&[][..], &PARTITION, &RING] {
        let folder = tempfile::tempdir().unwrap();
        let cloud = Cloud::new(folder.path());
        let running = cloud.start();
        let [data, socket] = ["data", "socket"].map(|name| folder.path().join(name));
        let at = ["--data", data.to_str().unwrap(), "--store", &cloud.url];
        made(&[&["volume", "create", "--size", "1MiB"], shape, &at].concat());
        let server = Server::try_volume(&data, &socket, &["--store", &cloud.url]).unwrap();
        running.kill();
        // Many ask, and wait.
        let mut client = Client::connect(&socket).unwrap();
        (0..20).for_each(|block| client.write(block, block, &[7; BLOCK]).unwrap());
        tells(server, "the cloud", || cloud.start());
        drop(client);
    }
}

#[test]
fn a_disk_in_two_clouds_says_which_is_away_and_back() {
    let volume = Volume::of("1MiB", &MULTICLOUD);
    let clouds = volume.clouds.as_ref().unwrap();
    for (at, name) in [(1, "the second cloud"), (0, "the first cloud")] {
        let server = volume.serve();
        clouds.kill(at);
        tells(server, name, || {
            clouds.start(at);
            clouds.take(at)
        });
        clouds.start(at);
    }
}

#[test]
fn a_site_says_that_its_cloud_is_away_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = Cloud::new(folder.path());
    let running = cloud.start();
    let [data, socket] = ["data", "socket"].map(|name| folder.path().join(name));
    let data_flag = ["--data", data.to_str().unwrap()];
    let create = ["site", "create", "--size", "1MiB", "--store", &cloud.url];
    made(&[&create[..], &data_flag].concat());
    let server = Server::try_site(&data, &socket, &[]).unwrap();
    running.kill();
    let mut client = Client::connect(&socket).unwrap();
    client.write(1, 0, &[7; BLOCK]).unwrap();
    tells(server, "the cloud", || cloud.start());
    drop(client);
}

#[test]
fn a_store_says_that_its_cloud_is_away_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = Cloud::new(folder.path());
    let running = cloud.start();
    let server = Server::fogbank(&folder.path().join("data"), &["--store", &cloud.url]);
    running.kill();
    tells(server, "the cloud", || cloud.start());
}
