//! What the proxy knows of each stored bucket, and the images of those it has rewritten.
//!
//! A stored bucket version has an order of its slots, a uniform permutation that only the proxy
//! knows: its first `held` entries hold the bucket's blocks, the rest dummies in the order in which
//! they are read. So the next unread dummy is an index, and which slot is which is never searched.
//!
//! A bucket rewritten in the open epoch is an *image*: a set of at most Z blocks and no slots. It
//! gets slots, a fresh order and a read count of zero when it is written back. Reads of it before
//! that send nothing, so they need no slot and cannot wear it out.

use crate::slab::Handle;

/// What stands in a bucket's list where no block is (any more).
pub(crate) mod mark {
    /// No block: a dummy.
    pub(crate) const DUMMY: u32 = u32::MAX;
    /// A block that has been overwritten since: to be fetched like any, then dropped.
    pub(crate) const STALE: u32 = u32::MAX - 1;
    /// A block whose slot has been read.
    pub(crate) const TAKEN: u32 = u32::MAX - 2;
}

/// No image.
pub(super) const NO_IMAGE: u32 = u32::MAX;

/// One stored bucket. All but `held` and `next_dummy` is public.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// The chunk version in the cloud; 0 if it was never written.
    pub version: u64,
    /// Its image, if it was rewritten in this epoch.
    pub image: u32,
    /// Reads of this version so far: at most S.
    pub reads: u16,
    /// How many blocks this version was written with.
    pub held: u16,
    /// Where in the order the next unread dummy stands.
    pub next_dummy: u16,
}

/// All stored buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    heads: Vec<Bucket>,
    reals: Vec<u32>,
    order: Vec<u16>,
    reals_each: usize,
    slots_each: usize,
}

impl Buckets {
    /// `count` buckets that were never written.
    pub fn new(count: u32, reals: u16, slots: u16) -> Self {
        let empty = Bucket { version: 0, image: NO_IMAGE, reads: 0, held: 0, next_dummy: 0 };
        let (count, reals_each, slots_each) = (count as usize, reals.into(), slots.into());
        Self {
            heads: vec![empty; count],
            reals: vec![0; count * reals_each],
            order: vec![0; count * slots_each],
            reals_each,
            slots_each,
        }
    }

    pub fn len(&self) -> u32 {
        self.heads.len() as u32
    }

    pub fn head(&self, chunk: u32) -> &Bucket {
        &self.heads[chunk as usize]
    }

    pub fn head_mut(&mut self, chunk: u32) -> &mut Bucket {
        &mut self.heads[chunk as usize]
    }

    /// The blocks of a stored bucket, or marks; the first `held` are of use.
    pub fn reals(&self, chunk: u32) -> &[u32] {
        &self.reals[chunk as usize * self.reals_each..][..self.reals_each]
    }

    pub fn reals_mut(&mut self, chunk: u32) -> &mut [u32] {
        &mut self.reals[chunk as usize * self.reals_each..][..self.reals_each]
    }

    /// The order of the slots of a stored bucket.
    pub fn order(&self, chunk: u32) -> &[u16] {
        &self.order[chunk as usize * self.slots_each..][..self.slots_each]
    }

    pub fn order_mut(&mut self, chunk: u32) -> &mut [u16] {
        &mut self.order[chunk as usize * self.slots_each..][..self.slots_each]
    }

    /// The orders of all buckets one after the other, for filling them on all cores.
    pub fn orders_mut(&mut self) -> impl Iterator<Item = (&Bucket, &mut [u16])> {
        self.heads.iter().zip(self.order.chunks_mut(self.slots_each))
    }

    /// The slot of the next unread dummy, which is read with this.
    pub fn take_dummy(&mut self, chunk: u32) -> u16 {
        let head = &mut self.heads[chunk as usize];
        let slot = self.order[chunk as usize * self.slots_each + usize::from(head.next_dummy)];
        head.next_dummy += 1;
        slot
    }

    /// The slot of the block at `index`, which is read with this.
    pub fn take_real(&mut self, chunk: u32, index: u16) -> u16 {
        self.reals[chunk as usize * self.reals_each + usize::from(index)] = mark::TAKEN;
        self.order[chunk as usize * self.slots_each + usize::from(index)]
    }

    /// Lists exactly Z unread slots of a bucket with what is in each, by rising slot: all blocks
    /// that are left, stale ones too, and as many dummies as it takes.
    pub fn unread(&self, chunk: u32, into: &mut Vec<(u16, u32)>) {
        let head = self.head(chunk);
        let order = self.order(chunk);
        let reals = &self.reals(chunk)[..usize::from(head.held)];
        into.clear();
        into.extend(
            order.iter().zip(reals).filter(|(_, r)| **r != mark::TAKEN).map(|(s, r)| (*s, *r)),
        );
        let missing = self.reals_each - into.len();
        let dummies = order.iter().skip(head.next_dummy.into()).take(missing);
        into.extend(dummies.map(|slot| (*slot, mark::DUMMY)));
        let whole = into.len() == self.reals_each || cfg!(feature = "canaries");
        debug_assert!(whole, "a bucket with S reads has Z slots left");
        into.sort_unstable();
    }
}

/// A block in an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketBlock {
    pub block: u32,
    pub payload: Handle,
}

/// The buckets rewritten in the open epoch.
#[derive(Debug)]
pub(super) struct Images {
    of: Vec<(u32, u16)>, // chunk, blocks
    kept: Vec<BucketBlock>,
    reals_each: usize,
}

impl Images {
    pub fn new(reals: u16) -> Self {
        Self { of: Vec::new(), kept: Vec::new(), reals_each: reals.into() }
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// A new, empty image of `chunk`.
    pub fn open(&mut self, chunk: u32) -> u32 {
        self.of.push((chunk, 0));
        let nothing = BucketBlock { block: mark::DUMMY, payload: Handle::NONE };
        self.kept.resize(self.of.len() * self.reals_each, nothing);
        self.of.len() as u32 - 1
    }

    pub fn chunk(&self, image: u32) -> u32 {
        self.of[image as usize].0
    }

    pub fn kept(&self, image: u32) -> &[BucketBlock] {
        let blocks = self.of[image as usize].1;
        &self.kept[image as usize * self.reals_each..][..blocks.into()]
    }

    /// Adds a block if there is room; returns its index.
    pub fn push(&mut self, image: u32, kept: BucketBlock) -> Option<u16> {
        let blocks = &mut self.of[image as usize].1;
        let index = *blocks;
        if usize::from(index) == self.reals_each {
            return None;
        }
        *blocks += 1;
        self.kept[image as usize * self.reals_each + usize::from(index)] = kept;
        Some(index)
    }

    /// Takes out the block at `index`; also returns the block that now has that index, if any.
    pub fn remove(&mut self, image: u32, index: u16) -> (BucketBlock, Option<u32>) {
        let blocks = &mut self.of[image as usize].1;
        *blocks -= 1;
        let last = usize::from(*blocks);
        let kept = &mut self.kept[image as usize * self.reals_each..][..self.reals_each];
        kept.swap(index.into(), last);
        (kept[last], (usize::from(index) < last).then(|| kept[usize::from(index)].block))
    }

    /// Empties an image, handing its blocks to `each`.
    pub fn drain(&mut self, image: u32, mut each: impl FnMut(BucketBlock)) {
        self.kept(image).iter().for_each(|kept| each(*kept));
        self.of[image as usize].1 = 0;
    }

    /// All images by rising chunk.
    pub fn by_chunk(&self) -> Vec<u32> {
        let mut images: Vec<u32> = (0..self.of.len() as u32).collect();
        images.sort_unstable_by_key(|image| self.chunk(*image));
        images
    }

    /// Forgets all images, keeping the memory.
    pub fn clear(&mut self) {
        self.of.clear();
        self.kept.clear();
    }
}
