//! Redis' glob patterns (`*`, `?`, `[a-c]`, `[^x]`, `\*`), matched in linear time.
//!
//! A *part* of fixed length stands between two stars. The first match of a part is always good
//! enough, so the search never backtracks. A linear substring search finds plain parts; an
//! automaton with one bit per position finds parts with `?` or `[..]`.

use memchr::memmem::Finder;

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
    Matchers(Vec<Matcher>),
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
            None => GlobPart::Matchers(matchers),
        }
    }

    fn len(&self) -> usize {
        match self {
            GlobPart::Literal(finder) => finder.needle().len(),
            GlobPart::Matchers(matchers) => matchers.len(),
        }
    }

    /// Returns true if the part matches exactly these bytes. They must be as many as its positions.
    fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            GlobPart::Literal(finder) => finder.needle() == bytes,
            GlobPart::Matchers(matchers) => {
                matchers.iter().zip(bytes).all(|(matcher, byte)| matcher.matches(*byte))
            }
        }
    }

    /// Returns the offset of the first match in these bytes.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            GlobPart::Literal(finder) => finder.find(bytes),
            GlobPart::Matchers(matchers) => find_matchers(matchers, bytes),
        }
    }
}

/// Shift-and search: bit `i` of the state is set while positions 0 to `i` match the last bytes
/// read.
fn find_matchers(matchers: &[Matcher], bytes: &[u8]) -> Option<usize> {
    let words = matchers.len().div_ceil(64);
    let last = 1u64 << ((matchers.len() - 1) % 64);
    let mut masks: Vec<Option<Box<[u64]>>> = vec![None; 256];
    let mut state = vec![0u64; words];
    for (at, &byte) in bytes.iter().enumerate() {
        let mask = masks[usize::from(byte)].get_or_insert_with(|| {
            let mut mask = vec![0u64; words];
            for (index, _) in
                matchers.iter().enumerate().filter(|(_, matcher)| matcher.matches(byte))
            {
                mask[index / 64] |= 1 << (index % 64);
            }
            mask.into()
        });
        let mut carry = 1;
        for (word, match_bits) in state.iter_mut().zip(mask.iter()) {
            let next = *word >> 63;
            *word = (*word << 1 | carry) & match_bits;
            carry = next;
        }
        if state[words - 1] & last != 0 {
            return Some(at + 1 - matchers.len());
        }
    }
    None
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
            GlobPart::Matchers(matchers) => matchers
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
        let words = self.parts.iter().map(|part| match part {
            GlobPart::Literal(_) => 1,
            GlobPart::Matchers(matchers) => matchers.len().div_ceil(64),
        });
        self.bytes_min + bytes * words.max().unwrap_or(1)
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
