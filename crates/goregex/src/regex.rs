use std::ops::Range;

use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::{Input, meta};

use crate::hir;
use crate::node::Node;
use crate::parse::{Error, parse};
use crate::vm::Program;

/// Patterns longer than this many bytes, deeper than this many levels or with more than this many ranges in their character
/// classes run on the virtual machine, because the automata's tables would be too large or their construction too deep.
const AUTOMATON_PATTERN_BYTES_MAX: usize = 16 << 10;
const AUTOMATON_HEIGHT_MAX: u32 = 200;
const AUTOMATON_RUNES_MAX: usize = 16 << 10;
/// Bytes of one automaton; a larger one is not built and the virtual machine is used instead.
const AUTOMATON_BYTES_MAX: usize = 2 << 20;
/// Bytes of the states that the lazy automaton keeps between matches.
const LAZY_CACHE_BYTES: usize = 256 << 10;

/// A compiled regular expression; matches are leftmost-first, as with Go's `regexp.Compile`.
pub struct Regex {
    engine: Engine,
}

enum Engine {
    Automaton(meta::Regex),
    Machine(Program),
}

impl Regex {
    pub fn new(pattern: &str) -> Result<Regex, Error> {
        let (node, runes) = parse(pattern)?;
        let small = pattern.len() <= AUTOMATON_PATTERN_BYTES_MAX
            && node.height <= AUTOMATON_HEIGHT_MAX
            && runes <= AUTOMATON_RUNES_MAX;
        let automaton = if small { automaton(&node) } else { None };
        let engine = match automaton {
            Some(regex) => Engine::Automaton(regex),
            None => Engine::Machine(Program::new(&node)),
        };
        Ok(Regex { engine })
    }

    /// Whether some part of `text` matches.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Automaton(regex) => regex.is_match(text),
            Engine::Machine(program) => program.is_match(text),
        }
    }

    /// The byte range of the leftmost match at or after byte `from`, which must be a character boundary.
    pub fn find_at(&self, text: &str, from: usize) -> Option<Range<usize>> {
        match &self.engine {
            Engine::Automaton(regex) => regex.find(Input::new(text).range(from..)).map(|found| found.range()),
            Engine::Machine(program) => program.find_at(text, from),
        }
    }

    /// All matches that do not overlap, as Go's `FindAllString` returns them: an empty match next to the match before it is
    /// left out.
    pub fn find_all<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
        let mut from = Some(0);
        let mut previous_end = None;
        std::iter::from_fn(move || {
            loop {
                let found = self.find_at(text, from?)?;
                from = if found.end > from? {
                    Some(found.end)
                } else {
                    text[found.end..].chars().next().map(|c| found.end + c.len_utf8())
                };
                if !found.is_empty() || previous_end != Some(found.start) {
                    previous_end = Some(found.end);
                    return Some(found);
                }
            }
        })
    }
}

/// None if the automaton would exceed its size limit.
fn automaton(node: &Node) -> Option<meta::Regex> {
    let config = meta::Config::new()
        .nfa_size_limit(Some(AUTOMATON_BYTES_MAX))
        .onepass_size_limit(Some(LAZY_CACHE_BYTES))
        .hybrid_cache_capacity(LAZY_CACHE_BYTES)
        .which_captures(WhichCaptures::Implicit);
    meta::Builder::new().configure(config).build_from_hir(&hir::build(node)).ok()
}
