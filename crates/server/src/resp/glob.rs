//! Redis' glob patterns (`*`, `?`, `[a-c]`, `[^x]`, `\*`), matched in linear time.
//!
//! A *part* of fixed length stands between two stars. The first match of a part is always good
//! enough, so the search never backtracks. A linear substring search finds plain parts; an
//! automaton with one bit per position finds parts with `?` or `[..]`. Its masks are computed once
//! for all keys.

use memchr::memmem::Finder;
use std::sync::OnceLock;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Number of positions up to which a part with `?` or `[..]` is compared at every offset. Masks
/// would take 2 KiB for each such part.
const SHORT_POSITIONS: usize = 8;
/// Amount of pattern matching after which other tasks get their turn: well under a millisecond.
pub const YIELD_MATCH_COST: usize = 256 * 1024;

/// Compiled pattern, for many keys.
#[derive(Clone, Debug)]
pub struct Glob {
    /// Parts between stars. A pattern without stars has one part.
    parts: Vec<GlobPart>,
    has_stars: bool,
    bytes_min: usize,
    prefix: Vec<u8>,
}

#[derive(Clone, Debug)]
enum GlobPart {
    Literal(Box<Finder<'static>>),
    Matchers(MatcherPart),
}

/// Part with `?` or `[..]`; never empty.
#[derive(Clone, Debug)]
struct MatcherPart {
    matchers: Vec<Matcher>,
    /// For each byte, the positions that match it: one bit each. Computed at the first search.
    masks: OnceLock<Box<[u64]>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    Byte(u8),
    Any,
    Set(Box<ByteSet>),
}

/// Set of bytes, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
}

impl Matcher {
    fn matches(&self, byte: u8) -> bool {
        match self {
            Matcher::Byte(expected) => *expected == byte,
            Matcher::Any => true,
            Matcher::Set(set) => set.contains(byte),
        }
    }
}

impl GlobPart {
    fn new(matchers: Vec<Matcher>) -> GlobPart {
        let literal: Option<Vec<u8>> = matchers
            .iter()
            .map(|matcher| if let Matcher::Byte(byte) = matcher { Some(*byte) } else { None })
            .collect();
        match literal {
            Some(bytes) => GlobPart::Literal(Box::new(Finder::new(&bytes).into_owned())),
            None => GlobPart::Matchers(MatcherPart { matchers, masks: OnceLock::new() }),
        }
    }

    fn len(&self) -> usize {
        match self {
            GlobPart::Literal(finder) => finder.needle().len(),
            GlobPart::Matchers(part) => part.matchers.len(),
        }
    }

    /// Returns the number of machine words that a search reads for each byte.
    fn cost_per_byte(&self) -> usize {
        match self.len() {
            _ if matches!(self, GlobPart::Literal(_)) => 1,
            positions @ ..=SHORT_POSITIONS => positions,
            positions => positions.div_ceil(64),
        }
    }

    /// Returns true if the part matches exactly these bytes. They must be as many as its positions.
    fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            GlobPart::Literal(finder) => finder.needle() == bytes,
            GlobPart::Matchers(part) => part.matches(bytes),
        }
    }

    /// Returns the offset of the first match in these bytes.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            GlobPart::Literal(finder) => finder.find(bytes),
            GlobPart::Matchers(part) => part.find(bytes),
        }
    }
}

impl MatcherPart {
    /// Returns true if each of these bytes matches its position.
    fn matches(&self, bytes: &[u8]) -> bool {
        self.matchers.iter().zip(bytes).all(|(matcher, byte)| matcher.matches(*byte))
    }

    /// Returns the offset of the first match. Shift-and search: bit `i` of the state is set while
    /// positions 0 to `i` match the last bytes read.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        let positions = self.matchers.len();
        if positions <= SHORT_POSITIONS {
            return bytes.windows(positions).position(|window| self.matches(window));
        }
        let words = positions.div_ceil(64);
        let last = 1u64 << ((positions - 1) % 64);
        let masks = self.masks.get_or_init(|| self.compute_masks(words));
        let mut state = vec![0u64; words];
        for (at, &byte) in bytes.iter().enumerate() {
            let mask = &masks[usize::from(byte) * words..][..words];
            let mut carry = 1;
            for (word, match_bits) in state.iter_mut().zip(mask) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & match_bits;
                carry = next;
            }
            if state[words - 1] & last != 0 {
                return Some(at + 1 - positions);
            }
        }
        None
    }

    fn compute_masks(&self, words: usize) -> Box<[u64]> {
        let mut masks = vec![0u64; 256 * words];
        for byte in 0..=255u8 {
            let mask = &mut masks[usize::from(byte) * words..][..words];
            for (index, matcher) in self.matchers.iter().enumerate() {
                mask[index / 64] |= u64::from(matcher.matches(byte)) << (index % 64);
            }
        }
        masks.into()
    }
}

/// Runs pattern matching of this cost in code that can't yield. If it is long, the other tasks of
/// this thread continue on another one.
pub fn run_long_match<T>(cost: usize, work: impl FnOnce() -> T) -> T {
    let can_move = || {
        let runtime = Handle::try_current();
        runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    match cost > YIELD_MATCH_COST && can_move() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

impl Glob {
    /// Compiles a pattern. Every byte string is a valid pattern.
    pub fn new(pattern: &[u8]) -> Glob {
        let mut parts = Vec::new();
        let mut matchers = Vec::new();
        let mut has_stars = false;
        let mut at = 0;
        while at < pattern.len() {
            match pattern[at] {
                b'*' => {
                    // Several stars in a row are one: an empty part between them would match
                    // everywhere.
                    if !has_stars || !matchers.is_empty() {
                        parts.push(GlobPart::new(std::mem::take(&mut matchers)));
                    }
                    has_stars = true;
                    at += 1;
                }
                b'?' => {
                    matchers.push(Matcher::Any);
                    at += 1;
                }
                b'[' => {
                    let (set, next) = parse_set(pattern, at + 1);
                    matchers.push(Matcher::Set(set));
                    at = next;
                }
                b'\\' if at + 1 < pattern.len() => {
                    matchers.push(Matcher::Byte(pattern[at + 1]));
                    at += 2;
                }
                byte => {
                    matchers.push(Matcher::Byte(byte));
                    at += 1;
                }
            }
        }
        parts.push(GlobPart::new(matchers));
        let prefix = match &parts[0] {
            GlobPart::Literal(finder) => finder.needle().to_vec(),
            GlobPart::Matchers(part) => part
                .matchers
                .iter()
                .map_while(
                    |matcher| if let Matcher::Byte(byte) = matcher { Some(*byte) } else { None },
                )
                .collect(),
        };
        let bytes_min = parts.iter().map(GlobPart::len).sum();
        Glob { parts, has_stars, bytes_min, prefix }
    }

    /// Returns the literal prefix of every key that the pattern can match.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns true if the pattern is a literal: it matches only its prefix.
    pub fn is_literal(&self) -> bool {
        !self.has_stars && self.prefix.len() == self.bytes_min
    }

    /// Returns the approximate number of machine words that a match against this many bytes reads.
    pub fn match_cost(&self, bytes: usize) -> usize {
        let words = self.parts.iter().map(GlobPart::cost_per_byte).max().unwrap_or(1);
        self.bytes_min + bytes * words
    }

    /// Returns true if the pattern matches the whole text.
    pub fn matches(&self, text: &[u8]) -> bool {
        let [first, middle @ .., last] = self.parts.as_slice() else {
            return text.len() == self.bytes_min && self.parts[0].matches(text);
        };
        if text.len() < self.bytes_min {
            return false;
        }
        let (front, rest) = text.split_at(first.len());
        let (mut rest, back) = rest.split_at(rest.len() - last.len());
        if !first.matches(front) || !last.matches(back) {
            return false;
        }
        for part in middle {
            match part.find(rest) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Parses the inside of `[..]` and returns its end. Without a closing bracket it ends with the
/// pattern.
fn parse_set(pattern: &[u8], from: usize) -> (Box<ByteSet>, usize) {
    let mut members = Box::<ByteSet>::default();
    let mut at = from;
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b'\\', byte, ..] => {
                members.insert(*byte);
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (low.min(high), low.max(high));
                (*low..=*high).for_each(|byte| members.insert(byte));
                at += 3;
            }
            [byte, ..] => {
                members.insert(*byte);
                at += 1;
            }
        }
    }
    if negated {
        members.0.iter_mut().for_each(|members| *members = !*members);
    }
    (members, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_a_pattern_are_computed_once_for_all_keys() {
        let glob = Glob::new(format!("*{}*", "[a-z]".repeat(200)).as_bytes());
        let masks = |glob: &Glob| match &glob.parts[1] {
            GlobPart::Matchers(part) => part.masks.get().map(|masks| masks.as_ptr()),
            GlobPart::Literal(_) => panic!("it has classes"),
        };
        assert!(!glob.matches(b"short") && masks(&glob).is_none(), "nothing is searched for");
        assert!(glob.matches(&[b'x'; 300]));
        let first = masks(&glob);
        assert!(first.is_some());
        assert!(!glob.matches(&[b'1'; 300]) && masks(&glob) == first);
        assert_eq!(glob.match_cost(300), 200 + 300 * 4);
    }

    #[test]
    fn long_match_runs_on_every_kind_of_runtime() {
        let long = || run_long_match(YIELD_MATCH_COST + 1, || 7);
        assert_eq!((long(), run_long_match(0, || 7)), (7, 7));
        let single = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(single.block_on(async { long() }), 7);
        let several = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
        assert_eq!(several.block_on(async { long() }), 7);
    }
}
