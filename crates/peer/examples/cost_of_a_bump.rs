//! What one bump of the freshness register costs: as a file, and at three servers of this machine
//! whose folders are on the same disk, in turn. `cost_of_a_bump DIR [BUMPS]`; DIR must be new.

use std::path::Path;
use std::sync::Arc;

use fogbank_durable::{FileRegister, QuorumRegister, Register, RegisterPeer, RegisterValue};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_peer::{RegisterServer, TlsPeer};
use fogbank_seal::{MasterKey, RegisterKey, StoreId};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bumps of one register before the other has its turn.
const TURN: usize = 50;

fn value(sequence: u64) -> RegisterValue {
    let (store, digest) = (StoreId([1; 16]), [0; 32]);
    RegisterValue {
        store,
        opening: 1,
        sequence,
        commit: digest,
        epoch: 0,
        place: 0,
        journal: digest,
    }
}

async fn servers(folder: &Path, clock: &Arc<dyn Clock>) -> Outcome<QuorumRegister> {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let mut peers: Vec<Arc<dyn RegisterPeer>> = Vec::new();
    for number in 0..3 {
        let server = RegisterServer::open(&folder.join(number.to_string()))?;
        let bound = server.bind(([127, 0, 0, 1], 0).into()).await?;
        let name = RegisterKey::name(&master);
        peers.push(Arc::new(TlsPeer::new(bound.address().clone(), name, clock.clone())?));
        tokio::spawn(bound.serve(clock.clone(), std::future::pending()));
    }
    let ballots = Randomness::repeatable(1).stream(Purpose::Incarnation);
    Ok(QuorumRegister::new(peers, &master, ballots))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("cost_of_a_bump DIR [BUMPS]")?;
    let bumps: usize = args.next().map_or(Ok(2_000), |bumps| bumps.parse())?;
    let folder = Path::new(&folder);
    std::fs::create_dir(folder)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let file = FileRegister::new(&folder.join("register"));
    let quorum = servers(folder, &clock).await?;
    quorum.take().await?;
    let registers: [(&str, &dyn Register); 2] = [("file", &file), ("servers", &quorum)];
    let (mut held, mut times) = ([None; 2], [Vec::new(), Vec::new()]);
    while times[0].len() < bumps {
        for (which, (_, register)) in registers.iter().enumerate() {
            for _ in 0..TURN {
                let next = value(times[which].len() as u64 + 1);
                let begun = clock.now();
                register.write(held[which], next).await?;
                times[which].push(clock.now() - begun);
                held[which] = Some(next);
            }
        }
    }
    for ((name, _), mut times) in registers.iter().zip(times) {
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1e6;
        println!("{name:8} median {:.2} ms, 1 in 100 above {:.2} ms", at(0.5), at(0.99));
    }
    Ok(())
}
