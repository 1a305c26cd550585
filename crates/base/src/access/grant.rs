//! Grants: verbs on a scope.

use super::verbs::{Verb, Verbs};
use crate::limits::KEY_BYTES_MAX;
use crate::{BucketName, Error, Key, Reason, Result};
use bytes::Bytes;
use std::fmt;

/// Extent of a grant. Each is a part of the one before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The cluster, with every bucket.
    Cluster,
    /// All buckets of a type, present and future ones.
    Type(String),
    /// A bucket, whether it exists or not.
    Bucket(BucketName),
    /// The keys of a bucket that begin with this prefix; it is not empty.
    Prefix(BucketName, Key),
}

/// Word of the widest scope.
const CLUSTER: &str = "cluster";

impl Scope {
    /// Parses `cluster`, `TYPE/*`, `TYPE/BUCKET` or `TYPE/BUCKET/PREFIX`. In a prefix, `%` and two
    /// hexadecimal digits stand for any byte; slashes need no encoding.
    pub fn parse(text: &str) -> Result<Scope> {
        if text == CLUSTER {
            return Ok(Scope::Cluster);
        }
        let (kind, rest) = text.split_once('/').ok_or_else(invalid_scope)?;
        if rest == "*" {
            let name = BucketName::new(kind, BucketName::DEFAULT)?;
            return Ok(Scope::Type(name.kind().into()));
        }
        let Some((name, prefix)) = rest.split_once('/') else {
            return Ok(Scope::Bucket(BucketName::new(kind, rest)?));
        };
        let bucket = BucketName::new(kind, name)?;
        let prefix = decode_prefix(prefix).ok_or_else(invalid_scope)?;
        if prefix.len() > KEY_BYTES_MAX {
            let text = format!("a prefix may have at most {KEY_BYTES_MAX} bytes (key_bytes_max)");
            return Err(Error::new(Reason::TooLarge, text));
        }
        Ok(Scope::of_prefix(bucket, prefix))
    }

    /// Returns the scope of the keys with a prefix: the bucket, if it is empty.
    pub fn of_prefix(bucket: BucketName, prefix: Key) -> Scope {
        match prefix.is_empty() {
            true => Scope::Bucket(bucket),
            false => Scope::Prefix(bucket, prefix),
        }
    }
}

fn invalid_scope() -> Error {
    let text = "a scope must be `cluster`, `TYPE/*`, `TYPE/BUCKET` or `TYPE/BUCKET/PREFIX`, where \
                %NN in a prefix stands for a byte";
    Error::new(Reason::Malformed, text)
}

fn decode_prefix(text: &str) -> Option<Bytes> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
                rest = after;
            }
            byte if byte.is_ascii_graphic() => bytes.push(*byte),
            _ => return None,
        }
    }
    Some(bytes.into())
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Cluster => f.write_str(CLUSTER),
            Scope::Type(kind) => write!(f, "{kind}/*"),
            Scope::Bucket(bucket) => write!(f, "{bucket}"),
            Scope::Prefix(bucket, prefix) => {
                write!(f, "{bucket}/")?;
                prefix.iter().try_for_each(|byte| match byte {
                    b'%' => f.write_str("%25"),
                    byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(*byte)),
                    byte => write!(f, "%{byte:02X}"),
                })
            }
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Verbs on a scope. It allows, and never denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Extent of the grant.
    pub scope: Scope,
    /// Verbs that are allowed there.
    pub verbs: Verbs,
}

impl Grant {
    /// Builds a grant. Errors: `Malformed`, if it allows nothing, or a verb of the cluster on a
    /// bucket.
    pub fn new(scope: Scope, verbs: Verbs) -> Result<Grant> {
        if verbs.is_empty() {
            return Err(Error::new(Reason::Malformed, "a grant needs at least one verb"));
        }
        match verbs.iter().find(|verb| verb.is_of_cluster() && scope != Scope::Cluster) {
            Some(verb) => {
                let verb = verb.name();
                let text = format!("`{verb}` is a verb of the cluster: grant it on `cluster`");
                Err(Error::new(Reason::Malformed, text))
            }
            None => Ok(Grant { scope, verbs }),
        }
    }

    /// Parses `VERB[,VERB...]:SCOPE`.
    pub fn parse(text: &str) -> Result<Grant> {
        let (verbs, scope) = text
            .split_once(':')
            .ok_or_else(|| Error::new(Reason::Malformed, "a grant must be VERB[,VERB...]:SCOPE"))?;
        let verbs = verbs.split(',').map(Verb::parse).collect::<Result<Vec<_>>>()?;
        Grant::new(Scope::parse(scope)?, Verbs::of(&verbs))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.verbs, self.scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_text_round_trips_and_other_text_is_refused() {
        for text in
            ["cluster", "logs/*", "logs/web", "logs/web/a", "logs/web/a/b*", "logs/web/%00%FF%25x"]
        {
            assert_eq!(Scope::parse(text).map(|scope| scope.to_string()), Ok(text.into()));
        }
        let lower = Scope::parse("a/b/%ff").expect("either case");
        assert_eq!(lower.to_string(), "a/b/%FF");
        assert_eq!(Scope::parse("a/b/"), Scope::parse("a/b"), "an empty prefix is the bucket");
        for bad in [
            "", "*", "a", "A/*", "a/", "/b", "a/b c", "a/b/%", "a/b/%4", "a/b/%zz", "a/b/é",
            "a/b/x y", "a/*/x", "clusters",
        ] {
            assert!(Scope::parse(bad).is_err(), "{bad}");
        }
        let longest = format!("a/b/{}", "x".repeat(KEY_BYTES_MAX));
        assert!(Scope::parse(&longest).is_ok());
        let refused = Scope::parse(&format!("{longest}x")).expect_err("longer than a key");
        assert_eq!(refused.reason, Reason::TooLarge);
    }

    #[test]
    fn grant_of_a_cluster_verb_on_a_bucket_is_refused() {
        let text = "read,write:logs/web";
        assert_eq!(Grant::parse(text).map(|grant| grant.to_string()), Ok(text.into()));
        assert!(Grant::parse("watch,read:cluster").is_ok());
        for bad in ["", "read", ":cluster", "read,:cluster", "watch:a/b", "read,secure:a/*"] {
            assert!(Grant::parse(bad).is_err(), "{bad}");
        }
        assert!(Grant::new(Scope::Cluster, Verbs::NONE).is_err());
    }
}
