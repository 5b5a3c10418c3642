//! What the cloud knows of every stored bucket, and which paths show nothing.
//!
//! A bucket is *live* if a path read through it shows a cell: stored, and not rewritten in the open
//! epoch. `open` counts, for every bucket, the leaves below it to which no live bucket leads, the
//! bucket itself included; so how many leaves fit a path that stopped somewhere is one look, and
//! one of them is drawn by one walk down.
//!

use fogbank_env::Stream;
use rand_core::Rng;

pub(super) use crate::oracle::shape::Shape;
use crate::oracle::shape::below;

/// One bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bucket {
    /// The version in the cloud; 0 if it was never written.
    pub version: u64,
    /// Leaves below, this bucket included, to which nothing live leads.
    open: u32,
    /// Path reads of this version.
    pub reads: u16,
    /// Cells of this version that were read.
    pub taken: u16,
    /// Whether it was rewritten in the open epoch.
    pub image: bool,
}

impl Bucket {
    pub fn live(&self) -> bool {
        self.version != 0 && !self.image
    }
}

/// Where a cell stands among those of its version that were unread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub nth: u16,
    pub unread: u16,
    pub rank: u16,
}

/// All stored buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    pub shape: Shape,
    all: Vec<Bucket>,
    /// One bit a cell: whether it was read. `words` a bucket.
    used: Vec<u64>,
    words: usize,
    /// The fingerprint of every cell as it was written; 0 where the trace does not tell.
    prints: Vec<u64>,
    /// Leaves to which nothing live leads.
    open: u64,
}

impl Buckets {
    pub fn new(shape: Shape) -> Self {
        let count = shape.buckets() as usize;
        let words = usize::from(shape.slots()).div_ceil(64);
        let leaves_below = |chunk| 1 << (shape.leaf_level - shape.level(chunk));
        let fresh = |chunk| Bucket { open: leaves_below(chunk), ..Bucket::default() };
        Self {
            shape,
            all: (0..shape.buckets()).map(fresh).collect(),
            used: vec![0; count * words],
            words,
            prints: vec![0; count * usize::from(shape.slots())],
            open: 1 << shape.leaf_level,
        }
    }

    /// The bytes that [`Buckets::new`] asks for.
    pub fn bytes(shape: Shape) -> u64 {
        let slots = u64::from(shape.slots());
        let each = size_of::<Bucket>() as u64 + slots.div_ceil(64) * 8 + slots * 8;
        u64::from(shape.buckets()) * each
    }

    pub fn get(&self, chunk: u32) -> Option<&Bucket> {
        self.all.get(chunk as usize)
    }

    pub fn live(&self, chunk: u32) -> bool {
        self.all[chunk as usize].live()
    }

    /// Buckets that were ever written.
    pub fn written(&self) -> u64 {
        self.all.iter().filter(|bucket| bucket.version != 0).count() as u64
    }

    /// The nearest live bucket above.
    pub fn live_above(&self, chunk: u32) -> Option<u32> {
        let mut above = self.shape.parent(chunk);
        while let Some(chunk) = above.filter(|chunk| !self.live(*chunk)) {
            above = self.shape.parent(chunk);
        }
        above
    }

    /// The first live bucket on the path to `leaf`, from the root.
    pub fn first_live(&self, leaf: u32) -> Option<u32> {
        self.path(leaf).find(|chunk| self.live(*chunk))
    }

    /// The stored part of a path, from the root.
    pub fn path(&self, leaf: u32) -> impl Iterator<Item = u32> + use<> {
        let shape = self.shape;
        (shape.cached_levels..=shape.leaf_level).map(move |level| shape.chunk(level, leaf))
    }

    /// Leaves to which nothing live leads.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Leaves below a live bucket to which nothing live leads from there.
    pub fn open_below(&self, chunk: u32) -> u32 {
        if self.shape.level(chunk) == self.shape.leaf_level {
            return 1;
        }
        let left = self.shape.left(chunk) as usize;
        self.all[left].open + self.all[left + 1].open
    }

    /// A uniform one of the leaves counted by [`Buckets::open_below`].
    pub fn draw_below(&self, chunk: u32, random: &mut Stream) -> u32 {
        self.walk(chunk, below(random, self.open_below(chunk)))
    }

    /// A uniform one of the leaves counted by [`Buckets::open`], of which there must be one.
    pub fn draw(&self, random: &mut Stream) -> u32 {
        for _ in 0..GUESSES {
            let leaf = random.next_u32() & ((1 << self.shape.leaf_level) - 1);
            if self.first_live(leaf).is_none() {
                return leaf;
            }
        }
        let mut pick = below(random, self.open as u32);
        for chunk in 0..self.shape.first() {
            let open = self.all[chunk as usize].open;
            if pick < open {
                return self.walk(chunk, pick);
            }
            pick -= open;
        }
        0
    }

    /// The `pick`-th of the open leaves strictly below `chunk`.
    fn walk(&self, chunk: u32, pick: u32) -> u32 {
        if self.shape.level(chunk) == self.shape.leaf_level {
            return chunk + self.shape.first() - (1 << self.shape.leaf_level);
        }
        let left = self.shape.left(chunk);
        match pick.checked_sub(self.all[left as usize].open) {
            None => self.walk(left, pick),
            Some(pick) => self.walk(left + 1, pick),
        }
    }

    /// A path read of an unread cell; `None` if it was read before.
    pub fn read(&mut self, chunk: u32, cell: u16) -> Option<Place> {
        let place = self.take(chunk, cell)?;
        self.all[chunk as usize].reads += 1;
        Some(place)
    }

    /// Marks a cell as read; `None` if it was read before.
    pub fn take(&mut self, chunk: u32, cell: u16) -> Option<Place> {
        let bucket = &mut self.all[chunk as usize];
        let used = &mut self.used[chunk as usize * self.words..][..self.words];
        let (word, bit) = (usize::from(cell) / 64, 1u64 << (cell % 64));
        if used[word] & bit != 0 {
            return None;
        }
        let below: u32 = used[..word].iter().map(|word| word.count_ones()).sum::<u32>()
            + (used[word] & (bit - 1)).count_ones();
        used[word] |= bit;
        let nth = bucket.taken;
        bucket.taken += 1;
        Some(Place { nth, unread: self.shape.slots() - nth, rank: cell - below as u16 })
    }

    /// From now on nobody reads `chunk` before it is written; whether it was live.
    pub fn rewrite(&mut self, chunk: u32) -> bool {
        let was_live = self.live(chunk);
        self.all[chunk as usize].image = true;
        if was_live {
            self.note_open(chunk, self.open_below(chunk));
        }
        was_live
    }

    /// A new version, unread; `prints` are the fingerprints of its cells or of none.
    pub fn write(&mut self, chunk: u32, version: u64, prints: &[u64]) {
        let bucket = &mut self.all[chunk as usize];
        let open = bucket.open;
        *bucket = Bucket { version, open, ..Bucket::default() };
        self.used[chunk as usize * self.words..][..self.words].fill(0);
        let slots = usize::from(self.shape.slots());
        let kept = &mut self.prints[chunk as usize * slots..][..slots];
        match prints.len() == slots {
            true => kept.copy_from_slice(prints),
            false => kept.fill(0),
        }
        self.note_open(chunk, 0);
    }

    /// The fingerprint of a cell as it was written; 0 if it is not known.
    pub fn print(&self, chunk: u32, cell: u16) -> u64 {
        let slots = usize::from(self.shape.slots());
        let at = chunk as usize * slots + usize::from(cell);
        if usize::from(cell) < slots { self.prints.get(at).copied().unwrap_or(0) } else { 0 }
    }

    /// Notes the open leaves of `chunk`, and of every bucket above up to a live one.
    fn note_open(&mut self, chunk: u32, open: u32) {
        let before = std::mem::replace(&mut self.all[chunk as usize].open, open);
        let mut above = self.shape.parent(chunk);
        while let Some(chunk) = above {
            if self.live(chunk) {
                return;
            }
            let bucket = &mut self.all[chunk as usize];
            bucket.open = bucket.open + open - before;
            above = self.shape.parent(chunk);
        }
        self.open = self.open + u64::from(open) - u64::from(before);
    }
}

/// Leaves drawn before those that fit are counted.
const GUESSES: usize = 16;
