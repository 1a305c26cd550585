//! Key heads: 64-bit abbreviations of keys. Most comparisons of keys need only these numbers, not
//! the keys themselves, which are scattered in memory.
//!
//! Keys of one kind have a common prefix and differ soon after it, and a table holds a few kinds:
//! rows of some buckets, expiry hints. So a head holds the index of a known prefix, and the next
//! bytes of the key.

use bytes::Bytes;

/// Number of keys that are sampled to choose prefixes.
pub(super) const KEYS_SAMPLED: usize = 128;
/// Minimum number of sampled keys with a prefix of their own.
const KEYS_PER_PREFIX_MIN: usize = 4;
/// Maximum number of prefixes: a head has one byte for the prefix, or for the gap between two.
const PREFIXES_MAX: usize = 64;
/// Number of bytes behind the prefix that a head holds.
const REST_BYTES: usize = 7;

/// Prefixes of keys, in order; no prefix begins with another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyHeads(Vec<Bytes>);

impl KeyHeads {
    /// Chooses prefixes for keys like these, which may be in any order.
    pub fn for_keys(mut keys: Vec<&Bytes>) -> KeyHeads {
        keys.sort_unstable();
        keys.dedup();
        let mut prefixes = Vec::new();
        choose_prefixes(&keys, &mut prefixes);
        KeyHeads(prefixes)
    }

    /// Returns true if most of the distinct keys have distinct heads.
    pub fn distinguishes(&self, keys: &[&Bytes]) -> bool {
        let mut numbers: Vec<u64> = keys.iter().map(|key| self.head(key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        numbers.len() * 2 > keys.len()
    }

    /// Returns the head of a key. Heads are ordered like their keys; different keys may have the
    /// same head.
    pub fn head(&self, key: &[u8]) -> u64 {
        let at = self.0.partition_point(|prefix| prefix[..] <= *key);
        let rest = at.checked_sub(1).and_then(|last| key.strip_prefix(&self.0[last][..]));
        // Odd: a key with the prefix before `at`. Even: a key between that prefix and the next.
        let (kind, rest) = match rest {
            Some(rest) => (2 * at - 1, rest),
            None => (2 * at, &[][..]),
        };
        let mut number = [0; 1 + REST_BYTES];
        number[0] = kind as u8;
        let length = rest.len().min(REST_BYTES);
        number[1..=length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(number)
    }
}

/// Chooses prefixes for distinct keys in order: the shortest ones behind which most of their keys
/// differ within a head.
fn choose_prefixes(keys: &[&Bytes], prefixes: &mut Vec<Bytes>) {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
    if keys.len() < KEYS_PER_PREFIX_MIN || prefixes.len() == PREFIXES_MAX {
        return;
    }
    let common = first.iter().zip(last.iter()).take_while(|(one, other)| one == other).count();
    let rest =
        |key: &&Bytes| key.get(common..key.len().min(common + REST_BYTES)).map(<[u8]>::to_vec);
    let mut rests: Vec<_> = keys.iter().map(rest).collect();
    rests.dedup();
    if rests.len() * 2 > keys.len() {
        prefixes.push(first.slice(..common));
        return;
    }
    for group in keys.chunk_by(|one, other| one.get(common) == other.get(common)) {
        choose_prefixes(group, prefixes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn keys(texts: &[&str]) -> Vec<Bytes> {
        texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
    }

    #[test]
    fn key_heads_distinguish_two_kinds_of_keys() {
        let rows = (0..64).map(|row| format!("bucket:row:{row:020}"));
        let expiry_hints =
            (0..64).map(|at| format!("bucket:expires:{at:012}:row:{:020}", at * 7 % 64));
        let all: Vec<Bytes> = rows.chain(expiry_hints).map(Bytes::from).collect();
        let heads = KeyHeads::for_keys(all.iter().collect());
        assert_eq!(heads.0.len(), 2, "{heads:?}");
        assert!(heads.distinguishes(&all.iter().collect::<Vec<_>>()));
        let single_prefix = KeyHeads(vec![Bytes::from_static(b"bucket:")]);
        assert!(!single_prefix.distinguishes(&all.iter().collect::<Vec<_>>()));
    }

    #[test]
    fn key_heads_preserve_key_order() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut random_key = |letters: u8, length_max: usize| -> Bytes {
            let length = rng.random_range(0..=length_max);
            (0..length).map(|_| rng.random_range(0..letters)).collect()
        };
        for round in 0..200 {
            let letters = if round % 2 == 0 { 2 } else { 255 };
            let chosen: Vec<Bytes> = (0..100).map(|_| random_key(letters, 12)).collect();
            let heads = KeyHeads::for_keys(chosen.iter().collect());
            let mut all: Vec<Bytes> =
                (0..300).map(|_| random_key(letters, 14)).chain(chosen).collect();
            all.sort_unstable();
            let numbers: Vec<u64> = all.iter().map(|key| heads.head(key)).collect();
            assert!(numbers.is_sorted(), "round {round}: {heads:?}");
        }
    }

    #[test]
    fn key_heads_of_few_or_no_keys_have_no_prefix() {
        assert_eq!(KeyHeads::for_keys(Vec::new()), KeyHeads(Vec::new()));
        let few = keys(&["a", "a", "b"]);
        assert_eq!(KeyHeads::for_keys(few.iter().collect()).head(b"a"), 0);
    }
}
