//! Join token: a secret that an operator creates and a joining node presents. The cluster stores
//! only its digest.

use crate::limits::{JOIN_TOKEN_BYTES_MAX, JOIN_TOKEN_BYTES_MIN};
use crate::{Error, Reason, Result};
use std::fmt;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Context string of the digest: separates it from digests of other kinds.
const CONTEXT: &str = "credenza 2026 join token";
/// Prefix of every token: distinguishes it from other secrets.
const BEGIN: &str = "credenza-";

/// Minimum number of different characters of a token that an operator keeps in a file.
const CHARACTERS_MIN: u32 = 8;

/// Join token. It admits nodes that present it, as many as its terms say. So its text is in no log
/// and no error, and is wiped from memory when it is dropped.
#[derive(Clone)]
pub struct JoinToken(Zeroizing<Box<[u8]>>);

impl ZeroizeOnDrop for JoinToken {}

impl JoinToken {
    /// Builds a token from unguessable bytes.
    pub fn from_secret(secret: [u8; 20]) -> JoinToken {
        // In one piece: a text that grows would leave parts of it behind.
        let mut text = Vec::with_capacity(BEGIN.len() + 2 * secret.len());
        text.extend_from_slice(BEGIN.as_bytes());
        let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
        text.extend(secret.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        JoinToken(Zeroizing::new(text.into_boxed_slice()))
    }

    /// Parses a token from a file or a header; blanks around it are ignored.
    pub fn parse(text: &[u8]) -> Result<JoinToken> {
        let text = text.trim_ascii();
        let fits = (JOIN_TOKEN_BYTES_MIN..=JOIN_TOKEN_BYTES_MAX).contains(&text.len());
        if fits && text.iter().all(u8::is_ascii_graphic) {
            return Ok(JoinToken(Zeroizing::new(text.into())));
        }
        Err(Error::new(
            Reason::Malformed,
            format!(
                "a join token must be {JOIN_TOKEN_BYTES_MIN} to {JOIN_TOKEN_BYTES_MAX} letters, \
                 digits and signs without blanks, as printed by `credenza cluster token`"
            ),
        ))
    }

    /// Returns true if the token has so few different characters that nothing random made it.
    pub fn is_guessable(&self) -> bool {
        let seen = self.0.iter().fold(0u128, |seen, byte| seen | 1 << (byte & 127));
        seen.count_ones() < CHARACTERS_MIN
    }

    /// Returns the digest, which the cluster keeps.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(blake3::derive_key(CONTEXT, &self.0))
    }

    /// Returns its text, for the node or operator that presents it.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a token is ASCII")
    }
}

/// Terms of a join token: its end, and the number of nodes that it lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinTokenTerms {
    /// Lifetime in milliseconds. `None`: until all tokens are revoked.
    pub lifetime_ms: Option<u64>,
    /// Number of nodes, at most [`crate::limits::JOIN_TOKEN_USES_MAX`]. `None`: any number.
    pub uses: Option<u32>,
}

impl JoinTokenTerms {
    /// Terms of a standing token: any number of nodes, until all tokens are revoked.
    pub const STANDING: JoinTokenTerms = JoinTokenTerms { lifetime_ms: None, uses: None };

    /// Returns the terms of a token for one node within this time.
    pub fn single_use(lifetime_ms: u64) -> JoinTokenTerms {
        JoinTokenTerms { lifetime_ms: Some(lifetime_ms), uses: Some(1) }
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinToken")
    }
}

/// Digest of a join token; reveals nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenDigest(pub [u8; TokenDigest::BYTES]);

impl TokenDigest {
    /// Size in bytes.
    pub const BYTES: usize = 32;

    /// Returns true if both are equal; takes the same time whichever bytes differ.
    pub fn constant_time_eq(&self, other: &TokenDigest) -> bool {
        let differs =
            self.0.iter().zip(&other.0).fold(0, |differs, (one, two)| differs | one ^ two);
        std::hint::black_box(differs) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_token_parse_trims_whitespace_and_debug_hides_token() {
        let made = JoinToken::from_secret([0xA5; 20]);
        let read = JoinToken::parse(format!(" {}\r\n", made.text()).as_bytes()).expect("a token");
        assert_eq!(read.text(), made.text());
        assert!(read.digest().constant_time_eq(&made.digest()));
        assert!(!read.digest().constant_time_eq(&JoinToken::from_secret([0xA4; 20]).digest()));
        assert_eq!(format!("{made:?}"), "JoinToken");
    }

    #[test]
    fn weak_or_malformed_join_token_is_rejected() {
        let long = "x".repeat(JOIN_TOKEN_BYTES_MAX + 1);
        let short = "x".repeat(JOIN_TOKEN_BYTES_MIN - 1);
        let blank = "two words of which neither is a token";
        for bad in [&[][..], short.as_bytes(), long.as_bytes(), blank.as_bytes(), &[0xFF; 40]] {
            let refused = JoinToken::parse(bad).expect_err("no token");
            assert!(refused.text().contains("cluster token"), "{refused:?}");
            assert!(bad.is_empty() || !refused.text().contains(&*String::from_utf8_lossy(bad)));
        }
        let equal = JoinToken::parse("y".repeat(JOIN_TOKEN_BYTES_MIN).as_bytes()).expect("a token");
        assert!(equal.is_guessable());
        let few = "abababababababababababababababab0123";
        assert!(JoinToken::parse(few.as_bytes()).expect("a token").is_guessable());
        assert!(!JoinToken::from_secret([0; 20]).is_guessable(), "the prefix alone has enough");
        let own = "correct-horse-battery-staple-and-more";
        assert!(!JoinToken::parse(own.as_bytes()).expect("a token").is_guessable());
    }
}
