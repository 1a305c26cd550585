//! Replies to requests.

use crate::available::{BucketNames, Context, Keys, Owner, Siblings, TypeFound};
use crate::bucket::BucketName;
use crate::cluster::{ClusterDescription, Placement};
use crate::properties::Properties;
use crate::ring::{RingDescription, RingPlan, RingTransfers};
use crate::{ClusterSecret, Error, Key, LogIndex, SessionId, Value, Version};

/// An answer; every one carries the index of the log it reflects.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// For updates the index of the value that holds them; for reads one that nothing they show is
    /// behind. Who reads anywhere else what is applied up to it sees nothing older.
    pub index: LogIndex,
    /// The version that an update gave the rows that it wrote, where that is known: not of an
    /// update that wrote nothing, nor of a retry whose earlier attempt counts. It is not among the
    /// reply's bytes: a node that passes an update on gets it beside them.
    pub version: Option<Version>,
    /// The answer itself.
    pub body: Body,
}

impl Reply {
    /// An answer without a version.
    pub fn new(index: LogIndex, body: Body) -> Reply {
        Reply { index, version: None, body }
    }
}

/// The answer itself, by what was asked. A read moves it several times on its way to the client, so
/// it is hardly larger than a row: larger answers, which are rare, are boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// It is so.
    Done,
    /// One row, or none.
    Row(Option<Row>),
    /// Rows in the order of the keys asked.
    Rows(Vec<Option<Row>>),
    /// A page of a range.
    Page(Page),
    /// A number of keys.
    Count(u64),
    /// What an update did.
    Updated(Outcome),
    /// A session was opened.
    Session(SessionId),
    /// Buckets.
    Buckets(Vec<BucketDescription>),
    /// Bucket types with their templates.
    Types(Vec<(String, Properties)>),
    /// Members and placement.
    Cluster(Box<ClusterDescription>),
    /// The same for a node that joins, with what members sign their greetings with.
    Joined(Box<ClusterDescription>, ClusterSecret),
    /// A group that was made.
    Group(Box<Placement>),
    /// A key's values in an available bucket.
    Siblings(Siblings),
    /// A write was taken. The context speaks for this write alone: with it the client replaces what
    /// it wrote, and nothing that it has not seen.
    Stored(Context),
    /// Keys of an available bucket.
    Keys(Keys),
    /// Available buckets that hold something.
    BucketNames(BucketNames),
    /// The ring.
    Ring(RingDescription),
    /// What a change of the ring would do.
    RingPlan(Box<RingPlan>),
    /// How far a change of the ring is.
    RingTransfers(RingTransfers),
    /// The data type under a key.
    Typed(Box<TypeFound>),
    /// Who keeps a key.
    Owners(Vec<Owner>),
}

const _: () = assert!(size_of::<Body>() <= size_of::<Row>() + size_of::<u64>());

/// A row as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The value.
    pub value: Value,
    /// Which update wrote it; HTTP's ETag.
    pub version: Version,
    /// Milliseconds of group time until it expires, when it does.
    pub expires_in_ms: Option<u64>,
}

/// A row of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The row; `None` when only keys were asked.
    pub row: Option<Row>,
}

/// A page of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows in the order of the walk.
    pub entries: Vec<Entry>,
    /// More may follow: ask again with `Range::after` the last key.
    pub more: bool,
}

/// What an update did, by update (see [`crate::Update`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Whether it applied.
    Applied(bool),
    /// Whether the key existed.
    Existed(bool),
    /// The value there before.
    Old(Option<Value>),
    /// Whether it was written, and the value there before.
    Swapped {
        /// Written or not.
        written: bool,
        /// The value there before.
        old: Option<Value>,
    },
    /// How many keys.
    Count(u64),
    /// A sum.
    Number(i64),
    /// A floating point sum, as text.
    Text(Value),
    /// The value's length in bytes now.
    Length(u64),
    /// The answer of a read among the steps.
    Read(Box<Body>),
    /// The steps' answers; in `AllOrNothing` all are `Ok`.
    Steps(Vec<Result<Outcome, Error>>),
    /// The update was applied, but its outcome was too large: to be kept for this repeated attempt,
    /// or to come here from another node. It is in this index.
    AppliedAt(LogIndex),
}

/// A bucket as the directory knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketDescription {
    /// Its full name.
    pub name: BucketName,
    /// Its number; 0: it has none (available buckets).
    pub id: crate::BucketId,
    /// The group it lives in (consistent buckets).
    pub group: crate::GroupId,
    /// Its properties.
    pub properties: Properties,
    /// Where it is on its way to.
    pub moving: Option<Moving>,
}

/// Where a bucket is on its way to: until it is there, nobody but its copier knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The group it will live in.
    pub group: crate::GroupId,
    /// The number it will have there.
    pub id: crate::BucketId,
}
