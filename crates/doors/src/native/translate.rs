//! From a target and its body to a plan: what to ask the node, and how its reply is to be told.
//! Pure.

use super::admission;
use super::emptying::{self, Emptying};
use super::errors::malformed;
use super::json::{bodies, cluster};
use super::key_pages;
use super::parameters::BUCKETS_PER_PAGE_MAX;
use super::ring;
use super::routes::Name;
use super::siblings;
use super::target::{Tags, Target};
use base::request::{Call, Expiry, Missing, SessionCall, Steps, When};
use base::{
    BucketName, ClusterCall, DirectoryCall, Error, GroupId, LogIndex, Range, Read, Request,
    RingCall, TokenDigest, Update, Version,
};
use bytes::Bytes;

/// What is to be done for a request.
#[derive(Debug, PartialEq)]
pub enum Plan {
    /// Ask the node, tell its reply in this shape.
    Ask(Request, Shape),
    /// Ask for page after page.
    Stream(Request, Range),
    /// A condition that can't hold.
    ConditionFails,
    /// Something of the operators.
    Operate(Operate),
}

/// How a reply is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A row as a value, under conditions.
    Value {
        /// `if-match`.
        if_match: Option<Tags>,
        /// `if-none-match`.
        if_none_match: Option<Tags>,
    },
    /// A write: the row's version, or that its condition failed.
    Written {
        /// The row is there behind it: it did not expire at once.
        stays: bool,
    },
    /// A delete of a key; under a condition an absent or changed row is a failed precondition.
    Deleted {
        /// There was a condition.
        conditional: bool,
    },
    /// The reply's body as JSON, with these fields.
    Json,
    /// The same of a key; 404 if it has nothing.
    Found,
    /// An outcome as JSON; a lone read among the updates is one too.
    Updated,
    /// The same, of reads among an operation's words.
    Buckets {
        /// Most buckets asked.
        rows_max: usize,
    },
    /// A page of keys, of which those outside of the range are left out.
    Keys(Range),
    /// One bucket.
    Bucket,
    /// 201 with the reply's body as JSON.
    CreatedJson,
    /// 201.
    Created,
    /// 204.
    Nothing,
}

/// What operators ask.
#[derive(Debug, PartialEq)]
pub enum Operate {
    /// A checkpoint.
    Checkpoint(String),
    /// The checkpoints that are there.
    ListCheckpoints,
    /// A checkpoint is removed, by name.
    RemoveCheckpoint(String),
    /// The log's levels.
    GetLogLevels,
    /// Other levels of the log.
    PutLogLevels(Vec<(String, String)>),
    /// A part of a prefix is emptied.
    EmptyPrefix(Emptying),
    /// How far a bucket's move is.
    SeeMove(BucketName),
    /// The cluster as this node sees it.
    Cluster,
    /// Another master for a group, by name.
    Transfer(GroupId, String),
    /// Compare a group's replicas.
    Verify(GroupId),
    /// A decided value of a group, for an operator or one who shows this token.
    DecidedValue(GroupId, LogIndex, Option<TokenDigest>),
    /// A join token, for so many milliseconds or until all are revoked.
    MakeToken(Option<u64>),
    /// Status.
    Status,
    /// Metrics.
    Metrics,
    /// Health.
    Live,
    /// Health.
    Ready,
    /// The OpenAPI document.
    OpenApi,
}

/// Makes the plan.
pub fn plan(mut target: Target, body: Bytes) -> Result<Plan, Error> {
    let name = target.route.name;
    let (call, shape) = match name {
        Name::GetKey | Name::HeadKey => {
            let shape = Shape::Value {
                if_match: target.if_match.take(),
                if_none_match: target.if_none_match.take(),
            };
            let key = std::mem::take(&mut target.key);
            (Call::Read(Read::Get(key), target.query.consistency), shape)
        }
        Name::PutKey => match put(&mut target, body)? {
            Some((update, shape)) => (Call::Update(update), shape),
            None => return Ok(Plan::ConditionFails),
        },
        Name::DeleteKey => match delete(&mut target)? {
            Some((update, shape)) => (Call::Update(update), shape),
            None => return Ok(Plan::ConditionFails),
        },
        Name::Update => (Call::Update(bodies::update(&body)?), Shape::Updated),
        Name::Sequence => (Call::Update(bodies::sequence(&body)?), Shape::Json),
        Name::DeletePrefix => {
            (Call::Update(Update::DeletePrefix { prefix: bodies::prefix(&body)? }), Shape::Json)
        }
        Name::MultiGet => {
            (Call::Read(bodies::multi_get(&body)?, target.query.consistency), Shape::Json)
        }
        Name::Read => {
            (Call::Read(bodies::read_operation(&body)?, target.query.consistency), Shape::Json)
        }
        Name::Range => {
            let range = std::mem::take(&mut target.query.bounds).into_range()?;
            (Call::Read(Read::Range(range), target.query.consistency), Shape::Json)
        }
        Name::ListKeys => key_pages::call(std::mem::take(&mut target.query.bounds))?,
        Name::Count => (Call::Read(Read::KeyCount, target.query.consistency), Shape::Json),
        Name::Stream => {
            let range = std::mem::take(&mut target.query.bounds).into_range()?;
            let call = Call::Read(Read::Range(range.clone()), target.query.consistency);
            let request = Request { bucket: target.bucket, call, retry: None };
            return Ok(Plan::Stream(request, range));
        }
        Name::OpenSession => (Call::Session(SessionCall::Open), Shape::CreatedJson),
        Name::CloseSession => (Call::Session(SessionCall::Close(target.session)), Shape::Nothing),
        Name::Checkpoint
        | Name::ListCheckpoints
        | Name::RemoveCheckpoint
        | Name::GetLogLevels
        | Name::PutLogLevels => return of_node(target, &body).map(Plan::Operate),
        Name::SeeMove | Name::EmptyPrefix => return of_bucket(target, &body).map(Plan::Operate),
        Name::Cluster => return Ok(Plan::Operate(Operate::Cluster)),
        Name::Transfer | Name::Verify | Name::DecidedValue => {
            return of_group(target, &body).map(Plan::Operate);
        }
        Name::MakeToken => {
            return Ok(Plan::Operate(Operate::MakeToken(admission::lifetime(&body)?)));
        }
        Name::Status => return Ok(Plan::Operate(Operate::Status)),
        Name::Metrics => return Ok(Plan::Operate(Operate::Metrics)),
        Name::Live => return Ok(Plan::Operate(Operate::Live)),
        Name::Ready => return Ok(Plan::Operate(Operate::Ready)),
        Name::OpenApi => return Ok(Plan::Operate(Operate::OpenApi)),
        _ => match siblings::call(&mut target, &body)? {
            Some(asked) => asked,
            None => directory(&mut target, &body)?,
        },
    };
    Ok(Plan::Ask(Request { bucket: target.bucket, call, retry: target.retry }, shape))
}

fn of_node(target: Target, body: &[u8]) -> Result<Operate, Error> {
    Ok(match target.route.name {
        Name::Checkpoint => Operate::Checkpoint(bodies::target(body)?),
        Name::ListCheckpoints => Operate::ListCheckpoints,
        Name::RemoveCheckpoint => Operate::RemoveCheckpoint(target.checkpoint),
        Name::PutLogLevels => Operate::PutLogLevels(bodies::changes(body)?),
        _ => Operate::GetLogLevels,
    })
}

fn of_bucket(target: Target, body: &[u8]) -> Result<Operate, Error> {
    Ok(match target.route.name {
        Name::EmptyPrefix => Operate::EmptyPrefix(emptying::read(target.bucket, body)?),
        _ => Operate::SeeMove(target.bucket),
    })
}

fn of_group(target: Target, body: &[u8]) -> Result<Operate, Error> {
    let Target { route, group, index, shown, .. } = target;
    Ok(match route.name {
        Name::Transfer => Operate::Transfer(group, cluster::transfer(body)?),
        Name::DecidedValue => Operate::DecidedValue(group, index, shown),
        _ => Operate::Verify(group),
    })
}

fn directory(target: &mut Target, body: &[u8]) -> Result<(Call, Shape), Error> {
    let (call, shape) = match target.route.name {
        Name::ListBuckets => {
            let rows_max = target.query.bounds.limit.unwrap_or(BUCKETS_PER_PAGE_MAX);
            let after = target.query.after_bucket.take();
            (DirectoryCall::ListBuckets { after, rows_max }, Shape::Buckets { rows_max })
        }
        Name::CreateBucket => (bodies::new_bucket(body)?, Shape::Created),
        Name::MoveBucket => (bodies::move_to(body)?, Shape::Nothing),
        Name::CancelMove => (DirectoryCall::CancelMove, Shape::Nothing),
        Name::AlterBucket => (DirectoryCall::AlterBucket(bodies::changes(body)?), Shape::Nothing),
        Name::DescribeBucket => (DirectoryCall::DescribeBucket, Shape::Bucket),
        Name::DropBucket => (DirectoryCall::DropBucket, Shape::Nothing),
        Name::ClearBucket => (DirectoryCall::ClearBucket, Shape::Nothing),
        Name::ListTypes => (DirectoryCall::ListTypes, Shape::Json),
        Name::CreateType => (DirectoryCall::CreateType(bodies::changes(body)?), Shape::Created),
        Name::AlterType => (DirectoryCall::AlterType(bodies::changes(body)?), Shape::Nothing),
        Name::DropType => (DirectoryCall::DropType, Shape::Nothing),
        Name::ClearRingPlan => (DirectoryCall::Ring(RingCall::Clear), Shape::Nothing),
        name @ (Name::SeeRing
        | Name::ClaimRing
        | Name::SeeRingPlan
        | Name::StageRing
        | Name::CommitRing
        | Name::CancelRing
        | Name::SeeTransfers) => (DirectoryCall::Ring(ring::call(name, body)?), Shape::Json),
        _ => return members(target, body),
    };
    Ok((Call::Directory(call), shape))
}

fn members(target: &mut Target, body: &[u8]) -> Result<(Call, Shape), Error> {
    let name = std::mem::take(&mut target.member);
    let (call, shape) = match target.route.name {
        Name::ListMembers => (ClusterCall::Describe, Shape::Json),
        Name::AddMember => (cluster::add_member(body)?, Shape::Json),
        Name::UpdateMember => (cluster::update_member(body)?, Shape::Nothing),
        Name::RemoveMember => (ClusterCall::RemoveMember { name }, Shape::Nothing),
        Name::ReplaceMember => (cluster::replace_member(body, name)?, Shape::Nothing),
        Name::RevokeTokens => (ClusterCall::RevokeTokens, Shape::Nothing),
        Name::MakeSecret => (ClusterCall::MakeSecret, Shape::Nothing),
        Name::SetPart => (cluster::set_part(body, name)?, Shape::Nothing),
        Name::PlaceGroup => (cluster::place_group(body, target.group)?, Shape::Nothing),
        Name::SetQuorum => (cluster::set_quorum(body, target.group)?, Shape::Nothing),
        Name::CreateGroup => (cluster::create_group(body)?, Shape::CreatedJson),
        Name::DropGroup => (ClusterCall::DropGroup { group: target.group }, Shape::Nothing),
        other => unreachable!("{other:?} is no route of the directory"),
    };
    let call = match target.shown {
        Some(digest) => ClusterCall::Shown { digest, call: Box::new(call) },
        None => call,
    };
    Ok((Call::Directory(DirectoryCall::Cluster(call)), shape))
}

/// A write under its conditions, as one update; `None` if they can't hold.
fn put(target: &mut Target, value: Bytes) -> Result<Option<(Update, Shape)>, Error> {
    let key = std::mem::take(&mut target.key);
    let expiry = target.query.expiry;
    let shape = Shape::Written { stays: expiry != Expiry::After(0) };
    let when = match (&target.if_match, &target.if_none_match) {
        (None, None) => return Ok(Some((Update::Set { key, value, expiry }, shape))),
        (Some(Tags::Any), None) => When::Present,
        (None, Some(Tags::Any)) => When::Absent,
        (Some(Tags::These(tags)), None) => match tags[..] {
            [Some(version)] => When::Unchanged(Version(version)),
            [None] => return Ok(None),
            _ => return Err(malformed("a write compares with one version")),
        },
        (_, Some(Tags::These(_))) => {
            return Err(malformed("a write takes `if-none-match: *` alone"));
        }
        // A row can't be there and absent.
        (Some(_), Some(_)) => return Ok(None),
    };
    Ok(Some((Update::SetIf { key, value, expiry, when }, shape)))
}

/// A delete under its condition, as one update; `None` if it can't hold.
fn delete(target: &mut Target) -> Result<Option<(Update, Shape)>, Error> {
    let key = std::mem::take(&mut target.key);
    let conditional = |update| Ok(Some((update, Shape::Deleted { conditional: true })));
    if target.if_none_match.is_some() {
        return Err(malformed("a delete takes `if-match` alone"));
    }
    match &target.if_match {
        None => {
            let update = Update::Delete { key, missing: Missing::Skipped };
            Ok(Some((update, Shape::Deleted { conditional: false })))
        }
        Some(Tags::Any) => conditional(Update::Delete { key, missing: Missing::Fails }),
        Some(Tags::These(tags)) => match tags[..] {
            [Some(version)] => conditional(Update::Sequence {
                steps: vec![
                    Update::AssertVersion { key: key.clone(), version: Some(Version(version)) },
                    Update::Delete { key, missing: Missing::Fails },
                ],
                mode: Steps::AllOrNothing,
            }),
            [None] => Ok(None),
            _ => Err(malformed("a delete compares with one version")),
        },
    }
}
