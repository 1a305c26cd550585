//! Keys of a record: their digests, bounded in number.

use audit_log::{AuditTrail, KEYS_MAX};
use base::rights::{KeySet, Need};
use base::{Bound, Key};

/// Keys of a record while they are collected.
pub(super) struct KeyList<'t> {
    trail: &'t AuditTrail,
    /// Digests of keys, without repetitions.
    pub digests: Vec<String>,
    /// Number of keys without a digest.
    pub more: u64,
    computed: usize,
    last: Option<Key>,
}

impl<'t> KeyList<'t> {
    pub fn new(trail: &'t AuditTrail) -> KeyList<'t> {
        KeyList { trail, digests: Vec::new(), more: 0, computed: 0, last: None }
    }

    /// Adds the key of a need, its prefix, or the bounds of its range.
    pub fn add(&mut self, need: &Need<'_>) {
        let Need::Keys(_, bucket, keys) = need else { return };
        match keys {
            KeySet::One(key) | KeySet::Prefix(key) => self.add_key(bucket.full(), key),
            KeySet::Between(low, high) => {
                for bound in [low, high] {
                    if let Bound::Included(key) | Bound::Excluded(key) = bound {
                        self.add_key(bucket.full(), key);
                    }
                }
            }
            KeySet::Part | KeySet::All => {}
        }
    }

    fn add_key(&mut self, bucket: &str, key: &[u8]) {
        // Needs about one key mostly follow each other.
        if self.last.as_ref().is_some_and(|last| last[..] == *key) {
            return;
        }
        self.last = Some(Key::copy_from_slice(key));
        // Bounded by what is computed: the steps of a sequence may name two keys a thousand times.
        if self.computed == KEYS_MAX {
            self.more += 1;
            return;
        }
        self.computed += 1;
        let digest = self.trail.key_digest(bucket, key);
        if !self.digests.contains(&digest) {
            self.digests.push(digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use audit_log::AuditLimits;
    use base::access::Verb;
    use base::{BucketName, Call, Read, Request, Update};

    /// Returns the keys of a request, and the number of others.
    fn keys(call: Call) -> (Vec<String>, u64) {
        let trail = trail();
        let mut list = KeyList::new(&trail);
        let request = Request { bucket: BucketName::default(), call, retry: None };
        let visited = request.needs(&mut |need| {
            list.add(&need);
            Ok(())
        });
        assert_eq!(visited, Ok(()));
        (list.digests, list.more)
    }

    fn trail() -> AuditTrail {
        AuditTrail::new(None, AuditLimits::default())
    }

    fn key(text: &str) -> Key {
        Key::copy_from_slice(text.as_bytes())
    }

    fn sequence(keys: &[Key]) -> Call {
        let add = |key: &Key| Update::Add { key: key.clone(), delta: 1 };
        let steps = keys.iter().map(add).collect();
        Call::Update(Update::Sequence { steps, mode: base::request::SequenceMode::AllOrNothing })
    }

    #[test]
    fn keys_are_listed_once_and_bounded_and_others_are_counted() {
        let many: Vec<_> = (0..20).map(|number| key(&format!("k{number}"))).collect();
        let (digests, more) = keys(sequence(&many));
        assert_eq!((digests.len(), more), (KEYS_MAX, 4));
        // Each step needs `write` and `read`.
        let (digests, more) = keys(sequence(&vec![key("k"); 50]));
        assert_eq!((digests.len(), more), (1, 0));
        // What two keys in turn would cost is bounded, too.
        let in_turn = [key("a"), key("b")].into_iter().cycle().take(100);
        let (digests, more) = keys(sequence(&in_turn.collect::<Vec<_>>()));
        assert_eq!((digests.len(), more), (2, 84));
        assert_eq!(keys(Call::Read(Read::KeyCount, base::ReadLevel::Dirty)), (Vec::new(), 0));
    }

    #[test]
    fn prefix_and_bounds_of_a_range_are_listed_like_keys() {
        let (trail, bucket) = (trail(), BucketName::default());
        let digest = |text: &str| trail.key_digest(bucket.full(), text.as_bytes());
        let (low, high) = (Bound::Included(key("a")), Bound::Excluded(key("c")));
        for (keys, expected) in [
            (KeySet::Prefix(b"p"), vec![digest("p")]),
            (KeySet::Between(&low, &high), vec![digest("a"), digest("c")]),
            (KeySet::Between(&low, &Bound::Open), vec![digest("a")]),
            (KeySet::Between(&Bound::Open, &Bound::Open), vec![]),
            (KeySet::All, vec![]),
        ] {
            let mut list = KeyList::new(&trail);
            list.add(&Need::Keys(Verb::List, &bucket, keys));
            assert_eq!((list.digests, list.more), (expected, 0), "{keys:?}");
        }
    }
}
