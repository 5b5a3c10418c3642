//! Lives of a store whose events are changed afterwards, and what the oracle makes of them.

use fogbank_audit::Observation;
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_sim::scene::{Cast, Death, Fate, Scene, Workload, record_lives};
use fogbank_store::trace::{Event, PublicConfig, Request, TraceReader};

/// The events of a life.
pub type Life = Vec<Event>;
/// What is changed, the rule that it breaks, and how.
pub type Change = (&'static str, &'static str, fn(&mut [Life]));

/// Lives of one store, each of which dies when a call of this number is done, and one that goes on.
pub fn lives(dies: &[u64]) -> (PublicConfig, Vec<Life>) {
    lives_of(&scene(), dies)
}

/// A scene of the usual shape.
pub fn scene() -> Scene {
    Scene { cast: Cast::Journalled, epochs: 8, ..Scene::new(Workload::Uniform, 9) }
}

/// The same of another scene.
pub fn lives_of(scene: &Scene, dies: &[u64]) -> (PublicConfig, Vec<Life>) {
    let folder = tempfile::tempdir().unwrap();
    let deaths = dies.iter().map(|call| Some(Death { call: *call, how: Fate::Done }));
    let paths = (0..).map(|life| folder.path().join(format!("{life}")));
    let lives: Vec<_> = paths.zip(deaths.chain([None])).collect();
    record_lives(scene, &lives).unwrap();
    let mut config = None;
    let events = lives.iter().map(|(path, _)| {
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
        for event in life {
            let rule = match oracle.event(event, &mut nobody) {
                Ok(()) => continue,
                Err(Halt::Breach(breach)) => breach.rule,
                Err(Halt::Unpredictable { .. }) => "unpredictable",
                Err(Halt::Unfollowing { .. }) => "unfollowing",
            };
            return (rule, oracle.summary().lies);
        }
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

/// Each change breaks its rule.
pub fn expect(dies: &[u64], changes: &[Change]) {
    let (config, honest) = lives(dies);
    assert_eq!(broken(&config, &honest), "none");
    for (change, rule, apply) in changes {
        let mut spoiled = honest.clone();
        apply(&mut spoiled);
        assert_ne!(spoiled, honest, "{change}");
        assert_eq!(broken(&config, &spoiled), *rule, "{change}");
    }
}

/// Takes out what is asked from the one place to the other.
pub fn cut_between(life: &mut Life, from: usize, to: usize) {
    let sent = life[from..to].iter().filter(|event| request(event).is_some()).count();
    cut(life, from, sent);
}

/// A call at which a proxy dies that has read something in an epoch and has a batch of it to come.
pub fn within_an_epoch() -> u64 {
    let is = |dies: &u64| {
        let (_, lives) = lives(&[*dies]);
        let life = &lives[1];
        let at = |is: &dyn Fn(&Request) -> bool| {
            life.iter().position(|event| request(event).is_some_and(is)).unwrap()
        };
        let (read, record) = (at(&is_read), find(life, at(&is_read), |r| is_put(r, "journal/")));
        let seen = lives[0].iter().any(|event| request(event) == request(&life[read]));
        seen && record < at(&|r| matches!(r, Request::WriteChunks { .. }))
    };
    (60..90).find(is).unwrap()
}
