//! Values: slices at random offsets of one random blob, as in Basho Bench.
//!
//! Each value alone can't be compressed; values overlap, so many together can.

use super::{COUNTS, DOCUMENT_BYTES_MAX, KeyShape, SeededRng, write_coupon};
use std::sync::Arc;

/// Distribution of the lengths and contents of values.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueGenerator {
    /// All of this length.
    Fixed {
        /// Length in bytes.
        bytes: usize,
    },
    /// `min` plus an exponential number with this mean.
    Exponential {
        /// Smallest length in bytes.
        min: usize,
        /// Mean of the exponential part.
        mean: usize,
    },
    /// `min` to `max`, all equally likely.
    Uniform {
        /// Smallest length in bytes.
        min: usize,
        /// Largest length in bytes.
        max: usize,
    },
    /// All of this length, each byte the same.
    Repeated {
        /// Length in bytes.
        bytes: usize,
        /// The byte.
        byte: u8,
    },
    /// Printable characters.
    Characters {
        /// Number of characters.
        bytes: usize,
    },
    /// A number from `min` to `max`, all equally likely, in decimal digits.
    Integer {
        /// The lowest.
        min: u64,
        /// The highest.
        max: u64,
    },
    /// A JSON document of about 300 bytes: a coupon with a random `redeemed_count`.
    Coupon {
        /// Number of different coupons.
        documents: u32,
    },
}

/// Random bytes that all clients cut their values from.
#[derive(Clone, Debug)]
pub struct Blob(Arc<[u8]>);

impl Blob {
    /// Returns `bytes` random bytes of this seed.
    pub fn new(seed: u64, bytes: usize) -> Blob {
        let mut rng = SeededRng::new(seed, u64::MAX);
        let mut blob = Vec::with_capacity(bytes + 8);
        while blob.len() < bytes {
            blob.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        blob.truncate(bytes);
        Blob(blob.into())
    }

    /// Returns the blob that a generator's values are cut from.
    pub fn for_generator(generator: &ValueGenerator, seed: u64, bytes: usize) -> Blob {
        match *generator {
            ValueGenerator::Repeated { bytes, byte } => Blob(vec![byte; bytes].into()),
            ValueGenerator::Characters { .. } => {
                let mut rng = SeededRng::new(seed, u64::MAX);
                Blob((0..bytes).map(|_| b' ' + rng.below(95) as u8).collect())
            }
            _ => Blob::new(seed, bytes),
        }
    }

    /// Returns a blob of these bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Blob {
        Blob(bytes.into())
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Returns a slice of `bytes` bytes (at most the blob's length) at a random offset.
    #[inline]
    pub fn slice(&self, rng: &mut SeededRng, bytes: usize) -> &[u8] {
        let bytes = bytes.min(self.0.len());
        let from = rng.below((self.0.len() - bytes + 1) as u64) as usize;
        &self.0[from..from + bytes]
    }
}

impl ValueGenerator {
    /// Draws the length of the next value, in bytes.
    #[inline]
    pub fn bytes(&self, rng: &mut SeededRng) -> usize {
        match *self {
            ValueGenerator::Fixed { bytes }
            | ValueGenerator::Repeated { bytes, .. }
            | ValueGenerator::Characters { bytes } => bytes,
            ValueGenerator::Integer { max, .. } => decimal_bytes(max),
            ValueGenerator::Coupon { .. } => DOCUMENT_BYTES_MAX,
            ValueGenerator::Exponential { min, mean } => {
                min + rng.exponential(mean as f64) as usize
            }
            ValueGenerator::Uniform { min, max } => {
                min + rng.below((max - min + 1) as u64) as usize
            }
        }
    }

    /// Returns the next value; `text` holds it if it is a number or a document.
    #[inline]
    pub fn next_value<'b>(
        &self,
        rng: &mut SeededRng,
        blob: &'b Blob,
        text: &'b mut Vec<u8>,
    ) -> &'b [u8] {
        match *self {
            ValueGenerator::Integer { min, max } => {
                text.clear();
                KeyShape::Decimal.write(min + rng.below(max - min + 1), text);
                text
            }
            ValueGenerator::Coupon { documents } => {
                text.clear();
                let (number, count) = (rng.below(documents.into()), rng.below(COUNTS.into()));
                write_coupon(number as u32, count as u32, text);
                text
            }
            _ => {
                let bytes = self.bytes(rng);
                blob.slice(rng, bytes)
            }
        }
    }

    /// Returns the length of the longest value in bytes; for `Exponential` only e^-16 of all draws
    /// are longer.
    pub fn bytes_max(&self) -> usize {
        match *self {
            ValueGenerator::Fixed { bytes }
            | ValueGenerator::Repeated { bytes, .. }
            | ValueGenerator::Characters { bytes } => bytes,
            ValueGenerator::Integer { max, .. } => decimal_bytes(max),
            ValueGenerator::Coupon { .. } => DOCUMENT_BYTES_MAX,
            ValueGenerator::Exponential { min, mean } => min + 16 * mean,
            ValueGenerator::Uniform { max, .. } => max,
        }
    }
}

fn decimal_bytes(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
