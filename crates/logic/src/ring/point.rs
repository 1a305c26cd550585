//! Points on the ring: from a key to its point, and from the point to its partition.

use base::Partition;

/// A ring has at least so many partitions.
pub const PARTITIONS_MIN: u32 = 8;
/// A ring has at most so many partitions.
pub const PARTITIONS_MAX: u32 = base::limits::PARTITIONS_MAX as u32;
/// How many a new cluster's ring has.
pub const PARTITIONS_DEFAULT: u32 = 64;

/// One of the 2^160 points of the ring, as a number in network order: points order as their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub [u8; 20]);

/// Whether a ring can have so many partitions: a power of two within the limits.
pub fn check_partitions(partitions: u32) -> bool {
    partitions.is_power_of_two() && (PARTITIONS_MIN..=PARTITIONS_MAX).contains(&partitions)
}

/// Where the key of a bucket lies: the first 20 bytes of the blake3 hash of the bucket's full name,
/// its length in front, and the key.
///
/// The length keeps `a` + `bc` and `ab` + `c` apart. blake3 is the hash of the hash trees already;
/// a key needs no more of it than an even spread that no pattern in real keys can disturb.
pub fn point(bucket: &[u8], key: &[u8]) -> Point {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(bucket.len() as u64).to_be_bytes());
    hasher.update(bucket);
    hasher.update(key);
    let mut point = [0; 20];
    point.copy_from_slice(&hasher.finalize().as_bytes()[..20]);
    Point(point)
}

impl Point {
    /// The partition it lies in, of a ring of so many: the point's highest bits. So a partition
    /// falls into two halves, 2p and 2p + 1, when the number is doubled.
    pub fn partition(&self, partitions: u32) -> Partition {
        let [a, b, c, d, ..] = self.0;
        let highest = u64::from(u32::from_be_bytes([a, b, c, d]));
        Partition(((highest * u64::from(partitions)) >> 32) as u32)
    }
}
