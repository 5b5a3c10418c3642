//! A site whose witness three register servers keep: a server that is put back to an old state
//! serves it to no client that asks them, though that client has seen nothing newer itself.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::client::{BLOCK, Client};
use crate::put_back::put;
use crate::server::{Server, free_port};
use crate::two_clients::done;
use crate::{fogbank, said};

/// Register servers, and the list that names them.
struct Witness {
    list: PathBuf,
    servers: Vec<Server>,
}

impl Witness {
    fn begin(folder: &Path) -> Self {
        let (mut servers, mut lines) = (Vec::new(), String::new());
        for number in 0..3 {
            let data = folder.join(format!("register-{number}"));
            servers.push(Server::register_server(&data, free_port()));
            lines += &std::fs::read_to_string(data.join("address")).unwrap();
        }
        let list = folder.join("list");
        std::fs::write(&list, lines).unwrap();
        std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o600)).unwrap();
        Self { list, servers }
    }
}

#[test]
fn an_old_state_of_a_site_is_served_to_nobody_who_has_its_witness() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shown = |name: &str| at(name).display().to_string();
    let mut witness = Witness::begin(folder.path());
    let list = witness.list.display().to_string();
    let (cloud_data, port) = (at("cloud"), free_port());
    let url = Server::cloud_tenant(&cloud_data, port);
    let cloud = Server::cloud(&cloud_data, port);

    // What is no list leaves nothing behind.
    let one = shown("one");
    let create = ["site", "create", "--data", &one, "--size", "64KiB", "--store", &url];
    let refused = fogbank(&[&create[..], &["--registers", &shown("nothing")]].concat());
    assert_eq!(refused.status.code(), Some(64), "{}", said(&refused));
    assert!(!at("one").exists());

    done(&[&create[..], &["--registers", &list]].concat());
    let told = done(&["site", "status", "--data", &one]);
    assert!(told.contains("witness       3 servers"), "{told}");
    let id = told.lines().find_map(|line| line.strip_prefix("site ")).unwrap();
    let key = shown("one/proxy/key");
    for (name, registers) in [("two", &["--registers", &list][..]), ("alone", &[])] {
        let data = shown(name);
        let join = ["site", "join", "--data", &data, "--id", id, "--key", &key, "--store", &url];
        done(&[&join[..], registers].concat());
    }
    cloud.kill();
    put(&cloud_data, &at("old"));

    // 1. One works for three epochs, with one of the three register servers away.
    let cloud = Server::cloud(&cloud_data, port);
    let socket = at("socket");
    witness.servers.pop();
    let mut site = Server::try_site(&at("one"), &socket, &[]).unwrap();
    let mut client = Client::connect(&socket).unwrap();
    for round in 0..800_u32 {
        client.write(u64::from(round), u64::from(round) % 16, &[round as u8; BLOCK]).unwrap();
        client.reply().unwrap();
    }
    drop(client);
    assert!(site.terminate().success());
    cloud.kill();

    // 2. The server is put back to where all clients have seen it.
    put(&at("old"), &cloud_data);
    let _cloud = Server::cloud(&cloud_data, port);
    let refused = Server::try_site(&at("two"), &socket, &[]).map(|_| ()).unwrap_err();
    assert!(refused.contains("its witness has seen"), "{refused}");
    // Without a witness nobody knows.
    assert!(Server::try_site(&at("alone"), &socket, &[]).unwrap().terminate().success());
}
