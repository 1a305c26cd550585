//! PEM texts, and private keys encrypted by a passphrase as PKCS #8 (RFC 8018), which openssl reads
//! too.

use pkcs8::der::pem::{LineEnding, encode_string};
use pkcs8::der::{Decode, SecretDocument};
use pkcs8::pkcs5::pbes2::Parameters;
use pkcs8::{EncryptedPrivateKeyInfo, der};
use zeroize::Zeroizing;

/// Rounds of PBKDF2-HMAC-SHA-256: about half a second for each guess of a passphrase.
const ROUNDS: u32 = 600_000;
/// Label of a plain key.
const PLAIN_LABEL: &str = "PRIVATE KEY";
/// Label of an encrypted key.
const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";

/// Returns bytes in PEM. `None`: they are too long.
pub(crate) fn to_pem(label: &str, der: &[u8]) -> Option<String> {
    encode_string(label, LineEnding::LF, der).ok()
}

/// Returns a private key in PEM, encrypted if there is a passphrase.
pub(crate) fn encode_key(key: &[u8], passphrase: Option<&str>) -> Option<Zeroizing<String>> {
    let Some(passphrase) = passphrase else {
        return to_pem(PLAIN_LABEL, key).map(Zeroizing::new);
    };
    let (salt, iv): ([u8; 16], [u8; 16]) = (rand::random(), rand::random());
    let parameters = Parameters::pbkdf2_sha256_aes256cbc(ROUNDS, &salt, &iv).ok()?;
    let encrypted = parameters.encrypt(passphrase, key).ok()?;
    let info = EncryptedPrivateKeyInfo {
        encryption_algorithm: parameters.into(),
        encrypted_data: &encrypted,
    };
    let document = SecretDocument::encode_msg(&info).ok()?;
    to_pem(ENCRYPTED_LABEL, document.as_bytes()).map(Zeroizing::new)
}

/// Reason why a private key can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// File that is no key in PEM.
    Malformed,
    /// Encrypted key without a passphrase.
    NeedsPassphrase,
    /// Wrong passphrase.
    WrongPassphrase,
}

impl From<der::Error> for KeyError {
    fn from(_: der::Error) -> KeyError {
        KeyError::Malformed
    }
}

/// Returns true if the PEM text is an encrypted key.
pub(crate) fn is_encrypted(pem: &str) -> bool {
    pem.contains(ENCRYPTED_LABEL)
}

/// Decodes a private key in PEM.
pub(crate) fn decode_key(
    pem: &str,
    passphrase: Option<&str>,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let (label, document) = SecretDocument::from_pem(pem)?;
    match (label, passphrase) {
        (PLAIN_LABEL, _) => Ok(document.to_bytes()),
        (ENCRYPTED_LABEL, None) => Err(KeyError::NeedsPassphrase),
        (ENCRYPTED_LABEL, Some(passphrase)) => {
            let info = EncryptedPrivateKeyInfo::from_der(document.as_bytes())?;
            let key = info.encryption_algorithm.decrypt(passphrase, info.encrypted_data);
            key.map(Zeroizing::new).map_err(|_| KeyError::WrongPassphrase)
        }
        _ => Err(KeyError::Malformed),
    }
}
