//! The secret order of a level: a permutation of [0, n) that follows from a seed.
//!
//! Every place has a key of 128 bits, which is its block of the seed's key stream. At a place lies
//! the item whose number is the rank of its key; of equal keys the first place comes first. So the
//! order is uniform but for a distance of n^2 2^-129 (two equal keys; 2^-95 for n = 100,000) and
//! what tells AES from a random function, whoever sees how much of it.
//!
//! One place is asked for in one pass over the keys, without a list, and it takes the same time
//! whichever it is: the client asks for secret ones. Keys that are asked for once are kept nowhere
//! ([`Order::item`]): they are compared by their upper halves as they come.

use crate::pad::{BLOCK_BYTES, KeyStream, Seed};

/// See the module.
pub struct Order {
    keys: Vec<u128>,
}

impl Order {
    /// The order of so many places that follows from `seed`.
    pub fn new(seed: &Seed, places: u32) -> Self {
        let mut bytes = vec![0; places as usize * BLOCK_BYTES];
        KeyStream::new(seed).xor(0, &mut bytes);
        let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
        Self { keys: blocks.iter().map(|block| u128::from_le_bytes(*block)).collect() }
    }

    /// The item at one place of an order that is not asked for another: that of [`Order::at`].
    ///
    /// Leaks: nothing; the work is the same for every place, unless two keys agree in 64 bits.
    pub fn item(seed: &Seed, places: u32, place: u32) -> u32 {
        let stream = KeyStream::new(seed);
        let mut own = [0; BLOCK_BYTES];
        stream.xor(place.into(), &mut own);
        let own = upper(&own);
        let (mut below, mut equal) = (0, 0);
        let mut portion = [0; PORTION_BLOCKS as usize * BLOCK_BYTES];
        for from in (0..places).step_by(PORTION_BLOCKS as usize) {
            let blocks = (places - from).min(PORTION_BLOCKS) as usize;
            let bytes = &mut portion[..blocks * BLOCK_BYTES];
            bytes.fill(0);
            stream.xor(from.into(), bytes);
            for other in bytes.as_chunks::<BLOCK_BYTES>().0.iter().map(upper) {
                below += u32::from(other < own);
                equal += u32::from(other == own);
            }
        }
        // It is equal to itself alone.
        if equal == 1 { below } else { Self::new(seed, places).at(place) }
    }

    /// The item at `place`, which is below the number of places.
    ///
    /// Leaks: nothing; the work is the same for every place.
    pub fn at(&self, place: u32) -> u32 {
        let (before, after) = self.keys.split_at(place as usize);
        let key = after[0];
        let rank = before.iter().filter(|other| **other <= key).count();
        (rank + after.iter().filter(|other| **other < key).count()) as u32
    }

    /// The place of `item`, which is below the number of places: the inverse of [`Order::at`].
    pub fn place_of(&self, item: u32) -> u32 {
        let mut places = self.places();
        let (_, place, _) =
            places.select_nth_unstable_by_key(item as usize, |place| self.rank(*place));
        *place
    }

    /// The item at every place.
    pub fn list(&self) -> Vec<u32> {
        let mut places = self.places();
        places.sort_unstable_by_key(|place| self.rank(*place));
        let mut list = vec![0; places.len()];
        (0..).zip(places).for_each(|(item, place)| list[place as usize] = item);
        list
    }

    fn places(&self) -> Vec<u32> {
        (0..self.keys.len() as u32).collect()
    }

    fn rank(&self, place: u32) -> (u128, u32) {
        (self.keys[place as usize], place)
    }
}

/// The half of a key that decides first.
fn upper(block: &[u8; BLOCK_BYTES]) -> u64 {
    (u128::from_le_bytes(*block) >> 64) as u64
}

/// Keys that are made at once: they stay in the nearest cache.
const PORTION_BLOCKS: u32 = 512;

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Order of {}", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_bijection_at_awkward_sizes_in_both_directions() {
        for places in
            [0, 1, 2, 3, 4, 5, 7, 16, 17, 24, 127, 128, 129, 255, 257, 511, 512, 513, 1237, 100_003]
        {
            let order = Order::new(&Seed::new([places as u8; 32]), places);
            let list = order.list();
            let mut sorted = list.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..places), "{places}");
            for place in (0..places).step_by(1 + places as usize / 64) {
                assert_eq!(order.at(place), list[place as usize], "{places}");
                assert_eq!(order.place_of(list[place as usize]), place, "{places}");
                let one = Order::item(&Seed::new([places as u8; 32]), places, place);
                assert_eq!(one, list[place as usize], "{places}");
            }
        }
    }

    /// What a chain of equal keys comes to: still a bijection, and the same in both directions.
    #[test]
    fn equal_keys_are_ranked_by_place() {
        let order = Order { keys: vec![5, 1, 5, 0, 5] };
        assert_eq!(order.list(), [2, 1, 3, 0, 4]);
        for place in 0..5 {
            assert_eq!(order.at(place), order.list()[place as usize]);
            assert_eq!(order.place_of(order.at(place)), place);
        }
    }

    /// How far from uniform, in standard deviations of chi-square: which of all orders of five, and
    /// where one of seventeen lies.
    fn distances(list: impl Fn(&Order) -> Vec<u32>) -> [f64; 2] {
        let seeds = 12_000u32;
        let (mut orders, mut fourths) = (std::collections::HashMap::new(), [0u32; 17]);
        for seed in 0..seeds {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&seed.to_be_bytes());
            let of = |places| list(&Order::new(&Seed::new(bytes), places));
            *orders.entry(of(5)).or_insert(0u32) += 1;
            fourths[of(17)[3] as usize] += 1;
        }
        let of = |counts: &mut dyn Iterator<Item = u32>, classes: f64| {
            let mean = f64::from(seeds) / classes;
            let square =
                counts.map(|n| f64::from(n).powi(2) / mean).sum::<f64>() - f64::from(seeds);
            (square - (classes - 1.0)) / (2.0 * (classes - 1.0)).sqrt()
        };
        [of(&mut orders.into_values(), 120.0), of(&mut fourths.into_iter(), 17.0)]
    }

    #[test]
    fn orders_are_uniform() {
        for distance in distances(Order::list) {
            assert!(distance.abs() < 4.5, "{distance}");
        }
        let halved = |order: &Order| {
            let mut list = order.list();
            let half = list.len() / 2; // a riffle that never moves the first of the two
            if list[0] > list[half] {
                list.swap(0, half);
            }
            list
        };
        let [seen, _] = distances(halved);
        assert!(seen > 4.5, "the canary: {seen}");
    }
}
