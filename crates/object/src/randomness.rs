//! [`Randomness`]: the random numbers that clients may see and guess.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many characters are added to `generateName`.
pub const NAME_SUFFIX_CHARACTERS: usize = 5;
/// Without vowels, so that generated names spell nothing.
const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Where the numbers come from of which uids, generated names and audit ids are made, and the first address or port that is tried, so
/// that tests and replays can set them.
///
/// Nothing that must not be guessed is made of them: keys, tokens, session codes, nonces and salts are asked of the system's generator
/// where they are made, and no part of a program replaces that.
pub trait Randomness: Send + Sync {
    /// Any number of 64 bits.
    fn number(&self) -> u64;

    /// A number below `end`, and 0 if that is 0.
    fn below(&self, end: usize) -> usize {
        ((u128::from(self.number()) * end as u128) >> 64) as usize
    }

    /// Any number of 128 bits.
    fn wide_number(&self) -> u128 {
        u128::from(self.number()) << 64 | u128::from(self.number())
    }

    /// A UUID of version 4, as uids are.
    fn uuid(&self) -> String {
        uuid::Builder::from_random_bytes(self.wide_number().to_be_bytes()).into_uuid().to_string()
    }

    /// The characters that are added to `generateName`.
    fn name_suffix(&self) -> String {
        (0..NAME_SUFFIX_CHARACTERS).map(|_| char::from(NAME_ALPHABET[self.below(NAME_ALPHABET.len())])).collect()
    }
}

/// The thread's generator. The system seeds it, and only that takes a system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadRandomness;

impl Randomness for ThreadRandomness {
    fn number(&self) -> u64 {
        rand::random()
    }
}

/// The same numbers in the same order for the same seed (SplitMix64). Anyone can guess them, so it is for tests and replays.
#[derive(Debug)]
pub struct SeededRandomness(AtomicU64);

impl SeededRandomness {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> SeededRandomness {
        SeededRandomness(AtomicU64::new(seed))
    }
}

impl Randomness for SeededRandomness {
    fn number(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One number, for ever.
    struct Fixed(u64);

    impl Randomness for Fixed {
        fn number(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn numbers_stay_below_their_end() {
        for (number, end, expected) in [
            (0, 0, 0),
            (u64::MAX, 0, 0),
            (0, 27, 0),
            (u64::MAX, 27, 26),
            (u64::MAX / 2, 10, 4),
            (u64::MAX / 2 + 1, 10, 5),
            (u64::MAX, usize::MAX, usize::MAX - 1),
        ] {
            assert_eq!(Fixed(number).below(end), expected, "{number} below {end}");
        }
    }

    #[test]
    fn uuids_are_of_version_4() {
        assert_eq!(Fixed(0).uuid(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(Fixed(u64::MAX).uuid(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_ne!(ThreadRandomness.uuid(), ThreadRandomness.uuid());
    }

    #[test]
    fn a_seed_gives_its_numbers_again() {
        let numbers = |seed| {
            let randomness = SeededRandomness::new(seed);
            [randomness.number(), randomness.number(), randomness.number()]
        };
        // The first ones that the algorithm's authors publish for this seed.
        assert_eq!(
            numbers(1_234_567),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn suffixes_use_the_whole_alphabet() {
        let randomness = SeededRandomness::new(1);
        let seen: std::collections::BTreeSet<char> =
            (0..200).flat_map(|_| randomness.name_suffix().into_bytes()).map(char::from).collect();
        assert_eq!(seen.len(), NAME_ALPHABET.len());
        assert_eq!(randomness.name_suffix().len(), NAME_SUFFIX_CHARACTERS);
    }
}
