//! Cells a query, counted by following a log, held against the table of the protocol.

use super::orders::WHOLE;
use super::*;

/// Tables touched a query, and cells in all: those, the entry, the result, and what builds read and
/// write, over the second period of the bottom, when every level is filled.
fn cells_a_query(blocks: u32, piece: u32) -> (f64, f64) {
    let schedule = Schedule::new(blocks, 256, 2, 8, true).unwrap().in_pieces(piece).unwrap();
    let period = 1u64 << schedule.bottom();
    let (mut touched, mut built) = (0u64, 0u64);
    // The builds of one whole period of the bottom, wherever it begins.
    for epoch in 2 * period..3 * period {
        touched += 256 * schedule.tables(epoch).len() as u64;
        for table in schedule.starting(epoch) {
            let pieces = Pieces::new(&schedule, table);
            built += pieces.all().flat_map(|piece| pieces.moves(&piece)).sum::<u64>();
        }
    }
    let queries = (256 * period) as f64;
    (touched as f64 / queries, (touched + built) as f64 / queries + 2.0)
}

#[test]
fn cells_a_query_are_those_of_the_protocol() {
    // Pieces as sites of blocks of 4 KiB have them.
    for (blocks, piece, tables, cells) in
        [(100_000, 32_768, 14.5, 67.0), (1_000_000, 45_248, 19.0, 95.0)]
    {
        let (found_tables, found) = cells_a_query(blocks, piece);
        println!("{blocks}: {found_tables:.1} tables, {found:.1} cells");
        assert!((found_tables / tables - 1.0).abs() < 0.1, "{blocks}: {found_tables} tables");
        assert!((found / cells - 1.0).abs() < 0.1, "{blocks}: {found} cells");
    }
}

/// What is reckoned in advance is what is counted, epoch by epoch.
#[test]
fn what_is_reckoned_of_a_site_is_what_it_comes_to() {
    for (blocks, piece) in [(5_000, 128), (5_000, WHOLE), (60_000, 4_096)] {
        let schedule = Schedule::new(blocks, 64, 2, 8, false).unwrap().in_pieces(piece).unwrap();
        let (cost, period) = (Cost::of(&schedule), 1u64 << schedule.bottom());
        let (mut touched, mut moved, mut stored) = (0, [0, 0], 0);
        for epoch in 4 * period..6 * period {
            touched += 64 * schedule.tables(epoch).len() as u64;
            for table in schedule.starting(epoch) {
                let pieces = Pieces::new(&schedule, table);
                for [read, written] in pieces.all().map(|piece| pieces.moves(&piece)) {
                    moved = [moved[0] + read, moved[1] + written];
                }
            }
            let now = (0..=schedule.bottom()).flat_map(|level| {
                let all = (0..=(epoch >> level) as i64).rev().take(12);
                all.map(move |index| Table { level, index })
            });
            let lives = |table: &Table| {
                (schedule.build_starts(*table)..=schedule.superseded(*table)).contains(&epoch)
            };
            let cells = |table: Table| {
                let is_built = schedule.installed(table) <= epoch;
                let dealt = Pieces::new(&schedule, table).bucket_cells();
                u64::from(schedule.slots(table)) + if is_built { 0 } else { u64::from(dealt) }
            };
            stored = stored.max(now.filter(lives).map(cells).sum::<u64>());
        }
        let queries = (64 * 2 * period) as f64;
        for (reckoned, counted) in [
            (cost.touched, touched as f64 / queries),
            (cost.read, moved[0] as f64 / queries),
            (cost.written, moved[1] as f64 / queries),
        ] {
            assert!((reckoned / counted - 1.0).abs() < 1e-9, "{reckoned}, {counted} counted");
        }
        let over = cost.stored as f64 / stored as f64;
        assert!((1.0..1.15).contains(&over), "{} cells, {stored} counted", cost.stored);
    }
}

/// What the world moves is what the schedule says: it counts nothing that is not done.
#[test]
fn a_run_moves_what_the_schedule_counts() {
    let schedule = Schedule::new(16, 4, 2, 4, true).unwrap();
    let program = (0..160u32).map(|n| read(n % 16)).collect();
    let mut world = World::new(schedule, vec![program], Canary::default());
    world.settle();
    let tables = |place: &u64| schedule.tables(schedule.epoch_of(*place)).len() as u64;
    let places: Vec<u64> = (0..world.server.log.len() as u64).collect();
    assert_eq!(world.moved[0], places.iter().map(tables).sum::<u64>());
    assert!(world.moved[1] > 0 && world.moved[2] > world.moved[0]);
}

/// What a client is said to take of memory is what it takes when every block has been written, but
/// for fakes that are drawn.
#[test]
fn what_a_client_keeps_of_tables_is_what_is_reckoned() {
    for (blocks, epoch) in [(2_048, 16), (700, 8)] {
        let schedule = Schedule::new(blocks, epoch, 2, 4, false).unwrap().in_pieces(WHOLE).unwrap();
        let mut follower = Follower::new(schedule, keys(), HEADER, 2, Arc::default());
        let (period, mut most) = (1u64 << schedule.bottom(), 0);
        for place in 0..schedule.first_of(5 * period) {
            let (seen, seen_digest) = (follower.length(), follower.digest());
            let query = Some(((place % u64::from(blocks)) as u32, Access::Read));
            let (turn, says, builds) = (place + 1, Says::Nothing, false);
            let entry = Entry { session: 1, turn, seen, seen_digest, query, says, builds };
            follower.entry(&entry, &stored(&entry)).unwrap();
            follower.take_unmade().iter().for_each(|index| index.make());
            let digest = follower.plan(place).unwrap().digest;
            follower.learn(&Found { place, digest, base: vec![0; 2].into() }).unwrap();
            if place.is_multiple_of(epoch.into()) {
                let number = schedule.epoch_of(place);
                follower.is_superblock(number);
                if number > 3 * period {
                    most = most.max(follower.kept());
                }
            }
        }
        let reckoned = Cost::of(&schedule).known_bytes;
        let over = reckoned as f64 / most as f64;
        println!("{blocks} blocks: {reckoned} bytes reckoned, {most} kept at most");
        assert!((1.0..1.15).contains(&over), "{reckoned} bytes, {most} kept");
    }
}
