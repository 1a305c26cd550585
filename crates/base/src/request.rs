//! Requests, one type for every client protocol.
//!
//! A front-end turns its client's bytes into a [`Request`]; the node answers with a
//! [`crate::Reply`]. Updates have the semantics of Arakoon where it has them (atomic sequences
//! whose later steps see the earlier ones), and of Redis for the rest (expiry, conditions).

use crate::available::AvailableCall;
use crate::bucket::BucketName;
pub use crate::directory::{BucketPlace, DirectoryCall, MoveStep};
use crate::feed::FeedQuery;
use crate::index::IndexQuery;
use crate::{Absence, Key, LogIndex, Range, RetryId, SessionId, Tags, Value, Version};

/// Request of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Bucket that the call addresses.
    pub bucket: BucketName,
    /// Call to carry out.
    pub call: Call,
    /// Id of the attempt, so that a retry applies once (updates only). `None`: retries are not
    /// recognised.
    pub retry: Option<RetryId>,
}

/// Call of a request, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Reads rows.
    Read(Read, ReadLevel),
    /// Changes rows.
    Update(Update),
    /// Changes or describes buckets, bucket types, members, the ring or users.
    Directory(DirectoryCall),
    /// Opens or closes a session in the bucket's group.
    Session(SessionCall),
    /// Reads or changes a key of an available bucket.
    Available(AvailableCall),
}

/// Consistency level of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// Linearizable: sees everything acknowledged before the request.
    #[default]
    Consistent,
    /// Reads the rows that this node has applied, however old.
    Dirty,
    /// Reads the rows that this node has applied if that is at least this index; else
    /// `stale_replica`.
    AtLeast(LogIndex),
}

/// A read.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// One row or none: `Body::Row`.
    Get(Key),
    /// Number of these keys that exist; a repeated key counts each time: `Body::Count`.
    Exists(Vec<Key>),
    /// The rows of these keys in order, `None` where absent: `Body::Rows`.
    MultiGet(Vec<Key>),
    /// The rows of these keys in order; `not_found` with the first absent key: `Body::Rows`.
    MultiGetAll(Vec<Key>),
    /// A page of rows: `Body::Page`.
    Range(Range),
    /// Number of keys: `Body::Size` if the bucket keeps counts, else by a scan: `Body::Count`.
    KeyCount,
    /// Versions of these keys in order, without values, to assert later that they have not changed:
    /// `Body::KeyVersions`.
    KeyVersions(Vec<Key>),
    /// Fails with `assertion_failed` unless the key's value is this (`None`: absent): `Body::Done`.
    Assert {
        /// The key.
        key: Key,
        /// Expected value. `None`: absent.
        expected: Option<Value>,
    },
    /// Fails with `assertion_failed` unless the key exists: `Body::Done`.
    AssertExists(Key),
    /// A page of an index, in a bucket of either consistency: `Body::IndexPage`.
    Index(Box<IndexQuery>),
    /// A page of the feed of a bucket: `Body::FeedPage`.
    Feed(Box<FeedQuery>),
}

/// Effect of a `delete` of an absent key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// Fails with `not_found` (Arakoon).
    Fail,
    /// Succeeds without effect (Redis).
    Skip,
}

/// Effect of a write on the row's time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Sets the bucket's default.
    #[default]
    Default,
    /// Keeps the row's expiry.
    Keep,
    /// Removes the expiry.
    Never,
    /// Sets the expiry to this many milliseconds of group time after the update; 0 deletes at once.
    After(u64),
}

/// Condition of a `set_if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always (with the old row in the answer).
    Always,
    /// Only if the key is absent.
    Absent,
    /// Only if the key is there.
    Present,
    /// Only if the row has this version.
    Unchanged(Version),
}

/// Condition of an `expire` (Redis' NX, XX, GT, LT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpireWhen {
    /// Always.
    #[default]
    Always,
    /// Only if the row has no expiry.
    HasNone,
    /// Only if it has one.
    HasOne,
    /// Only if the new one is later (no expiry counts as never).
    Later,
    /// Only if the new one is sooner (no expiry counts as never).
    Sooner,
    /// Only if it has one, and the new one is sooner (Redis' XX with LT).
    HasLater,
}

/// Atomicity of the steps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceMode {
    /// Atomic: the first failing step undoes all, and its error is the answer (Arakoon).
    AllOrNothing,
    /// Atomic, and synced before the acknowledgement even in a bucket with policy `interval`
    /// (Arakoon's `synced_sequence`). Inside another sequence, the outer mode counts.
    Synced,
    /// Isolated: no other update comes between the steps, but a failing step changes only its own
    /// answer (Redis' EXEC). A failing assertion still undoes all (WATCH uses it); inside a step
    /// that is a sequence itself, it undoes that step.
    EachAlone,
    /// Batch: atomic where the bucket is consistent. In an available bucket each step is on its
    /// own, and any of them may have happened when the answer is an error (Redis' MSET, and DEL of
    /// several keys).
    Batch,
}

/// Update of rows. Each variant names the [`crate::Outcome`] that it gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Writes. `Done`.
    Set {
        /// The key.
        key: Key,
        /// The new value.
        value: Value,
        /// The new expiry.
        expiry: Expiry,
    },
    /// Writes if the condition holds; returns the previous value. `Swapped`.
    SetIf {
        /// The key.
        key: Key,
        /// The new value.
        value: Value,
        /// The new expiry.
        expiry: Expiry,
        /// The condition; if it fails, nothing is written and no error is returned.
        when: When,
    },
    /// Writes a value with tags if the condition holds. `Applied` (false: it failed, and nothing
    /// is written). Other updates that write a whole value remove the tags of the row; those that
    /// change the row that they find (numbers, appends, expiry, renames, copies) keep them.
    SetTagged(Box<TaggedSet>),
    /// Deletes. `Existed`.
    Delete {
        /// The key.
        key: Key,
        /// Effect if the key is absent.
        missing: OnMissing,
    },
    /// Writes or deletes (`wanted` is `None`) iff the value is `expected` (`None`: absent). `Old`,
    /// in both cases.
    TestAndSet {
        /// The key.
        key: Key,
        /// Expected value. `None`: absent.
        expected: Option<Value>,
        /// New value. `None`: delete.
        wanted: Option<Value>,
    },
    /// Writes or deletes (`wanted` is `None`) unconditionally. `Old`.
    Replace {
        /// The key.
        key: Key,
        /// New value. `None`: delete.
        wanted: Option<Value>,
    },
    /// Writes only when absent or different. `Done`.
    Confirm {
        /// The key.
        key: Key,
        /// New value.
        value: Value,
    },
    /// Fails with `assertion_failed` and the key unless the value is this. `Done`.
    Assert {
        /// The key.
        key: Key,
        /// Expected value. `None`: absent.
        expected: Option<Value>,
    },
    /// Fails with `assertion_failed` and the key unless it exists. `Done`.
    AssertExists {
        /// The key.
        key: Key,
    },
    /// Fails with `assertion_failed` unless the keys under the prefix are exactly these, in any
    /// order. `Done`.
    AssertRange {
        /// The prefix.
        prefix: Key,
        /// All keys that must be there.
        keys: Vec<Key>,
    },
    /// Fails with `changed` unless the row has this version. `Done`.
    AssertVersion {
        /// The key.
        key: Key,
        /// Expected version. `None`: the row is absent.
        version: Option<Version>,
    },
    /// Fails with `changed` unless nobody has written the key since it was absent. Rarely it fails
    /// without a write: after a change of master or a move of the bucket, once the space of a
    /// dropped bucket was freed, and if a key with the same hash was written and removed meanwhile.
    /// `Done`.
    AssertAbsentSince {
        /// The key.
        key: Key,
        /// Its absence, as [`Read::KeyVersions`] found it.
        absence: Absence,
    },
    /// Deletes all keys under the prefix, at most [`crate::limits::UPDATE_BYTES_MAX`] of them.
    /// `Count`.
    DeletePrefix {
        /// The prefix; empty means every key of the bucket.
        prefix: Key,
    },
    /// Adds to a decimal 64-bit number (absent counts as 0); keeps the expiry. `Number`.
    Add {
        /// The key.
        key: Key,
        /// Number to add.
        delta: i64,
    },
    /// Adds to a decimal floating point number (absent counts as 0); keeps the expiry. `Text`.
    AddFloat {
        /// The key.
        key: Key,
        /// Number to add; finite.
        delta: f64,
    },
    /// Appends to the value (absent counts as empty); keeps the expiry. `Length`.
    Append {
        /// The key.
        key: Key,
        /// Bytes to append.
        value: Value,
    },
    /// Overwrites from `offset` on, padding with zero bytes; an empty value changes nothing.
    /// `Length`.
    SetRange {
        /// The key.
        key: Key,
        /// Offset of the first byte to write.
        offset: usize,
        /// Bytes to write there.
        value: Value,
    },
    /// Moves a row with its expiry; `not_found` with `from` if that is absent. `Applied`.
    Rename {
        /// The old key.
        from: Key,
        /// The new key.
        to: Key,
        /// `Always` or `Absent`.
        when: When,
    },
    /// Copies a row with its expiry. `Applied` (false: `from` absent, or the condition failed).
    Copy {
        /// The source.
        from: Key,
        /// The target.
        to: Key,
        /// `Always` or `Absent`.
        when: When,
    },
    /// Changes a row's expiry (`Keep` changes nothing). `Applied` (false: absent, or the condition
    /// failed).
    Expire {
        /// The key.
        key: Key,
        /// The new expiry.
        expiry: Expiry,
        /// The condition.
        when: ExpireWhen,
    },
    /// Reads at this point of a sequence (not `KeyCount`, `Index` or `Feed`). `Read`.
    Read(Read),
    /// Changes nothing, but passes through the log. `Done`.
    Nop,
    /// Runs steps together; later steps see the effects of earlier ones. `Steps`.
    Sequence {
        /// The steps, which may be sequences themselves.
        steps: Vec<Update>,
        /// Atomicity of the steps.
        mode: SequenceMode,
    },
}

/// Write of a value with tags, in a consistent bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggedSet {
    /// The key.
    pub key: Key,
    /// The new value.
    pub value: Value,
    /// The new expiry.
    pub expiry: Expiry,
    /// The condition.
    pub when: When,
    /// The new tags; at least one.
    pub tags: Tags,
}

/// Call about client sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCall {
    /// Opens a session: `Body::Session`.
    Open,
    /// Closes a session, known or not: `Body::Done`.
    Close(SessionId),
}
