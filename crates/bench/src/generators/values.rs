//! Values: slices at random offsets of one random blob, as in Basho Bench.
//!
//! Each value alone can't be compressed; values overlap, so many together can.

use super::{Dice, KeyShape};
use std::sync::Arc;

/// How long the values are.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueGenerator {
    /// All so many bytes.
    Fixed {
        /// Bytes.
        bytes: usize,
    },
    /// At least `min`, plus an exponential number with this mean.
    Exponential {
        /// Bytes at least.
        min: usize,
        /// Mean of what is added.
        mean: usize,
    },
    /// `min` to `max`, all alike.
    Uniform {
        /// Bytes at least.
        min: usize,
        /// Bytes at most.
        max: usize,
    },
    /// All so many bytes, and all of them this one.
    Same {
        /// Bytes.
        bytes: usize,
        /// Each of them.
        byte: u8,
    },
    /// All so many printable characters.
    Characters {
        /// Characters.
        bytes: usize,
    },
    /// A number from `min` to `max`, all alike, in decimal digits.
    Integer {
        /// The lowest.
        min: u64,
        /// The highest.
        max: u64,
    },
}

/// Random bytes that all clients cut their values from.
#[derive(Clone, Debug)]
pub struct Blob(Arc<[u8]>);

impl Blob {
    /// So many bytes of this seed.
    pub fn new(seed: u64, bytes: usize) -> Blob {
        let mut dice = Dice::new(seed, u64::MAX);
        let mut blob = Vec::with_capacity(bytes + 8);
        while blob.len() < bytes {
            blob.extend_from_slice(&dice.next_u64().to_le_bytes());
        }
        blob.truncate(bytes);
        Blob(blob.into())
    }

    /// The source that a generator's values are cut from.
    pub fn of(generator: &ValueGenerator, seed: u64, bytes: usize) -> Blob {
        match *generator {
            ValueGenerator::Same { bytes, byte } => Blob(vec![byte; bytes].into()),
            ValueGenerator::Characters { .. } => {
                let mut dice = Dice::new(seed, u64::MAX);
                Blob((0..bytes).map(|_| b' ' + dice.below(95) as u8).collect())
            }
            _ => Blob::new(seed, bytes),
        }
    }

    /// These bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Blob {
        Blob(bytes.into())
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// A slice of `bytes` bytes (at most the blob's length) at a random offset.
    #[inline]
    pub fn slice(&self, dice: &mut Dice, bytes: usize) -> &[u8] {
        let bytes = bytes.min(self.0.len());
        let from = dice.below((self.0.len() - bytes + 1) as u64) as usize;
        &self.0[from..from + bytes]
    }
}

impl ValueGenerator {
    /// How long the next value is.
    #[inline]
    pub fn bytes(&self, dice: &mut Dice) -> usize {
        match *self {
            ValueGenerator::Fixed { bytes }
            | ValueGenerator::Same { bytes, .. }
            | ValueGenerator::Characters { bytes } => bytes,
            ValueGenerator::Integer { max, .. } => decimal_bytes(max),
            ValueGenerator::Exponential { min, mean } => {
                min + dice.exponential(mean as f64) as usize
            }
            ValueGenerator::Uniform { min, max } => {
                min + dice.below((max - min + 1) as u64) as usize
            }
        }
    }

    /// The next value; `digits` holds it if it is a number.
    #[inline]
    pub fn take<'b>(&self, dice: &mut Dice, blob: &'b Blob, digits: &'b mut Vec<u8>) -> &'b [u8] {
        if let ValueGenerator::Integer { min, max } = *self {
            digits.clear();
            KeyShape::Decimal.write(min + dice.below(max - min + 1), digits);
            return digits;
        }
        let bytes = self.bytes(dice);
        blob.slice(dice, bytes)
    }

    /// The longest value, or for `Exponential` one that is longer in e^-16 of all draws only.
    pub fn bytes_max(&self) -> usize {
        match *self {
            ValueGenerator::Fixed { bytes }
            | ValueGenerator::Same { bytes, .. }
            | ValueGenerator::Characters { bytes } => bytes,
            ValueGenerator::Integer { max, .. } => decimal_bytes(max),
            ValueGenerator::Exponential { min, mean } => min + 16 * mean,
            ValueGenerator::Uniform { max, .. } => max,
        }
    }
}

fn decimal_bytes(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
