//! Calls to the directory: buckets and their types, indexes, members, the ring, users.

use crate::bucket::BucketName;
use crate::cluster::ClusterCall;
use crate::index::IndexCall;
use crate::properties::Changes;
use crate::ring::RingCall;
use crate::{BucketId, GroupId};

/// Call to the directory.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectoryCall {
    /// Creates a bucket of its name's type. `Body::Done`.
    CreateBucket(Changes),
    /// Changes a bucket's properties. `Body::Done`.
    AlterBucket(Changes),
    /// Drops a bucket: a metadata operation; its space returns in the background. `Body::Done`.
    DropBucket,
    /// Empties a bucket of any size: a metadata operation, like a drop and a create at one instant.
    /// `Body::Done`.
    ClearBucket,
    /// Describes the bucket: `Body::Buckets` with one element.
    DescribeBucket,
    /// Lists the buckets after this full name: `Body::Buckets`.
    ListBuckets {
        /// The last full name of the page before.
        after: Option<BucketName>,
        /// Most buckets in the answer.
        rows_max: usize,
    },
    /// Creates a bucket type; the request's bucket names the type, its name part is ignored.
    CreateType(Changes),
    /// Changes a type's template; buckets made before keep their properties.
    AlterType(Changes),
    /// Drops a type that has no buckets.
    DropType,
    /// Lists the types: `Body::Types`.
    ListTypes,
    /// Call about members and placement; the request's bucket is ignored.
    Cluster(ClusterCall),
    /// Creates a bucket of its name's type in a chosen group. `Body::Done`.
    PlaceBucket {
        /// Properties that differ from its type's.
        changes: Changes,
        /// Group to create it in.
        place: BucketPlace,
    },
    /// Begins to move a bucket to another group; its rows are copied first, then it switches.
    /// Idempotent. `Body::Done`.
    MoveBucket {
        /// Target group.
        group: GroupId,
    },
    /// Cancels a move: the bucket stays in its group. `Body::Done`.
    CancelMove,
    /// Carries out the next step of a move; nodes send it, not clients. `Body::Done`.
    StepMove {
        /// Number of the bucket in its current group; the call has no effect if it is another.
        id: BucketId,
        /// Number of the bucket in the target group; the call has no effect if it is another.
        moving: BucketId,
        /// Step to carry out.
        step: MoveStep,
    },
    /// Call about the ring of available buckets; the request's bucket is ignored.
    Ring(RingCall),
    /// Removes the properties that an available bucket overrides, so that its type's apply.
    /// `Body::Done`.
    ResetBucket,
    /// Change of users, roles, tokens or the switch of access; the request's bucket is ignored.
    Access(crate::AccessCall),
    /// Call about the declared indexes of the bucket.
    Index(IndexCall),
}

/// Place of a new bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPlace {
    /// Group with this number.
    Group(GroupId),
    /// Number of voters of the group, which is the one of that size with the fewest buckets.
    Replicas(u32),
}

/// A step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// Copying starts over, under another bucket number.
    Renew,
    /// Copying is complete: the bucket switches to the target group.
    Finish,
}
