//! Seeded random numbers that never change: xoshiro256++, its state filled by splitmix64.
//!
//! A library's generator may change with its version; a recorded run must not.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct SeededRng {
    state: [u64; 4],
}

impl SeededRng {
    /// Returns stream `stream` of this seed; streams of different numbers are independent.
    pub fn new(seed: u64, stream: u64) -> SeededRng {
        let mut mixer = seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let state = std::array::from_fn(|_| {
            mixer = mixer.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut word = mixer;
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word ^ (word >> 31)
        });
        SeededRng { state }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a number below `limit` (which is not 0); all are equally likely to one part in 2^64.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number above 0 and at most 1.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws from the exponential distribution with this mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.fraction().ln() * mean
    }
}
