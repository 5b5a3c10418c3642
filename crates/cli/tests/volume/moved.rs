//! A site that moves while another client is at work on it: that one ends and says what to do, and
//! nothing that it was told to be kept stays behind.

use crate::client::{BLOCK, Client};
use crate::server::Server;
use crate::two_clients::{TwoClients, done};
use crate::{fogbank, said};

/// Another proxy, or another place, has what was served.
const ELSEWHERE: i32 = 78;

#[test]
fn who_is_at_work_when_a_site_moves_ends_and_is_told_why() {
    let site = TwoClients::new("1MiB");
    let (at, shown) = (|name: &str| site.at(name), |name: &str| site.shown(name));
    let to = format!("file://{}", shown("next"));
    // Before anybody has opened it, and before an epoch is over, words say so.
    let told = done(&["site", "status", "--data", &shown("one")]);
    let seen = told.lines().find(|line| line.contains("seen here")).unwrap();
    assert!(!seen.contains("epoch 0") && seen.contains("as it was made"), "{seen}");
    let mut two = Server::try_site(&at("two"), &at("socket"), &[]).unwrap();
    let mut client = Client::connect(&at("socket")).unwrap();
    for cookie in 0..5 {
        client.write(cookie, cookie, &[cookie as u8 + 1; BLOCK]).unwrap();
        assert_eq!(client.reply().unwrap(), cookie);
    }
    // A mistake in what names the new place is told before anybody is told to end.
    let mistyped = site.store.replace("/test?", "/nobody?");
    let wrong = ["--data", &shown("one"), "--to", &shown("moved"), "--to-store", &mistyped];
    let told = fogbank(&[&["site", "rotate-key"][..], &wrong].concat());
    assert_eq!(told.status.code(), Some(64), "{}", said(&told));
    assert!(!said(&told).contains("told to end"), "{}", said(&told));
    client.write(5, 5, &[6; BLOCK]).unwrap();
    assert_eq!(client.reply().unwrap(), 5);
    let rotated = ["--data", &shown("one"), "--to", &shown("moved"), "--to-store", &to];
    let told = done(&[&["site", "rotate-key"][..], &rotated].concat());
    assert!(told.contains("told to end") && told.contains("1 other client "), "{told}");
    assert_eq!(two.wait().code(), Some(ELSEWHERE));
    let told = two.last_words();
    for words in ["moves this site", "fogbank site join", "goes along"] {
        assert!(told.contains(words), "{told}");
    }
    // What it was told to be kept is in the new site.
    let mut moved = Server::try_site(&at("moved"), &at("other"), &[]).unwrap();
    let read = Client::connect(&at("other")).unwrap().read(0, 7).unwrap();
    for (block, content) in read.chunks(BLOCK).enumerate() {
        let expected = if block < 6 { block as u8 + 1 } else { 0 };
        assert!(content.iter().all(|byte| *byte == expected), "{block}");
    }
    assert!(moved.terminate().success());
    // Nobody works at the old one any more, not even who was away meanwhile, nor who moved it; what
    // it holds can be read.
    for (name, command) in [("two", "serve"), ("one", "serve"), ("two", "build")] {
        let told = fogbank(&["site", command, "--data", &shown(name)]);
        let (code, said) = (told.status.code(), said(&told));
        assert_eq!(code, Some(ELSEWHERE), "{name} {command}: {said}");
        for words in ["was moved", "fogbank site join", "fogbank site stay --data"] {
            assert!(said.contains(words), "{said}");
        }
    }
    done(&["site", "verify", "--data", &shown("two")]);
    // If the move had failed, whoever goes on does so at the old one.
    done(&["site", "stay", "--data", &shown("one")]);
    let mut two = Server::try_site(&at("two"), &at("socket"), &[]).unwrap();
    assert!(two.terminate().success());
}
