//! A copy of the whole trusted side of a volume in two clouds, journal and register together, is
//! put back: a snapshot of a machine. It is served if it is the newest; else the clouds would see
//! numbers again that they have seen.

#[cfg(feature = "canaries")]
use fogbank_env::by;
use fogbank_env::{Clock, SystemClock};
use fogbank_oram::Error;
#[cfg(feature = "canaries")]
use fogbank_oram::multicloud::canary::Leak;

use super::engines::{Kind, Trusted, World};
use super::history::{History, Workload, read_all};

/// Accesses from one copy to the next, lives, and copies in each.
const APART: usize = 5;
const LIVES: usize = 3;
const COPIES: usize = 12;

/// A volume over which some lives have gone, the last of them closed or not, and copies of its
/// trusted side, the newest last. The others end before what the clouds have seen.
async fn copies(closes: bool, checkpoint_every: u64) -> (World, Vec<Trusted>) {
    let (mut world, mut copies) = (World::new(Kind::Multicloud), Vec::new());
    world.checkpoint_every = checkpoint_every;
    world.set_trusted(&(Vec::new(), None)).await;
    let (mut history, mut work) = (History::new(), Workload::new(11));
    for life in 1..=LIVES {
        let engine = world.open(world.cloud.clone()).await.unwrap();
        for _ in 0..COPIES {
            copies.push(world.trusted().await);
            history.run(&*engine, &mut work, APART).await.unwrap();
        }
        match closes || life < LIVES {
            true => engine.close().await.unwrap(),
            false => drop(engine),
        }
        let clock = SystemClock::new();
        clock.sleep_until(clock.now() + 1_000_000_000).await; // whatever still goes on
    }
    copies.push(world.trusted().await);
    (world, copies)
}

/// Every copy but the newest is refused, and nothing is sent: neither cloud lies, or either says
/// that it has seen nothing. Then the newest copy is as good as ever.
#[tokio::test(start_paused = true)]
async fn a_copy_of_any_age_is_refused() {
    for (closes, checkpoint_every) in [(true, 12), (false, 12), (true, 1_000), (false, 1_000)] {
        for liar in [None, Some(0), Some(1)] {
            let (mut world, copies) = copies(closes, checkpoint_every).await;
            let (newest, older) = copies.split_last().unwrap();
            world.clouds.says_nothing(liar);
            let passed = world.clouds.passed();
            for (age, copy) in (1..).zip(older.iter().rev()) {
                world.set_trusted(copy).await;
                let opened = world.open(world.cloud.clone()).await.err();
                let is_told = match &opened {
                    Some(Error::Register(why)) => why.contains("older than what the clouds have"),
                    // The copy of before the volume was made.
                    Some(Error::Bug(why)) => age == older.len() && why.contains("register"),
                    _ => false,
                };
                assert!(is_told, "{age} copies old: {opened:?}");
            }
            assert_eq!(world.clouds.passed(), passed, "nothing was sent");
            world.set_trusted(newest).await;
            let engine = world.open(world.cloud.clone()).await.unwrap();
            read_all(&*engine).await.unwrap();
            engine.close().await.unwrap();
            assert_eq!(world.clouds.repeats(), []);
        }
    }
}

/// What the check is for: without it a copy is served, and the clouds are shown numbers again with
/// other contents.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_served_shows() {
    let mut shown = 0;
    for age in 1..COPIES {
        let (mut world, copies) = copies(false, 1_000).await;
        world.leak = Some(Leak::ServesOlder);
        world.set_trusted(&copies[copies.len() - 1 - age]).await;
        let engine = world.open(world.cloud.clone()).await.unwrap();
        let (mut work, clock) = (Workload::new(12), SystemClock::new());
        for _ in 0..3 * APART {
            let (address, access) = work.next();
            let answered = engine.submit(address, access);
            // A cloud refuses, or is silent, for what it has seen it does no more: it was sent.
            let answered = by(&clock, clock.now() + 1_000_000_000, answered).await;
            if !matches!(answered, Some(Ok(_))) {
                break;
            }
        }
        shown += usize::from(!world.clouds.repeats().is_empty());
    }
    assert!(shown > COPIES / 2, "{shown}");
}
