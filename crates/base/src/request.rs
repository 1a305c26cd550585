//! Requests, one type for every client protocol.
//!
//! A front-end turns its client's bytes into a [`Request`]; the node answers with a
//! [`crate::Reply`]. The semantics of updates are Arakoon's where it has them (atomic sequences
//! whose later steps see the earlier ones), Redis' where only it has them (expiry, `set` with
//! conditions).

use crate::available::AvailableCall;
use crate::bucket::BucketName;
use crate::cluster::ClusterCall;
use crate::properties::Changes;
use crate::ring::RingCall;
use crate::{BucketId, GroupId, Key, LogIndex, Range, RetryId, SessionId, Value, Version};

/// One question of one client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Where.
    pub bucket: BucketName,
    /// What.
    pub call: Call,
    /// Names the attempt, so that a retry applies once (updates only).
    pub retry: Option<RetryId>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Looks, changes nothing.
    Read(Read, ReadLevel),
    /// Changes rows.
    Update(Update),
    /// Changes or shows buckets and bucket types; the request's bucket is what it speaks of.
    Directory(DirectoryCall),
    /// Opens or closes a session in the bucket's group.
    Session(SessionCall),
    /// Reads or changes a key of an available bucket.
    Available(AvailableCall),
}

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// Linearizable: sees everything acknowledged before it was asked.
    #[default]
    Consistent,
    /// Whatever this node has applied.
    Dirty,
    /// Reads what this node has applied, if that is at least this index; else `stale_replica`.
    AtLeast(LogIndex),
}

/// A read.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// One row or none: `Body::Row`.
    Get(Key),
    /// How many of these keys exist, a repeated one counted again: `Body::Count`.
    Exists(Vec<Key>),
    /// The rows of these keys in order, `None` where absent: `Body::Rows`.
    MultiGet(Vec<Key>),
    /// The same, but an absent key is `not_found` with the first such key: `Body::Rows`.
    MultiGetAll(Vec<Key>),
    /// A page of rows: `Body::Page`.
    Range(Range),
    /// How many keys the bucket holds, exactly, by counting them: `Body::Count`.
    KeyCount,
    /// Fails with `assertion_failed` unless the key's value is this (`None`: absent): `Body::Done`.
    Assert {
        /// The key.
        key: Key,
        /// What it must hold.
        expected: Option<Value>,
    },
    /// Fails with `assertion_failed` unless the key exists: `Body::Done`.
    AssertExists(Key),
}

/// What a `delete` does when the key is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// `not_found` (Arakoon).
    Fails,
    /// Nothing (Redis).
    Skipped,
}

/// What a write does with the row's time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// None, or the bucket's default.
    #[default]
    Default,
    /// As it was.
    Keep,
    /// Never.
    Never,
    /// This many milliseconds of group time from the update on; 0 deletes at once.
    After(u64),
}

/// When a `set_if` writes.
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

/// When an `expire` applies (Redis' NX, XX, GT, LT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpireWhen {
    /// Always.
    #[default]
    Always,
    /// Only if the row has no expiry.
    HasNone,
    /// Only if it has one.
    HasOne,
    /// Only if the new one is later (none counts as never).
    Later,
    /// Only if the new one is sooner (none counts as never).
    Sooner,
    /// Only if it has one, and the new one is sooner (Redis' XX with LT).
    HasLater,
}

/// How the steps of a sequence hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// All or nothing: the first failing step undoes all, and its error is the answer (Arakoon).
    AllOrNothing,
    /// The same, and synced before it is acknowledged, also where the bucket's policy is `interval`
    /// (Arakoon's `synced_sequence`). Inside another sequence that one's mode counts.
    Synced,
    /// The steps run with nothing in between, but one that fails changes only its own answer
    /// (Redis' EXEC). A failing assertion among them still undoes all (that is how WATCH is told);
    /// one inside a step that is a sequence itself undoes that step.
    EachAlone,
    /// A batch: all or nothing where the bucket is consistent. An available bucket changes nothing
    /// together, so there each step is by itself, and of all of them any may have happened when an
    /// error is the answer (Redis' MSET, and DEL of several keys).
    Batch,
}

/// An update. After each variant stands the [`crate::Outcome`] it gives.
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
    /// Writes if the condition holds and gives what was there. `Swapped`.
    SetIf {
        /// The key.
        key: Key,
        /// The new value.
        value: Value,
        /// The new expiry.
        expiry: Expiry,
        /// The condition; if it fails nothing is written, and that is no error.
        when: When,
    },
    /// Deletes. `Existed`.
    Delete {
        /// The key.
        key: Key,
        /// If it is not there.
        missing: Missing,
    },
    /// Writes or deletes (`wanted` none) iff the value is `expected` (none: absent). `Old`, in both
    /// cases.
    TestAndSet {
        /// The key.
        key: Key,
        /// What it must hold.
        expected: Option<Value>,
        /// What it shall hold.
        wanted: Option<Value>,
    },
    /// Writes or deletes (`wanted` none) whatever is there. `Old`.
    Replace {
        /// The key.
        key: Key,
        /// What it shall hold.
        wanted: Option<Value>,
    },
    /// Writes only when absent or different. `Done`.
    Confirm {
        /// The key.
        key: Key,
        /// What it shall hold.
        value: Value,
    },
    /// `assertion_failed` with the key unless the value is this (none: absent). `Done`.
    Assert {
        /// The key.
        key: Key,
        /// What it must hold.
        expected: Option<Value>,
    },
    /// `assertion_failed` with the key unless it exists. `Done`.
    AssertExists {
        /// The key.
        key: Key,
    },
    /// `assertion_failed` unless the keys under the prefix are exactly these, in any order. `Done`.
    AssertRange {
        /// The prefix.
        prefix: Key,
        /// All keys that must be there.
        keys: Vec<Key>,
    },
    /// `changed` unless the row has this version (none: absent). `Done`.
    AssertVersion {
        /// The key.
        key: Key,
        /// The version seen before.
        version: Option<Version>,
    },
    /// Deletes all keys under the prefix, at most [`crate::limits::UPDATE_BYTES_MAX`] of them.
    /// `Count`.
    DeletePrefix {
        /// The prefix; empty means every key of the bucket.
        prefix: Key,
    },
    /// Adds to a decimal 64-bit number (absent counts as 0); expiry is kept. `Number`.
    Add {
        /// The key.
        key: Key,
        /// What to add.
        delta: i64,
    },
    /// Adds to a decimal floating point number (absent counts as 0); expiry is kept. `Text`.
    AddFloat {
        /// The key.
        key: Key,
        /// What to add; finite.
        delta: f64,
    },
    /// Appends (absent counts as empty); expiry is kept. `Length`.
    Append {
        /// The key.
        key: Key,
        /// What to append.
        value: Value,
    },
    /// Overwrites from `offset` on, padding with zero bytes; an empty value changes nothing.
    /// `Length`.
    SetRange {
        /// The key.
        key: Key,
        /// From which byte on.
        offset: usize,
        /// What to write there.
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
    /// A read in its place among the steps of a sequence (not `KeyCount`). `Read`.
    Read(Read),
    /// Nothing, but through the log. `Done`.
    Nop,
    /// Steps that hold together, the later ones seeing the earlier ones. `Steps`.
    Sequence {
        /// The steps, nested ones too.
        steps: Vec<Update>,
        /// What a failing step does.
        mode: Steps,
    },
}

/// What can be asked of the directory.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectoryCall {
    /// Makes a bucket of its name's type. `Body::Done`.
    CreateBucket(Changes),
    /// Changes a bucket's properties. `Body::Done`.
    AlterBucket(Changes),
    /// Drops a bucket: a metadata operation; its space returns in the background. `Body::Done`.
    DropBucket,
    /// Empties a bucket of any size: a metadata operation, like a drop and a create at one instant.
    /// `Body::Done`.
    ClearBucket,
    /// `Body::Buckets` with one element.
    DescribeBucket,
    /// `Body::Buckets`, those after this full name.
    ListBuckets {
        /// The last full name of the page before.
        after: Option<BucketName>,
        /// Most buckets in the answer.
        rows_max: usize,
    },
    /// Makes a bucket type; the request's bucket name holds the type's name, its name part is
    /// ignored.
    CreateType(Changes),
    /// Changes the template; buckets made before keep their properties.
    AlterType(Changes),
    /// Drops a type without buckets.
    DropType,
    /// `Body::Types`.
    ListTypes,
    /// Speaks of members and placement; the request's bucket is ignored.
    Cluster(ClusterCall),
    /// Makes a bucket of its name's type in a place of its own. `Body::Done`.
    PlaceBucket {
        /// Its properties, where they are not its type's.
        changes: Changes,
        /// Where it is to live.
        place: BucketPlace,
    },
    /// Begins to move a bucket to another group: its rows follow, then it lives there. Asked again,
    /// it changes nothing. `Body::Done`.
    MoveBucket {
        /// Where it is to live.
        group: GroupId,
    },
    /// Gives up a move: the bucket stays where it is. `Body::Done`.
    CancelMove,
    /// The next step of a move; told by nodes, not by clients. `Body::Done`.
    StepMove {
        /// The bucket's number where it lives: with another, nothing is done.
        id: BucketId,
        /// Its number where it is on its way to, likewise.
        moving: BucketId,
        /// Which step.
        step: MoveStep,
    },
    /// Speaks of the ring of available buckets; the request's bucket is ignored.
    Ring(RingCall),
    /// Takes the properties away that an available bucket has for itself: its type's count again.
    /// `Body::Done`.
    ResetBucket,
}

/// Where a bucket is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPlace {
    /// In this group.
    Group(GroupId),
    /// In the group of so many voters that has the fewest buckets.
    Replicas(u32),
}

/// A step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// Copying begins anew, under another number.
    Renew,
    /// Everything is there: the bucket lives there from now on.
    Finish,
}

/// What can be asked about sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCall {
    /// `Body::Session`.
    Open,
    /// `Body::Done`; unknown sessions too.
    Close(SessionId),
}
