//! The names of buckets and bucket types.

use crate::{BucketDigest, Error, Reason, Result, limits};
use std::fmt;
use std::sync::Arc;

/// Context string of the digest: separates it from digests of other kinds.
const DIGEST_CONTEXT: &str = "credenza 2026 bucket name";

/// A bucket's full name, `type/bucket`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName {
    full: Arc<str>,
    slash: usize,
}

impl BucketName {
    /// Name of the type that is used when none is given, and of the bucket that every cluster
    /// begins with.
    pub const DEFAULT: &'static str = "default";

    /// Parses `type/bucket`, or `bucket` of the type `default`. A type's name is
    /// `[a-z0-9][a-z0-9_-]{0,62}`; a bucket's is 1 to 255 of `A-Z a-z 0-9 - . _ ~ %`. A front-end
    /// whose clients name buckets by other bytes (Riak) percent-encodes them.
    pub fn parse(text: &str) -> Result<BucketName> {
        match text.split_once('/') {
            Some((kind, name)) => BucketName::new(kind, name),
            None => BucketName::new(BucketName::DEFAULT, text),
        }
    }

    /// Builds a name from its type and its name within the type.
    pub fn new(kind: &str, name: &str) -> Result<BucketName> {
        check_kind(kind)?;
        check_name(name)?;
        Ok(BucketName { full: format!("{kind}/{name}").into(), slash: kind.len() })
    }

    /// Parses a full name with both parts, as [`BucketName::full`] returns it.
    pub fn from_full(full: &str) -> Result<BucketName> {
        let (kind, name) = full.split_once('/').ok_or_else(invalid_name)?;
        check_kind(kind)?;
        check_name(name)?;
        Ok(BucketName { full: full.into(), slash: kind.len() })
    }

    /// Name of the bucket type whose buckets need not be created, and which always takes writes.
    pub const AVAILABLE: &'static str = "available";

    /// Returns the name of the bucket type.
    pub fn kind(&self) -> &str {
        &self.full[..self.slash]
    }

    /// Returns the name of the bucket within its type.
    pub fn name(&self) -> &str {
        &self.full[self.slash + 1..]
    }

    /// Returns true if the name within the type fits the narrower rule for type names. Names of
    /// consistent buckets must.
    pub fn is_plain(&self) -> bool {
        check_kind(self.name()).is_ok()
    }

    /// Returns the full name, `type/bucket`.
    pub fn full(&self) -> &str {
        &self.full
    }

    /// Returns the digest of the full name (BLAKE3, its first 64 bits); stored, so it never
    /// changes.
    pub fn digest(&self) -> BucketDigest {
        let mut digest = [0; 8];
        let mut hasher = blake3::Hasher::new_derive_key(DIGEST_CONTEXT);
        hasher.update(self.full.as_bytes()).finalize_xof().fill(&mut digest);
        BucketDigest(u64::from_le_bytes(digest))
    }
}

impl Default for BucketName {
    /// Returns `default/default`.
    fn default() -> BucketName {
        BucketName { full: "default/default".into(), slash: 7 }
    }
}

/// Returns the refusal of a request for a bucket that does not exist.
pub fn no_such_bucket(name: &BucketName) -> Error {
    Error::new(Reason::NoSuchBucket, format!("no bucket `{name}`: create it first"))
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Debug for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

fn check_kind(name: &str) -> Result<()> {
    let bytes = name.as_bytes();
    let is_allowed = |&byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let valid = (1..=limits::NAME_BYTES_MAX).contains(&bytes.len())
        && is_allowed(&bytes[0])
        && bytes.iter().all(|byte| is_allowed(byte) || *byte == b'_' || *byte == b'-');
    if valid { Ok(()) } else { Err(invalid_name()) }
}

fn check_name(name: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    let valid = (1..=limits::BUCKET_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('.');
    if valid { Ok(()) } else { Err(invalid_name()) }
}

fn invalid_name() -> Error {
    Error::new(
        Reason::Malformed,
        "a bucket name must be TYPE/BUCKET: TYPE is 1 to 63 of a-z 0-9 _ - and begins with a \
         letter or digit, BUCKET is 1 to 255 of A-Z a-z 0-9 - . _ ~ % and does not begin with a \
         dot",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_name_parse_rejects_invalid_and_flags_plain_names() {
        assert_eq!(
            BucketName::parse("users").map(|n| n.full().to_string()),
            Ok("default/users".into())
        );
        let name = BucketName::parse("logs/a-1_b").expect("plain");
        assert_eq!((name.kind(), name.name()), ("logs", "a-1_b"));
        assert_eq!(BucketName::from_full("logs/a-1_b"), Ok(name));
        assert!(BucketName::from_full("users").is_err(), "a full name has both parts");
        let (long, longer) = (format!("{}/a", "x".repeat(64)), "x".repeat(256));
        for bad in [
            "", "/", "a/", "/a", "A/a", "a b", "../x", "x/..", "x/.", "a/b/c", "-a/a", "é", "a\0",
            "a+b", &long, &longer,
        ] {
            assert!(BucketName::parse(bad).is_err(), "{bad:?}");
            assert!(BucketName::from_full(bad).is_err(), "{bad:?}");
        }
        for (text, plain) in [("A", false), ("-a", false), ("a.b~c%2F", false), ("a-1", true)] {
            let name = BucketName::parse(text).expect(text);
            assert_eq!((name.name(), name.is_plain()), (text, plain));
        }
        for (length, plain) in [(63, true), (64, false), (255, false)] {
            let name = BucketName::parse(&"x".repeat(length)).expect("fits");
            assert_eq!(name.is_plain(), plain, "{length}");
        }
    }

    #[test]
    fn bucket_name_digest_is_stable_and_depends_on_both_parts() {
        assert_eq!(BucketName::default().digest(), BucketDigest(0x9385_4a86_ca6d_1671));
        let digest_of = |name: &str| BucketName::parse(name).expect("a name").digest();
        assert_eq!(digest_of("default"), digest_of("default/default"));
        assert_ne!(digest_of("logs/a"), digest_of("log/sa"));
    }
}
