//! Lives of a store whose events are changed afterwards, and what the oracle makes of them.

use std::path::PathBuf;

use fogbank_audit::Observation;
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_store::trace::{Event, PublicConfig, Request, TraceReader};

/// The events of a life.
pub type Life = Vec<Event>;
/// What is changed, the rule that it breaks, and how.
pub type Change = (&'static str, &'static str, fn(&mut [Life]));

/// What the traces hold that a scene writes to so many files; their head is one.
pub fn read(count: usize, write: impl FnOnce(&[PathBuf])) -> (PublicConfig, Vec<Life>) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..count).map(|life| folder.path().join(format!("{life}"))).collect();
    write(&paths);
    let mut config = None;
    let events = paths.iter().map(|path| {
        let reader = TraceReader::open(path).unwrap();
        config = Some(PublicConfig::decode(reader.config()).unwrap());
        reader.map(Result::unwrap).collect()
    });
    let events = events.collect();
    (config.unwrap(), events)
}

/// The rule that they break.
pub fn broken(config: &PublicConfig, lives: &[Life]) -> &'static str {
    judged(config, lives).0
}

/// The same, and how many lies were found until then.
pub fn judged(config: &PublicConfig, lives: &[Life]) -> (&'static str, u32) {
    let mut oracle = Oracle::new(config).unwrap();
    let mut nobody = |_: &Observation<'_>| {};
    for (number, life) in lives.iter().enumerate() {
        if number > 0 {
            oracle.next_trace();
        }
        let taken = life.iter().try_for_each(|event| oracle.event(event, &mut nobody));
        let rule = match taken.and_then(|()| oracle.end_trace(&mut nobody)) {
            Ok(()) => continue,
            Err(Halt::Breach(breach)) => breach.rule,
            Err(Halt::Unpredictable { .. }) => "unpredictable",
            Err(Halt::Unfollowing { .. }) => "unfollowing",
        };
        return (rule, oracle.summary().lies);
    }
    ("none", oracle.summary().lies)
}

/// What an event asks for.
pub fn request(event: &Event) -> Option<&Request> {
    match event {
        Event::Sent(sent) => Some(&sent.request),
        _ => None,
    }
}

/// The first request from `from` on that `is` one.
pub fn find(life: &[Event], from: usize, is: impl Fn(&Request) -> bool) -> usize {
    (from..life.len()).find(|at| request(&life[*at]).is_some_and(&is)).unwrap()
}

/// Takes the `count` requests from the one at `from` on out of a life, and their ends.
pub fn cut(life: &mut Life, from: usize, count: usize) {
    let sent = |event: &Event| match event {
        Event::Sent(sent) => Some(sent.id),
        _ => None,
    };
    let gone: Vec<u64> = life[from..].iter().filter_map(sent).take(count).collect();
    life.retain(|event| match event {
        Event::Sent(sent) => !gone.contains(&sent.id),
        Event::Done(done) => !gone.contains(&done.id),
        _ => true,
    });
}

/// Whether blobs whose names begin so are put.
pub fn is_put(request: &Request, kind: &str) -> bool {
    matches!(request, Request::BlobPut { name, .. } if name.starts_with(kind))
}

/// Whether cells are read.
pub fn is_read(request: &Request) -> bool {
    matches!(request, Request::ReadCells { .. })
}

/// Makes a put longer.
pub fn lengthen(life: &mut Life, at: usize) {
    let Event::Sent(sent) = &mut life[at] else { panic!("no request") };
    let Request::BlobPut { bytes, .. } = &mut sent.request else { panic!("no put") };
    *bytes += 1;
}

/// Each change to these honest lives breaks its rule.
pub fn expect(config: &PublicConfig, honest: &[Life], changes: &[Change]) {
    assert_eq!(broken(config, honest), "none");
    let mut missed = Vec::new();
    for (change, rule, apply) in changes {
        let mut spoiled = honest.to_vec();
        apply(&mut spoiled);
        assert_ne!(spoiled, honest, "{change}");
        let found = broken(config, &spoiled);
        missed.extend((found != *rule).then(|| format!("{change}: {found}, not {rule}")));
    }
    assert_eq!(missed, [""; 0]);
}
