//! Digests of keys, for operators who may not read the keys: the slow log and the hot keys show
//! them.
//!
//! They are keyed by a secret that a process draws when it first shows one, so who reads a digest
//! can't test guesses of its key. The same key in the same bucket has the same digest for as long
//! as the process runs, on this node alone. In another bucket it has another one: who may use that
//! bucket learns nothing of this one. Who may use this bucket can test guesses by requests.

use base::codec::checksum;
use base::{ClusterSecret, DerivedKey};
use runtime::world;
use std::sync::LazyLock;

/// Hash by which the keys of requests are told apart in memory. It has no secret, so that it costs
/// a request next to nothing, and is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFingerprint(u64);

impl KeyFingerprint {
    /// Returns the fingerprint of a key.
    #[inline]
    pub fn of(key: &[u8]) -> KeyFingerprint {
        KeyFingerprint(checksum(key, 0))
    }

    /// Returns the digest that may be shown. `bucket`: full name of the key's bucket.
    pub fn digest(self, bucket: &str) -> u64 {
        static SECRET: LazyLock<DerivedKey> = LazyLock::new(|| {
            ClusterSecret::new(world::secret()).derive_key("credenza 2026 digests of keys")
        });
        let [a, b, c, d, e, f, g, h, ..] = SECRET.mac(&[bucket.as_bytes(), &self.0.to_le_bytes()]);
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Asks a process of this test for its digest of a key.
    const SHOW: &str = "CREDENZA_SHOW_KEY_DIGEST";

    #[test]
    fn key_has_another_digest_in_each_bucket() {
        let key = KeyFingerprint::of(b"alice@example.com");
        assert_eq!(key.digest("default/open"), key.digest("default/open"));
        assert_ne!(key.digest("default/open"), key.digest("default/hidden"));
    }

    #[test]
    fn digest_of_a_key_is_the_processes_own_and_no_plain_hash() {
        let digest = |key: &[u8]| KeyFingerprint::of(key).digest("default/default");
        let own = digest(b"alice@example.com");
        if std::env::var_os(SHOW).is_some() {
            return println!("digest={own}");
        }
        assert_eq!(digest(b"alice@example.com"), own);
        assert_ne!(digest(b"bob@example.com"), own);
        assert_ne!(checksum(b"alice@example.com", 0), own);
        let name = "key_digest::tests::digest_of_a_key_is_the_processes_own_and_no_plain_hash";
        let mut command = Command::new(std::env::current_exe().expect("known"));
        command.args(["--exact", name, "--nocapture"]).env(SHOW, "1");
        let output = command.output().expect("a test can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let other = text.split_once("digest=").and_then(|(_, rest)| rest.lines().next());
        let other = other.unwrap_or_else(|| panic!("no digest: {text}"));
        assert_ne!(other, own.to_string(), "another process has another secret");
    }
}
