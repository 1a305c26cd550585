//! Calls of available buckets, and their answers.
//!
//! Any node that reaches enough replicas takes a write. Concurrent writes become *siblings*, which
//! are returned together with a *context*. A client that sends this context with its next write
//! replaces the siblings that it has seen, and nothing else.
//!
//! `Stored` answers a write that does not request the body: its context covers the client's own
//! write only. Optional headers of a value are kept in `Headers`, so a plain value carries none of
//! their bytes. There are two conditions only; a front-end compares entity tags with what it has
//! read.

use crate::datatype::{FieldKind, TypeOperation, TypeValue};
use crate::quorum::Quorum;
use crate::{BucketName, Error, Key, Partition, Reason, Result, Value, limits};
use bytes::Bytes;
use std::fmt;

/// Causal context that a client has seen of a key: opaque bytes, at most
/// [`limits::CONTEXT_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context(pub Bytes);

/// Call to an available bucket. Such a bucket also accepts the plain `Get`, `Set` and `Delete`.
#[derive(Clone, Debug, PartialEq)]
pub enum AvailableCall {
    /// All siblings of a key, tombstones among them: `Body::Siblings`.
    Fetch {
        /// The key.
        key: Key,
        /// Quorums and timeout of the read.
        options: FetchOptions,
    },
    /// Writes a sibling. `Body::Stored`, or, with `return_body`, `Body::Siblings`.
    Store(Box<Store>),
    /// Writes a tombstone instead of what the context has seen; without one, instead of everything
    /// the coordinating replica has. `Body::Stored`, or, with `return_body`, `Body::Siblings`.
    Remove {
        /// The key.
        key: Key,
        /// Context that the client has seen. `None`: the coordinating replica's own.
        context: Option<Context>,
        /// Quorums and timeout of the write.
        options: StoreOptions,
    },
    /// Returns a page of the bucket's keys, in key order, without keys that hold no value:
    /// `Body::Keys`. Reads every partition.
    Keys {
        /// The last key of the page before.
        after: Option<Key>,
        /// Most keys in the answer.
        rows_max: usize,
    },
    /// Returns the buckets of this bucket's type that hold a key, in order: `Body::BucketNames`.
    /// Reads every partition; the request's bucket names the type, its name part is ignored.
    Buckets {
        /// The last bucket of the page before.
        after: Option<BucketName>,
        /// Most buckets in the answer.
        rows_max: usize,
    },
    /// Changes the data type under a key. `Body::Stored`, or, with `return_body`, `Body::Typed`.
    Change(Box<TypeChange>),
    /// Reads the data type under a key: `Body::Typed`.
    FetchType {
        /// The key.
        key: Key,
        /// Quorums and timeout of the read.
        options: FetchOptions,
    },
    /// Returns the owners of a key in the order of its preference list: `Body::Owners`.
    Owners {
        /// The key.
        key: Key,
    },
}

/// Node on the preference list of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The partition of the ring that the key falls into.
    pub partition: Partition,
    /// The node's name.
    pub node: String,
    /// Client address of the node: `host:port`.
    pub address: String,
    /// True if the node is a primary of the key; false if it is a fallback for a node that is down.
    pub primary: bool,
}

/// Write of one sibling, which replaces those that its context has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// The key.
    pub key: Key,
    /// Value and headers to write.
    pub content: Content,
    /// Context that the client has seen. `None`: a blind write, which replaces nothing.
    pub context: Option<Context>,
    /// Quorums and timeout of the write.
    pub options: StoreOptions,
    /// Condition of the write. `None`: always.
    pub condition: Option<Condition>,
}

/// Options of a read. `None` in a field: the bucket's property applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// Number of replicas that must answer.
    pub r: Option<Quorum>,
    /// Number of primaries among them: owners of the key, not fallbacks.
    pub pr: Option<Quorum>,
    /// Number of distinct nodes that must answer.
    pub node_confirms: Option<u8>,
    /// True if the read ends as soon as more than half of the replicas report that they hold
    /// nothing.
    pub basic_quorum: Option<bool>,
    /// True if a replica that holds nothing counts towards `r`.
    pub notfound_ok: Option<bool>,
    /// Timeout in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// Options of a write. `None` in a field: the bucket's property applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Number of replicas that must have taken the write.
    pub w: Option<Quorum>,
    /// Number of replicas that must have synced it.
    pub dw: Option<Quorum>,
    /// Number of primaries among the replicas that took it.
    pub pw: Option<Quorum>,
    /// Number of distinct nodes that must have it.
    pub node_confirms: Option<u8>,
    /// Timeout in milliseconds.
    pub timeout_ms: Option<u64>,
    /// True if the answer lists all siblings after the write.
    pub return_body: bool,
}

/// Condition of a store. The coordinating replica checks it against its own copy only: two clients
/// at two nodes may both pass, and their values become siblings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Only if the key has no value.
    Absent,
    /// Only if this context covers every write to the key; else `changed`.
    Unchanged(Context),
}

/// Content of a sibling: the value and its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The value.
    pub value: Value,
    /// Headers of the value.
    pub headers: Headers,
}

impl Content {
    /// Returns a value without headers.
    pub fn plain(value: Value) -> Content {
        Content { value, headers: Headers::default() }
    }
}

/// Optional metadata of a value: raw bytes, at most [`limits::CONTENT_HEADERS_BYTES_MAX`] in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Media type; empty: absent.
    pub content_type: Bytes,
    /// Character set; empty: absent.
    pub charset: Bytes,
    /// Content encoding; empty: absent.
    pub encoding: Bytes,
    /// Metadata of the client: name and text.
    pub meta: Vec<(Bytes, Bytes)>,
    /// Links to other keys.
    pub links: Vec<Link>,
    /// Secondary index entries: field and value; sorted, no duplicates.
    pub indexes: Vec<(Bytes, Bytes)>,
}

impl Headers {
    /// Returns true if no header is set.
    pub fn is_empty(&self) -> bool {
        let Headers { content_type, charset, encoding, meta, links, indexes } = self;
        content_type.is_empty()
            && charset.is_empty()
            && encoding.is_empty()
            && meta.is_empty()
            && links.is_empty()
            && indexes.is_empty()
    }

    /// Returns the size of the headers in bytes, and the number of metadata, links and index
    /// entries.
    pub fn size(&self) -> (usize, usize) {
        let Headers { content_type, charset, encoding, meta, links, indexes } = self;
        let pair_bytes = meta.iter().chain(indexes).map(|(name, text)| name.len() + text.len());
        let links_bytes: usize = links.iter().map(Link::bytes).sum();
        let fixed = content_type.len() + charset.len() + encoding.len();
        let bytes = fixed + pair_bytes.sum::<usize>() + links_bytes;
        (bytes, meta.len() + links.len() + indexes.len())
    }

    /// Checks the headers against the limits. Errors: `too_large`.
    pub fn check(&self) -> Result<()> {
        let (bytes, entries) = self.size();
        let (most, entries_max) = (limits::CONTENT_HEADERS_BYTES_MAX, limits::CONTENT_HEADERS_MAX);
        if bytes <= most && entries <= entries_max {
            return Ok(());
        }
        let text = format!(
            "the value's metadata has {bytes} bytes in {entries} entries; at most {most} bytes \
             (content_headers_bytes_max) in {entries_max} entries (content_headers_max) are allowed"
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
    /// Tag of the link, chosen by the client.
    pub tag: Bytes,
}

impl Link {
    fn bytes(&self) -> usize {
        self.bucket.len() + self.key.len() + self.tag.len()
    }
}

/// Unique name of one stored value among all that a key ever had; entity tags are made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vtag(pub u128);

impl fmt::Display for Vtag {
    /// Writes it in base 62, 0-9 A-Z a-z, always 22 characters.
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
    /// Value and headers.
    pub content: Content,
    /// Time of the write by the clock of the replica that took it, in milliseconds. Informative
    /// only, except in buckets that keep one value (`allow_mult=false` or `last_write_wins=true`),
    /// where the newest write stays.
    pub written_ms: u64,
    /// Entity tag of the value: its name among all values of the key.
    pub vtag: Vtag,
    /// True if the sibling is a tombstone: a delete.
    pub tombstone: bool,
}

/// Siblings of a key: its values that no write has replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// Context that covers all of these values, for the reader's next write.
    pub context: Context,
    /// The values, newest first, tombstones among them. Empty: the answering replicas have
    /// no write to the key.
    pub values: Vec<Sibling>,
}

impl Siblings {
    /// Returns the values that are not tombstones.
    pub fn without_tombstones(&self) -> impl Iterator<Item = &Sibling> {
        self.values.iter().filter(|value| !value.tombstone)
    }
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The keys, in order.
    pub keys: Vec<Key>,
    /// True if more may follow: request the keys after the last.
    pub more: bool,
}

/// A page of buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketNames {
    /// The buckets, in order.
    pub names: Vec<BucketName>,
    /// True if more may follow: request the buckets after the last.
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
    /// Number of replicas that must have it, and timeout.
    pub options: StoreOptions,
}

/// The data type under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFound {
    /// Kind of the values of this bucket.
    pub kind: FieldKind,
    /// Current value. `None`: there is none.
    pub value: Option<TypeValue>,
    /// Context of this answer, for the reader's next change.
    pub context: Context,
    /// True if the value was deleted.
    pub tombstone: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vtag_text_is_fixed_length_base62() {
        assert_eq!(Vtag(0).to_string(), "0".repeat(22));
        assert_eq!(Vtag(61).to_string(), format!("{}z", "0".repeat(21)));
        assert_eq!(Vtag(62).to_string(), format!("{}10", "0".repeat(20)));
        assert_eq!(Vtag(u128::MAX).to_string().len(), 22);
    }

    #[test]
    fn content_headers_above_size_or_count_limit_are_rejected() {
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
