//! `fogbank bench site`: clients that share a key, each at the end of a link of its own, on one
//! site.
//!
//! 1. Load (`warm`): one client, without a link, writes every block once and goes on until a table
//!    of the largest level starts to be built from one of its own kind: then all levels are full,
//!    and builds of all are midway.
//! 2. Join: so many clients, each with a session, a link and memory of its own.
//! 3. Measure: across the links each draws a block, reads or writes it, holds what comes back
//!    against what it has to be, and goes on; until that table has been built, or as long as was
//!    asked. No two clients ask for one block: nobody else tells a client what it has to find.
//! 4. What passes is counted at each client, by parts (`counted_log`, `row`), and when (`phases`).
//!    Beside it stands what one machine adds that stands for all (`strain`).
//! 5. Volumes afterwards, if that was asked: one trusted proxy for all clients, on such a link.
//!
//! The server is this process's memory, and so is what clients have seen: no disk is waited for.

mod counted_log;
mod phases;
mod row;
mod strain;
#[cfg(test)]
mod virtual_time;
mod warm;

use fogbank::{Error, Result};
use fogbank_process::{say, say_error};

use self::row::{HEAD, Row};
pub use self::warm::{Progress, Warm};
use super::volume;
use crate::args::BenchSiteArgs;

/// Runs the benchmark and prints its figures, a row a number of clients.
///
/// # Errors
/// [`Error::Usage`] for what cannot be measured; [`Error::CheckFailed`] if a value read is not the
/// one written.
pub async fn run(args: BenchSiteArgs) -> Result<()> {
    let link = args.link.link()?;
    let (size, block) = (args.size.as_u64(), args.block.as_u64());
    let whole = if size < block { size } else { size - size.checked_rem(block).unwrap_or(0) };
    let parameters = fogbank::site::parameters_of(whole, block)?;
    let most = parameters.blocks as usize;
    if let Some(clients) = args.clients.iter().find(|clients| **clients > most) {
        return Err(Error::Usage(format!("--clients {clients} is outside 1 to {most}")));
    }
    let (blocks, block_bytes) = (parameters.blocks, parameters.block_bytes);
    say!("{}; {blocks} blocks of {block_bytes} bytes", args.link.words());
    say!("{HEAD}");
    say_error!("loading {blocks} blocks");
    let mut warm = Warm::new(parameters, args.seed).await?;
    for clients in &args.clients {
        let measured = warm.measure(*clients, (link, args.quantum_us), args.seconds).await?;
        let row = Row::of(*clients, &measured, block_bytes)?;
        say!("{}", row.line());
        say!("{}", row.phases());
        say!("{}", row.strain());
        if args.json {
            let mut figures = row.json();
            figures["link"] = args.link.words().into();
            figures["blocks"] = blocks.into();
            figures["block_bytes"] = block_bytes.into();
            say!("{figures}");
        }
    }
    drop(warm);
    match args.beside[..] {
        [] => Ok(()),
        _ => volume::run(args.volumes()).await,
    }
}
