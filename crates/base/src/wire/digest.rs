//! Digest of an update: distinguishes a retry from another update under the same number.
//!
//! It is computed over the update's wire bytes, so every node and every version computes the same:
//! the wire format of an update never changes.

use super::fields::FieldWriter;
use super::update;
use crate::codec::Writer;
use crate::request::Update;

/// Context string of the digest: separates it from digests of other kinds.
const CONTEXT: &str = "credenza 2026 update of a session";

/// Digest of an update (BLAKE3): different updates have different digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateDigest(pub [u8; UpdateDigest::BYTES]);

impl UpdateDigest {
    /// Size in bytes: too large for a collision to be found by trying.
    pub const BYTES: usize = 16;
}

impl Update {
    /// Returns the digest of the update. It leaves out times to live in milliseconds: a client that
    /// names a point in time (`EXPIREAT`, `SET ... EXAT`) sends a span, and its retry a shorter
    /// one.
    pub fn digest(&self) -> UpdateDigest {
        let mut hasher = Hasher(blake3::Hasher::new_derive_key(CONTEXT));
        update::put(self, &mut hasher);
        let mut digest = [0; UpdateDigest::BYTES];
        hasher.0.finalize_xof().fill(&mut digest);
        UpdateDigest(digest)
    }
}

/// Hasher of the bytes that would be written.
struct Hasher(blake3::Hasher);

impl Writer for Hasher {
    fn put_u8(&mut self, value: u8) {
        self.0.update(&[value]);
    }
    fn put_u32(&mut self, value: u32) {
        self.0.update(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.0.update(&value.to_le_bytes());
    }
    fn put_string(&mut self, value: &[u8]) {
        // The length prefix separates adjacent fields: `k`, `v` and `kv`, `` differ.
        self.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.update(value);
    }
}

impl FieldWriter for Hasher {
    fn ttl_ms(&mut self, _: u64) -> &mut Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Expiry, SequenceMode};
    use bytes::Bytes;

    fn set(key: &'static str, value: &'static str, expiry: Expiry) -> Update {
        Update::Set { key: Bytes::from(key), value: Bytes::from(value), expiry }
    }

    #[test]
    fn different_updates_have_different_digests() {
        let plain = || set("k", "v", Expiry::Default);
        let steps = |steps: Vec<Update>, mode| Update::Sequence { steps, mode };
        let updates = [
            plain(),
            set("kv", "", Expiry::Default),
            set("", "kv", Expiry::Default),
            set("k", "w", Expiry::Default),
            set("k", "v", Expiry::Never),
            set("k", "v", Expiry::After(1)),
            Update::Append { key: Bytes::from("k"), value: Bytes::from("v") },
            Update::Confirm { key: Bytes::from("k"), value: Bytes::from("v") },
            Update::Add { key: Bytes::from("k"), delta: 1 },
            Update::Add { key: Bytes::from("k"), delta: -1 },
            Update::AddFloat { key: Bytes::from("k"), delta: 1.0 },
            steps(vec![plain()], SequenceMode::AllOrNothing),
            steps(vec![plain()], SequenceMode::Batch),
            steps(vec![plain(), plain()], SequenceMode::Batch),
            steps(vec![steps(vec![plain()], SequenceMode::Batch)], SequenceMode::Batch),
            Update::Nop,
        ];
        for (index, one) in updates.iter().enumerate() {
            assert_eq!(one.digest(), one.clone().digest());
            for other in &updates[..index] {
                assert_ne!(one.digest(), other.digest(), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn update_digest_ignores_relative_expiry_duration() {
        let (first, retry) = (Expiry::After(5_000), Expiry::After(0));
        assert_eq!(set("k", "v", first).digest(), set("k", "v", retry).digest());
    }

    #[test]
    fn update_digest_matches_golden_value() {
        // A node of the next version must recognise a retry of an update that this version applied.
        let digest = u128::from_be_bytes(set("k", "v", Expiry::Default).digest().0);
        assert_eq!(digest, 0xe8d0_a7d7_2f54_05fa_3a7f_5cb4_55c0_ba39);
    }
}
