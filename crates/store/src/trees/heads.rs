//! Numbers that stand for keys: most comparisons of keys need no look at the keys themselves, which
//! are scattered in memory.
//!
//! Keys of one kind begin alike and differ soon after, and a table holds a few kinds: rows of some
//! buckets, expiry hints. So a number holds the index of a known beginning, and the next bytes of
//! the key.

use bytes::Bytes;

/// Keys that are looked at to choose beginnings.
pub(super) const KEYS_TRIED: usize = 128;
/// Fewer of those keys are not worth a beginning of their own.
const KEYS_OF_A_KIND: usize = 4;
/// A number has one byte for the beginning, or the gap between two.
const BEGINNINGS_MAX: usize = 64;
/// Bytes behind the beginning that the number holds.
const REST_BYTES: usize = 7;

/// Beginnings of keys, in order; none of them begins with another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heads(Vec<Bytes>);

impl Heads {
    /// For keys like these, which may be in any order.
    pub fn of(mut keys: Vec<&Bytes>) -> Heads {
        keys.sort_unstable();
        keys.dedup();
        let mut beginnings = Vec::new();
        choose(&keys, &mut beginnings);
        Heads(beginnings)
    }

    /// True if most of these keys that differ have different numbers.
    pub fn tell_apart(&self, keys: &[&Bytes]) -> bool {
        let mut numbers: Vec<u64> = keys.iter().map(|key| self.head(key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        numbers.len() * 2 > keys.len()
    }

    /// The number of a key: that of a later key is not below it. Keys with one number may differ.
    pub fn head(&self, key: &[u8]) -> u64 {
        let at = self.0.partition_point(|beginning| beginning[..] <= *key);
        let rest = at.checked_sub(1).and_then(|last| key.strip_prefix(&self.0[last][..]));
        // Odd: with the beginning before `at`. Even: between that one and the next.
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

/// Beginnings for different keys in order: the shortest behind which most of the keys that have it
/// differ.
fn choose(keys: &[&Bytes], into: &mut Vec<Bytes>) {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
    if keys.len() < KEYS_OF_A_KIND || into.len() == BEGINNINGS_MAX {
        return;
    }
    let common = first.iter().zip(last.iter()).take_while(|(one, other)| one == other).count();
    let rest =
        |key: &&Bytes| key.get(common..key.len().min(common + REST_BYTES)).map(<[u8]>::to_vec);
    let mut rests: Vec<_> = keys.iter().map(rest).collect();
    rests.dedup();
    if rests.len() * 2 > keys.len() {
        into.push(first.slice(..common));
        return;
    }
    for kind in keys.chunk_by(|one, other| one.get(common) == other.get(common)) {
        choose(kind, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn keys(words: &[&str]) -> Vec<Bytes> {
        words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    #[test]
    fn two_kinds_of_keys_are_told_apart_by_their_numbers() {
        let rows = (0..64).map(|row| format!("bucket:row:{row:020}"));
        let hints = (0..64).map(|at| format!("bucket:expires:{at:012}:row:{:020}", at * 7 % 64));
        let all: Vec<Bytes> = rows.chain(hints).map(Bytes::from).collect();
        let heads = Heads::of(all.iter().collect());
        assert_eq!(heads.0.len(), 2, "{heads:?}");
        assert!(heads.tell_apart(&all.iter().collect::<Vec<_>>()));
        let alike = Heads(vec![Bytes::from_static(b"bucket:")]);
        assert!(!alike.tell_apart(&all.iter().collect::<Vec<_>>()));
    }

    #[test]
    fn numbers_are_in_the_order_of_keys_whatever_the_beginnings() {
        let mut chance = StdRng::seed_from_u64(7);
        let mut word = |letters: u8, most: usize| -> Bytes {
            let length = chance.random_range(0..=most);
            (0..length).map(|_| chance.random_range(0..letters)).collect()
        };
        for round in 0..200 {
            let letters = if round % 2 == 0 { 2 } else { 255 };
            let chosen: Vec<Bytes> = (0..100).map(|_| word(letters, 12)).collect();
            let heads = Heads::of(chosen.iter().collect());
            let mut all: Vec<Bytes> = (0..300).map(|_| word(letters, 14)).chain(chosen).collect();
            all.sort_unstable();
            let numbers: Vec<u64> = all.iter().map(|key| heads.head(key)).collect();
            assert!(numbers.is_sorted(), "round {round}: {heads:?}");
        }
    }

    #[test]
    fn few_keys_and_no_keys_have_numbers_too() {
        assert_eq!(Heads::of(Vec::new()), Heads(Vec::new()));
        let few = keys(&["a", "a", "b"]);
        assert_eq!(Heads::of(few.iter().collect()).head(b"a"), 0);
    }
}
