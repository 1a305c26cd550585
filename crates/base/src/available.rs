//! Calls of available buckets, and their answers.
//!
//! A write there is taken by any node that can reach enough replicas; writes that did not know of
//! each other become *siblings*, which are shown together with a *context*. Whoever sends that
//! context with its next write says "I have seen these": they are replaced, and nothing else is.
//!
//! Differences to what was first agreed upon: a `Stored` answers a write that does not ask for the
//! body, since its context speaks for the client's own write only; headers of content stand
//! together in `Headers`, so that a plain value costs nothing for them; conditions are two, and
//! an entity tag is compared by the front-end that has read it.

use crate::datatype::{FieldKind, TypeOperation, TypeValue};
use crate::quorum::Quorum;
use crate::{BucketName, Error, Key, Partition, Reason, Result, Value, limits};
use bytes::Bytes;
use std::fmt;

/// What a client has seen of a key: opaque bytes, at most [`limits::CONTEXT_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context(pub Bytes);

/// What can be asked of an available bucket. Plain `Get`, `Set` and `Delete` are understood there,
/// too.
#[derive(Clone, Debug, PartialEq)]
pub enum AvailableCall {
    /// All siblings of a key, tombstones among them: `Body::Siblings`.
    Fetch {
        /// The key.
        key: Key,
        /// How many replicas must answer.
        options: FetchOptions,
    },
    /// Writes a sibling. `Body::Stored`, or, with `return_body`, `Body::Siblings`.
    Store(Box<Store>),
    /// Writes a tombstone instead of what the context has seen; without one, instead of everything
    /// the coordinating replica knows. `Body::Stored`, or, with `return_body`, `Body::Siblings`.
    Remove {
        /// The key.
        key: Key,
        /// What the client has seen.
        context: Option<Context>,
        /// How many replicas must have it.
        options: StoreOptions,
    },
    /// A page of the bucket's keys, in order, those without a value left out: `Body::Keys`. Asks
    /// every partition.
    Keys {
        /// The last key of the page before.
        after: Option<Key>,
        /// Most keys in the answer.
        rows_max: usize,
    },
    /// The buckets of this bucket's type that hold a key, in order: `Body::BucketNames`. Asks every
    /// partition; the request's bucket names the type, its name part is ignored.
    Buckets {
        /// The last bucket of the page before.
        after: Option<BucketName>,
        /// Most buckets in the answer.
        rows_max: usize,
    },
    /// Changes the data type under a key. `Body::Stored`, or, with `return_body`, `Body::Typed`.
    Change(Box<TypeChange>),
    /// The data type under a key: `Body::Typed`.
    FetchType {
        /// The key.
        key: Key,
        /// How many replicas must answer.
        options: FetchOptions,
    },
    /// Who keeps a key, the first one first: `Body::Owners`.
    Owners {
        /// The key.
        key: Key,
    },
}

/// Who keeps a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The partition of the ring that the key falls into.
    pub partition: Partition,
    /// The node's name.
    pub node: String,
    /// Where clients reach it, host and port.
    pub address: String,
    /// Whether the key is its own, or it stands in for a node that is down.
    pub primary: bool,
}

/// A sibling to be written instead of those the context has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// The key.
    pub key: Key,
    /// What is written.
    pub content: Content,
    /// What the client has seen; none: a blind write, which replaces nothing.
    pub context: Option<Context>,
    /// How many replicas must have it.
    pub options: StoreOptions,
    /// When it is written at all.
    pub condition: Option<Condition>,
}

/// How a key is read; what is not said here the bucket's properties say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// Replicas that must answer.
    pub r: Option<Quorum>,
    /// Of them primaries: owners of the key, not those that stand in for one.
    pub pr: Option<Quorum>,
    /// Nodes that must answer.
    pub node_confirms: Option<u8>,
    /// Whether it is enough that more than half say there is nothing.
    pub basic_quorum: Option<bool>,
    /// Whether a replica that has nothing counts towards `r`.
    pub notfound_ok: Option<bool>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// How a key is written; what is not said here the bucket's properties say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Replicas that must have taken it.
    pub w: Option<Quorum>,
    /// Replicas that must have synced it.
    pub dw: Option<Quorum>,
    /// Of them primaries.
    pub pw: Option<Quorum>,
    /// Nodes that must have it.
    pub node_confirms: Option<u8>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether all siblings are wanted in the answer.
    pub return_body: bool,
}

/// When a store writes. The coordinating replica looks at what it has itself: two clients at two
/// nodes may both find their condition true, and become siblings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Only if the key has no value.
    Absent,
    /// Only if nothing was written that this context has not seen; else `changed`.
    Unchanged(Context),
}

/// What is stored under a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The value.
    pub value: Value,
    /// What is said about it.
    pub headers: Headers,
}

impl Content {
    /// A value of which nothing is said.
    pub fn plain(value: Value) -> Content {
        Content { value, headers: Headers::default() }
    }
}

/// What is said about a value. Raw bytes, at most [`limits::CONTENT_HEADERS_BYTES_MAX`] together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Its media type; empty: none was named.
    pub content_type: Bytes,
    /// The character set; empty: none was named.
    pub charset: Bytes,
    /// The encoding; empty: none was named.
    pub encoding: Bytes,
    /// What the client says of it, name and text.
    pub meta: Vec<(Bytes, Bytes)>,
    /// What it points to.
    pub links: Vec<Link>,
    /// What it is found by, field and value; sorted, none twice.
    pub indexes: Vec<(Bytes, Bytes)>,
}

impl Headers {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        let Headers { content_type, charset, encoding, meta, links, indexes } = self;
        content_type.is_empty()
            && charset.is_empty()
            && encoding.is_empty()
            && meta.is_empty()
            && links.is_empty()
            && indexes.is_empty()
    }

    /// How many bytes they count, and how many entries.
    pub fn size(&self) -> (usize, usize) {
        let Headers { content_type, charset, encoding, meta, links, indexes } = self;
        let pairs = meta.iter().chain(indexes).map(|(name, text)| name.len() + text.len());
        let links_bytes: usize = links.iter().map(Link::bytes).sum();
        let named = content_type.len() + charset.len() + encoding.len();
        let bytes = named + pairs.sum::<usize>() + links_bytes;
        (bytes, meta.len() + links.len() + indexes.len())
    }

    /// Whether they keep to the house's limits.
    pub fn check(&self) -> Result<()> {
        let (bytes, entries) = self.size();
        let (most, entries_max) = (limits::CONTENT_HEADERS_BYTES_MAX, limits::CONTENT_HEADERS_MAX);
        if bytes <= most && entries <= entries_max {
            return Ok(());
        }
        let text = format!(
            "a value's headers count {bytes} bytes in {entries} entries: at most {most} \
             (content_headers_bytes_max) in {entries_max} (content_headers_max)"
        );
        Err(Error::new(Reason::TooLarge, text))
    }
}

/// A link from one value to a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The bucket, as the client writes it.
    pub bucket: Bytes,
    /// The key.
    pub key: Bytes,
    /// What kind of link.
    pub tag: Bytes,
}

impl Link {
    fn bytes(&self) -> usize {
        self.bucket.len() + self.key.len() + self.tag.len()
    }
}

/// Names one stored value among all that a key ever had: entity tags are made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vtag(pub u128);

impl fmt::Display for Vtag {
    /// In base 62, 0-9 A-Z a-z, always 22 characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let (mut text, mut rest) = ([b'0'; 22], self.0);
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[(rest % 62) as usize];
            rest /= 62;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// One of a key's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// What was written.
    pub content: Content,
    /// When, by the clock of the replica that took it: information, and never what decides (but
    /// in buckets that say so).
    pub written_ms: u64,
    /// Its name among all values of the key.
    pub vtag: Vtag,
    /// It says that the key was deleted.
    pub tombstone: bool,
}

/// A key's values, all that no one has replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// What whoever reads this has seen.
    pub context: Context,
    /// The values, the newest first; none: the key never had one, as far as the replicas asked
    /// know.
    pub values: Vec<Sibling>,
}

impl Siblings {
    /// The values that are no tombstones.
    pub fn living(&self) -> impl Iterator<Item = &Sibling> {
        self.values.iter().filter(|value| !value.tombstone)
    }
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The keys, in order.
    pub keys: Vec<Key>,
    /// More may follow: ask again behind the last.
    pub more: bool,
}

/// A page of buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketNames {
    /// The buckets, in order.
    pub names: Vec<BucketName>,
    /// More may follow: ask again behind the last.
    pub more: bool,
}

/// A change to the data type under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeChange {
    /// The key.
    pub key: Key,
    /// Operation on it.
    pub operation: TypeOperation,
    /// Context that the client has seen, for what it removes; none: that of the coordinating
    /// replica.
    pub context: Option<Context>,
    /// Number of replicas that must have it.
    pub options: StoreOptions,
}

/// The data type under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFound {
    /// Kind of the values of this bucket.
    pub kind: FieldKind,
    /// Its present value; none: there is nothing.
    pub value: Option<TypeValue>,
    /// Context of this answer, for the reader's next change.
    pub context: Context,
    /// It was there, and was deleted.
    pub tombstone: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vtag_has_one_text_of_one_length() {
        assert_eq!(Vtag(0).to_string(), "0".repeat(22));
        assert_eq!(Vtag(61).to_string(), format!("{}z", "0".repeat(21)));
        assert_eq!(Vtag(62).to_string(), format!("{}10", "0".repeat(20)));
        assert_eq!(Vtag(u128::MAX).to_string().len(), 22);
    }

    #[test]
    fn headers_end_at_their_limits() {
        let headers = |bytes| Headers {
            meta: vec![(Bytes::from_static(b"n"), Bytes::from(vec![0; bytes]))],
            ..Headers::default()
        };
        assert!(Headers::default().is_empty());
        assert_eq!(headers(limits::CONTENT_HEADERS_BYTES_MAX - 1).check(), Ok(()));
        let refused = headers(limits::CONTENT_HEADERS_BYTES_MAX).check().map_err(|e| e.reason);
        assert_eq!(refused, Err(Reason::TooLarge));
        let index = (Bytes::new(), Bytes::new());
        for (count, fits) in
            [(limits::CONTENT_HEADERS_MAX, true), (limits::CONTENT_HEADERS_MAX + 1, false)]
        {
            let many = Headers { indexes: vec![index.clone(); count], ..Headers::default() };
            assert_eq!(many.check().is_ok(), fits, "{count}");
        }
    }
}
