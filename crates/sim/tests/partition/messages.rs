//! What jobs write leaves in messages: as much in each, and as many under way, as there may be.

use std::time::Duration;

use fogbank_sim::scene::partition::{Load, PartitionScene};
use fogbank_store::trace::{Done, Event, Outcome, PublicConfig, Request, Sent};

use crate::changes::{Life, broken, read};

/// A life on a grid with so many messages, and bytes, under way.
fn life(windows: usize, bytes_at_once: usize) -> (PublicConfig, Vec<Life>) {
    let mut scene = PartitionScene { accesses: 40, ..PartitionScene::new(Load::Uniform, 6) };
    let shell = &mut scene.settings.engine.shell;
    shell.quantum = Duration::from_millis(2);
    (shell.windows, shell.bytes_at_once) = (windows, bytes_at_once);
    read(1, |paths| drop(scene.record(&paths[0])))
}

#[test]
fn a_message_has_all_that_waits() {
    let (config, mut lives) = life(2, 1 << 20);
    assert_eq!(broken(&config, &lives), "none");
    let life = &mut lives[0];
    let of_two = |event: &Event| {
        let Event::Sent(Sent { request: Request::WriteChunks { writes }, .. }) = event else {
            return false;
        };
        writes.first().map(|(name, _)| name.chunk) != writes.last().map(|(name, _)| name.chunk)
    };
    let at = life.iter().position(of_two).unwrap();
    let Event::Sent(sent) = &mut life[at] else { panic!("a request") };
    let Request::WriteChunks { writes } = &mut sent.request else { panic!("writes") };
    let last = writes.last().unwrap().0.chunk;
    let own = writes.iter().position(|(name, _)| name.chunk == last).unwrap();
    let request = Request::WriteChunks { writes: writes.split_off(own) };
    let (first, second) = (sent.id, 1 << 40);
    let rest = Sent { id: second, request, ..sent.clone() };
    life.insert(at + 1, Event::Sent(rest));
    let is_end = |event: &Event| matches!(event, Event::Done(done) if done.id == first);
    let end = life.iter().position(is_end).unwrap();
    let done = Done { id: second, at: life[end].at(), outcome: Outcome::Done };
    life.insert(end + 1, Event::Done(done));
    assert_eq!(broken(&config, &lives), "level-whole");
}

#[test]
fn no_more_are_under_way_than_may_be() {
    let (_, lives) = life(3, 1 << 20);
    for (windows, bytes) in [(2, 1 << 20), (3, 1_000), (4, 1 << 20)] {
        let (other, _) = life(windows, bytes);
        assert_eq!(broken(&other, &lives), "level-whole", "{windows} {bytes}");
    }
}
