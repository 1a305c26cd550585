//! Cluster secret: a key that only members hold, by which nodes authenticate each other's
//! greetings.
//!
//! Drawn when the cluster is founded, sent to a joining node in the answer to its join, kept in the
//! directory and in each node's data directory.
//!
//! Never: in a log, an error, a status or a request's URL.

#[cfg(test)]
mod tests;

use crate::{Error, Reason, Result};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Separates keys derived for greetings from keys derived for anything else (BLAKE3, section 2.3:
/// key derivation).
const CONTEXT: &str = "credenza 2026 cluster secret";

/// Secret of 32 bytes. A process that has it can act as a member towards every node. It is wiped
/// from memory when it is dropped, and lies behind a pointer, so that a move leaves no copy.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret(Box<Zeroizing<[u8; ClusterSecret::BYTES]>>);

impl ZeroizeOnDrop for ClusterSecret {}

impl ClusterSecret {
    /// Size in bytes.
    pub const BYTES: usize = 32;

    /// Builds the secret from bytes of an unguessable source.
    pub fn new(mut bytes: [u8; ClusterSecret::BYTES]) -> ClusterSecret {
        let mut secret = Box::new(Zeroizing::new([0; ClusterSecret::BYTES]));
        secret.copy_from_slice(&bytes);
        bytes.zeroize();
        ClusterSecret(secret)
    }

    /// Parses 64 hexadecimal digits. Errors: `Malformed`, which never repeats the text.
    pub fn from_hex(text: &str) -> Result<ClusterSecret> {
        let digits = text.as_bytes();
        let mut bytes = Box::new(Zeroizing::new([0; ClusterSecret::BYTES]));
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
    pub fn to_hex(&self) -> Zeroizing<String> {
        // In one piece: a text that grows would leave parts of it behind.
        let mut text = Zeroizing::new(String::with_capacity(2 * ClusterSecret::BYTES));
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        text.extend(self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        text
    }

    /// Returns its bytes, for the row that keeps it.
    pub fn bytes(&self) -> &[u8; ClusterSecret::BYTES] {
        &self.0
    }

    /// Derives a key for one purpose (BLAKE3, section 2.3). Keys for different purposes reveal
    /// nothing of each other.
    pub fn derive_key(&self, purpose: &'static str) -> DerivedKey {
        DerivedKey(Box::new(Zeroizing::new(blake3::derive_key(purpose, &self.0[..]))))
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

/// Key derived from the cluster's secret for one purpose. It is wiped like the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct DerivedKey(Box<Zeroizing<[u8; DerivedKey::BYTES]>>);

impl ZeroizeOnDrop for DerivedKey {}

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
