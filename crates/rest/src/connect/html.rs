//! [`Pages`]: the links in an HTML page, changed while the page is sent.

use std::borrow::Cow;

use bytes::Bytes;
use futures::{Stream, StreamExt};

use super::links::Links;
use crate::reply::{Aborted, Chunks};

/// A tag longer than this is passed on as it is.
const TAG_BYTES_MAX: usize = 64 * 1024;

/// Attributes that are URLs, by tag.
const URLS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];
/// Elements whose content is text, whatever it looks like.
const TEXT_ELEMENTS: [&str; 8] = ["script", "style", "textarea", "title", "iframe", "noembed", "noframes", "xmp"];

/// A page that is being sent.
pub struct Pages {
    links: Links,
    /// The beginning of a tag or comment whose end has not come yet.
    held: Vec<u8>,
    /// The element whose text is being passed on.
    inside: Option<&'static str>,
}

impl Pages {
    pub fn new(links: Links) -> Pages {
        Pages { links, held: Vec::new(), inside: None }
    }

    pub fn rewrite(self, chunks: Chunks) -> impl Stream<Item = Result<Bytes, Aborted>> {
        futures::stream::unfold(Some((self, chunks)), |state| async move {
            let (mut page, mut chunks) = state?;
            Some(match chunks.next().await {
                Some(Ok(chunk)) => (Ok(page.push(&chunk).into()), Some((page, chunks))),
                Some(Err(cut)) => (Err(cut), None),
                None => (Ok(page.held.into()), None),
            })
        })
    }

    /// What can be sent after the next bytes of the page have come.
    fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut page = std::mem::take(&mut self.held);
        page.extend_from_slice(chunk);
        let mut out = Vec::with_capacity(page.len());
        let mut rest = page.as_slice();
        while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let Some(length) = markup(rest) else {
                if rest.len() <= TAG_BYTES_MAX {
                    self.held = rest.to_vec();
                    return out;
                }
                break;
            };
            let (tag, after) = rest.split_at(length);
            self.tag(tag, &mut out);
            rest = after;
        }
        out.extend_from_slice(rest);
        out
    }

    fn tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let is_end = tag.get(1) == Some(&b'/');
        let name = name(&tag[if is_end { 2.min(tag.len()) } else { 1 }..]);
        if let Some(element) = self.inside {
            if is_end && name == element {
                self.inside = None;
            }
            return out.extend_from_slice(tag);
        }
        if is_end {
            return out.extend_from_slice(tag);
        }
        self.inside = TEXT_ELEMENTS.iter().find(|element| **element == name).copied().filter(|_| !tag.ends_with(b"/>"));
        let urls = URLS.iter().find(|(element, _)| *element == name).map(|(_, attributes)| *attributes);
        match (urls, std::str::from_utf8(tag)) {
            (Some(urls), Ok(text)) => self.start_tag(text, 1 + name.len(), urls, out),
            _ => out.extend_from_slice(tag),
        }
    }

    /// Copies a start tag from behind its name on and changes the attributes that are URLs.
    fn start_tag(&self, tag: &str, from: usize, urls: &[&str], out: &mut Vec<u8>) {
        let mut copied = 0;
        let mut at = from;
        while let Some(attribute) = Attribute::next(tag, at) {
            at = attribute.end;
            if urls.iter().any(|url| attribute.name.eq_ignore_ascii_case(url)) && !attribute.value.is_empty() {
                let before = unescape(&tag[attribute.value.clone()]);
                let after = self.links.url(&before);
                if after != before {
                    out.extend_from_slice(&tag.as_bytes()[copied..attribute.value.start]);
                    out.extend_from_slice(escape(&after).as_bytes());
                    copied = attribute.value.end;
                }
            }
        }
        out.extend_from_slice(&tag.as_bytes()[copied..]);
    }
}

/// The length of the tag or comment that begins here; 1 for a `<` that begins none, None if the end has not come yet.
fn markup(text: &[u8]) -> Option<usize> {
    let end_of = |needle: &[u8], from: usize| {
        let found = text.get(from..)?.windows(needle.len()).position(|window| window == needle);
        found.map(|at| from + at + needle.len())
    };
    match text.get(1)? {
        b'!' if text.starts_with(b"<!--") => end_of(b"-->", 2),
        b'!' if text.len() < 4 => None,
        b'!' | b'?' => end_of(b">", 1),
        b'/' => match text.get(2)? {
            byte if byte.is_ascii_alphabetic() => end_of(b">", 2),
            _ => Some(1),
        },
        byte if byte.is_ascii_alphabetic() => {
            let mut quote = None;
            let mut after_equals = false;
            for (at, byte) in text.iter().enumerate().skip(1) {
                match (quote, byte) {
                    (Some(open), byte) if open == byte => quote = None,
                    (Some(_), _) => {}
                    (None, b'"' | b'\'') if after_equals => quote = Some(byte),
                    (None, b'>') => return Some(at + 1),
                    (None, _) => {}
                }
                after_equals = *byte == b'=' || (after_equals && byte.is_ascii_whitespace());
            }
            None
        }
        _ => Some(1),
    }
}

/// The tag's name in small letters.
fn name(text: &[u8]) -> String {
    let end = text.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
    String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]).to_ascii_lowercase()
}

struct Attribute<'a> {
    name: &'a str,
    /// Where its value is, without quotes; empty if it has none.
    value: std::ops::Range<usize>,
    end: usize,
}

impl<'a> Attribute<'a> {
    /// The attribute that begins at or after `from`.
    fn next(tag: &'a str, from: usize) -> Option<Attribute<'a>> {
        let skip = |at: usize, test: fn(char) -> bool| {
            tag.get(at..).map(|rest| at + rest.find(|c| !test(c)).unwrap_or(rest.len()))
        };
        let start = skip(from, |c| c.is_ascii_whitespace() || c == '/')?;
        if tag.get(start..)?.starts_with('>') || start >= tag.len() {
            return None;
        }
        // A name has at least one character, even if that is an equals sign.
        let second = start + tag[start..].chars().next().map_or(1, char::len_utf8);
        let name_end = skip(second, |c| !(c.is_ascii_whitespace() || matches!(c, '/' | '=' | '>')))?;
        let name = &tag[start..name_end];
        let equals = skip(name_end, |c| c.is_ascii_whitespace())?;
        if !tag[equals..].starts_with('=') {
            return Some(Attribute { name, value: name_end..name_end, end: name_end });
        }
        let begin = skip(equals + 1, |c| c.is_ascii_whitespace())?;
        match tag[begin..].chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let end = tag[begin + 1..].find(quote).map_or(tag.len(), |at| begin + 1 + at);
                Some(Attribute { name, value: begin + 1..end, end: (end + 1).min(tag.len()) })
            }
            _ => {
                let end = skip(begin, |c| !(c.is_ascii_whitespace() || c == '>'))?;
                Some(Attribute { name, value: begin..end, end })
            }
        }
    }
}

/// The text without the character references that URLs in pages have.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = text.to_string();
    for (reference, c) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        plain = plain.replace(reference, c);
    }
    Cow::Owned(plain)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use registry::Target;

    use super::*;

    fn rewritten(page: &str, piece: usize) -> String {
        let target = Target { host: "10.0.0.1".into(), port: 80, ..Target::default() };
        let mut pages = Pages::new(Links::new(&target, "/p/proxy/", "/", "h".into()));
        let mut out = Vec::new();
        page.as_bytes().chunks(piece).for_each(|chunk| out.extend(pages.push(chunk)));
        out.extend(pages.held);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_lead_through_the_proxy() {
        for (page, want) in [
            (r#"<a href="/x">y</a>"#, r#"<a href="/p/proxy/x">y</a>"#),
            (r"<A HREF=/x>y</A>", r"<A HREF=/p/proxy/x>y</A>"),
            (r"<img alt='a>b' src = '/x?a=1&amp;b=2' >", r"<img alt='a>b' src = '/p/proxy/x?a=1&amp;b=2' >"),
            (r#"<a href="x">"#, r#"<a href="x">"#),
            (r#"<a title="/x" href='http://10.0.0.1/'>"#, r#"<a title="/x" href='/p/proxy/'>"#),
            (
                r#"<script src="/a.js">if (a<b) "<a href='/x'>"</script><link href="/c"/>"#,
                r#"<script src="/p/proxy/a.js">if (a<b) "<a href='/x'>"</script><link href="/p/proxy/c"/>"#,
            ),
            (r#"<!-- <a href="/x"> --><!DOCTYPE html>1 < 2 <p"#, r#"<!-- <a href="/x"> --><!DOCTYPE html>1 < 2 <p"#),
            (r#"<div data="/x"><object data="/x" =b c>"#, r#"<div data="/x"><object data="/p/proxy/x" =b c>"#),
        ] {
            for piece in [1, 2, 3, 7, 1000] {
                assert_eq!(rewritten(page, piece), want, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn tags_without_end_are_passed_on() {
        let page = format!("<a href=\"{}", "x".repeat(2 * TAG_BYTES_MAX));
        assert_eq!(rewritten(&page, 1000).len(), page.len());
    }
}
