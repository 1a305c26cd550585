//! Replies to requests.

use crate::available::{BucketNames, Context, Keys, Owner, Siblings, TypeFound};
use crate::bucket::BucketName;
use crate::cluster::{ClusterDescription, Placement};
use crate::index::IndexDescription;
use crate::properties::Properties;
use crate::ring::{RingDescription, RingPlan, RingTransfers};
use crate::{
    BucketId, ClusterSecret, Error, GroupId, Key, LogIndex, SessionId, Tags, Value, Version,
};
use bytes::Bytes;

/// Reply to a request; each carries the log index that it reflects.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// For an update, the index of the log entry that holds it. For a read, an index that covers
    /// everything the read shows: another replica that has applied up to it shows nothing older.
    pub index: LogIndex,
    /// Version that an update gave the rows that it wrote. `None` if it wrote nothing, and for a
    /// retry whose earlier attempt counted. Not encoded with the reply: a node that forwards an
    /// update gets it separately.
    pub version: Option<Version>,
    /// Body of the reply.
    pub body: Body,
}

impl Reply {
    /// Builds a reply without a version.
    pub fn new(index: LogIndex, body: Body) -> Reply {
        Reply { index, version: None, body }
    }
}

/// Body of a reply, by kind of request. A read moves it several times on its way to the client, so
/// it is hardly larger than a row: larger bodies, which are rare, are boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Done; or the assertion holds.
    Done,
    /// One row, or none.
    Row(Option<Row>),
    /// Rows in the order of the requested keys.
    Rows(Vec<Option<Row>>),
    /// A page of a range.
    Page(Page),
    /// Number of keys.
    Count(u64),
    /// Numbers of keys, and of bytes of keys and values, as a counted bucket keeps them.
    Size {
        /// Number of keys.
        keys: u64,
        /// Number of bytes of all keys and values.
        bytes: u64,
    },
    /// Outcome of an update.
    Updated(Outcome),
    /// The session that was opened.
    Session(SessionId),
    /// Buckets.
    Buckets(Vec<BucketDescription>),
    /// Bucket types with their templates.
    Types(Vec<(String, Properties)>),
    /// Members and placement.
    Cluster(Box<ClusterDescription>),
    /// Members and placement for a node that joins, with the secret by which members sign
    /// greetings.
    Joined(Box<ClusterDescription>, ClusterSecret),
    /// The group that was created.
    Group(Box<Placement>),
    /// A key's values in an available bucket.
    Siblings(Siblings),
    /// Context of a write that was taken. It covers this write alone: a client that writes with it
    /// replaces what it wrote, and nothing that it has not seen.
    Stored(Context),
    /// Versions of keys, in the order of the requested keys.
    KeyVersions(Vec<KeyVersion>),
    /// Keys of an available bucket.
    Keys(Keys),
    /// Available buckets that hold a key.
    BucketNames(BucketNames),
    /// The ring.
    Ring(RingDescription),
    /// Effect of a planned change of the ring.
    RingPlan(Box<RingPlan>),
    /// Progress of a change of the ring.
    RingTransfers(RingTransfers),
    /// The data type under a key.
    Typed(Box<TypeFound>),
    /// Owners of a key in the order of its preference list.
    Owners(Vec<Owner>),
    /// Declared indexes of a bucket.
    Indexes(Vec<IndexDescription>),
    /// A page of an index.
    IndexPage(Box<IndexPage>),
    /// A page of a feed.
    FeedPage(Box<FeedPage>),
}

const _: () = assert!(size_of::<Body>() <= size_of::<Row>() + size_of::<u64>());

/// A row as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The value.
    pub value: Value,
    /// Version given by the update that wrote the row; HTTP's ETag.
    pub version: Version,
    /// Milliseconds of group time until the row expires. `None`: never.
    pub expires_in_ms: Option<u64>,
    /// Tags of the value. `None`: it has none.
    pub tags: Option<Box<Tags>>,
}

/// Version of a key, present or absent, by which a later update finds out whether it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyVersion {
    /// The key has a row of this version.
    Present(Version),
    /// The key has no row.
    Absent(Absence),
}

/// Absence of a key at some moment, by which a later update finds out whether it was written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Group that was read. A bucket that moves gets another.
    pub group: GroupId,
    /// Number of the bucket that was read. A bucket that is cleared, dropped or moved gets another.
    pub bucket: BucketId,
    /// Lowest version that a later write in this group can have.
    pub since: Version,
}

/// A row of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The row. `None` if only keys were requested.
    pub row: Option<Row>,
}

/// A page of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows in scan order.
    pub entries: Vec<Entry>,
    /// True if more rows may follow: request `Range::after` the last key.
    pub more: bool,
}

/// A row of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The key.
    pub key: Key,
    /// Text of the term. `None` if only keys were requested.
    pub term: Option<Value>,
    /// The record. `None` if it was not requested.
    pub record: Option<IndexRecord>,
}

/// Record that a row of an index or an event of a feed leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexRecord {
    /// Row of a consistent bucket.
    Row(Row),
    /// Values of a key in an available bucket.
    Siblings(Siblings),
}

/// A page of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPage {
    /// The rows, in the order that was requested.
    pub rows: Vec<IndexRow>,
    /// Continuation for the next page. `None`: the last page.
    pub after: Option<Value>,
    /// True if partitions did not answer, as the query allows.
    pub is_partial: bool,
}

/// Outcome of an update; [`crate::Update`] names it for each update.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The update was carried out.
    Done,
    /// True if the update applied.
    Applied(bool),
    /// True if the key existed.
    Existed(bool),
    /// Previous value. `None`: absent.
    Old(Option<Value>),
    /// Outcome of a conditional write.
    Swapped {
        /// True if the value was written.
        written: bool,
        /// Previous value. `None`: absent.
        old: Option<Value>,
    },
    /// Number of keys.
    Count(u64),
    /// New sum.
    Number(i64),
    /// New floating point sum, as text.
    Text(Value),
    /// New length of the value in bytes.
    Length(u64),
    /// Result of a read among the steps.
    Read(Box<Body>),
    /// Outcome of each step; in `AllOrNothing` all are `Ok`.
    Steps(Vec<Result<Outcome, Error>>),
    /// The update was applied at this log index, but its outcome was too large to keep for a retry
    /// or to send from another node.
    AppliedAt(LogIndex),
}

/// A bucket as stored in the directory.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketDescription {
    /// Full name.
    pub name: BucketName,
    /// Number of the bucket. 0: absent (available buckets).
    pub id: crate::BucketId,
    /// Group that holds the bucket (consistent buckets).
    pub group: crate::GroupId,
    /// Properties of the bucket.
    pub properties: Properties,
    /// Target of a move in progress. `None`: the bucket is not moving.
    pub moving: Option<MoveDestination>,
}

/// Target of a bucket's move: until the move ends, only its copier uses the new group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveDestination {
    /// Group that will hold the bucket.
    pub group: crate::GroupId,
    /// Number that the bucket will have there.
    pub id: crate::BucketId,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedEventKind {
    /// The key has a new record.
    Put,
    /// The key was deleted or has expired.
    Delete,
}

impl FeedEventKind {
    /// Returns the name at every front-end.
    pub fn name(self) -> &'static str {
        ["put", "delete"][self as usize]
    }
}

/// Event of a feed: a change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// Kind of the change.
    pub kind: FeedEventKind,
    /// Key that changed.
    pub key: Key,
    /// Version of the record in a consistent bucket; of a deleted one, a version at or above that
    /// of every earlier record of the key. `None` in an available bucket.
    pub version: Option<Version>,
    /// Record of a put. `None` if it was not asked for.
    pub record: Option<IndexRecord>,
    /// True if the reader may have had the event before, because another replica answers now. Never
    /// in a consistent bucket.
    pub again: bool,
}

/// Page of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedPage {
    /// Events in the order of the feed. A page may have none, though more follow.
    pub events: Vec<FeedEvent>,
    /// Token for the next page.
    pub next: Bytes,
    /// True if nothing more was decided when the page was read.
    pub level: bool,
    /// True if changes behind the token of the request are no longer kept. The page begins at the
    /// start: a key that does not come before the next `level` is gone.
    pub restart: bool,
}
