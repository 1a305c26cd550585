//! Needs of calls to the directory: buckets, types, members, the ring, users.

use super::need::{KeySet, Need, NeedVisitor};
use crate::access::{AccessCall, Verb};
use crate::index::IndexCall;
use crate::properties::{AUDIT, Changes};
use crate::{BucketName, ClusterCall, DirectoryCall, Result, RingCall};

/// Passes the needs of a call to `visit`.
pub(super) fn needs(
    bucket: &BucketName,
    call: &DirectoryCall,
    visit: &mut NeedVisitor<'_>,
) -> Result<()> {
    match call {
        DirectoryCall::CreateBucket(changes)
        | DirectoryCall::PlaceBucket { changes, place: _ }
        | DirectoryCall::AlterBucket(changes) => {
            visit(Need::Keys(Verb::Own, bucket, KeySet::All))?;
            audit_needs(changes, visit)
        }
        DirectoryCall::ResetBucket | DirectoryCall::DropBucket | DirectoryCall::ClearBucket => {
            visit(Need::Keys(Verb::Own, bucket, KeySet::All))
        }
        DirectoryCall::DescribeBucket => visit(Need::Keys(Verb::Read, bucket, KeySet::Part)),
        DirectoryCall::CreateType(changes) | DirectoryCall::AlterType(changes) => {
            visit(Need::Type(Verb::Own, bucket.kind()))?;
            audit_needs(changes, visit)
        }
        DirectoryCall::DropType => visit(Need::Type(Verb::Own, bucket.kind())),
        DirectoryCall::ListBuckets { after: _, rows_max: _ } | DirectoryCall::ListTypes => {
            visit(Need::Cluster(Verb::List))
        }
        DirectoryCall::MoveBucket { group: _ } | DirectoryCall::CancelMove => {
            visit(Need::Cluster(Verb::Place))
        }
        DirectoryCall::StepMove { id: _, moving: _, step: _ } => visit(Need::Member),
        DirectoryCall::Cluster(call) => cluster_needs(call, visit),
        DirectoryCall::Ring(call) => ring_needs(call, visit),
        DirectoryCall::Access(call) => access_needs(call, visit),
        DirectoryCall::Index(call) => index_needs(bucket, call, visit),
    }
}

/// Passes the needs of a call about indexes to `visit`: they are changed like properties.
fn index_needs(bucket: &BucketName, call: &IndexCall, visit: &mut NeedVisitor<'_>) -> Result<()> {
    match call {
        IndexCall::Create(_) | IndexCall::Drop { name: _ } => {
            visit(Need::Keys(Verb::Own, bucket, KeySet::All))
        }
        IndexCall::Describe { name: _ } | IndexCall::List => {
            visit(Need::Keys(Verb::Read, bucket, KeySet::Part))
        }
        IndexCall::Report(_) => visit(Need::Member),
    }
}

/// Passes to `visit` what changes of properties need beyond `own`. Whose operations are recorded is
/// not for their owner to decide, and the change itself must be in the audit log before it is done.
fn audit_needs(changes: &Changes, visit: &mut NeedVisitor<'_>) -> Result<()> {
    match changes.iter().any(|(name, _)| name == AUDIT) {
        true => visit(Need::Cluster(Verb::Secure)),
        false => Ok(()),
    }
}

fn cluster_needs(call: &ClusterCall, visit: &mut NeedVisitor<'_>) -> Result<()> {
    match call {
        ClusterCall::Describe => visit(Need::Cluster(Verb::Watch)),
        ClusterCall::AddMember { member: _, part: _, lease_ms: _, level: _ }
        | ClusterCall::UpdateMember { node: _, name: _, peer: _, client: _ }
        | ClusterCall::RemoveMember { name: _ }
        | ClusterCall::ReplaceMember { name: _, by: _ }
        | ClusterCall::SetPart { name: _, part: _, group: _ }
        | ClusterCall::PlaceGroup { group: _, members: _ }
        | ClusterCall::SetQuorum { group: _, quorum: _ }
        | ClusterCall::RaiseLevel { level: _ }
        | ClusterCall::CreateGroup { replicas: _, members: _ }
        | ClusterCall::DropGroup { group: _ } => visit(Need::Cluster(Verb::Place)),
        // The directory checks the token, and which calls it admits.
        ClusterCall::WithToken { digest: _, call: _ } => Ok(()),
        ClusterCall::AddToken { digest: _, terms: _ }
        | ClusterCall::RevokeTokens
        | ClusterCall::MakeSecret => visit(Need::Cluster(Verb::Secure)),
    }
}

fn ring_needs(call: &RingCall, visit: &mut NeedVisitor<'_>) -> Result<()> {
    match call {
        RingCall::Describe | RingCall::Plan | RingCall::Transfers => {
            visit(Need::Cluster(Verb::Watch))
        }
        RingCall::Claim
        | RingCall::Stage(_)
        | RingCall::Clear
        | RingCall::Commit { epoch: _ }
        | RingCall::Cancel => visit(Need::Cluster(Verb::Place)),
        RingCall::Received { since: _, partition: _, node: _ }
        | RingCall::Cleared { partition: _, partitions: _, node: _ } => visit(Need::Member),
    }
}

fn access_needs(call: &AccessCall, visit: &mut NeedVisitor<'_>) -> Result<()> {
    match call {
        AccessCall::Switch { on: _ }
        | AccessCall::Init { password: _ }
        | AccessCall::AddUser { name: _, password: _, roles: _ }
        | AccessCall::ChangeUser { name: _, roles: _, enabled: _, certificates: _ }
        | AccessCall::SetPassword { name: _, password: _ }
        | AccessCall::RemoveUser { name: _ }
        | AccessCall::AddApiToken { digest: _, user: _, label: _, roles: _, lifetime_ms: _ }
        | AccessCall::RevokeApiToken { user: _, label: _ }
        | AccessCall::SetRole { name: _, grants: _ }
        | AccessCall::RemoveRole { name: _ }
        | AccessCall::SetQuota { user: _, quota: _ } => visit(Need::Cluster(Verb::Secure)),
    }
}
