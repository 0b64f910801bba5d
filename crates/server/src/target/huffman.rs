//! The Huffman code of HPACK (RFC 7541, appendix B), as far as request targets need it.
//!
//! The code is canonical: sorted by length and then by symbol, each code is the one before plus one. So the symbols of each
//! length are all that has to be written down. Longer codes stand for a backslash, control characters and bytes from 0x80 on.

/// Symbols by the length of their codes in bits, and the first code of that length.
const BY_LENGTH: &[(u32, u32, &[u8])] = &[
    (5, 0x0, b"012aceiost"),
    (6, 0x14, b" %-./3456789=A_bdfghlmnpru"),
    (7, 0x5c, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, 0xf8, b"&*,;XZ"),
    (10, 0x3f8, b"!\"()?"),
    (11, 0x7fa, b"'+|"),
    (12, 0xffa, b"#>"),
    (13, 0x1ff8, b"\0$@[]~"),
    (14, 0x3ffc, b"^}"),
    (15, 0x7ffc, b"<`{"),
];
const LONGEST: u32 = 15;

/// For every eight bits the symbol whose code they begin with, and its length; length 0 if the code is longer.
const SHORT: [(u8, u8); 256] = {
    let mut table = [(0, 0); 256];
    let mut row = 0;
    while row < BY_LENGTH.len() && BY_LENGTH[row].0 <= 8 {
        let (length, first, symbols) = BY_LENGTH[row];
        let mut at = 0;
        while at < symbols.len() {
            let low = (first as usize + at) << (8 - length);
            let mut filler = 0;
            while filler < 1 << (8 - length) {
                table[low + filler] = (symbols[at], length as u8);
                filler += 1;
            }
            at += 1;
        }
        row += 1;
    }
    table
};

/// Decodes and hands every symbol on. None if the code is broken, or has a symbol with a longer code.
pub fn decode(encoded: &[u8], mut symbol: impl FnMut(u8)) -> Option<()> {
    let (mut bits, mut held) = (0u64, 0u32);
    let mut bytes = encoded.iter();
    loop {
        while held <= 48 {
            let Some(byte) = bytes.next() else { break };
            bits = bits << 8 | u64::from(*byte);
            held += 8;
        }
        // Ones stand in for what is missing at the end, as in the padding.
        let window = |length: u32| match held >= length {
            true => (bits >> (held - length)) as u32 & ((1 << length) - 1),
            false => ((bits << (length - held)) as u32 | ((1 << (length - held)) - 1)) & ((1 << length) - 1),
        };
        if held < 8 && window(8) == 0xff {
            return Some(());
        }
        let (found, length) = match SHORT[window(8) as usize] {
            (_, 0) => long(window(LONGEST))?,
            (found, length) => (found, u32::from(length)),
        };
        held = held.checked_sub(length)?;
        symbol(found);
    }
}

fn long(window: u32) -> Option<(u8, u32)> {
    BY_LENGTH.iter().filter(|(length, _, _)| *length > 8).find_map(|(length, first, symbols)| {
        let at = (window >> (LONGEST - length)).checked_sub(*first)?;
        symbols.get(at as usize).map(|symbol| (*symbol, *length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(encoded: &[u8]) -> Option<String> {
        let mut out = String::new();
        decode(encoded, |symbol| out.push(char::from(symbol))).map(|()| out)
    }

    #[test]
    fn examples_of_the_rfc_decode() {
        let host = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(text(&host).as_deref(), Some("www.example.com"));
        assert_eq!(text(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Some("no-cache"));
        assert_eq!(text(&[]).as_deref(), Some(""));
    }

    #[test]
    fn codes_are_complete_up_to_the_longest() {
        // Each length begins where the one before ended.
        for pair in BY_LENGTH.windows(2) {
            let ((shorter, first, symbols), (longer, next, _)) = (pair[0], pair[1]);
            assert_eq!((first + symbols.len() as u32) << (longer - shorter), next, "{longer}");
        }
        for (length, first, symbols) in BY_LENGTH {
            for (at, symbol) in symbols.iter().enumerate() {
                let code = (first + at as u32) << (24 - length) | ((1 << (24 - length)) - 1);
                let mut decoded = Vec::new();
                let _ = decode(&code.to_be_bytes()[1..], |symbol| decoded.push(symbol));
                assert_eq!(decoded.first(), Some(symbol), "{symbol}");
            }
        }
    }

    #[test]
    fn other_symbols_are_not_decoded() {
        assert_eq!(text(&[0xff, 0xfe, 0x1f]), None);
        assert_eq!(text(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(text(&[0x00]), None);
    }
}
