//! A storage server whose folder somebody puts back to an older copy, under a site whose clients
//! have gone on: a client that runs and one that begins both say that the server lies, and once the
//! folder is there as it was, nothing is lost.

use std::path::Path;
use std::process::Command;

use crate::client::{BLOCK, Client};
use crate::server::{Server, free_port};
use crate::{fogbank, said};

const LIED: i32 = 1;

/// Puts a copy of `from` in the place of `to`.
pub fn put(from: &Path, to: &Path) {
    if to.exists() {
        std::fs::remove_dir_all(to).unwrap();
    }
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

fn write(socket: &Path, block: u64, with: u8) -> std::io::Result<()> {
    let mut client = Client::connect(socket)?;
    client.write(1, block, &[with; BLOCK])?;
    client.reply().map(|_| ())
}

#[test]
fn a_server_that_is_put_back_is_told_as_one_that_lies() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (cloud_data, old, new, data, socket, port) =
        (at("cloud"), at("old"), at("new"), at("client"), at("socket"), free_port());
    let url = Server::cloud_tenant(&cloud_data, port);
    let cloud = Server::cloud(&cloud_data, port);
    let of = data.display().to_string();
    let made = fogbank(&["site", "create", "--data", &of, "--size", "1MiB", "--store", &url]);
    assert!(made.status.success(), "{}", said(&made));
    let serve = || Server::try_site(&data, &socket, &[]);
    let mut site = serve().unwrap();
    write(&socket, 1, 1).unwrap();
    assert!(site.terminate().success());
    cloud.kill();
    put(&cloud_data, &old);

    // 1. The client goes on, and while it runs the server is put back: what asks next is told.
    let cloud = Server::cloud(&cloud_data, port);
    let mut site = serve().unwrap();
    for block in 2..5 {
        write(&socket, block, 2).unwrap();
    }
    cloud.kill();
    put(&cloud_data, &new);
    put(&old, &cloud_data);
    let cloud = Server::cloud(&cloud_data, port);
    let _fails = write(&socket, 5, 3);
    assert_eq!(site.wait().code(), Some(LIED), "{}", site.last_words());
    let told = site.last_words();

    // 2. One that begins is told the same before it serves.
    let refused = serve().map(|_| ()).unwrap_err();
    assert!(refused.contains("rolled back"), "{refused}, {told}");
    cloud.kill();

    // 3. With what the server had last, all is there that was acknowledged.
    put(&new, &cloud_data);
    let _cloud = Server::cloud(&cloud_data, port);
    let mut site = serve().unwrap();
    let mut client = Client::connect(&socket).unwrap();
    for (block, with) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
        assert_eq!(client.read(block, 1).unwrap(), [with; BLOCK], "block {block}");
    }
    drop(client);
    assert!(site.terminate().success());
}
