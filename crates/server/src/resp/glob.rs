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
    stars: bool,
    least_bytes: usize,
    prefix: Vec<u8>,
}

#[derive(Clone, Debug)]
enum GlobPart {
    Plain(Box<Finder<'static>>),
    Mixed(Vec<Matcher>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    One(u8),
    Any,
    Set(Box<ByteSet>),
}

/// Set of bytes, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
}

impl Matcher {
    fn fits(&self, byte: u8) -> bool {
        match self {
            Matcher::One(one) => *one == byte,
            Matcher::Any => true,
            Matcher::Set(set) => set.has(byte),
        }
    }
}

impl GlobPart {
    fn new(places: Vec<Matcher>) -> GlobPart {
        let plain: Option<Vec<u8>> = places
            .iter()
            .map(|place| if let Matcher::One(byte) = place { Some(*byte) } else { None })
            .collect();
        match plain {
            Some(bytes) => GlobPart::Plain(Box::new(Finder::new(&bytes).into_owned())),
            None => GlobPart::Mixed(places),
        }
    }

    fn len(&self) -> usize {
        match self {
            GlobPart::Plain(finder) => finder.needle().len(),
            GlobPart::Mixed(places) => places.len(),
        }
    }

    /// Returns true if the part matches exactly these bytes. They must be as many as its positions.
    fn fits(&self, bytes: &[u8]) -> bool {
        match self {
            GlobPart::Plain(finder) => finder.needle() == bytes,
            GlobPart::Mixed(places) => {
                places.iter().zip(bytes).all(|(place, byte)| place.fits(*byte))
            }
        }
    }

    /// Returns the offset of the first match in these bytes.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            GlobPart::Plain(finder) => finder.find(bytes),
            GlobPart::Mixed(places) => find_mixed(places, bytes),
        }
    }
}

/// Shift-and search: bit `i` of the state is set while positions 0 to `i` match the last bytes
/// read.
fn find_mixed(places: &[Matcher], bytes: &[u8]) -> Option<usize> {
    let words = places.len().div_ceil(64);
    let last = 1u64 << ((places.len() - 1) % 64);
    let mut masks: Vec<Option<Box<[u64]>>> = vec![None; 256];
    let mut state = vec![0u64; words];
    for (at, &byte) in bytes.iter().enumerate() {
        let mask = masks[usize::from(byte)].get_or_insert_with(|| {
            let mut mask = vec![0u64; words];
            for (index, _) in places.iter().enumerate().filter(|(_, place)| place.fits(byte)) {
                mask[index / 64] |= 1 << (index % 64);
            }
            mask.into()
        });
        let mut carry = 1;
        for (word, fits) in state.iter_mut().zip(mask.iter()) {
            let next = *word >> 63;
            *word = (*word << 1 | carry) & fits;
            carry = next;
        }
        if state[words - 1] & last != 0 {
            return Some(at + 1 - places.len());
        }
    }
    None
}

impl Glob {
    /// Compiles a pattern. Every text is a valid one.
    pub fn new(pattern: &[u8]) -> Glob {
        let mut parts = Vec::new();
        let mut places = Vec::new();
        let mut stars = false;
        let mut at = 0;
        while at < pattern.len() {
            match pattern[at] {
                b'*' => {
                    // Several stars in a row are one: an empty part between them would match
                    // everywhere.
                    if !stars || !places.is_empty() {
                        parts.push(GlobPart::new(std::mem::take(&mut places)));
                    }
                    stars = true;
                    at += 1;
                }
                b'?' => {
                    places.push(Matcher::Any);
                    at += 1;
                }
                b'[' => {
                    let (set, next) = set(pattern, at + 1);
                    places.push(Matcher::Set(set));
                    at = next;
                }
                b'\\' if at + 1 < pattern.len() => {
                    places.push(Matcher::One(pattern[at + 1]));
                    at += 2;
                }
                byte => {
                    places.push(Matcher::One(byte));
                    at += 1;
                }
            }
        }
        parts.push(GlobPart::new(places));
        let prefix = match &parts[0] {
            GlobPart::Plain(finder) => finder.needle().to_vec(),
            GlobPart::Mixed(places) => places
                .iter()
                .map_while(|place| if let Matcher::One(byte) = place { Some(*byte) } else { None })
                .collect(),
        };
        let least_bytes = parts.iter().map(GlobPart::len).sum();
        Glob { parts, stars, least_bytes, prefix }
    }

    /// Returns the literal prefix of every key that the pattern can match.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns true if the pattern is a literal: it matches only its prefix.
    pub fn is_plain(&self) -> bool {
        !self.stars && self.prefix.len() == self.least_bytes
    }

    /// Returns the approximate number of machine words that a match against this many bytes reads.
    pub fn work(&self, bytes: usize) -> usize {
        let words = self.parts.iter().map(|part| match part {
            GlobPart::Plain(_) => 1,
            GlobPart::Mixed(places) => places.len().div_ceil(64),
        });
        self.least_bytes + bytes * words.max().unwrap_or(1)
    }

    /// Returns true if the pattern matches the whole text.
    pub fn fits(&self, text: &[u8]) -> bool {
        let [first, middle @ .., last] = self.parts.as_slice() else {
            return text.len() == self.least_bytes && self.parts[0].fits(text);
        };
        if text.len() < self.least_bytes {
            return false;
        }
        let (front, rest) = text.split_at(first.len());
        let (mut rest, back) = rest.split_at(rest.len() - last.len());
        if !first.fits(front) || !last.fits(back) {
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
fn set(pattern: &[u8], from: usize) -> (Box<ByteSet>, usize) {
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
                members.add(*byte);
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (low.min(high), low.max(high));
                (*low..=*high).for_each(|byte| members.add(byte));
                at += 3;
            }
            [byte, ..] => {
                members.add(*byte);
                at += 1;
            }
        }
    }
    if negated {
        members.0.iter_mut().for_each(|members| *members = !*members);
    }
    (members, at)
}
