//! Points on the ring: the hash of a key, and its partition.

use base::Partition;

/// Fewest partitions of a ring.
pub const PARTITIONS_MIN: u32 = 8;
/// Most partitions of a ring.
pub const PARTITIONS_MAX: u32 = base::limits::PARTITIONS_MAX as u32;
/// Number of partitions of a new cluster's ring.
pub const PARTITIONS_DEFAULT: u32 = 64;

/// Longest name and key, with the length, that are hashed in one piece: that takes half the time.
const SHORT_BYTES_MAX: usize = 256;

/// One of the 2^160 points of the ring, as a number in network byte order: points sort as their
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub [u8; 20]);

/// Returns true if a ring may have this many partitions: a power of two within the limits.
pub fn check_partitions(partitions: u32) -> bool {
    partitions.is_power_of_two() && (PARTITIONS_MIN..=PARTITIONS_MAX).contains(&partitions)
}

/// Returns the point of a bucket's key: the first 20 bytes of the blake3 hash of the length of the
/// bucket's full name, the name, and the key.
///
/// The length separates `a` + `bc` from `ab` + `c`. The hash trees use blake3 too; a key only needs
/// an even spread that no pattern in real keys can disturb.
pub fn point(bucket: &[u8], key: &[u8]) -> Point {
    let length = (bucket.len() as u64).to_be_bytes();
    let parts = [&length[..], bucket, key];
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let mut buffer = [0; SHORT_BYTES_MAX];
    let hash = match buffer.get_mut(..bytes) {
        Some(short) => {
            let mut rest = &mut short[..];
            for part in parts {
                rest[..part.len()].copy_from_slice(part);
                rest = &mut rest[part.len()..];
            }
            blake3::hash(short)
        }
        None => {
            let mut hasher = blake3::Hasher::new();
            for part in parts {
                hasher.update(part);
            }
            hasher.finalize()
        }
    };
    let mut point = [0; 20];
    point.copy_from_slice(&hash.as_bytes()[..20]);
    Point(point)
}

impl Point {
    /// Returns the point's partition in a ring of this many: the point's highest bits. So a
    /// partition splits into two halves, 2p and 2p + 1, when the number is doubled.
    pub fn partition(&self, partitions: u32) -> Partition {
        let [a, b, c, d, ..] = self.0;
        let highest = u64::from(u32::from_be_bytes([a, b, c, d]));
        Partition(((highest * u64::from(partitions)) >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_is_the_hash_of_length_name_and_key_whatever_their_size() {
        for (bucket, key) in [(0, 0), (3, 5), (100, 148), (100, 149), (8, 1_000), (300, 0)] {
            let (bucket, key) = (vec![b'b'; bucket], vec![b'k'; key]);
            let whole = [&(bucket.len() as u64).to_be_bytes()[..], &bucket, &key].concat();
            assert_eq!(point(&bucket, &key).0, blake3::hash(&whole).as_bytes()[..20]);
        }
    }
}
