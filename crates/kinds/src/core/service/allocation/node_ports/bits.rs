//! A set of small numbers, stored as upstream does: one large number in big-endian bytes without leading zeros.

use object::Randomness;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    bits: Vec<bool>,
}

impl Bits {
    /// An empty set of numbers below `size`.
    pub fn new(size: usize) -> Bits {
        Bits { bits: vec![false; size] }
    }

    /// Numbers beyond `size` are forgotten.
    pub fn from_bytes(size: usize, bytes: &[u8]) -> Bits {
        let mut set = Bits::new(size);
        for (index, byte) in bytes.iter().rev().enumerate() {
            (0..8).filter(|bit| byte & (1 << bit) != 0).for_each(|bit| {
                set.set(index * 8 + bit);
            });
        }
        set
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let byte =
            |bits: &[bool]| bits.iter().enumerate().fold(0_u8, |byte, (bit, set)| byte | (u8::from(*set) << bit));
        let mut bytes: Vec<u8> = self.bits.chunks(8).map(byte).collect();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.reverse();
        bytes
    }

    pub fn has(&self, bit: usize) -> bool {
        self.bits.get(bit).copied().unwrap_or(false)
    }

    /// Adds a number; false if it was there or is too large.
    pub fn set(&mut self, bit: usize) -> bool {
        self.change(bit, true)
    }

    /// Takes a number away; false if it was not there.
    pub fn clear(&mut self, bit: usize) -> bool {
        self.change(bit, false)
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.bits.iter().enumerate().filter(|(_, set)| **set).map(|(bit, _)| bit)
    }

    /// A number that is not in the set, preferably not one of the first `reserved`.
    pub fn any_clear(&self, reserved: usize, randomness: &dyn Randomness) -> Option<usize> {
        let any_in = |from, to| self.any_clear_in(from, to, randomness);
        any_in(reserved, self.bits.len()).or_else(|| any_in(0, reserved.min(self.bits.len())))
    }

    /// The first clear bit from a random one on, around the end.
    fn any_clear_in(&self, from: usize, to: usize, randomness: &dyn Randomness) -> Option<usize> {
        if from >= to {
            return None;
        }
        let start = from + randomness.below(to - from);
        (start..to).chain(from..start).find(|bit| !self.has(*bit))
    }

    fn change(&mut self, bit: usize, to: bool) -> bool {
        match self.bits.get_mut(bit) {
            Some(slot) if *slot != to => {
                *slot = to;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_upstreams() {
        for (numbers, bytes) in
            [(vec![], vec![]), (vec![0], vec![1]), (vec![8], vec![1, 0]), (vec![0, 9, 10], vec![6, 1])]
        {
            let mut set = Bits::new(16);
            numbers.iter().for_each(|bit| assert!(set.set(*bit)));
            assert_eq!(set.to_bytes(), bytes);
            assert_eq!(Bits::from_bytes(16, &bytes), set);
        }
    }

    #[test]
    fn every_number_is_found_and_the_reserved_ones_last() {
        let mut set = Bits::new(100);
        for count in 0..100 {
            let bit = set.any_clear(16, &object::ThreadRandomness).unwrap();
            assert_eq!(bit < 16, count >= 84);
            assert!(set.set(bit));
        }
        assert_eq!(set.any_clear(16, &object::ThreadRandomness), None);
        assert!(set.clear(7));
        assert_eq!(set.any_clear(16, &object::ThreadRandomness), Some(7));
    }
}
