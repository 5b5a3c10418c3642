//! Joining a site in the middle of its history.
//!
//! 1. The newest superblock k, with those before it as far as this client has seen any: a chain.
//! 2. The log from epoch k - 3 on. The digests of the first two epochs of it are held against the
//!    superblocks; what the client itself had seen is held against the digest at that length.
//! 3. The marks from the oldest build on, addresses and manifests of the tables that epochs k - 1
//!    and k touch, and table (0, k - 2) whole: the values at the end of epoch k - 2.
//! 4. An entry that asks for nothing. Its place bounds how long the log is at least; all before it
//!    is followed before anything is touched.
//! 5. Who comes to work ends if the last that was said by then is that the site moves.
//!
//! What is fetched depends on k alone. What has gone meanwhile is fetched again with the newest k.
//! A client that was away for longer than the log is kept is held against superblocks alone.
//!
//! Section 9 of the protocol (module).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_durable::shared::{Coming, Object, Seen, Site, Superblock};
use fogbank_seal::{Digest, Mark, digest};
use fogbank_store::{DepartureGrid, Log, LogEntry, is_of_forgotten};
use futures_util::stream::{self, StreamExt};

use super::canary::Canary;
use super::cells::Cells;
use super::client::{Client, Effect};
use super::entry::{Entry, Says};
use super::follower::{Before, Follower, mark};
use super::listening::{Heard, Listener, append, forgotten, not_so_far};
use super::schedule::{Schedule, Table};
use super::sealed::seal_entry;
use crate::{Error, Result, lied};

/// A client that has joined, and what it stands on.
pub struct Joined {
    pub client: Client,
    pub cells: Cells,
    pub listener: Listener,
    /// The newest superblock as stored.
    pub superblock: Digest,
    /// What has to take place first.
    pub effects: Vec<Effect>,
}

/// How often what has gone meanwhile is fetched again.
const TRIES: u32 = 20;
/// How long the log may say nothing that a superblock knows of. Whoever is away is told before.
const HIDDEN: Duration = Duration::from_secs(120);
/// Objects that are fetched at once.
const FETCHED_AT_ONCE: usize = 64;

/// Joins; the client may have seen something of the site before. What it has come for its site
/// says ([`Coming`]).
///
/// # Errors
/// [`Error::CloudLied`] if the site is not the one that it has seen, or is no site;
/// [`Error::Refused`] if the site goes on faster than it can join; by blame.
pub async fn join(
    site: &Arc<Site>,
    log: &Arc<dyn Log>,
    grid: &DepartureGrid,
    cells: impl Fn() -> Cells,
    (schedule, canary): (Schedule, Arc<Canary>),
    seen: Option<&Seen>,
) -> Result<Joined> {
    let (mut tries, turns) = (1, AtomicU64::new(0));
    loop {
        // 1. The newest superblock.
        let chain = Superblock::newest(site, 3, seen).await?;
        let newest = chain.first().map_or(0, |(superblock, _)| superblock.number);
        check_start(&schedule, &chain, seen)?;
        let (chain, turns, canary) = (&chain, &turns, &canary);
        let place = At { site, log, grid, schedule, canary, chain, seen, turns };
        match place.join(cells()).await {
            Err(error) => {
                let now = Superblock::newest(site, 1, None).await?;
                if now.first().is_none_or(|(superblock, _)| superblock.number <= newest) {
                    return Err(match error {
                        Error::Refused(why) if is_of_forgotten(&why) => not_so_far(),
                        error => error,
                    });
                }
                if tries == TRIES {
                    return Err(outrun(error));
                }
                tries += 1;
            }
            joined => return joined,
        }
    }
}

/// What it is when the site has gone on in every try: no sign of a lie.
fn outrun(error: Error) -> Error {
    match error {
        Error::CloudLied(what) => Error::Refused(format!(
            "the others ask so much that the site went on {TRIES} times while this client joined, \
             which takes it too long: start it again when they ask less, or by a faster way \
             ({what})"
        )),
        error => error,
    }
}

/// What a superblock says is in the log is there already. A server that keeps the log open and
/// tells nothing of it has hidden it.
///
/// # Errors
/// Those of hearing; [`crate::Error::CloudLied`] if nothing comes for [`HIDDEN`].
async fn hear_soon(listener: &mut Listener, grid: &DepartureGrid) -> Result<Heard> {
    tokio::select! { biased;
        heard = listener.hear() => heard,
        () = grid.come(grid.now() + HIDDEN.as_nanos() as u64) => {
            Err(lied("a superblock is shown, and not the log before it"))
        }
    }
}

/// Where the site is joined.
struct At<'a> {
    site: &'a Arc<Site>,
    log: &'a Arc<dyn Log>,
    grid: &'a DepartureGrid,
    schedule: Schedule,
    canary: &'a Arc<Canary>,
    /// The newest superblock and those before it.
    chain: &'a [(Superblock, Digest)],
    seen: Option<&'a Seen>,
    /// Of this session's entries, which ask for nothing, so far.
    turns: &'a AtomicU64,
}

impl At<'_> {
    async fn join(&self, cells: Cells) -> Result<Joined> {
        let Self { site, log, grid, schedule, canary, chain, seen, turns } = *self;
        let hidden = || lied("a superblock is hidden");
        let of = |back: usize| chain.get(back).ok_or_else(hidden);
        let (newest, superblock) = of(0)?;
        let number = newest.number;
        let first_epoch = number.saturating_sub(3);
        let from = schedule.first_of(first_epoch);
        let mut listener = Listener::new(site, log, grid, from);
        let keys = site.keys().clone();
        let block_bytes = site.parameters().block_bytes as usize;
        let canary = canary.clone();
        let before_that = if number >= 3 { Some(&of(2)?.0) } else { None };
        let history_before = before_that.map_or(site.header(), |of| of.history);
        let follower = if number == 1 {
            for table in schedule.tables(0) {
                let image = cells.install(table, &mark(&history_before)).await?;
                let stored = image.ok_or_else(|| lied("a manifest is withheld"))?;
                is_named(&schedule, chain, table, &stored)?;
            }
            Follower::new(schedule, keys, history_before, block_bytes, canary)
        } else {
            // 2. The log of the epochs before, by its digests alone.
            let epoch = number - 1;
            let has_moved = before_that.is_some_and(|of| of.has_moved);
            let mut before = Before { epoch, has_moved, ..Before::default() };
            before.digests.push(history_before);
            while from + before.digests.len() as u64 <= schedule.first_of(epoch) {
                let heard = hear_soon(&mut listener, grid).await?;
                let Heard::Entry(place, entry, stored) = heard else { continue };
                let last = before.digests.last().copied().unwrap_or_default();
                before.digests.push(digest(&[&last, &stored]));
                before.sessions.logged(place, &entry);
                before.has_moved = entry.says.moved(before.has_moved);
            }
            for (known, _) in chain {
                let place = schedule.first_of(known.number - 1).checked_sub(from);
                let found = place.and_then(|place| before.digests.get(place as usize));
                if found.is_some_and(|found| *found != known.history) {
                    return Err(lied("the log is of another history than the superblocks"));
                }
            }
            check_seen(seen, from, &before.digests)?;
            // 3. What the tables hold.
            let end = before.digests.last().map(mark).unwrap_or_default();
            before.marks = marks(site, &schedule, epoch, end).await?;
            let start = |table| start_of(&schedule, &before.marks, (epoch, end), table);
            for table in schedule.tables(epoch) {
                let addresses = match table.index {
                    ..0 => Some((0..schedule.blocks).collect()), // an image holds all
                    _ => cells.addresses(table, &start(table)?).await?,
                };
                let addresses = addresses.ok_or_else(|| lied("an index is withheld"))?;
                before.tables.insert(table, addresses);
            }
            let both = [schedule.tables(epoch), schedule.tables(number)].concat();
            for table in &both {
                let installed = cells.install(*table, &start(*table)?).await?;
                let stored = installed.ok_or_else(|| lied("a manifest is withheld"))?;
                is_named(&schedule, chain, *table, &stored)?;
            }
            let carry = Table { level: 0, index: number as i64 - 2 };
            let values = cells.read_whole(carry).await?;
            let values = values.ok_or_else(|| lied("the table of the last epoch is withheld"))?;
            before.values = values.into_iter().flatten().collect();
            Follower::joining(schedule, keys, before, block_bytes, canary)?
        };
        // 4. All that is there by now.
        let turn = turns.fetch_add(1, Ordering::Relaxed) + 1;
        let greeting = Entry {
            session: site.session(),
            turn,
            seen: follower.length(),
            seen_digest: follower.digest(),
            query: None,
            says: match site.coming() {
                Coming::Move => Says::Moves,
                Coming::Stay => Says::Stays,
                Coming::Work | Coming::Build | Coming::Read => Says::Nothing,
            },
            builds: site.builds(),
        };
        let bytes = seal_entry(site, &greeting, block_bytes)?;
        let mine = digest(&[&bytes]);
        let entry = LogEntry { session: site.session(), turn, bytes };
        let place = append(log.clone(), grid.clone(), entry).await?.ok_or_else(forgotten)?;
        if seen.is_some_and(|seen| place < seen.length) {
            return Err(lied("the log is shorter than this client has seen: rolled back"));
        }
        let session = (site.session(), site.builds());
        let mut client = Client::following(session, follower, number);
        client.has_greeted(turn);
        let mut effects = Vec::new();
        while client.follower().length() <= place {
            match listener.hear().await? {
                Heard::Entry(at, entry, stored) => {
                    if at == place && stored != mine {
                        return Err(lied("an entry has another place than was said"));
                    }
                    effects.extend(client.entries(at, &[(entry, stored)])?);
                    check_seen(seen, at + 1, &[client.follower().digest()])?;
                }
                Heard::Result(found) if found.place >= client.follower().replayed() => {
                    effects.extend(client.result(&found)?);
                }
                Heard::Result(_) => {}
            }
        }
        // 5. Who comes to work ends if the site has moved, and leaves.
        let works = matches!(site.coming(), Coming::Work | Coming::Build);
        if works && client.follower().has_moved() {
            for effect in client.leave()? {
                let Effect::Append(entry) = effect else { continue };
                let (session, turn) = (entry.session, entry.turn);
                let bytes = seal_entry(site, &entry, block_bytes)?;
                append(log.clone(), grid.clone(), LogEntry { session, turn, bytes }).await?;
            }
            return Err(Error::Moved);
        }
        Ok(Joined { client, cells, listener, superblock: *superblock, effects })
    }
}

/// Holds the history before the epoch that the client was in last against the superblock that names
/// it, if it is there.
fn check_start(
    schedule: &Schedule,
    chain: &[(Superblock, Digest)],
    seen: Option<&Seen>,
) -> Result<()> {
    let Some(seen) = seen.filter(|seen| seen.length > 0) else { return Ok(()) };
    let names = schedule.epoch_of(seen.length - 1) + 1;
    let named = chain.iter().find(|(superblock, _)| superblock.number == names);
    if named.is_some_and(|(superblock, _)| superblock.history != seen.epoch_start) {
        return Err(lied("the site has another history than this client has seen"));
    }
    Ok(())
}

/// Holds a table's manifest against all superblocks at hand that name it.
fn is_named(
    schedule: &Schedule,
    chain: &[(Superblock, Digest)],
    table: Table,
    stored: &Digest,
) -> Result<()> {
    for (superblock, _) in chain {
        let at = schedule.named(superblock.number).iter().position(|named| *named == table);
        if at.is_some_and(|at| superblock.manifests.get(at) != Some(stored)) {
            return Err(lied("a manifest is not the one that the superblock names"));
        }
    }
    Ok(())
}

/// Holds what the client has seen against the digests of the log from length `from` on.
fn check_seen(seen: Option<&Seen>, from: u64, digests: &[Digest]) -> Result<()> {
    let Some(seen) = seen else { return Ok(()) };
    let mine = seen.length.checked_sub(from).and_then(|at| digests.get(at as usize));
    if mine.is_some_and(|mine| *mine != seen.digest) {
        return Err(lied("the log is another one than this client has seen: forked"));
    }
    Ok(())
}

/// The marks of all epochs in which something of the tables of `epoch` happened, but for itself.
async fn marks(
    site: &Site,
    schedule: &Schedule,
    epoch: u64,
    end: Mark,
) -> Result<BTreeMap<u64, Vec<Mark>>> {
    let (mut marks, mut after) = (BTreeMap::new(), end);
    let fetched = stream::iter((schedule.oldest_start(epoch)..epoch).rev())
        .map(|of| async move { (of, site.fetch(Object::Marks(of)).await) })
        .buffered(FETCHED_AT_ONCE);
    let mut fetched = std::pin::pin!(fetched);
    while let Some((of, found)) = fetched.next().await {
        let found = found?.ok_or_else(|| lied("marks are withheld"))?;
        let plain = site.opened(Object::Marks(of), &after, &found).await?;
        let of_epoch: Vec<Mark> = plain
            .chunks_exact(size_of::<Mark>())
            .map(|mark| mark.try_into().unwrap_or_default())
            .collect();
        after = of_epoch.first().copied().unwrap_or_default();
        marks.insert(of, of_epoch);
    }
    Ok(marks)
}

fn start_of(
    schedule: &Schedule,
    marks: &BTreeMap<u64, Vec<Mark>>,
    (epoch, end): (u64, Mark),
    table: Table,
) -> Result<Mark> {
    let started = schedule.build_starts(table);
    if started == epoch {
        return Ok(end);
    }
    let mark = marks.get(&started).and_then(|marks| marks.first()).copied();
    mark.ok_or_else(|| Error::Bug(format!("no mark of {table:?}")))
}
