//! The JSON of the control plane: a struct for each body that operators and their tools send or
//! read, shared by the front-end that writes it and the clients that read it.
//!
//! Promises: a name or a value of a field has one place in the code; descriptions in the OpenAPI
//! document are the comments of the fields. An answer with unknown fields is accepted, and so is
//! one that lacks fields defined here: old and new programs mix.
//! Never: contains logic; depends on how a node computes these values, or on their transport.
//! Read next: `cluster.rs`, `status.rs`, then `schema.rs` (from structs to schemas).

mod access;
mod alarm;
mod blob;
mod buckets;
mod cluster;
mod errors;
mod feed;
mod indexes;
mod members;
mod names;
mod number;
mod operations;
mod reload;
mod ring;
mod rows;
pub mod schema;
mod secret_text;
mod status;

pub use access::{
    AccessDecision, AccessQuestion, AccessState, AccessSwitch, Administrator, ApiTokenReply,
    NewApiToken, NewPassword, NewUser, RoleGrants, RoleReply, TokenReply, UserChange, UserQuota,
    UserReply, UserUse,
};
pub use alarm::Alarm;
pub use blob::Blob;
pub use buckets::{
    BucketMove, BucketMoveProgress, BucketProperties, BucketReply, BucketType, Buckets,
    MoveRequest, MoveTarget, NewBucket, Types,
};
pub use cluster::{
    ClusterStatus, ComparedReplica, Comparison, ComparisonPass, Difference, GroupMember,
    MemberStatus, PlaceStatus,
};
pub use errors::{ErrorDetail, ErrorReply};
pub use feed::{FeedEventReply, FeedPageReply, FeedTokenReply};
pub use indexes::{IndexPageReply, IndexReply, IndexRowReply, Indexes, NewIndex};
pub use members::{
    DesiredMember, DesiredMembers, DesiredQuorum, GroupPlacement, JoinReply, JoinTokenReply,
    LevelChange, MasterTransfer, MemberReply, MemberUpdate, Members, NewGroup, NewMember, NewToken,
    PartChange, PlacedPart, Replacement,
};
pub use number::{HexId, Integer};
pub use operations::{
    Checkpoint, CheckpointTarget, Checkpoints, EmptyPrefix, EmptyPrefixProgress, EntryStages,
    HotKey, HotKeys, SectionLevels, SlowRequest, SlowRequests, SlowStages, StoredCheckpoint,
};
pub use reload::{ReloadReply, SettingChange};
pub use ring::{
    Ring, RingChange, RingEpoch, RingLoad, RingMove, RingPlan, RingTransfer, RingTransfers,
};
pub use rows::{
    EntryReply, KeyCount, KeyPage, PageReply, RowReply, RowsReply, SiblingReply, SiblingsReply,
    StoredReply,
};
pub use secret_text::SecretText;
pub use status::{
    AvailableStatus, DiskStatus, GroupStatus, HintsStatus, ListenerStatus, LogStatus, MemoryStatus,
    NodeStatus, RequestCounts, SnapshotStatus, StoreStatus, TaskBeat,
};
