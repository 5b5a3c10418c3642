//! Two clients of a site mount one file system: the second is refused, for two kernels on one ext4
//! destroy it.

use crate::can_mount::can_mount;
use crate::server::Server;
use crate::two_clients::TwoClients;
use crate::{fogbank, said};

/// What was typed is a mistake.
const MISTAKE: i32 = 64;

#[test]
fn a_file_system_of_a_site_is_mounted_by_one_client_at_a_time() {
    if !can_mount() {
        return;
    }
    let site = TwoClients::new("16MiB");
    let (at, shown) = (|name: &str| site.at(name), |name: &str| site.shown(name));
    let places = ["first", "second"].map(at);
    places.iter().for_each(|place| std::fs::create_dir(place).unwrap());
    // What has no file system yet is not mounted, and told what to do.
    let told = fogbank(&["mount", &shown("one"), &shown("first")]);
    assert_eq!(told.status.code(), Some(MISTAKE), "{}", said(&told));
    assert!(said(&told).contains("say --mkfs ext4"), "{}", said(&told));
    let mut one = Server::try_mount(&at("one"), &places[0], &["--mkfs", "ext4"]).unwrap();
    std::fs::write(places[0].join("name"), "of one").unwrap();
    let told = Server::try_mount(&at("two"), &places[1], &[]).err().expect("it is mounted");
    assert!(
        told.contains("does another client of this site have the file system mounted?"),
        "{told}"
    );
    std::fs::write(places[0].join("more"), "of one").unwrap();
    assert!(one.terminate().success());
    let mut two = Server::try_mount(&at("two"), &places[1], &[]).unwrap();
    for name in ["name", "more"] {
        assert_eq!(std::fs::read(places[1].join(name)).unwrap(), b"of one", "{name}");
    }
    assert!(two.terminate().success());
}
