//! The words everyone knows: plain data and its bytes.
//!
//! A word stands here when two rooms *speak* it: a bucket's name, a request, a reply, an error
//! sorted by what the caller can do, a limit the whole house must agree on.
//!
//! Promises: every type here means the same in every room; `decode` never panics, whatever bytes it
//! is given.
//! Never: imports a room; does anything (no file, socket, clock, thread or chance).
//! Read next: `request.rs`, then `error.rs` and `limits.rs`.

pub mod bucket;
pub mod cluster;
pub mod codec;
pub mod error;
pub mod ids;
pub mod limits;
pub mod range;
pub mod reply;
pub mod request;
pub mod wire;

pub use bucket::{BucketName, Promise, Properties, SyncPolicy};
pub use cluster::{ClusterCall, ClusterDescription, MemberDescription, Part, Placement, Stay};
pub use error::{Error, Kind, Reason, Result};
pub use ids::{
    Ballot, BucketId, ClusterId, ConfigurationId, GroupId, LogIndex, Millis, NodeId, RetryId,
    SessionId, Version,
};
pub use range::{Bound, Range, Want};
pub use reply::{Body, BucketDescription, Entry, Moving, Outcome, Page, Reply, Row};
pub use request::{
    BucketPlace, Call, Consistency, DirectoryCall, MoveStep, Read, Request, SessionCall, Update,
};

/// A key: any bytes, at most [`limits::KEY_BYTES_MAX`]; keys order as unsigned bytes.
pub type Key = bytes::Bytes;
/// A value: any bytes, at most [`limits::VALUE_BYTES_MAX`].
pub type Value = bytes::Bytes;
