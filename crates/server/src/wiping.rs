//! Wiping of requests that carry credentials, so that a password does not stay in the memory of a
//! buffer that other requests use next.
//!
//! Never: reaches copies in a buffer that grew while the request arrived, or of the TLS library.

use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

/// Moves bytes into memory that is wiped when the last reference to it is dropped, and wipes those
/// that were given.
pub(crate) fn move_to_wiped(bytes: &mut [u8]) -> Bytes {
    let moved = Bytes::from_owner(Zeroizing::new(bytes.to_vec()));
    bytes.zeroize();
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_moved_and_nothing_of_them_stays() {
        let mut bytes = *b"AUTH ada secret";
        let moved = move_to_wiped(&mut bytes);
        assert_eq!(moved, b"AUTH ada secret"[..]);
        assert_eq!(bytes, [0; 15]);
    }
}
