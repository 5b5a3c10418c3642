//! Genuine messages in the place of others: an older one of the same kind, or what stands in it
//! under the name of the new one, and the contents of two that are under way, exchanged.

use std::cell::RefCell;
use std::rc::Rc;

use super::lies::Lie;
use super::*;
use crate::multicloud::witness::NAMES;

/// Exchanges what stands in two messages of a kind, if it is of one length: what is of another is
/// told as miscounted.
type Exchange = fn(&mut Message, &mut Message) -> bool;

macro_rules! exchange {
    ($link:ident, $kind:ident, $field:ident) => {
        |one, other| match (one, other) {
            (Message::$link(_, $link::$kind(one)), Message::$link(_, $link::$kind(other))) => {
                let (one, other) = (&mut one.$field, &mut other.$field);
                let fits = one.len() == other.len();
                fits.then(|| std::mem::swap(one, other)).is_some()
            }
            _ => false,
        }
    };
}

/// What a cloud sends, by what stands in it. The name begins with who sends it.
const CONTENTS: [(&str, Exchange); 11] = [
    ("S1 blinded", exchange!(Across, Blinded, cells)),
    ("S1 moved", exchange!(Across, Moved, cells)),
    ("S1 handed", exchange!(Across, Handed, cells)),
    ("S2 level", exchange!(Back, Level, cells)),
    ("S1 records", exchange!(FromHolder, Records, records)),
    ("S1 job records", exchange!(FromHolder, JobRecords, records)),
    ("S1 refresh", exchange!(FromHolder, Fetched, cells)),
    ("S1 level digest", exchange!(FromHolder, LevelDigest, digest)),
    ("S2 answer, its cell", exchange!(FromShuffler, Answer, cells)),
    ("S2 answer, its digest", exchange!(FromShuffler, Answer, digest)),
    ("S2 moved digest", exchange!(FromShuffler, MovedDigest, digest)),
];

/// Of which kind it is shows when it is exchanged with itself.
fn is_of(exchange: Exchange, message: &Message) -> bool {
    exchange(&mut message.clone(), &mut message.clone())
}

/// This message with what stands in the other, if that makes another of it.
fn with_contents(exchange: Exchange, message: &Message, of: &Message) -> Option<Message> {
    let (mut changed, mut of) = (message.clone(), of.clone());
    (exchange(&mut changed, &mut of) && changed != *message).then_some(changed)
}

/// What stood in an older message of the kind, under the name of the new one.
pub fn stale() -> Vec<(String, Box<Lie>)> {
    // A shuffler is rarely handed levels twice: below they are exchanged between two partitions.
    let kinds = CONTENTS.into_iter().filter(|(name, _)| *name != "S1 handed");
    let lie = |(name, exchange): (&str, Exchange)| {
        let old = RefCell::new(Vec::<Message>::new());
        let lie: Box<Lie> = Box::new(move |message, _| {
            let mut old = old.borrow_mut();
            if matches!(message, Message::Lost(_)) {
                old.clear();
            }
            if !is_of(exchange, message) {
                return false;
            }
            let stale = |of: &Message| with_contents(exchange, message, of);
            let stale = old.iter().rev().find_map(stale);
            old.push(message.clone());
            stale.map(|stale| *message = stale).is_some()
        });
        (format!("{name}: of an older one"), lie)
    };
    kinds.map(lie).collect()
}

/// An older message, name and all, in the place of a new one. Nobody waits for it any more, and it
/// changes nothing: the new one is withheld.
pub fn again() -> Vec<(String, Box<Lie>)> {
    macro_rules! again {
        ($name:literal, $link:ident, $kind:ident) => {{
            let last = RefCell::new(None);
            let lie: Box<Lie> = Box::new(move |message, _| {
                if matches!(message, Message::Lost(_)) {
                    last.take();
                }
                let reads_nothing =
                    |told: &fogbank_mix::message::JobRecords| told.records.is_empty();
                match message {
                    Message::FromHolder(_, FromHolder::JobRecords(told)) if reads_nothing(told) => {
                        return false; // nobody waits for it
                    }
                    Message::$link(_, $link::$kind(_)) => {}
                    _ => return false,
                }
                let before = last.replace(Some(message.clone()));
                before.map(|before| *message = before).is_some()
            });
            ($name.to_owned(), lie)
        }};
    }
    vec![
        again!("link: an old blinded", Across, Blinded),
        again!("link: an old moved", Across, Moved),
        again!("link: an old level", Back, Level),
        again!("link: an old answer", FromShuffler, Answer),
        again!("link: an old moved digest", FromShuffler, MovedDigest),
        again!("link: an old level digest", FromHolder, LevelDigest),
        again!("S1 old records", FromHolder, Records),
        again!("S1 old job records", FromHolder, JobRecords),
        again!("S1 old refresh", FromHolder, Fetched),
        again!("S1 old stored", FromHolder, Stored),
    ]
}

/// Two messages of one sender, about two partitions, have each what stands in the other. How the
/// client stops, and who has sent them.
fn exchanged(
    (name, exchange): (&str, Exchange),
    canary: impl Fn() -> Canary,
) -> (Option<crate::Error>, usize) {
    // Not to every message comes another that is as long.
    let told = (0..40).find_map(|from| exchanged_from(exchange, from, canary()));
    told.unwrap_or_else(|| panic!("{name} was not exchanged"))
}

/// The same, of the message of this number and the first that is as long.
fn exchanged_from(
    exchange: Exchange,
    from: usize,
    canary: Canary,
) -> Option<(Option<crate::Error>, usize)> {
    // Of which a partition bears many reads while its job waits.
    let settings = MulticloudSettings {
        refresh_every: 2,
        spare: 30,
        extra: 30,
        ..settings(90, 16, layout(90, 4, 4, 60, 0))
    };
    let mut world = World::with(settings, 4, canary);
    world.is_strange = true;
    let liar = Rc::new(RefCell::new(None));
    let behind = Rc::new(RefCell::new(Vec::new()));
    let (lies, later, mut held) = (liar.clone(), behind.clone(), None::<Message>);
    let mut before = 0;
    world.fate = Box::new(move |mut message| {
        if lies.borrow().is_some() || !is_of(exchange, &message) {
            return Some(message);
        }
        before += 1;
        if before <= from {
            return Some(message);
        }
        let Some(mut first) = held.take() else {
            held = Some(message); // until there is another
            return None;
        };
        let fits = first.link() == message.link() && first.partition() != message.partition();
        if fits && with_contents(exchange, &message, &first).is_some() {
            exchange(&mut message, &mut first);
            *lies.borrow_mut() = Some(usize::from(message.link().0));
            later.borrow_mut().push(first);
        } else {
            held = Some(first);
        }
        Some(message)
    });
    world.added = Box::new(move |_| std::mem::take(&mut behind.borrow_mut()));
    let told = (0..400u32).find_map(|access| {
        if access >= 200 && access % 24 == 0 {
            // What a shuffler had kept it is handed from now on.
            (0..2).for_each(|cloud| world.cloud_restarts(cloud).unwrap());
        }
        let come = world.arrive(access * 7 % 90, Access::Read);
        let come = come.and_then(|()| if access % 8 == 7 { world.settle() } else { Ok(()) });
        come.err()
    });
    if told.is_some() {
        let silent = world.plane.repeat();
        assert!(matches!(silent, Err(crate::Error::CloudLied(_))), "{silent:?}");
    }
    let liar = *liar.borrow();
    liar.map(|liar| (told, liar))
}

#[test]
fn two_messages_exchanged_are_the_lie_of_who_sends_them() {
    for (name, exchange) in CONTENTS {
        let (told, liar) = exchanged((name, exchange), Canary::default);
        let told = told.unwrap_or_else(|| panic!("{name} is not noticed"));
        let is_told = matches!(told, crate::Error::CloudLied(_));
        assert!(is_told && told.to_string().contains(NAMES[liar]), "{name}: {told}");
    }
}

/// The canary of what was just looked at: without its check another is named, or nobody.
#[cfg(feature = "canaries")]
#[test]
fn without_its_check_an_exchange_is_told_of_another() {
    use crate::multicloud::canary::Leak;
    for (of, leak) in [
        ("S1 blinded", Leak::WantedChecked),
        ("S1 moved", Leak::MovedTrusted),
        ("S1 handed", Leak::MovedTrusted),
        ("S2 level", Leak::LevelTrusted),
        ("S1 job records", Leak::SealIgnored),
    ] {
        let of = CONTENTS.into_iter().find(|(name, _)| *name == of).unwrap();
        let (told, liar) = exchanged(of, || Canary::new(leak));
        let is_right = told.is_some_and(|told| told.to_string().contains(NAMES[liar]));
        assert!(!is_right, "{leak:?}");
    }
}
