//! HyperLogLog: an estimate of the number of distinct values in little space.
//!
//! Registers as Flajolet, Fusy, Gandouet and Meunier describe them (*HyperLogLog*, 2007), with
//! hashes of 64 bits; the estimate is Ertl's (*New cardinality estimation algorithms for
//! HyperLogLog sketches*, 2017), which needs no table of corrections and is accurate for few values
//! as for many. Its standard error is about `1.04 / sqrt(2^precision)`.

use base::codec::checksum;

/// Fewest bits that choose a register.
pub const PRECISION_MIN: u8 = 4;
/// Most bits that choose a register.
pub const PRECISION_MAX: u8 = 16;

/// Salt that separates these hashes from all others of the program.
const SALT: u64 = 0x6879_7065_726c_6f67;

/// Set of `2^precision` registers, each the longest run of zeros seen, plus one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registers {
    pub(super) precision: u8,
    pub(super) ranks: Vec<u8>,
}

impl Registers {
    /// Builds empty registers. `None`: the precision is out of range.
    pub fn new(precision: u8) -> Option<Registers> {
        let fits = (PRECISION_MIN..=PRECISION_MAX).contains(&precision);
        fits.then(|| Registers { precision, ranks: vec![0; 1 << precision] })
    }

    /// Returns the number of bits that choose a register.
    pub fn precision(&self) -> u8 {
        self.precision
    }

    /// Returns the highest possible rank.
    pub(super) fn rank_max(precision: u8) -> u8 {
        64 - precision + 1
    }

    /// Adds a value; repeated values count once.
    pub fn add(&mut self, value: &[u8]) {
        let hash = checksum(value, SALT);
        let at = (hash >> (64 - self.precision)) as usize;
        // A one after the hash ends the run of zeros at the highest rank.
        let rest = hash << self.precision | 1 << (self.precision - 1);
        let rank = rest.leading_zeros() as u8 + 1;
        self.ranks[at] = self.ranks[at].max(rank);
    }

    /// Merges the other registers into these; the more precise of the two is coarsened first.
    pub fn merge(&mut self, other: &Registers) {
        if other.precision < self.precision {
            *self = self.coarser(other.precision);
        }
        let coarse;
        let other = if other.precision > self.precision {
            coarse = other.coarser(self.precision);
            &coarse
        } else {
            other
        };
        for (own, theirs) in self.ranks.iter_mut().zip(&other.ranks) {
            *own = (*own).max(*theirs);
        }
    }

    /// Returns the registers that the same values would give with a lower precision: the bits that
    /// no longer choose a register precede the run of zeros.
    fn coarser(&self, precision: u8) -> Registers {
        let fewer = self.precision - precision;
        let mut ranks = vec![0_u8; 1 << precision];
        for (at, rank) in self.ranks.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            let bits = at & ((1 << fewer) - 1);
            let rank = match bits {
                0 => rank + fewer,
                bits => fewer - bits.ilog2() as u8,
            };
            let own = &mut ranks[at >> fewer];
            *own = (*own).max(rank);
        }
        Registers { precision, ranks }
    }

    /// Returns the estimated number of distinct values.
    pub fn estimate(&self) -> u64 {
        let registers = self.ranks.len() as f64;
        let rank_max = Registers::rank_max(self.precision) as usize;
        let mut rank_counts = vec![0_u32; rank_max + 1];
        for rank in &self.ranks {
            rank_counts[usize::from(*rank).min(rank_max)] += 1;
        }
        let fraction = |rank: usize| f64::from(rank_counts[rank]) / registers;
        let mut sum = registers * tau(1.0 - fraction(rank_max));
        for rank in (1..rank_max).rev() {
            sum = 0.5 * (sum + f64::from(rank_counts[rank]));
        }
        sum += registers * sigma(fraction(0));
        (registers * registers / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
    }
}

/// Returns the correction for empty registers.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Returns the correction for full registers.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
