//! Needs of routes: what every request of a route needs at least, as its head shows.
//!
//! A request is refused by them before its body is read, so the body of a caller without rights is
//! never parsed. They are never more than what the request needs, which is decided once it is
//! parsed.

use super::routes::RouteName;
use super::target::RequestTarget;
use base::access::Verb;
use base::rights::{KeySet, Need};

/// Needs of which a request has at least one. Empty: the route needs none, or a token allows it.
pub type LeastNeeds<'a> = [Option<Need<'a>>; 3];

/// Returns the least needs of a target's requests.
pub fn least_needs(target: &RequestTarget) -> LeastNeeds<'_> {
    let (bucket, key) = (&target.bucket, &target.key);
    let one = |need| [Some(need), None, None];
    let cluster = |verb| one(Need::Cluster(verb));
    let on_key = |verb| one(Need::Keys(verb, bucket, KeySet::One(key)));
    let on_part = |verb| one(Need::Keys(verb, bucket, KeySet::Part));
    let any_of = |verbs: [Option<Verb>; 3]| {
        verbs.map(|verb| verb.map(|verb| Need::Keys(verb, bucket, KeySet::Part)))
    };
    if target.token_digest.is_some() {
        // The directory checks the token, and what it admits.
        return [None; 3];
    }
    match target.route.name {
        RouteName::GetKey
        | RouteName::HeadKey
        | RouteName::FetchSiblings
        | RouteName::FetchType => on_key(Verb::Read),
        RouteName::PutKey
        | RouteName::DeleteKey
        | RouteName::StoreSibling
        | RouteName::RemoveSiblings
        | RouteName::ChangeType => on_key(Verb::Write),
        RouteName::DescribeBucket
        | RouteName::MultiGet
        | RouteName::ListIndexes
        | RouteName::DescribeIndex => on_part(Verb::Read),
        RouteName::OpenSession
        | RouteName::CloseSession
        | RouteName::ImportRecords
        | RouteName::DeletePrefix => on_part(Verb::Write),
        RouteName::Range
        | RouteName::Stream
        | RouteName::ListKeys
        | RouteName::Count
        | RouteName::QueryIndex
        | RouteName::StreamIndex
        | RouteName::ReadFeed
        | RouteName::StreamFeed => on_part(Verb::List),
        RouteName::Read => any_of([Some(Verb::Read), Some(Verb::List), None]),
        RouteName::EmptyPrefix => any_of([Some(Verb::Write), Some(Verb::List), None]),
        RouteName::Update | RouteName::Sequence => {
            any_of([Some(Verb::Write), Some(Verb::Read), Some(Verb::List)])
        }
        RouteName::CreateBucket
        | RouteName::AlterBucket
        | RouteName::ResetBucket
        | RouteName::DropBucket
        | RouteName::ClearBucket
        | RouteName::CreateIndex
        | RouteName::DropIndex => one(Need::Keys(Verb::Own, bucket, KeySet::All)),
        RouteName::CreateType | RouteName::AlterType | RouteName::DropType => {
            one(Need::Type(Verb::Own, bucket.kind()))
        }
        RouteName::ListBuckets | RouteName::ListTypes => cluster(Verb::List),
        name => match cluster_verb(name) {
            Some(verb) => cluster(verb),
            None => [None; 3],
        },
    }
}

/// Returns the verb on the cluster that a route needs. `None`: everybody may use it, or it is about
/// buckets.
fn cluster_verb(name: RouteName) -> Option<Verb> {
    Some(match name {
        RouteName::SeeMove
        | RouteName::Cluster
        | RouteName::ListMembers
        | RouteName::SeeRing
        | RouteName::SeeRingPlan
        | RouteName::SeeTransfers
        | RouteName::ListCheckpoints
        | RouteName::GetLogLevels
        | RouteName::ListSlowRequests
        | RouteName::ListHotKeys
        | RouteName::Status
        | RouteName::Metrics => Verb::Watch,
        RouteName::Verify
        | RouteName::Checkpoint
        | RouteName::RemoveCheckpoint
        | RouteName::PutLogLevels
        | RouteName::Reload
        | RouteName::ResetSlowRequests => Verb::Operate,
        RouteName::MoveBucket
        | RouteName::CancelMove
        | RouteName::Transfer
        | RouteName::AddMember
        | RouteName::UpdateMember
        | RouteName::RemoveMember
        | RouteName::ReplaceMember
        | RouteName::RaiseLevel
        | RouteName::SetPart
        | RouteName::PlaceGroup
        | RouteName::SetQuorum
        | RouteName::CreateGroup
        | RouteName::DropGroup
        | RouteName::ClaimRing
        | RouteName::StageRing
        | RouteName::ClearRingPlan
        | RouteName::CommitRing
        | RouteName::CancelRing => Verb::Place,
        RouteName::DecidedValue
        | RouteName::MakeToken
        | RouteName::RevokeTokens
        | RouteName::MakeSecret
        | RouteName::ShowAccess
        | RouteName::InitAccess
        | RouteName::SwitchAccess
        | RouteName::CheckAccess
        | RouteName::AddUser
        | RouteName::ChangeUser
        | RouteName::RemoveUser
        | RouteName::SetPassword
        | RouteName::AddApiToken
        | RouteName::RevokeApiToken
        | RouteName::SetQuota
        | RouteName::SetRole
        | RouteName::RemoveRole => Verb::Secure,
        _ => return None,
    })
}
