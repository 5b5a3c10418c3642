//! The whole proxy on a storage server that lies: it stops with an error and moves nothing further.

use std::fs;

use fogbank_cloud::Credentials;

use crate::relay::{CELLS, LIST, Lie, PUT, Relay, WRITE};
use crate::resp::Frame;
use crate::server::{Server, free_port};

#[test]
fn a_lie_stops_the_proxy_and_nothing_follows_it() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for (about, lie) in [
        (CELLS, Lie::CellLess),
        (CELLS, Lie::CellsLonger),
        (CELLS, Lie::Swapped),
        (CELLS, Lie::Repeated),
        (CELLS, Lie::Endless),
        (WRITE, Lie::OtherKind),
        (PUT, Lie::Ones),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (cloud_data, port) = (folder.path().join("cloud"), free_port());
        Server::cloud_tenant(&cloud_data, port);
        let _cloud = Server::cloud(&cloud_data, port);
        let shown = Credentials::load(&cloud_data.join("tenants/test/credentials")).expect("them");
        let relay = runtime.block_on(Relay::start(([127, 0, 0, 1], port).into(), &shown));
        let file = folder.path().join("relay");
        fogbank_env::write_secret(&file, relay.credentials.text().as_bytes()).expect("written");
        let url = format!("grpc://{}/test?credentials={}", relay.address, file.display());
        // Cells as they are, so that each lie is about what it says.
        let options = ["--store", &url, "--xor", "off"];
        let mut proxy = Server::fogbank(&folder.path().join("data"), &options);
        let mut client = proxy.connect();
        // The canary: behind a relay that is honest, everything is as ever.
        for n in 1..=5 {
            assert_eq!(client.line("INCR n").expect("a reply"), Frame::Integer(n));
        }
        relay.lie(LIST, lie);
        assert_eq!(client.line("INCR n").expect("a reply"), Frame::Integer(6));
        assert_eq!(relay.told(), 0);
        relay.lie(about, lie);
        let error = loop {
            match client.line("INCR n") {
                Ok(Frame::Integer(_)) => {}
                Ok(Frame::Error(error)) => break error,
                other => panic!("{lie:?} about {about}: {other:?}"),
            }
        };
        assert_eq!(error, "ERR the store has stopped", "{lie:?}");
        let why = proxy.last_words();
        assert!(why.contains("the epochs have ended: stopped"), "{lie:?} about {about}: {why}");
        assert!(relay.told() >= 1);
        // One window of the batch may have been on its way, and what the epoch before had begun.
        assert!(relay.after() <= 8, "{lie:?} about {about}: {} calls followed", relay.after());
        assert!(about != CELLS || relay.changes() == 0, "{lie:?}: {} writes", relay.changes());
        drop(fs::remove_file(file));
    }
}
