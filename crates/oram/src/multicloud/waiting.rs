//! What everything waits for, and for how long: one of the clouds, or the link between the two.
//!
//! 1. Accesses end in their order, so all wait for what the oldest one waits for; if none is under
//!    way, for what a job waits for. That comes over one [`Path`].
//! 2. It is looked at from time to time. If it was the same twice before, the ends of the path that
//!    have given no sign meanwhile are as good as gone: their sessions are opened again. What goes
//!    from one cloud to the other may take long, and neither says anything meanwhile: there nothing
//!    is opened, which would end that, before the last look.
//! 3. If it stays the same for a minute or so, whoever waits is told that the path is absent.
//!
//! Looks are counted, not time: while nothing is taken, as when the journal is slow, nothing
//! counts. The times are public: they follow from the shape, and from when messages come.

use std::fmt;

use fogbank_env::Nanos;
use fogbank_mix::Shape;

use super::plane::MulticloudPlane;
use super::witness::NAMES;

/// From one look to the next, beside a time for the bytes of the longest message.
const QUIET_NANOS: Nanos = 10_000_000_000;
const SLOWEST_NANOS_PER_BYTE: Nanos = 1_000;
/// Looks that find the same, until sessions of a cloud are opened again, and until it is told.
const LOOKS_TO_OPEN: u32 = 2;
const LOOKS_TO_TELL: u32 = 6;

/// Over which something comes. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// From the first (0) or the second (1) cloud itself.
    Cloud(usize),
    /// From one to the other, which then tells the client.
    Between,
}

impl Path {
    /// The clouds at its ends.
    pub fn ends(self) -> impl Iterator<Item = usize> {
        (0..2).filter(move |cloud| self == Self::Between || self == Self::Cloud(*cloud))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Cloud(cloud) => write!(f, "the {} cloud: it does not answer", NAMES[cloud]),
            Self::Between => f.write_str(
                "the link between the two clouds: what one has to send to the other does not come",
            ),
        }
    }
}

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// An access, by its number.
    Access(u64),
    /// A job, by its partition and the evictions that it ends at: any attempt.
    Job(u16, u64),
    /// A check that failed, for a proof.
    Check,
}

/// Who waits, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub who: Who,
    pub path: Path,
}

impl MulticloudPlane {
    /// What everything waits for; nothing if that is this client's turn.
    pub fn waits(&self) -> Option<Wait> {
        if let Some(accusation) = &self.accusation {
            return Some(Wait { who: Who::Check, path: Path::Cloud(accusation.receiver()) });
        }
        if let Some(access) = self.accesses.front() {
            let holder = usize::from(access.entry.partition % 2);
            return Some(Wait {
                who: Who::Access(access.entry.number),
                path: access.path(holder)?,
            });
        }
        let of = |partition: u16| {
            let job = self.pyramids.get(usize::from(partition))?.job.as_ref()?;
            let who = Who::Job(partition, job.generation().count());
            Some(Wait { who, path: job.path(usize::from(partition % 2))? })
        };
        match &self.head {
            Some(head) => of(head.partition),
            None => self.shape.all().find_map(of),
        }
    }
}

/// How long a cloud has for a request of so many bytes until it is told.
pub fn patience(bytes: u64) -> Nanos {
    Nanos::from(LOOKS_TO_TELL) * quiet(bytes)
}

fn quiet(bytes: u64) -> Nanos {
    QUIET_NANOS + bytes * SLOWEST_NANOS_PER_BYTE
}

/// Looks at what is waited for.
#[derive(Debug)]
pub struct Looks {
    quiet: Nanos,
    /// When the next is due.
    next: Nanos,
    /// Who waited for what at the last, since when, and how many looks have found that.
    last: Option<(Wait, Nanos, u32)>,
}

/// It was waited for long enough for something to be done about it.
#[derive(Debug)]
pub struct Overdue {
    pub path: Path,
    /// Whoever has given no sign since then is as good as gone.
    pub gone: Nanos,
    /// Whoever has given one since then is there: the path is absent. If the time for that has
    /// come.
    pub tells: Option<Nanos>,
    /// For how long it was waited for.
    pub seconds: u64,
}

impl Looks {
    /// At a volume of this shape. Also its longest message comes from one look to the next.
    pub fn new(shape: &Shape, now: Nanos) -> Self {
        let most = shape.size(shape.top(), shape.cycle()) as usize * shape.cell_bytes();
        let quiet = quiet(most as u64);
        Self { quiet, next: now + quiet, last: None }
    }

    /// When the next is due.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// One, if it is due.
    pub fn look(&mut self, now: Nanos, plane: &MulticloudPlane) -> Option<Overdue> {
        if now < self.next {
            return None;
        }
        self.next = now + self.quiet;
        let last = self.last.take();
        let wait = plane.waits()?;
        let (since, found) = match last {
            Some((before, since, found)) if before == wait => (since, found + 1),
            _ => (now, 0),
        };
        self.last = Some((wait, since, found));
        let tells = found >= LOOKS_TO_TELL;
        let opens = match wait.path {
            Path::Cloud(_) => found >= LOOKS_TO_OPEN,
            Path::Between => tells,
        };
        opens.then(|| Overdue {
            path: wait.path,
            gone: now.saturating_sub(u64::from(LOOKS_TO_OPEN) * self.quiet),
            // One that was opened again had a look more to do so.
            tells: tells.then(|| now.saturating_sub(u64::from(LOOKS_TO_OPEN + 1) * self.quiet)),
            seconds: (now - since) / 1_000_000_000,
        })
    }
}
