//! The JSON of the control plane: a struct for each body that operators and their tools send or
//! read, shared by the front-end that writes it and the clients that read it.
//!
//! Promises: a name or a value of a field has one place in the code; descriptions in the OpenAPI
//! document are the comments of the fields. An answer with unknown fields is read, and one without
//! fields that are here, too: old and new programs mix.
//! Never: does anything; knows how a node makes these values, or how they travel.
//! Read next: `cluster.rs`, `status.rs`, then `schema.rs` (from structs to schemas).

mod blob;
mod buckets;
mod cluster;
mod errors;
mod members;
mod number;
mod operations;
mod ring;
mod rows;
pub mod schema;
mod status;
mod words;

pub use blob::Blob;
pub use buckets::{
    BucketMove, BucketMoveProgress, BucketProperties, BucketReply, BucketType, Buckets, MoveTo,
    MovesTo, NewBucket, Types,
};
pub use cluster::{
    ClusterStatus, ComparedReplica, Comparison, Difference, GroupMember, MemberStatus, Pass,
    PlaceStatus,
};
pub use errors::{ErrorDetail, ErrorReply};
pub use members::{
    ChangedMember, DesiredMember, DesiredMembers, DesiredQuorum, GroupPlacement, JoinTokenReply,
    Joined, MasterTransfer, MemberReply, Members, NewGroup, NewMember, NewToken, PartChange,
    PlacedPart, Replacement,
};
pub use number::{HexId, Whole};
pub use operations::{
    Checkpoint, CheckpointTarget, Checkpoints, Emptied, EmptyPrefix, SectionLevels,
    StoredCheckpoint,
};
pub use ring::{
    Ring, RingChange, RingEpoch, RingLoad, RingMove, RingPlan, RingTransfer, RingTransfers,
};
pub use rows::{
    EntryReply, KeyCount, KeyPage, PageReply, RowReply, RowsReply, SiblingReply, SiblingsReply,
    StoredReply,
};
pub use status::{
    AvailableStatus, DiskStatus, GroupStatus, HintsStatus, ListenerStatus, LogStatus, MemoryStatus,
    NodeStatus, RequestCounts, SnapshotStatus, StoreStatus,
};
