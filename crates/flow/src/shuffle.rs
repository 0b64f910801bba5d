//! Shuffle sharding: each flow gets a small hand of queues, so that two flows rarely share all of theirs.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The most cards a hand can have with [`HASH_BITS_MAX`] bits of entropy.
const HAND_MAX: usize = 15;
/// How many bits of the hash a deal may use up, so that the last card is still nearly uniform.
const HASH_BITS_MAX: f64 = 60.0;
const DECK_MAX: usize = 1 << 26;

/// Deals hands of `hand` cards from a deck of `deck` cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealer {
    deck: usize,
    hand: usize,
}

impl Dealer {
    /// None if the deck is empty or too large, the hand larger than the deck, or the hash too short for both.
    pub fn new(deck: usize, hand: usize) -> Option<Dealer> {
        let entropy = ((deck as f64).log2() * hand as f64).ceil();
        let is_valid = deck > 0 && deck <= DECK_MAX && (1..=HAND_MAX).contains(&hand) && hand <= deck;
        (is_valid && entropy <= HASH_BITS_MAX).then_some(Dealer { deck, hand })
    }

    /// The hand of a flow, as distinct numbers below the deck's size.
    pub fn deal(&self, mut hash: u64) -> impl Iterator<Item = usize> + Clone {
        let mut remainders = [0; HAND_MAX];
        for (n, remainder) in remainders.iter_mut().enumerate().take(self.hand) {
            let cards = (self.deck - n) as u64;
            *remainder = (hash % cards) as usize;
            hash /= cards;
        }
        (0..self.hand).map(move |n| {
            remainders[..n].iter().rev().fold(remainders[n], |card, dealt| if card >= *dealt { card + 1 } else { card })
        })
    }
}

/// The hash that picks a flow's hand.
pub fn hash_flow(schema: &str, distinguisher: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (schema, distinguisher).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_have_distinct_cards() {
        let dealer = Dealer::new(64, 6).unwrap();
        for n in 0..2000 {
            let mut hand: Vec<usize> = dealer.deal(hash_flow("schema", &n.to_string())).collect();
            assert!(hand.len() == 6 && hand.iter().all(|card| *card < 64));
            hand.sort_unstable();
            hand.dedup();
            assert_eq!(hand.len(), 6);
        }
    }

    #[test]
    fn known_hands() {
        let hand = |deck, size, hash| Dealer::new(deck, size).unwrap().deal(hash).collect::<Vec<_>>();
        assert_eq!(hand(1, 1, 17), [0]);
        assert_eq!(hand(3, 3, 0), [0, 1, 2]);
        assert_eq!(hand(128, 4, 14 + 128 * (72 + 127 * (117 + 126 * 25))), [14, 73, 119, 26]);
    }

    #[test]
    fn impossible_decks() {
        for (deck, hand) in [(0, 1), (1, 0), (1, 2), (1 << 27, 1), (1 << 26, 3), (64, 11)] {
            assert_eq!(Dealer::new(deck, hand), None, "{deck} {hand}");
        }
    }
}
