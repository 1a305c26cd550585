//! API tokens: secrets of 160 random bits with which programs log in. The cluster stores only their
//! digests.

use crate::TokenDigest;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Context string of the digest: separates it from digests of other kinds.
const CONTEXT: &str = "credenza 2026 api token";

/// API token. Its text is in no log and no error, and is wiped from memory when it is dropped: the
/// type has no `Debug`.
pub struct ApiToken(Zeroizing<String>);

impl ZeroizeOnDrop for ApiToken {}

impl ApiToken {
    /// Prefix of every token: distinguishes it from join tokens.
    pub const BEGIN: &'static str = "credenza-api-";
    /// Number of random bytes in a token.
    pub const SECRET_BYTES: usize = 20;

    /// Builds a token from unguessable bytes.
    pub fn from_secret(secret: [u8; ApiToken::SECRET_BYTES]) -> ApiToken {
        // In one piece: a text that grows would leave parts of it behind.
        let mut text = String::with_capacity(ApiToken::BEGIN.len() + 2 * secret.len());
        text.push_str(ApiToken::BEGIN);
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        text.extend(secret.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        ApiToken(Zeroizing::new(text))
    }

    /// Returns the digest of a token's text, which the cluster keeps. `None`: it is no API token.
    pub fn digest_of(text: &[u8]) -> Option<TokenDigest> {
        let secret = text.strip_prefix(ApiToken::BEGIN.as_bytes())?;
        let is_hexadecimal = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let is_valid =
            secret.len() == 2 * ApiToken::SECRET_BYTES && secret.iter().all(is_hexadecimal);
        is_valid.then(|| TokenDigest(blake3::derive_key(CONTEXT, text)))
    }

    /// Returns its digest.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(blake3::derive_key(CONTEXT, self.0.as_bytes()))
    }

    /// Returns its text, for the operator who hands it on.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JoinToken;

    #[test]
    fn api_token_is_recognized_by_its_form_and_is_no_join_token() {
        let token = ApiToken::from_secret([0xA5; 20]);
        assert_eq!(ApiToken::digest_of(token.text().as_bytes()), Some(token.digest()));
        assert_ne!(token.digest(), ApiToken::from_secret([0xA4; 20]).digest());
        let join = JoinToken::parse(token.text().as_bytes()).expect("its form is wider");
        assert_ne!(join.digest(), token.digest(), "it opens nothing to nodes");
        let text = token.text();
        let join_token = JoinToken::from_secret([0xA5; 20]);
        for bad in [
            "",
            "credenza-api-",
            &text[1..],
            &text[..text.len() - 1],
            &text.to_uppercase(),
            join_token.text(),
        ] {
            assert_eq!(ApiToken::digest_of(bad.as_bytes()), None, "{bad}");
        }
    }
}
