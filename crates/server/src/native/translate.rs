//! Translation of a target and its body into a plan: the request to the node, and the form of its
//! answer. Pure.

use super::access::{self, AccessRequest};
use super::admission;
use super::conditional;
use super::confirmation;
use super::declared_indexes;
use super::emptying::{self, EmptyPrefixCall};
use super::feed::{self, FeedForm};
use super::import;
use super::json::{bodies, cluster};
use super::key_pages;
use super::parameters::BUCKETS_PER_PAGE_MAX;
use super::ring;
use super::routes::RouteName;
use super::siblings;
use super::target::{RequestTarget, Tags};
use crate::http::StatusCode;
use base::request::{Call, SessionCall};
use base::rights::Operate;
use base::{
    BucketName, ClusterCall, DirectoryCall, Error, GroupId, JoinTokenTerms, LogIndex, Range, Read,
    Request, RingCall, TokenDigest, Update,
};
use bytes::Bytes;

/// Way in which a request is carried out.
#[derive(Debug, PartialEq)]
pub enum NativePlan {
    /// Request to the node, and the form of its answer.
    Submit(Request, NativeShape),
    /// Read of a range or an index, which is streamed page by page.
    Stream(Request),
    /// Read of a feed, and the form of its answer.
    Feed(Request, FeedForm),
    /// Failed precondition: the condition can't hold.
    PreconditionFailed,
    /// Operation of an operator.
    Operator(OperatorCall),
    /// Plan of a request that does not confirm what it destroys, and the refusal to answer once the
    /// rights are decided.
    Unconfirmed(Box<NativePlan>, Error),
}

/// Form of the answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum NativeShape {
    /// A row as a value, under conditions.
    Value {
        /// `if-match`.
        if_match: Option<Tags>,
        /// `if-none-match`.
        if_none_match: Option<Tags>,
    },
    /// A write: the row's version, or 412 if its condition does not hold.
    Written {
        /// True if the row exists afterwards, because it does not expire at once.
        row_exists: bool,
    },
    /// A delete of a key. Under a condition, an absent or changed row is a failed precondition.
    Deleted {
        /// True if there was a condition.
        has_condition: bool,
    },
    /// The reply's body as JSON.
    Json,
    /// The reply's body as JSON, or 404 if the key has no value.
    Found,
    /// An update's outcome as JSON. A single read in an update's place becomes an outcome, too.
    Updated,
    /// A page of buckets as JSON, with `more` and `continue`.
    Buckets {
        /// Maximum number of buckets in the page.
        rows_max: usize,
    },
    /// A page of keys, without those outside of the range.
    Keys(Range),
    /// One bucket as JSON.
    Bucket,
    /// One declared index as JSON, under this status.
    Index(StatusCode),
    /// Status 201 with the reply's body as JSON.
    CreatedJson,
    /// Status 201 without a body.
    Created,
    /// Status 204.
    Nothing,
}

/// Operation of an operator.
#[derive(Debug, PartialEq)]
pub enum OperatorCall {
    /// Make a checkpoint of this name.
    Checkpoint(String),
    /// List the checkpoints.
    ListCheckpoints,
    /// Remove the checkpoint of this name.
    RemoveCheckpoint(String),
    /// Return the log levels.
    GetLogLevels,
    /// Set these log levels: section, level.
    PutLogLevels(Vec<(String, String)>),
    Reload,
    /// Return the slow log.
    ListSlowRequests,
    /// Remove the entries of the slow log.
    ResetSlowRequests,
    /// Return the hot keys.
    ListHotKeys,
    /// Empty a part of a prefix.
    EmptyPrefix(EmptyPrefixCall),
    /// Return the progress of a bucket's move.
    SeeMove(BucketName),
    /// Return the cluster as this node sees it.
    Cluster,
    /// Transfer a group's mastership to the member of this name.
    Transfer(GroupId, String),
    /// Compare the replicas of a group.
    Verify(GroupId),
    /// Return a decided log entry of a group, to an operator or a node with this token.
    DecidedValue(GroupId, LogIndex, Option<TokenDigest>),
    /// Make a join token by these terms.
    MakeToken(JoinTokenTerms),
    /// Read or change users and roles.
    Access(AccessRequest),
    /// Return the status.
    Status,
    /// Return the metrics.
    Metrics,
    /// Answer the liveness check.
    Live,
    /// Answer the readiness check.
    Ready,
    /// Return the OpenAPI document.
    OpenApi,
}

impl OperatorCall {
    /// Returns the act of operators that the call is. `None`: everybody may do it, a join token
    /// allows it, or it asks by requests that are decided one by one.
    pub fn act(&self) -> Option<Operate> {
        Some(match self {
            OperatorCall::Checkpoint(_) => Operate::MakeCheckpoint,
            OperatorCall::ListCheckpoints => Operate::ListCheckpoints,
            OperatorCall::RemoveCheckpoint(_) => Operate::RemoveCheckpoint,
            OperatorCall::GetLogLevels => Operate::ShowLogLevels,
            OperatorCall::PutLogLevels(_) => Operate::SetLogLevels,
            OperatorCall::Reload => Operate::Reload,
            OperatorCall::ListSlowRequests => Operate::ShowSlowRequests,
            OperatorCall::ResetSlowRequests => Operate::ClearSlowRequests,
            OperatorCall::ListHotKeys => Operate::ShowHotKeys,
            OperatorCall::SeeMove(_) => Operate::ShowMove,
            OperatorCall::Cluster => Operate::ShowCluster,
            OperatorCall::Transfer(..) => Operate::TransferMaster,
            OperatorCall::Verify(_) => Operate::CompareReplicas,
            OperatorCall::DecidedValue(_, _, None) => Operate::ReadLogEntry,
            OperatorCall::Access(AccessRequest::Show | AccessRequest::Check(..)) => {
                Operate::ShowAccess
            }
            OperatorCall::Access(_) => Operate::ChangeAccess,
            OperatorCall::Status => Operate::ShowStatus,
            OperatorCall::Metrics => Operate::ShowMetrics,
            OperatorCall::DecidedValue(_, _, Some(_))
            | OperatorCall::EmptyPrefix(_)
            | OperatorCall::MakeToken(_)
            | OperatorCall::Live
            | OperatorCall::Ready
            | OperatorCall::OpenApi => return None,
        })
    }
}

/// Plans a request.
pub fn plan(mut target: RequestTarget, body: Bytes) -> Result<NativePlan, Error> {
    let confirm = target.query.confirm.clone();
    let plan = match access::parse(&mut target, &body)? {
        Some(request) => NativePlan::Operator(OperatorCall::Access(request)),
        None => plan_other(target, body)?,
    };
    Ok(match check_confirmation(confirm.as_deref(), &plan) {
        Ok(()) => plan,
        Err(error) => NativePlan::Unconfirmed(Box::new(plan), error),
    })
}

/// Fails if a plan destroys what its request does not confirm. `confirm`: the parameter.
fn check_confirmation(confirm: Option<&[u8]>, plan: &NativePlan) -> Result<(), Error> {
    match plan {
        NativePlan::Submit(Request { bucket, call: Call::Directory(call), .. }, _) => {
            confirmation::check_call(confirm, bucket, call)
        }
        NativePlan::Operator(OperatorCall::EmptyPrefix(call)) => {
            confirmation::require(confirm, call.bucket.full())
        }
        NativePlan::Operator(OperatorCall::RemoveCheckpoint(encoded)) => {
            confirmation::check_checkpoint(confirm, encoded)
        }
        NativePlan::Operator(OperatorCall::Access(AccessRequest::Change(call))) => {
            confirmation::check_access_call(confirm, call)
        }
        _ => Ok(()),
    }
}

fn plan_other(mut target: RequestTarget, body: Bytes) -> Result<NativePlan, Error> {
    let (name, level) = (target.route.name, target.query.read_level);
    let (call, shape) = match name {
        RouteName::GetKey | RouteName::HeadKey => {
            let shape = NativeShape::Value {
                if_match: target.if_match.take(),
                if_none_match: target.if_none_match.take(),
            };
            let key = std::mem::take(&mut target.key);
            (Call::Read(Read::Get(key), level), shape)
        }
        RouteName::PutKey | RouteName::DeleteKey => match conditional::write(&mut target, body)? {
            Some((update, shape)) => (Call::Update(update), shape),
            None => return Ok(NativePlan::PreconditionFailed),
        },
        RouteName::Update => (Call::Update(bodies::update(&body)?), NativeShape::Updated),
        RouteName::Sequence => (Call::Update(bodies::sequence(&body)?), NativeShape::Json),
        RouteName::ImportRecords => import::call(&target.query, &body)?,
        RouteName::DeletePrefix => (
            Call::Update(Update::DeletePrefix { prefix: bodies::prefix(&body)? }),
            NativeShape::Json,
        ),
        RouteName::MultiGet => (Call::Read(bodies::multi_get(&body)?, level), NativeShape::Json),
        RouteName::Read => (Call::Read(bodies::read_operation(&body)?, level), NativeShape::Json),
        RouteName::Range | RouteName::QueryIndex => {
            (Call::Read(paged_read(&mut target)?, level), NativeShape::Json)
        }
        RouteName::ListKeys => key_pages::call(std::mem::take(&mut target.query.bounds))?,
        RouteName::Count => (Call::Read(Read::KeyCount, level), NativeShape::Json),
        RouteName::Stream | RouteName::StreamIndex => {
            let call = Call::Read(paged_read(&mut target)?, level);
            let request = Request { bucket: target.bucket, call, retry: None };
            return Ok(NativePlan::Stream(request));
        }
        RouteName::ReadFeed | RouteName::StreamFeed => return feed::plan(target),
        RouteName::OpenSession => (Call::Session(SessionCall::Open), NativeShape::CreatedJson),
        RouteName::CloseSession => {
            (Call::Session(SessionCall::Close(target.session)), NativeShape::Nothing)
        }
        RouteName::Checkpoint
        | RouteName::ListCheckpoints
        | RouteName::RemoveCheckpoint
        | RouteName::GetLogLevels
        | RouteName::PutLogLevels
        | RouteName::Reload
        | RouteName::ListSlowRequests
        | RouteName::ResetSlowRequests
        | RouteName::ListHotKeys
        | RouteName::Cluster
        | RouteName::Status
        | RouteName::Metrics
        | RouteName::Live
        | RouteName::Ready
        | RouteName::MakeToken
        | RouteName::OpenApi => return node_call(target, &body).map(NativePlan::Operator),
        RouteName::SeeMove | RouteName::EmptyPrefix => {
            return bucket_call(target, &body).map(NativePlan::Operator);
        }
        RouteName::Transfer | RouteName::Verify | RouteName::DecidedValue => {
            return group_call(target, &body).map(NativePlan::Operator);
        }
        _ => match siblings::call(&mut target, &body)? {
            Some(planned) => planned,
            None => directory_call(&mut target, &body)?,
        },
    };
    Ok(NativePlan::Submit(Request { bucket: target.bucket, call, retry: target.retry }, shape))
}

/// Returns the read of a range or an index, of which pages are answered.
fn paged_read(target: &mut RequestTarget) -> Result<Read, Error> {
    match target.route.name {
        RouteName::QueryIndex | RouteName::StreamIndex => declared_indexes::read(target),
        _ => std::mem::take(&mut target.query.bounds).into_range().map(Read::Range),
    }
}

fn node_call(target: RequestTarget, body: &[u8]) -> Result<OperatorCall, Error> {
    Ok(match target.route.name {
        RouteName::Checkpoint => OperatorCall::Checkpoint(bodies::target(body)?),
        RouteName::ListCheckpoints => OperatorCall::ListCheckpoints,
        RouteName::RemoveCheckpoint => OperatorCall::RemoveCheckpoint(target.checkpoint),
        RouteName::PutLogLevels => OperatorCall::PutLogLevels(bodies::changes(body)?),
        RouteName::Reload => OperatorCall::Reload,
        RouteName::ListSlowRequests => OperatorCall::ListSlowRequests,
        RouteName::ResetSlowRequests => OperatorCall::ResetSlowRequests,
        RouteName::ListHotKeys => OperatorCall::ListHotKeys,
        RouteName::Cluster => OperatorCall::Cluster,
        RouteName::Status => OperatorCall::Status,
        RouteName::Metrics => OperatorCall::Metrics,
        RouteName::Live => OperatorCall::Live,
        RouteName::Ready => OperatorCall::Ready,
        RouteName::OpenApi => OperatorCall::OpenApi,
        RouteName::MakeToken => OperatorCall::MakeToken(admission::terms(body)?),
        _ => OperatorCall::GetLogLevels,
    })
}

fn bucket_call(target: RequestTarget, body: &[u8]) -> Result<OperatorCall, Error> {
    Ok(match target.route.name {
        RouteName::EmptyPrefix => OperatorCall::EmptyPrefix(emptying::parse(target.bucket, body)?),
        _ => OperatorCall::SeeMove(target.bucket),
    })
}

fn group_call(target: RequestTarget, body: &[u8]) -> Result<OperatorCall, Error> {
    let RequestTarget { route, group, index, token_digest, .. } = target;
    Ok(match route.name {
        RouteName::Transfer => OperatorCall::Transfer(group, cluster::transfer(body)?),
        RouteName::DecidedValue => OperatorCall::DecidedValue(group, index, token_digest),
        _ => OperatorCall::Verify(group),
    })
}

fn directory_call(target: &mut RequestTarget, body: &[u8]) -> Result<(Call, NativeShape), Error> {
    let (call, shape) = match target.route.name {
        RouteName::ListBuckets => {
            let rows_max = target.query.bounds.limit.unwrap_or(BUCKETS_PER_PAGE_MAX);
            let after = target.query.after_bucket.take();
            (DirectoryCall::ListBuckets { after, rows_max }, NativeShape::Buckets { rows_max })
        }
        RouteName::CreateBucket => (bodies::new_bucket(body)?, NativeShape::Created),
        RouteName::MoveBucket => (bodies::move_to(body)?, NativeShape::Nothing),
        RouteName::CancelMove => (DirectoryCall::CancelMove, NativeShape::Nothing),
        RouteName::AlterBucket => {
            (DirectoryCall::AlterBucket(bodies::changes(body)?), NativeShape::Nothing)
        }
        RouteName::DescribeBucket => (DirectoryCall::DescribeBucket, NativeShape::Bucket),
        RouteName::DropBucket => (DirectoryCall::DropBucket, NativeShape::Nothing),
        RouteName::ClearBucket => (DirectoryCall::ClearBucket, NativeShape::Nothing),
        RouteName::ListTypes => (DirectoryCall::ListTypes, NativeShape::Json),
        RouteName::CreateType => {
            (DirectoryCall::CreateType(bodies::changes(body)?), NativeShape::Created)
        }
        RouteName::AlterType => {
            (DirectoryCall::AlterType(bodies::changes(body)?), NativeShape::Nothing)
        }
        RouteName::DropType => (DirectoryCall::DropType, NativeShape::Nothing),
        RouteName::ClearRingPlan => (DirectoryCall::Ring(RingCall::Clear), NativeShape::Nothing),
        RouteName::CommitRing => {
            let epoch = ring::epoch(body)?.or_else(|| confirmation::epoch(&target.query));
            (DirectoryCall::Ring(RingCall::Commit { epoch }), NativeShape::Json)
        }
        RouteName::CreateIndex
        | RouteName::ListIndexes
        | RouteName::DescribeIndex
        | RouteName::DropIndex => declared_indexes::directory_call(target, body)?,
        name @ (RouteName::SeeRing
        | RouteName::ClaimRing
        | RouteName::SeeRingPlan
        | RouteName::StageRing
        | RouteName::CancelRing
        | RouteName::SeeTransfers) => {
            (DirectoryCall::Ring(ring::call(name, body)?), NativeShape::Json)
        }
        _ => return member_call(target, body),
    };
    Ok((Call::Directory(call), shape))
}

fn member_call(target: &mut RequestTarget, body: &[u8]) -> Result<(Call, NativeShape), Error> {
    let name = std::mem::take(&mut target.member);
    let (call, shape) = match target.route.name {
        RouteName::ListMembers => (ClusterCall::Describe, NativeShape::Json),
        RouteName::AddMember => (cluster::add_member(body)?, NativeShape::Json),
        RouteName::UpdateMember => (cluster::update_member(body)?, NativeShape::Nothing),
        RouteName::RemoveMember => (ClusterCall::RemoveMember { name }, NativeShape::Nothing),
        RouteName::ReplaceMember => (cluster::replace_member(body, name)?, NativeShape::Nothing),
        RouteName::RevokeTokens => (ClusterCall::RevokeTokens, NativeShape::Nothing),
        RouteName::MakeSecret => (ClusterCall::MakeSecret, NativeShape::Nothing),
        RouteName::RaiseLevel => (cluster::raise_level(body)?, NativeShape::Nothing),
        RouteName::SetPart => (cluster::set_part(body, name)?, NativeShape::Nothing),
        RouteName::PlaceGroup => (cluster::place_group(body, target.group)?, NativeShape::Nothing),
        RouteName::SetQuorum => (cluster::set_quorum(body, target.group)?, NativeShape::Nothing),
        RouteName::CreateGroup => (cluster::create_group(body)?, NativeShape::CreatedJson),
        RouteName::DropGroup => {
            (ClusterCall::DropGroup { group: target.group }, NativeShape::Nothing)
        }
        other => unreachable!("{other:?} is no route of the directory"),
    };
    let call = match target.token_digest {
        Some(digest) => ClusterCall::WithToken { digest, call: Box::new(call) },
        None => call,
    };
    Ok((Call::Directory(DirectoryCall::Cluster(call)), shape))
}
