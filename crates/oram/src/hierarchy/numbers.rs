//! Lists of numbers of which there are as many as blocks of a site: each takes as many bytes as the
//! largest that there may be, and nothing lies between them.

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Numbers {
    width: usize,
    /// With zeros behind the last, so that every number is read as four bytes.
    bytes: Vec<u8>,
}

const SPARE_BYTES: usize = 4;

/// Bytes of a number below `bound`.
fn width_below(bound: u32) -> usize {
    let bits = u32::BITS - bound.saturating_sub(1).leading_zeros();
    bits.div_ceil(8).max(1) as usize
}

/// Bytes that so many numbers below `bound` take.
pub fn bytes_of(count: u32, bound: u32) -> u64 {
    u64::from(count) * width_below(bound) as u64 + SPARE_BYTES as u64
}

impl Numbers {
    /// These, all of them below `bound`, in their order.
    pub fn below(bound: u32, numbers: &[u32]) -> Self {
        let width = width_below(bound);
        let mut bytes = Vec::with_capacity(width * numbers.len() + SPARE_BYTES);
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        bytes.extend_from_slice(&[0; SPARE_BYTES]);
        Self { width, bytes }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        (self.bytes.len() - SPARE_BYTES) / self.width
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one at a place, from 0; zero behind the last.
    pub fn get(&self, at: usize) -> u32 {
        let four = self.bytes.get(at * self.width..).and_then(<[u8]>::first_chunk);
        let beyond = u32::BITS - 8 * self.width as u32;
        u32::from_le_bytes(four.copied().unwrap_or_default()) << beyond >> beyond
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Where a number is, of a list that is sorted. It takes as many steps whatever is found.
    pub fn find(&self, number: u32) -> Option<usize> {
        let (mut at, mut left) = (0, self.len());
        while left > 1 {
            let half = left / 2;
            at += if self.get(at + half) <= number { half } else { 0 };
            left -= half;
        }
        (left == 1 && self.get(at) == number).then_some(at)
    }

    /// Takes one out, and puts the last one in its place.
    pub fn swap_remove(&mut self, at: usize) -> u32 {
        let (taken, last) = (self.get(at), self.len().saturating_sub(1));
        let (end, width) = (last * self.width, self.width);
        self.bytes.copy_within(end..end + width, at * width);
        self.bytes.truncate(end);
        self.bytes.extend_from_slice(&[0; SPARE_BYTES]);
        taken
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub fn kept(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}

impl std::fmt::Debug for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Numbers({} of {} bytes)", self.len(), self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_was_put_there_and_are_found() {
        for (bound, width) in [
            (1, 1),
            (256, 1),
            (257, 2),
            (1 << 16, 2),
            (1 << 24, 3),
            ((1 << 24) + 1, 4),
            (u32::MAX, 4),
        ] {
            let step = (bound / 50).max(1);
            let all: Vec<u32> = (0..bound).step_by(step as usize).collect();
            let mut numbers = Numbers::below(bound, &all);
            assert_eq!(numbers.kept(), (all.len() * width + 4) as u64, "{bound}");
            assert_eq!(numbers.kept(), bytes_of(all.len() as u32, bound));
            assert_eq!(numbers.get(all.len()), 0);
            assert_eq!(numbers.iter().collect::<Vec<_>>(), all);
            for (at, number) in all.iter().enumerate() {
                assert_eq!((numbers.get(at), numbers.find(*number)), (*number, Some(at)));
                let between = number + 1;
                assert_eq!(numbers.find(between).is_some(), all.contains(&between));
            }
            // They go as from a list of any kind.
            let mut list = all;
            while !list.is_empty() {
                let at = list.len() / 3;
                assert_eq!(numbers.swap_remove(at), list.swap_remove(at));
                assert_eq!((numbers.len(), numbers.is_empty()), (list.len(), list.is_empty()));
            }
            assert_eq!(numbers.find(0), None);
        }
    }
}
