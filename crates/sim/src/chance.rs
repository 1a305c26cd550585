//! Random numbers from one seed (SplitMix64, Steele et al., OOPSLA 2014).

/// Pseudo-random sequence, determined by its seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed ^ 0x5DEE_CE66_D1CE_B00C)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Draws a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end.max(1)
    }

    /// Draws a number below `end`, as an index.
    pub fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Draws a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Draws a boolean that is true with this probability, per mille.
    pub fn draw_bool(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
}
