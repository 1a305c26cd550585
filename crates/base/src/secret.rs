//! Cluster secret: a key that only members hold, by which nodes authenticate each other's
//! greetings.
//!
//! Drawn when the cluster is founded, sent to a joining node in the answer to its join, kept in the
//! directory and in each node's data directory.
//!
//! Never: in a log, an error, a status or a request's URL.

use crate::{Error, Reason, Result};
use std::fmt;

/// Separates keys derived for greetings from keys derived for anything else (BLAKE3, section 2.3:
/// key derivation).
const CONTEXT: &str = "credenza 2026 cluster secret";

/// Secret of 32 bytes. A process that has it can act as a member towards every node.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret([u8; ClusterSecret::BYTES]);

impl ClusterSecret {
    /// Size in bytes.
    pub const BYTES: usize = 32;

    /// Builds the secret from bytes of an unguessable source.
    pub fn new(bytes: [u8; ClusterSecret::BYTES]) -> ClusterSecret {
        ClusterSecret(bytes)
    }

    /// Parses 64 hexadecimal digits. Errors: `Malformed`, which never repeats the text.
    pub fn from_hex(text: &str) -> Result<ClusterSecret> {
        let digits = text.as_bytes();
        let mut bytes = [0; ClusterSecret::BYTES];
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        if !is_hex || digits.len() != 2 * bytes.len() {
            let text = "a cluster secret must be 64 hexadecimal digits";
            return Err(Error::new(Reason::Malformed, text));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(ClusterSecret(bytes))
    }

    /// Returns its 64 hexadecimal digits: for the file that keeps it, and for the answer to a join.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns its bytes, for the row that keeps it.
    pub fn bytes(&self) -> &[u8; ClusterSecret::BYTES] {
        &self.0
    }

    /// Derives a key for one purpose (BLAKE3, section 2.3). Keys for different purposes reveal
    /// nothing of each other.
    pub fn derive_key(&self, purpose: &'static str) -> DerivedKey {
        DerivedKey(blake3::derive_key(purpose, &self.0))
    }

    /// Returns a MAC over these parts, for greetings; see [`DerivedKey::mac`].
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; ClusterSecret::BYTES] {
        self.derive_key(CONTEXT).mac(parts)
    }

    /// Returns true if this is the MAC over these parts; takes the same time whichever bytes
    /// differ.
    pub fn verifies(&self, parts: &[&[u8]], mac: &[u8; ClusterSecret::BYTES]) -> bool {
        blake3::Hash::from_bytes(self.mac(parts)) == blake3::Hash::from_bytes(*mac)
    }
}

/// Key derived from the cluster's secret for one purpose.
#[derive(Clone, PartialEq, Eq)]
pub struct DerivedKey([u8; DerivedKey::BYTES]);

impl DerivedKey {
    /// Size of a key, and of its MACs, in bytes.
    pub const BYTES: usize = 32;

    /// Returns a MAC over these parts: keyed BLAKE3. The length of each part is hashed too, so
    /// parts split elsewhere give another MAC.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; DerivedKey::BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

impl fmt::Debug for DerivedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DerivedKey")
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_secret_hex_round_trips_and_debug_hides_secret() {
        let secret = ClusterSecret::new(std::array::from_fn(|index| index as u8 * 7));
        assert_eq!(ClusterSecret::from_hex(&secret.to_hex()).as_ref(), Ok(&secret));
        assert_eq!(format!("{secret:?}"), "ClusterSecret");
        assert_eq!(format!("{:?}", secret.derive_key("test")), "DerivedKey");
        let long = format!("{}0", secret.to_hex());
        for bad in ["", "ab", &long, &long.replace('0', "g")[..64], &"é".repeat(32)] {
            let refused = ClusterSecret::from_hex(bad).expect_err("no secret");
            assert!(bad.is_empty() || !refused.text().contains(bad));
        }
    }

    #[test]
    fn mac_depends_on_secret_bytes_and_part_boundaries() {
        let (one, other) = (ClusterSecret::new([1; 32]), ClusterSecret::new([2; 32]));
        let mac = one.mac(&[b"hello", b"welcome"]);
        assert!(one.verifies(&[b"hello", b"welcome"], &mac));
        assert!(!other.verifies(&[b"hello", b"welcome"], &mac));
        for parts in [&[&b"hellow"[..], b"elcome"][..], &[b"hello"], &[b"hello", b"welcomf"]] {
            assert!(!one.verifies(parts, &mac), "{parts:?}");
        }
        let (this, that) = (one.derive_key("this"), one.derive_key("that"));
        assert_ne!(this.mac(&[b"hello"]), that.mac(&[b"hello"]));
        assert_ne!(this.mac(&[b"hello"]), other.derive_key("this").mac(&[b"hello"]));
    }
}
