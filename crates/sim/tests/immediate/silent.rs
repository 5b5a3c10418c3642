//! One of two clouds is there and says nothing: frozen, or behind a link that swallows everything.

use fogbank_env::{Clock, SystemClock, by};
use fogbank_oram::Error;

use super::engines::{Kind, World};
use super::history::{History, Workload, read_all};

const SECOND: u64 = 1_000_000_000;

/// Which cloud is silent, and whether it opens sessions all the same.
const SILENT: [(usize, bool); 4] = [(0, true), (1, true), (0, false), (1, false)];

/// It comes back within the time: what was under way is answered, and nothing was sent twice with
/// other contents.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_goes_on_when_a_cloud_comes_back() {
    for (silent, seconds) in SILENT.into_iter().flat_map(|silent| [(silent, 2), (silent, 45)]) {
        let (world, mut history, mut work) =
            (World::new(Kind::Multicloud), History::new(), Workload::new(seconds));
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.run(&*engine, &mut work, 40).await.unwrap();
        world.clouds.is_silent(Some(silent));
        let comes_back = async {
            let clock = SystemClock::new();
            clock.sleep_until(clock.now() + seconds * SECOND).await;
            world.clouds.is_silent(None);
        };
        let (ran, ()) = tokio::join!(history.run(&*engine, &mut work, 40), comes_back);
        ran.unwrap_or_else(|error| panic!("{silent:?} for {seconds} s: {error}"));
        history.check(read_all(&*engine).await.unwrap()).unwrap();
        engine.close().await.unwrap();
        assert_eq!(world.clouds.repeats(), [], "{silent:?} for {seconds} s");
    }
}

/// It does not: whoever waits is told that a cloud is absent. Later everything is there.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_stays_silent_is_told_as_absent() {
    for silent in SILENT {
        let (world, mut history, mut work) =
            (World::new(Kind::Multicloud), History::new(), Workload::new(7));
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.run(&*engine, &mut work, 40).await.unwrap();
        world.clouds.is_silent(Some(silent));
        let clock = SystemClock::new();
        let run = history.run(&*engine, &mut work, 40);
        let told = by(&clock, clock.now() + 200 * SECOND, run).await;
        assert!(matches!(told, Some(Err(Error::Absent(_)))), "{silent:?}: {told:?}");
        drop(engine);
        world.clouds.is_silent(None);
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.check(read_all(&*engine).await.unwrap()).unwrap();
        engine.close().await.unwrap();
        assert_eq!(world.clouds.repeats(), [], "{silent:?}");
    }
}
