//! Passwords, and their hashes in the form of the PHC string format.
//!
//! This crate computes no hash: front-ends do, where they can bound how many at a time.

use crate::limits::PASSWORD_BYTES_MAX;
use crate::{Error, Reason, Result};
use std::fmt;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Password of a user. Its text is in no log and no error, and is wiped from memory when it is
/// dropped: the type has no `Debug`.
#[derive(PartialEq, Eq)]
pub struct Password(Zeroizing<Vec<u8>>);

impl ZeroizeOnDrop for Password {}

impl Password {
    /// Takes a password: any bytes, 1 to [`PASSWORD_BYTES_MAX`] of them.
    pub fn new(bytes: &[u8]) -> Result<Password> {
        if (1..=PASSWORD_BYTES_MAX).contains(&bytes.len()) {
            return Ok(Password(Zeroizing::new(bytes.to_vec())));
        }
        let text = format!("a password must have 1 to {PASSWORD_BYTES_MAX} bytes");
        Err(Error::new(Reason::Malformed, text))
    }

    /// Returns its bytes, to hash them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Hash of a password: argon2id with the parameters of [`PasswordHash::PREFIX`].
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    text: Zeroizing<String>,
}

impl ZeroizeOnDrop for PasswordHash {}

impl PasswordHash {
    /// Beginning of every hash. Other parameters are refused: they would let one row decide how
    /// much memory and time a login takes.
    pub const PREFIX: &'static str = "$argon2id$v=19$m=19456,t=2,p=1$";
    /// Size of a salt, in bytes.
    pub const SALT_BYTES: usize = 16;
    /// Size of the hash behind it, in bytes.
    pub const HASH_BYTES: usize = 32;

    /// Size of salt and hash in base 64 without padding, in characters.
    const SALT_CHARACTERS: usize = (PasswordHash::SALT_BYTES * 4).div_ceil(3);
    const HASH_CHARACTERS: usize = (PasswordHash::HASH_BYTES * 4).div_ceil(3);
    /// Size of the whole text, in bytes.
    pub const TEXT_BYTES: usize = PasswordHash::PREFIX.len()
        + PasswordHash::SALT_CHARACTERS
        + 1
        + PasswordHash::HASH_CHARACTERS;

    /// Parses a hash. Errors: `Malformed`, which never repeats the text.
    pub fn parse(text: &str) -> Result<PasswordHash> {
        let is_base64 = |part: &str, length| {
            part.len() == length
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
        };
        let parts = text.strip_prefix(PasswordHash::PREFIX).and_then(|rest| rest.split_once('$'));
        let is_valid = parts.is_some_and(|(salt, hash)| {
            is_base64(salt, PasswordHash::SALT_CHARACTERS)
                && is_base64(hash, PasswordHash::HASH_CHARACTERS)
        });
        match is_valid {
            true => Ok(PasswordHash { text: Zeroizing::new(text.into()) }),
            false => {
                let prefix = PasswordHash::PREFIX;
                let text = format!("a password's hash must begin with {prefix}");
                Err(Error::new(Reason::Malformed, text))
            }
        }
    }

    /// Returns its text, for the row that keeps it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns salt and hash, each in base 64 without padding.
    pub fn parts(&self) -> (&str, &str) {
        let rest = &self.text[PasswordHash::PREFIX.len()..];
        rest.split_once('$').expect("its form was checked")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_hash_of_other_parameters_or_lengths_is_refused() {
        let (salt, hash) = ("c".repeat(22), "H".repeat(43));
        let text = format!("{}{salt}${hash}", PasswordHash::PREFIX);
        let parsed = PasswordHash::parse(&text).expect("a hash");
        assert_eq!((parsed.text(), parsed.parts()), (text.as_str(), (&salt[..], &hash[..])));
        assert_eq!(text.len(), PasswordHash::TEXT_BYTES);
        assert_eq!(format!("{parsed:?}"), "PasswordHash");
        for bad in [
            "",
            &text.replace("m=19456", "m=4194304"),
            &text.replace("argon2id", "argon2i"),
            &text[..text.len() - 1],
            &format!("{text}x"),
            &text.replace('c', "-"),
        ] {
            let refused = PasswordHash::parse(bad).expect_err("no hash");
            assert!(!refused.text().contains(&hash[..20]), "{refused}");
        }
    }

    #[test]
    fn password_is_one_to_1024_bytes() {
        assert!(Password::new(b"x").is_ok_and(|password| password.bytes() == b"x"));
        assert!(Password::new(&[0xff; PASSWORD_BYTES_MAX]).is_ok());
        for bad in [&[][..], &[b'x'; PASSWORD_BYTES_MAX + 1]] {
            assert!(Password::new(bad).is_err());
        }
    }
}
