//! Looks for the bytes of a text that are treated specially, eight at a time: most of a document has none.

/// A set of bytes to look for.
pub struct Bytes<const N: usize> {
    below: u8,
    others: [u8; N],
    contains: [bool; 256],
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl<const N: usize> Bytes<N> {
    /// All bytes that are smaller than `below`, which is an ASCII character, and some others.
    pub const fn new(below: u8, others: [u8; N]) -> Bytes<N> {
        let mut contains = [false; 256];
        let mut byte = 0;
        while byte < below {
            contains[byte as usize] = true;
            byte += 1;
        }
        let mut i = 0;
        while i < N {
            contains[others[i] as usize] = true;
            i += 1;
        }
        Bytes { below, others, contains }
    }

    /// Where the first of them is, from `at` on; where the text ends if there is none.
    #[inline]
    pub fn first_in(&self, text: &[u8], mut at: usize) -> usize {
        while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk()) {
            let found = self.marks(u64::from_le_bytes(*chunk));
            if found != 0 {
                return at + (found.trailing_zeros() / 8) as usize;
            }
            at += 8;
        }
        while let Some(byte) = text.get(at) {
            if self.contains[*byte as usize] {
                break;
            }
            at += 1;
        }
        at
    }

    /// Marks each of eight bytes that is in the set by its highest bit. Those above it may be marked too, though they are not:
    /// only the first mark counts.
    #[inline]
    fn marks(&self, word: u64) -> u64 {
        let mut marks = word.wrapping_sub(ONES * u64::from(self.below)) & !word;
        for byte in self.others {
            let differs = word ^ (ONES * u64::from(byte));
            marks |= differs.wrapping_sub(ONES) & !differs;
        }
        marks & HIGHS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_wherever_it_is() {
        const SPECIAL: Bytes<4> = Bytes::new(0x20, [b'"', b'&', b'\\', 0xe2]);
        let is_special = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'&' | b'\\' | 0xe2);
        for byte in 0..=255 {
            for around in [b'a', 0x80, b'!', b'#', b']', 0xe1, 0xff, byte] {
                for (length, place) in (0..20).flat_map(|length| (0..length).map(move |place| (length, place))) {
                    let mut text = vec![around; length];
                    text[place] = byte;
                    for at in [0, place / 2, place] {
                        let want = (at..length).find(|&at| is_special(text[at])).unwrap_or(length);
                        assert_eq!(SPECIAL.first_in(&text, at), want, "{byte} at {place} of {length} from {at}");
                    }
                }
            }
        }
    }
}
