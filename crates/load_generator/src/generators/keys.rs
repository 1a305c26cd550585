//! Distributions of numbers, and the encoding of a number as a key.
//!
//! `truncated_pareto_int` is Basho Bench's: `min(N, pareto)`, so that 2.7 % of all draws, (1 +
//! 10)^-1.5, land on the single key N. That spike is a hot key which many published results contain
//! unknowingly; take `pareto_int` where it is not wanted.

use super::{Format, SeededRng};

/// Distribution of the numbers drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// `start .. start + count - 1`, all equally likely.
    Uniform {
        /// The lowest.
        start: u64,
        /// Number of values.
        count: u64,
    },
    /// `0 .. count - 1` in order, once for every client.
    Sequential {
        /// Number of values.
        count: u64,
    },
    /// `start .. start + count - 1` in order, split over the clients, so that each is drawn once.
    Partitioned {
        /// The lowest.
        start: u64,
        /// Number of values.
        count: u64,
    },
    /// `trunc((U^(-1/1.5) - 1) * 0.1 * count)`: mean `0.2 * count`, unbounded; four of five draws
    /// are below it.
    Pareto {
        /// The scale.
        count: u64,
    },
    /// Like `Pareto`, but at most `count`: 2.7 % of the draws are exactly `count`.
    TruncatedPareto {
        /// The scale and the largest.
        count: u64,
    },
}

/// Encoding of a number as a key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyShape {
    /// Decimal digits.
    Decimal,
    /// A prefix, then decimal digits with leading zeros, `width` bytes in all.
    FixedWidth {
        /// Bytes of the whole key.
        width: usize,
        /// Prefix of the key.
        prefix: String,
    },
    /// The low bytes of the number, highest first.
    BigEndian {
        /// Number of bytes, at most 8.
        bytes: usize,
    },
    /// The low bytes of the number, lowest first.
    LittleEndian {
        /// Number of bytes, at most 8.
        bytes: usize,
    },
    /// Formatted into a text.
    Formatted(Format),
}

impl KeyShape {
    /// Appends the key of this number.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            KeyShape::Decimal => {
                let mut digits = [0; 20];
                out.extend_from_slice(decimal(number, &mut digits));
            }
            KeyShape::FixedWidth { width, prefix } => {
                let mut digits = [0; 20];
                let digits = decimal(number, &mut digits);
                out.extend_from_slice(prefix.as_bytes());
                let zeros = width.saturating_sub(prefix.len() + digits.len());
                out.resize(out.len() + zeros, b'0');
                out.extend_from_slice(digits);
            }
            KeyShape::BigEndian { bytes } => {
                out.extend_from_slice(&number.to_be_bytes()[8 - bytes..])
            }
            KeyShape::LittleEndian { bytes } => {
                out.extend_from_slice(&number.to_le_bytes()[..*bytes])
            }
            KeyShape::Formatted(format) => format.write(number, out),
        }
    }
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// One client's keys.
#[derive(Clone, Debug)]
pub struct KeyStream {
    numbers: Numbers,
    next: u64,
    end: u64,
}

impl KeyStream {
    /// Returns the keys of client `client` of `clients`.
    pub fn new(numbers: &Numbers, client: usize, clients: usize) -> KeyStream {
        let share = |count: u64, part: usize| {
            (u128::from(count) * part as u128 / clients.max(1) as u128) as u64
        };
        let (next, end) = match *numbers {
            Numbers::Sequential { count } => (0, count),
            Numbers::Partitioned { start, count } => {
                (start + share(count, client), start + share(count, client + 1))
            }
            _ => (0, u64::MAX),
        };
        KeyStream { numbers: numbers.clone(), next, end }
    }

    /// Draws the next number. `None`: the client has finished.
    #[inline]
    pub fn next(&mut self, rng: &mut SeededRng) -> Option<u64> {
        match self.numbers {
            Numbers::Uniform { start, count } => Some(start + rng.below(count)),
            Numbers::Pareto { count } => Some(pareto(rng, count)),
            Numbers::TruncatedPareto { count } => Some(pareto(rng, count).min(count)),
            Numbers::Sequential { .. } | Numbers::Partitioned { .. } => {
                let number = self.next;
                (number < self.end).then(|| {
                    self.next += 1;
                    number
                })
            }
        }
    }

    /// Returns the number of keys that are left. `None`: the generator never ends.
    pub fn remaining(&self) -> Option<u64> {
        match self.numbers {
            Numbers::Sequential { .. } | Numbers::Partitioned { .. } => Some(self.end - self.next),
            _ => None,
        }
    }
}

#[inline]
fn pareto(rng: &mut SeededRng, count: u64) -> u64 {
    // `as` saturates, so the rarest draws stay numbers.
    ((rng.fraction().powf(-1.0 / 1.5) - 1.0) * 0.1 * count as f64) as u64
}
