//! Examples of each variant, made from a few keys, values and numbers: input of the laws and of the
//! golden bytes.

use crate::properties::{Consistency, Properties, SyncPolicy};
use crate::range::{Bound, Direction, Extent, Range, RowContent};
use crate::reply::{Body, BucketDescription, Entry, MoveDestination, Outcome, Page, Row};
use crate::request::{
    BucketPlace, Call, DirectoryCall, ExpireWhen, Expiry, MoveStep, OnMissing, Read, ReadLevel,
    SequenceMode, SessionCall, Update, When,
};
use crate::{
    BucketId, BucketName, ClusterCall, ClusterDescription, ClusterId, ClusterSecret, Error,
    FeatureLevel, GroupId, JoinTokenTerms, Key, LogIndex, MemberDescription, Membership, NodeId,
    Part, Placement, Reason, SessionId, TokenDigest, Value, Version,
};
use bytes::Bytes;

/// Data that the examples are made of.
#[derive(Clone, Debug)]
pub struct ExampleData {
    pub keys: [Key; 2],
    pub values: [Value; 2],
    pub numbers: [u64; 2],
    pub float: f64,
    pub flag: bool,
}

impl ExampleData {
    fn optional_value(&self) -> Option<Value> {
        self.flag.then(|| self.values[1].clone())
    }

    fn row(&self) -> Row {
        let expires_in_ms = self.flag.then_some(self.numbers[1]);
        let (value, version) = (self.values[0].clone(), Version(self.numbers[0]));
        Row { value, version, expires_in_ms, tags: None }
    }
}

pub fn reads(data: &ExampleData) -> Vec<Read> {
    let [key, other] = data.keys.clone();
    let rows_max = data.flag.then_some(data.numbers[0] as usize);
    let low = Bound::Included(key.clone());
    let range = Range { low, high: Bound::Excluded(other.clone()), rows_max, ..Range::default() };
    let descending = Range {
        low: Bound::Open,
        direction: Direction::Descending,
        rows_max: None,
        bytes_max: Some(data.numbers[1] as usize),
        want: RowContent::Keys,
        extent: Extent::Whole,
        ..range.clone()
    };
    vec![
        Read::Get(key.clone()),
        Read::Exists(Vec::new()),
        Read::MultiGet(vec![key.clone(), other.clone()]),
        Read::MultiGetAll(vec![other.clone()]),
        Read::Range(range),
        Read::KeyCount,
        Read::Assert { key: key.clone(), expected: data.optional_value() },
        Read::AssertExists(other),
        Read::Range(descending),
    ]
}

/// The updates, each with all its options; the first 21 are one of each variant, in their order.
pub fn updates(data: &ExampleData) -> Vec<Update> {
    let [key, to] = data.keys.clone();
    let [value, _] = data.values.clone();
    let [ms, number] = data.numbers;
    let optional = data.optional_value();
    let mut updates = writes(data);
    updates.extend([
        Update::AssertExists { key: key.clone() },
        Update::AssertRange { prefix: key.clone(), keys: vec![to.clone(), key.clone()] },
        Update::AssertVersion { key: key.clone(), version: data.flag.then_some(Version(number)) },
        Update::DeletePrefix { prefix: key.clone() },
        Update::Add { key: key.clone(), delta: ms.cast_signed() },
        Update::AddFloat { key: key.clone(), delta: data.float },
        Update::Append { key: key.clone(), value: value.clone() },
        Update::SetRange { key: key.clone(), offset: number as usize, value: value.clone() },
        Update::Rename { from: key.clone(), to: to.clone(), when: When::Always },
        Update::Copy { from: key.clone(), to: to.clone(), when: When::Absent },
        Update::Expire { key: key.clone(), expiry: Expiry::After(ms), when: ExpireWhen::HasNone },
        Update::Read(Read::Get(to.clone())),
        Update::Nop,
        Update::Sequence { steps: vec![Update::Nop], mode: SequenceMode::AllOrNothing },
    ]);
    let nested = Update::Sequence { steps: updates.clone(), mode: SequenceMode::EachAlone };
    updates.push(Update::Sequence { steps: vec![nested, Update::Nop], mode: SequenceMode::Synced });
    updates.push(Update::Delete { key: key.clone(), missing: OnMissing::Skip });
    updates.push(Update::Assert { key: key.clone(), expected: optional.clone() });
    for when in [When::Present, When::Unchanged(Version(number))] {
        let (key, value) = (key.clone(), value.clone());
        updates.push(Update::SetIf { key, value, expiry: Expiry::Never, when });
    }
    use ExpireWhen::{Always, HasOne, Later, Sooner};
    for when in [Always, HasOne, Later, Sooner] {
        updates.push(Update::Expire { key: key.clone(), expiry: Expiry::Default, when });
    }
    updates.extend(reads(data).into_iter().map(Update::Read));
    updates
}

/// Call with an expiry condition that older versions of the protocol lack.
pub fn expiry_call(data: &ExampleData) -> Call {
    let (key, when) = (data.keys[0].clone(), ExpireWhen::HasLater);
    Call::Update(Update::Expire { key, expiry: Expiry::After(9), when })
}

/// Batch sequence, a mode that older versions of the protocol lack.
pub fn batch_call() -> Call {
    Call::Update(Update::Sequence { steps: vec![Update::Nop], mode: SequenceMode::Batch })
}

/// The first seven updates.
fn writes(data: &ExampleData) -> Vec<Update> {
    let [key, _] = data.keys.clone();
    let [value, _] = data.values.clone();
    let expiry = if data.flag { Expiry::Default } else { Expiry::After(data.numbers[0]) };
    let optional = data.optional_value();
    vec![
        Update::Set { key: key.clone(), value: value.clone(), expiry },
        Update::SetIf {
            key: key.clone(),
            value: value.clone(),
            expiry: Expiry::Keep,
            when: When::Always,
        },
        Update::Delete { key: key.clone(), missing: OnMissing::Fail },
        Update::TestAndSet { key: key.clone(), expected: optional.clone(), wanted: None },
        Update::Replace { key: key.clone(), wanted: optional.clone() },
        Update::Confirm { key: key.clone(), value },
        Update::Assert { key, expected: optional },
    ]
}

pub fn calls(data: &ExampleData) -> Vec<Call> {
    let reads = reads(data);
    let levels =
        [ReadLevel::Consistent, ReadLevel::Dirty, ReadLevel::AtLeast(LogIndex(data.numbers[0]))];
    let level_cycle = levels.into_iter().cycle();
    let mut calls: Vec<Call> =
        reads.into_iter().zip(level_cycle).map(|(read, level)| Call::Read(read, level)).collect();
    calls.extend(updates(data).into_iter().map(Call::Update));
    let changes = vec![("sync".to_string(), "interval".to_string())];
    let [_, number] = data.numbers;
    let rows_max = number as usize;
    calls.extend(
        [
            DirectoryCall::CreateBucket(changes.clone()),
            DirectoryCall::AlterBucket(Vec::new()),
            DirectoryCall::DropBucket,
            DirectoryCall::ClearBucket,
            DirectoryCall::DescribeBucket,
            DirectoryCall::ListBuckets { after: data.flag.then(BucketName::default), rows_max },
            DirectoryCall::CreateType(Vec::new()),
            DirectoryCall::AlterType(changes),
            DirectoryCall::DropType,
            DirectoryCall::ListTypes,
        ]
        .map(Call::Directory),
    );
    calls.extend([SessionCall::Open, SessionCall::Close(SessionId(number))].map(Call::Session));
    calls
}

pub fn outcomes(data: &ExampleData) -> Vec<Outcome> {
    let [one, two] = data.numbers;
    let old = data.optional_value();
    let mut outcomes = vec![
        Outcome::Done,
        Outcome::Applied(data.flag),
        Outcome::Existed(!data.flag),
        Outcome::Old(old.clone()),
        Outcome::Swapped { written: data.flag, old },
        Outcome::Count(one),
        Outcome::Number(two.cast_signed()),
        Outcome::Text(data.values[0].clone()),
        Outcome::Length(one),
        Outcome::Read(Box::new(Body::Row(Some(data.row())))),
        Outcome::Steps(Vec::new()),
        Outcome::AppliedAt(LogIndex(two)),
    ];
    let mut steps: Vec<_> = outcomes.iter().cloned().map(Ok).collect();
    steps.push(Err(Error::key(Reason::AssertionFailed, &data.keys[0])));
    outcomes.push(Outcome::Steps(vec![Ok(Outcome::Steps(steps)), Ok(Outcome::Done)]));
    outcomes
}

/// The bodies; the first nine are one of each variant, in their order.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let row = data.row();
    let [one, _] = data.numbers;
    let entries = vec![
        Entry { key: data.keys[0].clone(), row: Some(row.clone()) },
        Entry { key: data.keys[1].clone(), row: None },
    ];
    let properties = Properties::default();
    let other_properties = Properties {
        consistency: Consistency::Available,
        sync: SyncPolicy::Interval,
        key_bytes_max: 1,
        ttl_ms: one % (crate::limits::TTL_MS_MAX + 1),
        ..properties.clone()
    };
    let bucket = BucketDescription {
        name: BucketName::from_full("logs/a-1").expect("a name"),
        id: BucketId(7),
        group: GroupId(one as u32),
        properties,
        moving: None,
    };
    let mut bodies = vec![
        Body::Done,
        Body::Row(data.flag.then(|| row.clone())),
        Body::Rows(vec![None, Some(row)]),
        Body::Page(Page { entries, more: data.flag }),
        Body::Count(one),
        Body::Updated(Outcome::Done),
        Body::Session(SessionId(one)),
        Body::Buckets(vec![bucket]),
        Body::Types(vec![("logs".into(), other_properties)]),
    ];
    bodies.extend(outcomes(data).into_iter().map(Body::Updated));
    bodies
}

/// Calls about the placement and move of buckets, each with all its options.
pub fn place_calls(data: &ExampleData) -> Vec<Call> {
    let [_, number] = data.numbers.map(|number| number as u32);
    let changes = vec![("ttl_ms".to_string(), "7".to_string())];
    let (id, moving) = (BucketId(number), BucketId(9));
    [
        DirectoryCall::PlaceBucket { changes, place: BucketPlace::Group(GroupId(number)) },
        DirectoryCall::PlaceBucket { changes: Vec::new(), place: BucketPlace::Replicas(number) },
        DirectoryCall::MoveBucket { group: GroupId(number) },
        DirectoryCall::CancelMove,
        DirectoryCall::StepMove { id, moving, step: MoveStep::Renew },
        DirectoryCall::StepMove { id, moving, step: MoveStep::Finish },
    ]
    .map(Call::Directory)
    .into()
}

/// Buckets of which one is moving.
pub fn place_bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers.map(|number| number as u32);
    let bucket = |name, moving| BucketDescription {
        name: BucketName::from_full(name).expect("a name"),
        id: BucketId(two),
        group: GroupId(one),
        properties: Properties::default(),
        moving,
    };
    let moving = Some(MoveDestination { group: GroupId(two), id: BucketId(one) });
    vec![Body::Buckets(vec![bucket("logs/a-1", moving), bucket("logs/b", None)])]
}

/// Data of the golden bytes.
pub fn golden_data() -> ExampleData {
    ExampleData {
        keys: [Bytes::from_static(b"key"), Bytes::from_static(b"other\xff")],
        values: [Bytes::from_static(b"value"), Bytes::from_static(b"old")],
        numbers: [0x1122, 0x0304_0506],
        float: -1.5,
        flag: true,
    }
}

/// Calls about members, each with all its options.
pub fn cluster_calls(data: &ExampleData) -> Vec<Call> {
    let name = || "n1".to_string();
    let [lease_ms, number] = data.numbers;
    let group = GroupId(number as u32);
    [
        ClusterCall::Describe,
        ClusterCall::AddMember {
            member: member(data, Membership::Member),
            part: Part::Voter,
            lease_ms,
            level: FeatureLevel::FIRST,
        },
        ClusterCall::UpdateMember {
            node: NodeId(number),
            name: name(),
            peer: "a:1".into(),
            client: "b.example:2".into(),
        },
        ClusterCall::RemoveMember { name: name() },
        ClusterCall::ReplaceMember { name: name(), by: None },
        ClusterCall::ReplaceMember { name: name(), by: Some("n2".into()) },
        ClusterCall::SetPart { name: name(), part: Some(Part::Learner), group: None },
        ClusterCall::SetPart { name: name(), part: None, group: Some(group) },
        ClusterCall::PlaceGroup {
            group,
            members: vec![(name(), Part::Voter), ("n2".into(), Part::Witness)],
        },
        ClusterCall::SetQuorum { group, quorum: None },
        ClusterCall::SetQuorum { group, quorum: Some(2) },
    ]
    .map(|call| Call::Directory(DirectoryCall::Cluster(call)))
    .into()
}

/// Descriptions of a cluster.
pub fn cluster_bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers;
    let memberships = [Membership::Member, Membership::Leaving, Membership::Replaceable];
    let parts = [Part::Voter, Part::Witness, Part::Learner];
    let members = parts.iter().map(|part| (NodeId(one), *part)).collect();
    let description = ClusterDescription {
        cluster: ClusterId(one),
        founder: NodeId(two),
        lease_ms: 600,
        changes: 9,
        level: FeatureLevel::FIRST,
        members: memberships.map(|membership| member(data, membership)).into(),
        groups: vec![placement(1, members), Placement::default()],
    };
    vec![Body::Cluster(Box::default()), Body::Cluster(Box::new(description))]
}

fn placement(group: u32, members: Vec<(NodeId, Part)>) -> Placement {
    Placement { group: GroupId(group), members, ..Placement::default() }
}

/// Calls that create groups.
pub fn group_calls() -> Vec<Call> {
    [
        ClusterCall::CreateGroup { replicas: None, members: Vec::new() },
        ClusterCall::CreateGroup { replicas: Some(5), members: vec!["n1".into(), "n2".into()] },
    ]
    .map(|call| Call::Directory(DirectoryCall::Cluster(call)))
    .into()
}

/// Calls that drop groups.
pub fn drop_group_calls() -> Vec<Call> {
    let drop = ClusterCall::DropGroup { group: GroupId(7) };
    vec![Call::Directory(DirectoryCall::Cluster(drop))]
}

/// Calls that were added with the cluster secret.
pub fn secret_calls() -> Vec<Call> {
    vec![Call::Directory(DirectoryCall::Cluster(ClusterCall::MakeSecret))]
}

/// Answers to a node that joins, in a plain cluster and in one with groups of its own.
pub fn secret_bodies(data: &ExampleData) -> Vec<Body> {
    let secret = ClusterSecret::new([0x5E; ClusterSecret::BYTES]);
    let joined = |body| match body {
        Body::Cluster(description) => Some(Body::Joined(description, secret.clone())),
        _ => None,
    };
    cluster_bodies(data).into_iter().chain(group_bodies(data)).filter_map(joined).collect()
}

/// Calls about join tokens, and calls of a node that presents one.
pub fn token_calls(data: &ExampleData) -> Vec<Call> {
    let [lease_ms, _] = data.numbers;
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    let member = member(data, Membership::Member);
    let wrapped = |call| ClusterCall::WithToken { digest, call: Box::new(call) };
    let level = FeatureLevel::FIRST;
    let lasting = JoinTokenTerms { lifetime_ms: Some(lease_ms), uses: None };
    [
        wrapped(ClusterCall::AddMember { member, part: Part::Voter, lease_ms, level }),
        wrapped(ClusterCall::ReplaceMember { name: "n1".into(), by: None }),
        ClusterCall::AddToken { digest, terms: lasting },
        ClusterCall::AddToken { digest, terms: JoinTokenTerms::STANDING },
        ClusterCall::RevokeTokens,
    ]
    .map(|call| Call::Directory(DirectoryCall::Cluster(call)))
    .into()
}

/// Descriptions of created groups.
pub fn group_bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers;
    let members = vec![(NodeId(one), Part::Voter), (NodeId(two), Part::Learner)];
    let founders = vec![NodeId(one), NodeId(two)];
    let created = Placement { replicas: 3, founders, ..placement(7, members) };
    let description = ClusterDescription {
        cluster: ClusterId(one),
        groups: vec![placement(1, Vec::new()), created.clone()],
        ..ClusterDescription::default()
    };
    let (created, description) = (Box::new(created), Box::new(description));
    vec![Body::Group(Box::default()), Body::Group(created), Body::Cluster(description)]
}

/// A member.
pub fn member(data: &ExampleData, membership: Membership) -> MemberDescription {
    let [node, incarnation] = data.numbers;
    let (name, peer, client) = ("n1".into(), "127.0.0.1:7712".into(), "127.0.0.1:7711".into());
    MemberDescription { node: NodeId(node), name, peer, client, incarnation, membership }
}
