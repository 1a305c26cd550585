//! Shared vocabulary of all crates: plain data and its bytes.
//!
//! A type belongs here when two crates exchange it: a bucket's name, a request, a reply, an error
//! classified by what the caller can do, a limit that all crates must agree on.
//!
//! Promises: every type means the same in every crate; `decode` never panics, whatever bytes it is
//! given.
//! Never: imports another crate of the workspace; does anything (no file, socket, clock, thread or
//! randomness).
//! Read next: `request.rs`, then `error.rs` and `limits.rs`.

pub mod access;
pub mod alarm;
pub mod available;
pub mod bucket;
pub mod check;
pub mod cluster;
pub mod codec;
pub mod datatype;
pub mod directory;
pub mod dots;
pub mod duration;
pub mod error;
pub mod feed;
pub mod ids;
pub mod import_chunk;
pub mod index;
mod level;
pub mod limits;
pub mod mutants;
mod near;
mod networks;
pub mod properties;
pub mod quorum;
pub mod range;
pub mod reply;
pub mod request;
pub mod rights;
pub mod ring;
mod secret;
pub mod tags;
pub mod token;
pub mod utc_time;
pub mod varint;
pub mod wire;

pub use access::{AccessCall, Principal};
pub use alarm::{Alarm, AlarmCode};
pub use available::{
    AvailableCall, BucketNames, Condition, Content, Context, FetchOptions, Headers, Keys, Link,
    Owner, Sibling, Siblings, Store, StoreOptions, Vtag,
};
pub use bucket::BucketName;
pub use cluster::{
    ClusterCall, ClusterDescription, MemberDescription, Membership, Part, Placement,
};
pub use directory::{BucketPlace, DirectoryCall, MoveStep};
pub use error::{Error, Kind, Reason, Result};
pub use feed::{FeedEvent, FeedPage, FeedQuery};
pub use ids::{
    Actor, Ballot, BucketDigest, BucketId, ClusterId, ConfigurationId, GroupId, IncarnationId,
    LogIndex, Millis, NodeId, Partition, RetryId, SessionId, UserDigest, Version,
};
pub use index::{IndexCall, IndexDescription, IndexQuery};
pub use level::FeatureLevel;
pub use near::nearest;
pub use networks::{IpNetworks, address_or_network};
pub use properties::{
    BucketAudit, Consistency, DataType, FeedMode, Properties, Replication, SyncPolicy,
};
pub use quorum::{Quorum, Share, Shortfall};
pub use range::{Bound, Range, RowContent};
pub use reply::{
    Absence, Body, BucketDescription, Entry, IndexPage, IndexRow, KeyVersion, MoveDestination,
    Outcome, Page, Reply, Row,
};
pub use request::{Call, Read, ReadLevel, Request, SessionCall, Update};
pub use ring::{
    RingCall, RingChange, RingDescription, RingLoad, RingMove, RingPlan, RingTransfer,
    RingTransfers,
};
pub use secret::{ClusterSecret, DerivedKey};
pub use tags::Tags;
pub use token::{JoinToken, JoinTokenTerms, TokenDigest};
pub use wire::UpdateDigest;

/// A key: any bytes, at most [`limits::KEY_BYTES_MAX`]; keys order as unsigned bytes.
pub type Key = bytes::Bytes;
/// A value: any bytes, at most [`limits::VALUE_BYTES_MAX`].
pub type Value = bytes::Bytes;
