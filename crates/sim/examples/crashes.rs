//! `make sim`: plays stories of crashes until it is stopped (Ctrl-C, or `FOGBANK_SIM_SECONDS`), one
//! seed after the other from a random one on, and says now and then how far it is.
//!
//! A story that does not end well is one line that says how to play it again:
//! `FOGBANK_SIM_SEED=SEED make sim` plays that one and no other. Exit code 1 if there was any.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos, SystemClock};
use fogbank_sim::lives::{Count, Story};

/// Between two lines that say how far it is.
const STATUS_NANOS: Nanos = 5_000_000_000;

#[derive(Default)]
struct Playing {
    next: AtomicU64,
    stop: AtomicBool,
    so_far: Mutex<(u64, u64, Count)>,
}

fn main() -> ExitCode {
    if let Some(seed) = number("FOGBANK_SIM_SEED") {
        println!("{}", Story::of(seed));
        return match played(seed) {
            Ok(count) => {
                println!("ended well: {count:?}");
                ExitCode::SUCCESS
            }
            Err(line) => {
                println!("{line}");
                ExitCode::FAILURE
            }
        };
    }
    let Ok(drawn) = fogbank_seal::system_seed() else { return ExitCode::FAILURE };
    // Short enough to be typed.
    let from = drawn.iter().take(4).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let playing = Playing { next: AtomicU64::new(from), ..Playing::default() };
    println!("stories from seed {from} on; Ctrl-C ends it");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(|| playing.play())));
        playing.watch();
        playing.stop.store(true, Ordering::Relaxed);
    });
    println!("ended. {}", playing.status());
    match playing.failed() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays the story of a seed; what is wrong with it is one line.
fn played(seed: u64) -> Result<Count, String> {
    let story = Story::of(seed);
    let ended = catch_unwind(AssertUnwindSafe(|| story.play()));
    let ended = ended.unwrap_or_else(|_| Err(format!("it panicked ({story})")));
    ended.map_err(|what| {
        let what = what.replace('\n', " ");
        format!("FAILED: {what}; again: FOGBANK_SIM_SEED={seed} make sim")
    })
}

impl Playing {
    fn play(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let ended = played(self.next.fetch_add(1, Ordering::Relaxed));
            if let Err(line) = &ended {
                println!("{line}");
            }
            let mut so_far = self.so_far.lock();
            so_far.0 += 1;
            match ended {
                Ok(count) => so_far.2 += count,
                Err(_) => so_far.1 += 1,
            }
        }
    }

    /// Says how far it is until somebody or the time ends it.
    fn watch(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        let clock = SystemClock::new();
        let until = number("FOGBANK_SIM_SECONDS").map_or(Duration::MAX, Duration::from_secs);
        let until = Nanos::try_from(until.as_nanos()).unwrap_or(Nanos::MAX);
        runtime.block_on(async {
            let interrupted = tokio::signal::ctrl_c();
            let mut interrupted = std::pin::pin!(interrupted);
            while clock.now() < until {
                tokio::select! {
                    _ = &mut interrupted => return,
                    () = clock.sleep_until(until.min(clock.now() + STATUS_NANOS)) => {}
                }
                println!("{}", self.status());
            }
        });
    }

    fn failed(&self) -> u64 {
        self.so_far.lock().1
    }

    fn status(&self) -> String {
        let (stories, failed, count) = *self.so_far.lock();
        let Count { crashes, repeated, acknowledged, fenced, caught, unread } = count;
        format!(
            "{stories} stories, {failed} failed: {crashes} crashes ({repeated} within an epoch of \
             reads), {acknowledged} transfers acknowledged, {fenced} proxies overtaken or refused, \
             {caught} lies caught, {unread} never read"
        )
    }
}
