//! Ranges of sorted sets: by rank, by score, by member.

use super::sorted_sets::{existing, remove_all, writable};
use super::{integer, syntax_error};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Collection, Keyspace, Outcome, Scores, fail};
use crate::resp::layout::ordered_score;
use crate::resp::number::parse_bound;
use crate::resp::reply::Reply;
use bytes::Bytes;
use fogbank_txn::KeyRange;
use std::ops::Bound;

type Db<'a, 'v> = Keyspace<'a, 'v>;

/// What a range is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// The two ends of a range, as given.
enum Ends {
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Member(Limit, Limit),
}

/// An end of a range of members.
enum Limit {
    BeforeAll,
    AfterAll,
    At { member: Bytes, included: bool },
}

impl Ends {
    fn parse(request: &Request, by: By, low: usize, high: usize) -> Outcome<Self> {
        match by {
            By::Rank => Ok(Ends::Rank(integer(request, low)?, integer(request, high)?)),
            By::Score => match (score(request.get(low)), score(request.get(high))) {
                (Some(low), Some(high)) => Ok(Ends::Score(low, high)),
                _ => fail("min or max is not a float"),
            },
            By::Member => match (limit(request, low), limit(request, high)) {
                (Some(low), Some(high)) => Ok(Ends::Member(low, high)),
                _ => fail("min or max not valid string range item"),
            },
        }
    }
}

fn score(text: &[u8]) -> Option<Bound<f64>> {
    match text {
        [b'(', rest @ ..] => Some(Bound::Excluded(parse_bound(rest)? + 0.0)),
        _ => Some(Bound::Included(parse_bound(text)? + 0.0)),
    }
}

fn limit(request: &Request, index: usize) -> Option<Limit> {
    let text = request.bytes_of(index);
    match text.first()? {
        b'-' if text.len() == 1 => Some(Limit::BeforeAll),
        b'+' if text.len() == 1 => Some(Limit::AfterAll),
        b'(' => Some(Limit::At { member: text.slice(1..), included: false }),
        b'[' => Some(Limit::At { member: text.slice(1..), included: true }),
        _ => None,
    }
}

/// The stretch of a sorted set's order between two scores; `None` if it is empty.
fn score_range(set: &Collection, low: &Bound<f64>, high: &Bound<f64>) -> Option<KeyRange> {
    let at = |score: f64| ordered_score(score).to_be_bytes();
    let after = |score: f64| ordered_score(score).checked_add(1).map(u64::to_be_bytes);
    let from = match low {
        Bound::Included(score) => at(*score),
        Bound::Excluded(score) => after(*score)?,
        Bound::Unbounded => [0; 8],
    };
    let to = match high {
        Bound::Included(score) => after(*score)?,
        Bound::Excluded(score) => at(*score),
        Bound::Unbounded => [255; 8],
    };
    (from < to).then(|| {
        KeyRange::members(set.order(), Bound::Included(&from[..]), Bound::Excluded(&to[..]))
    })
}

/// The members between two ends that lie in `skip..skip + take`, counted from the near end.
fn select(db: &mut Db, set: &Collection, ends: &Ends, window: Window) -> Outcome<Scores> {
    let Window { reverse, skip, take } = window;
    match ends {
        Ends::Rank(start, end) => by_rank(db, set, *start, *end, reverse),
        Ends::Score(low, high) => {
            let Some(range) = score_range(set, low, high) else { return Ok(Vec::new()) };
            let mut found = db.ordered(&range, skip.saturating_add(take), reverse)?;
            found.drain(..skip.min(found.len()));
            Ok(found)
        }
        Ends::Member(low, high) => {
            let mut found = db.ordered(&KeyRange::group(set.order()), usize::MAX, reverse)?;
            found.retain(|(member, _)| above(member, low) && below(member, high));
            found.drain(..skip.min(found.len()));
            found.truncate(take);
            Ok(found)
        }
    }
}

fn above(member: &[u8], low: &Limit) -> bool {
    match low {
        Limit::BeforeAll => true,
        Limit::AfterAll => false,
        Limit::At { member: low, included: true } => member >= &low[..],
        Limit::At { member: low, included: false } => member > &low[..],
    }
}

fn below(member: &[u8], high: &Limit) -> bool {
    match high {
        Limit::AfterAll => true,
        Limit::BeforeAll => false,
        Limit::At { member: high, included: true } => member <= &high[..],
        Limit::At { member: high, included: false } => member < &high[..],
    }
}

fn by_rank(db: &mut Db, set: &Collection, start: i64, end: i64, reverse: bool) -> Outcome<Scores> {
    let len = db.view.count(&set.members)? as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let (start, end) = (from_end(start).max(0), from_end(end).min(len - 1));
    if start > end {
        return Ok(Vec::new());
    }
    let (start, end, len) = (start as usize, end as usize, len as usize);
    let range = KeyRange::group(set.order());
    // From whichever side is nearer.
    if end < len - start {
        let mut found = db.ordered(&range, end + 1, reverse)?;
        found.drain(..start.min(found.len()));
        return Ok(found);
    }
    let mut found = db.ordered(&range, len - start, !reverse)?;
    found.reverse();
    found.truncate(end - start + 1);
    Ok(found)
}

/// Which of the members between two ends are wanted.
#[derive(Clone, Copy)]
struct Window {
    reverse: bool,
    skip: usize,
    take: usize,
}

/// The options of the range commands, which share one grammar.
struct Options {
    by: By,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    limit: i64,
}

/// Reads the options; a command that fixes the kind or direction of its range has no word for it.
fn options(request: &Request, by: Option<By>, reverse: Option<bool>) -> Outcome<Options> {
    let mut found = Options {
        by: by.unwrap_or(By::Rank),
        reverse: reverse.unwrap_or(false),
        with_scores: false,
        offset: 0,
        limit: -1,
    };
    let mut chosen = by.is_some();
    let mut directed = reverse.is_some();
    let mut at = 4;
    while at < request.len() {
        if request.is(at, "withscores") {
            found.with_scores = true;
        } else if request.is(at, "limit") && at + 2 < request.len() {
            found.offset = integer(request, at + 1)?;
            found.limit = integer(request, at + 2)?;
            at += 2;
        } else if !directed && request.is(at, "rev") {
            (found.reverse, directed) = (true, true);
        } else if !chosen && request.is(at, "bylex") {
            (found.by, chosen) = (By::Member, true);
        } else if !chosen && request.is(at, "byscore") {
            (found.by, chosen) = (By::Score, true);
        } else {
            return syntax_error();
        }
        at += 1;
    }
    Ok(found)
}

fn range(db: &mut Db, request: &Request, by: Option<By>, reverse: Option<bool>) -> Outcome {
    let options = options(request, by, reverse)?;
    if options.limit != -1 && options.by == By::Rank {
        return fail(
            "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
    }
    if options.with_scores && options.by == By::Member {
        return fail("syntax error, WITHSCORES not supported in combination with BYLEX");
    }
    let turned = options.reverse && options.by != By::Rank;
    let (low, high) = if turned { (3, 2) } else { (2, 3) };
    let ends = Ends::parse(request, options.by, low, high)?;
    let Some(set) = existing(db, request)? else { return Ok(Reply::Array(Vec::new())) };
    // A negative offset skips everything, a negative limit takes everything.
    let take = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let found = match usize::try_from(options.offset) {
        Err(_) if options.by != By::Rank => Vec::new(),
        skip => {
            let window = Window { reverse: options.reverse, skip: skip.unwrap_or(0), take };
            select(db, &set, &ends, window)?
        }
    };
    Ok(if options.with_scores {
        Reply::Scored(found)
    } else {
        Reply::Array(found.into_iter().map(|(member, _)| Reply::Bulk(member)).collect())
    })
}

/// `ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(db: &mut Db, request: &Request) -> Outcome {
    range(db, request, None, None)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub fn zrevrange(db: &mut Db, request: &Request) -> Outcome {
    range(db, request, Some(By::Rank), Some(true))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(db: &mut Db, request: &Request) -> Outcome {
    range(db, request, Some(By::Score), Some(false))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(db: &mut Db, request: &Request) -> Outcome {
    range(db, request, Some(By::Score), Some(true))
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(db: &mut Db, request: &Request) -> Outcome {
    range(db, request, Some(By::Member), Some(false))
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(db: &mut Db, request: &Request) -> Outcome {
    range(db, request, Some(By::Member), Some(true))
}

fn all_between(db: &mut Db, request: &Request, by: By, removed: bool) -> Outcome {
    let ends = Ends::parse(request, by, 2, 3)?;
    let window = Window { reverse: false, skip: 0, take: usize::MAX };
    if !removed {
        let Some(set) = existing(db, request)? else { return Ok(Reply::Integer(0)) };
        return Ok(Reply::count(select(db, &set, &ends, window)?.len()));
    }
    let (set, located) = writable(db, request)?;
    let found = select(db, &set, &ends, window)?;
    remove_all(db, request.get(1), &set, &located, &found)?;
    Ok(Reply::count(found.len()))
}

/// `ZCOUNT key min max`
pub fn zcount(db: &mut Db, request: &Request) -> Outcome {
    all_between(db, request, By::Score, false)
}

/// `ZLEXCOUNT key min max`
pub fn zlexcount(db: &mut Db, request: &Request) -> Outcome {
    all_between(db, request, By::Member, false)
}

/// `ZREMRANGEBYSCORE key min max`
pub fn zremrangebyscore(db: &mut Db, request: &Request) -> Outcome {
    all_between(db, request, By::Score, true)
}

/// `ZREMRANGEBYRANK key start stop`
pub fn zremrangebyrank(db: &mut Db, request: &Request) -> Outcome {
    all_between(db, request, By::Rank, true)
}

/// `ZREMRANGEBYLEX key min max`
pub fn zremrangebylex(db: &mut Db, request: &Request) -> Outcome {
    all_between(db, request, By::Member, true)
}
