//! The rule: what it asks for, that an epoch of it holds what comes, and that it ends.

use std::sync::Arc;

use clap::Parser;
use fogbank::Error;
use fogbank::args::{Cli, Command};
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_txn::Footprint;
use rand_core::Rng;

use super::bench_args;
use super::need::{Arrivals, Need, coarse};
use super::proposal::{Proposal, flags};
use super::seen::Seen;
use crate::args::Lab;
use crate::bench::Setting;

fn footprint(rounds: &[u32], written: u32, bytes: u32) -> Footprint {
    let values = rounds.iter().sum::<u32>() + written;
    let value_bytes = (0..values).map(|_| bytes).collect();
    Footprint { rounds: rounds.to_vec(), written, value_bytes }
}

/// Nine of ten read two records in two rounds and write one; one of ten reads ten at once.
fn mixed() -> Seen {
    let mut seen = Seen::default();
    seen.add(&footprint(&[1, 1], 1, 200), 900);
    seen.add(&footprint(&[10], 0, 200), 100);
    seen.add(&Footprint::default(), 7);
    seen
}

#[test]
fn steps_are_one_two_five() {
    for (figure, step) in
        [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (5.0, 5.0), (5.1, 10.0), (201.0, 500.0)]
    {
        assert_eq!(coarse(figure), step, "{figure}");
    }
    assert_eq!(coarse(123_456.0), 200_000.0);
}

#[test]
fn rounds_and_values_follow_from_99_of_100_and_batches_hold_the_largest() {
    let seen = mixed();
    assert_eq!((seen.transactions, seen.silent), (1_000, 7));
    let need = Need::of(&seen, 0.0, false);
    let least = Need { read_batches: 3, batch: 10, write_batch: 5, value_bytes: 256 };
    assert_eq!(need, least, "as little as that");
    // One in a thousand is deep: it is not what R is chosen by, and it is told of.
    let mut deep = mixed();
    deep.add(&footprint(&[1; 9], 0, 100), 1);
    assert_eq!(Need::of(&deep, 0.0, false).read_batches, 3);
    assert!((deep.share_deeper_than(3) - 1.0 / 1001.0).abs() < 1e-9);
    // Two in a hundred are, and it is.
    deep.add(&footprint(&[1; 9], 0, 100), 20);
    assert_eq!(Need::of(&deep, 0.0, false).read_batches, 10);
    // A value in a thousand is long: it takes several blocks, which a batch holds.
    let mut long = mixed();
    long.add(&footprint(&[1], 0, 10_000), 1);
    let need = Need::of(&long, 0.0, false);
    assert_eq!((need.value_bytes, need.batch), (256, 50), "40 blocks of 256");
}

#[test]
fn clients_that_come_together_need_a_round_of_all_in_one_batch() {
    let seen = mixed();
    let (spread, together) = (Need::of(&seen, 1e3, false), Need::of(&seen, 1e3, true));
    // 2,800 reads an epoch; 1,900 of them in the first round.
    assert_eq!((spread.read_batches, spread.batch), (3, 2_000));
    assert_eq!((together.read_batches, together.batch), (3, 5_000));
    // Each writes one at most, so a thousand that wait write no more than a thousand.
    assert_eq!((spread.write_batch, together.write_batch), (2_000, 1_000));
}

#[test]
fn a_few_clients_need_no_more_than_all_of_them_can_ask_for() {
    let mut seen = Seen::default();
    seen.add(&footprint(&[3, 2], 4, 64), 1_000);
    let need = Need::of(&seen, 4.0, true);
    assert_eq!((need.batch, need.write_batch), (20, 20), "12 in a round, 16 written");
    // Of arrivals there may be more than the mean.
    assert_eq!(Need::of(&seen, 4.0, false).write_batch, 50);
}

/// An epoch whose batch has no head-room overflows every other time: that is the canary.
#[test]
fn an_epoch_holds_what_chance_brings() {
    let seen = mixed();
    let mut stream = Randomness::repeatable(1).stream(Purpose::Workload);
    let mut overflows = |sigmas: f64| {
        let room = seen.in_epoch(seen.read, 200.0, sigmas);
        let epochs = (0..1_000).map(|_| {
            // As good as Poisson: 2,000 that come with a probability of a tenth.
            let mut reads = 0.0;
            for _ in 0..2_000 {
                let drawn = stream.next_u32() % 100;
                reads += if drawn < 9 {
                    2.0
                } else if drawn == 9 {
                    10.0
                } else {
                    0.0
                };
            }
            reads
        });
        epochs.filter(|reads| *reads > room).count()
    };
    assert!(overflows(4.0) <= 3);
    assert!(overflows(0.0) > 300);
}

#[test]
fn an_epoch_takes_what_arrives_while_it_lasts() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let link = LinkArgs::of_round_trip(10.0);
    let propose =
        |arrivals, link: &LinkArgs| Proposal::of(&mixed(), (arrivals, 5_000), link, &clock);
    let few = propose(Arrivals::PerS(10.0), &link).unwrap();
    let many = propose(Arrivals::PerS(2_000.0), &link).unwrap();
    for proposal in [&few, &many] {
        let config = &proposal.config;
        assert_eq!((config.read_batches, config.value_size, config.capacity), (3, 256, 10_000));
        let need = Need::of(&mixed(), proposal.transactions, false);
        assert!(config.batch >= need.batch && config.write_batch >= need.write_batch);
        let reckoned = proposal.epoch.read_batch_s + config.proxy_settings().slack.as_secs_f64();
        assert!(config.interval_ms as f64 >= reckoned * 1e3, "{}", config.interval_ms);
    }
    assert!(many.config.batch > 5 * few.config.batch);
    let clients = propose(Arrivals::Clients(100), &link).unwrap();
    assert_eq!(clients.transactions, 100.0);
    // What no link carries is said, not proposed.
    let narrow = LinkArgs { up_mb_s: Some(0.1), down_mb_s: Some(0.1), ..link };
    let told = propose(Arrivals::PerS(2_000.0), &narrow).err().unwrap();
    assert!(matches!(told, Error::Usage(_)) && told.to_string().contains("--rate"), "{told}");
}

/// A flag that was not given was what was said to be wrong.
#[test]
fn what_does_not_fit_is_said_in_its_own_words() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let told = |arrivals, link: &LinkArgs| {
        let told = Proposal::of(&mixed(), (arrivals, 5_000), link, &clock).err().unwrap();
        assert!(matches!(told, Error::Usage(_)), "{told}");
        told.to_string()
    };
    let link = LinkArgs::of_round_trip(10.0);
    let many = told(Arrivals::Clients(1_000_000), &link);
    assert!(many.contains("1000000 clients at once") && many.contains("(--clients)"), "{many}");
    let fast = told(Arrivals::PerS(1e8), &link);
    assert!(
        fast.contains("100000000 transactions a second") && fast.contains("(--rate)"),
        "{fast}"
    );
    assert!(!many.contains("--batch") && !fast.contains("--batch"), "{many} {fast}");
    let slow = LinkArgs { up_mb_s: Some(0.001), down_mb_s: Some(0.001), ..link };
    let slow = told(Arrivals::Clients(10_000), &slow);
    assert!(slow.contains("two hours at the most") && slow.contains("--down-mb-s"), "{slow}");
}

/// What is tried and what is typed is what is proposed; it was tried with other buckets, and never
/// with paths as one cell.
#[test]
fn what_is_tried_and_typed_is_what_is_proposed() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for rtt_ms in ["0", "10"] {
        let words = ["fogbank", "tune", "--workload", "smallbank", "--scale", "100", "--try"];
        let words = words.into_iter().chain(["--clients", "100", "--rtt-ms", rtt_ms]);
        let crate::args::Command::Tune(args) = Lab::try_parse_from(words).unwrap().command else {
            panic!("that is the command");
        };
        let across = rtt_ms != "0";
        let proposed = (Arrivals::Clients(100), 5_000);
        let proposal = Proposal::of(&mixed(), proposed, &args.link, &clock).unwrap();
        assert_eq!(proposal.config.xor, across);
        let tried = Setting::of(&bench_args(&args, Some(&proposal)).unwrap()).unwrap();
        assert_eq!(tried.config().unwrap(), proposal.config);
        assert_eq!(tried.link, args.link.link().unwrap());
        let words = ["fogbank", "serve", "--data", "D"].into_iter();
        let words = words.chain(proposal.flags().iter().map(String::as_str));
        let Command::Serve(serve) = Cli::try_parse_from(words).unwrap().command else {
            panic!("that is the command");
        };
        let served = StoreConfig::derive_at(&serve.shape, true, across).unwrap();
        assert_eq!(served, proposal.config);
        // The canary: buckets that somebody has chosen are among what is typed.
        let other = StoreConfig { bucket_dummies: 99, xor: !across, ..proposal.config.clone() };
        let typed = flags(&other, across).unwrap().join(" ");
        let xor = if across { "--xor off" } else { "--xor on" };
        assert!(typed.ends_with(&format!("--bucket-dummies 99 {xor}")), "{typed}");
    }
}
