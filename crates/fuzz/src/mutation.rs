//! Generation of inputs without a view of the code: changes of kept inputs, from one seed.

use sim::Chance;

/// Bytes that decoders take for something: ends of lines, marks, extremes.
const BYTES: [u8; 14] = [0, 1, 2, 4, 0x10, 0x7f, 0x80, 0xff, b'\r', b'\n', b' ', b'*', b'$', b'"'];
/// Numbers at the edges of what fields hold.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    u64::MAX >> 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];
/// Numbers as text.
const DIGITS: [&[u8]; 8] = [
    b"0",
    b"-1",
    b"1e9",
    b"0x10",
    b"2147483648",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999999999",
];
/// Most changes of one input.
const CHANGES_MAX: u64 = 6;

/// Generator of inputs.
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    chance: Chance,
    bytes_max: usize,
}

impl<'a> Mutator<'a> {
    /// Returns the generator of a seed, which changes these inputs.
    pub fn new(corpus: &'a [Vec<u8>], seed: u64, bytes_max: usize) -> Mutator<'a> {
        Mutator { corpus, chance: Chance::new(seed), bytes_max }
    }

    /// Returns the next input.
    pub fn generate(&mut self) -> Vec<u8> {
        let mut bytes = self.kept();
        for _ in 0..self.chance.between(1, CHANGES_MAX) {
            self.change(&mut bytes);
        }
        bytes.truncate(self.bytes_max);
        bytes
    }

    fn kept(&mut self) -> Vec<u8> {
        match self.corpus.len() {
            0 => Vec::new(),
            count => self.corpus[self.chance.index(count)].clone(),
        }
    }

    fn place(&mut self, bytes: &[u8]) -> usize {
        self.chance.index(bytes.len().max(1))
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return bytes.extend((0..8).map(|_| self.chance.next_u64() as u8));
        }
        let at = self.place(bytes);
        match self.chance.below(12) {
            0 | 1 => bytes[at] ^= 1 << self.chance.below(8),
            2 => bytes[at] = BYTES[self.chance.index(BYTES.len())],
            3 => bytes[at] = self.chance.next_u64() as u8,
            4 => {
                let byte = self.chance.next_u64() as u8;
                bytes.insert(at, byte);
            }
            5 => {
                let end = (at + 1 + self.chance.index(8)).min(bytes.len());
                bytes.drain(at..end);
            }
            6 => bytes.truncate(at),
            7 => self.put_number(bytes, at),
            8 => {
                let end = (at + self.chance.index(4)).min(bytes.len());
                let digits = DIGITS[self.chance.index(DIGITS.len())];
                bytes.splice(at..end, digits.iter().copied());
            }
            9 => {
                let end = (at + 1 + self.chance.index(64)).min(bytes.len());
                let repeated = bytes[at..end].to_vec();
                let to = self.place(bytes);
                bytes.splice(to..to, repeated);
            }
            10 => {
                let other = self.kept();
                let from = self.place(&other);
                bytes.splice(at.., other.get(from..).unwrap_or_default().iter().copied());
            }
            _ => {
                let other = self.kept();
                bytes.splice(at..at, other);
            }
        }
    }

    /// Overwrites a number of one, two, four or eight bytes, little-endian or big-endian.
    fn put_number(&mut self, bytes: &mut [u8], at: usize) {
        let number = NUMBERS[self.chance.index(NUMBERS.len())];
        let number = number.wrapping_add(self.chance.below(3)).wrapping_sub(1);
        let width = 1 << self.chance.below(4);
        let mut written = number.to_le_bytes()[..width].to_vec();
        if self.chance.draw_bool(300) {
            written.reverse();
        }
        let target = bytes[at..].iter_mut().zip(written);
        target.for_each(|(byte, new)| *byte = new);
    }
}
