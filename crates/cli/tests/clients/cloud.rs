//! The same on a storage server of our own: clients see no difference, and nothing acknowledged is
//! lost when the server is killed under a running proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::differential::{Plan, differences};
use crate::resp::Frame;
use crate::server::{Server, free_port};

#[test]
fn answers_on_a_storage_server_are_those_of_a_real_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, port) = (folder.path().join("cloud"), free_port());
    let url = Server::cloud_tenant(&data, port);
    let _cloud = Server::cloud(&data, port);
    let ours = Server::fogbank(&folder.path().join("data"), &["--store", &url]);
    let theirs = Server::redis();
    let found = differences(Plan::from_environment(2_000), ours.port, theirs.port);
    assert!(found.is_empty(), "{} connections differ\n{}", found.len(), found.join("\n"));
}

/// Each writer counts up in a key of its own and remembers the last number that was acknowledged.
#[test]
fn nothing_acknowledged_is_lost_when_the_storage_server_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cloud_data, data) = (folder.path().join("cloud"), folder.path().join("data"));
    let port = free_port();
    let url = Server::cloud_tenant(&cloud_data, port);
    let mut cloud = Server::cloud(&cloud_data, port);
    let mut fogbank = Server::fogbank(&data, &["--store", &url]);
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (mut client, over) = (fogbank.connect(), over.clone());
            std::thread::spawn(move || {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    match client.line(&format!("INCR n:{writer}")) {
                        Ok(Frame::Integer(n)) => last = n,
                        other => panic!("writer {writer} after {last}: {other:?}"),
                    }
                }
                last
            })
        })
        .collect();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        drop(cloud); // killed, wherever it is
        std::thread::sleep(Duration::from_millis(150));
        cloud = Server::cloud(&cloud_data, port);
    }
    std::thread::sleep(Duration::from_millis(700));
    over.store(true, Ordering::Relaxed);
    let acknowledged: Vec<i64> =
        writers.into_iter().map(|writer| writer.join().expect("it was answered")).collect();
    let holds = |server: &Server| {
        for (writer, last) in acknowledged.iter().enumerate() {
            assert!(*last > 0, "writer {writer} never got anywhere");
            let kept = server.connect().line(&format!("GET n:{writer}")).expect("a reply");
            assert_eq!(kept, Frame::Bulk(last.to_string().into_bytes()));
        }
    };
    holds(&fogbank);
    assert!(fogbank.terminate().success());
    drop(fogbank);
    holds(&Server::fogbank(&data, &["--store", &url]));
}

/// The commit record says in clear how a store was made.
#[test]
fn a_store_at_a_server_combines_cells_and_one_on_this_machine_does_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cloud, port) = (folder.path().join("cloud"), free_port());
    let url = Server::cloud_tenant(&cloud, port);
    let _server = Server::cloud(&cloud, port);
    let (far, near) = (folder.path().join("far"), folder.path().join("near"));
    for (data, options, kept, xor) in [
        (&far, &["--store", &url][..], cloud.join("tenants/test/store"), "\"xor\":true"),
        (&near, &[], near.join("cloud"), "\"xor\":false"),
    ] {
        let mut fogbank = Server::fogbank(data, options);
        assert_eq!(fogbank.connect().line("INCR n").expect("a reply"), Frame::Integer(1));
        assert!(fogbank.terminate().success());
        let record = std::fs::read(kept.join("blobs/commit")).expect("the commit record");
        assert!(String::from_utf8_lossy(&record).contains(xor), "{xor}");
        // It stays what it was made as.
        let fogbank = Server::fogbank(data, options);
        assert_eq!(fogbank.connect().line("GET n").expect("a reply"), Frame::Bulk(b"1".to_vec()));
    }
}

/// The operator's to mend, not the network's, and not ours.
#[test]
fn a_quota_that_is_too_small_is_named_and_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cloud, port) = (folder.path().join("cloud"), free_port());
    let url = Server::cloud_tenant(&cloud, port);
    std::fs::write(cloud.join("tenants/test/quota"), "bytes=100000\narrays=10\n").expect("a quota");
    let _server = Server::cloud(&cloud, port);
    let data = folder.path().join("data");
    let said = match Server::try_fogbank(&data, free_port(), &["--store", &url]) {
        Err(said) => said,
        Ok(mut server) => server.last_words(),
    };
    assert!(said.contains("quota is used up: 100000 bytes"), "{said}");
    assert!(!said.contains("absent") && !said.contains("internal fault"), "{said}");
}
