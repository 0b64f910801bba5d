//! Strings in certificates, read as Go's `crypto/x509` reads them.

/// Why a string cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidString(&'static str);

impl std::fmt::Display for InvalidString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid {}", self.0)
    }
}

/// The text of a string with this universal tag; None if the tag is not one of a string that Go reads.
pub fn string(tag: u32, bytes: &[u8]) -> Result<Option<String>, InvalidString> {
    const UTF8: u32 = 12;
    const NUMERIC: u32 = 18;
    const PRINTABLE: u32 = 19;
    const T61: u32 = 20;
    const IA5: u32 = 22;
    const BMP: u32 = 30;
    let text = match tag {
        UTF8 => std::str::from_utf8(bytes).ok().map(str::to_string).ok_or(InvalidString("UTF-8 string")),
        NUMERIC => ascii(bytes, "NumericString", |byte| byte.is_ascii_digit() || *byte == b' '),
        PRINTABLE => ascii(bytes, "PrintableString", is_printable),
        IA5 => ascii(bytes, "IA5String", u8::is_ascii),
        // Read as Latin-1, whose characters have the numbers of Unicode.
        T61 => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        BMP => bmp(bytes).ok_or(InvalidString("BMPString")),
        _ => return Ok(None),
    };
    text.map(Some)
}

fn ascii(bytes: &[u8], kind: &'static str, is_allowed: fn(&u8) -> bool) -> Result<String, InvalidString> {
    if !bytes.iter().all(is_allowed) {
        return Err(InvalidString(kind));
    }
    Ok(bytes.iter().map(|byte| char::from(*byte)).collect())
}

fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte)
}

/// Characters of two bytes, without surrogates and noncharacters.
fn bmp(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes);
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let points = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    points.map(|point| char::from_u32(point).filter(|_| !matches!(point, 0xfdd0..=0xfdef | 0xfffe | 0xffff))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_as_go_reads_them() {
        let masters = "system:masters";
        let wide: Vec<u8> = masters.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let ended = [wide.as_slice(), &[0, 0]].concat();
        for (tag, bytes, want) in [
            (12, masters.as_bytes(), Ok(Some(masters))),
            (12, b"\xff".as_slice(), Err("invalid UTF-8 string")),
            (18, b"12 3", Ok(Some("12 3"))),
            (18, b"a", Err("invalid NumericString")),
            (19, masters.as_bytes(), Ok(Some(masters))),
            (19, b"a@b", Err("invalid PrintableString")),
            (20, masters.as_bytes(), Ok(Some(masters))),
            (20, b"j\xfcrgen", Ok(Some("jürgen"))),
            (22, b"a@b", Ok(Some("a@b"))),
            (22, b"\x80", Err("invalid IA5String")),
            (30, &wide, Ok(Some(masters))),
            (30, &ended, Ok(Some(masters))),
            (30, b"abc", Err("invalid BMPString")),
            (30, b"\xd8\x00", Err("invalid BMPString")),
            (30, b"\xff\xfe", Err("invalid BMPString")),
            (28, b"\0\0\0a", Ok(None)),
            (2, b"\x01", Ok(None)),
        ] {
            let got = string(tag, bytes).map_err(|error| error.to_string());
            assert_eq!(got.as_ref().map(Option::as_deref).map_err(String::as_str), want, "{tag} {bytes:?}");
        }
    }
}
