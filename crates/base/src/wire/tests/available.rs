//! Examples of each variant of calls to available buckets and their answers.

use super::examples::Stuff;
use crate::available::{
    AvailableCall, BucketNames, Condition, Content, Context, FetchOptions, Headers, Keys, Link,
    Owner, Sibling, Siblings, Store, StoreOptions, TypeChange, TypeFound, Vtag,
};
use crate::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use crate::properties::{DataType, Properties, Replication};
use crate::quorum::Quorum;
use crate::reply::{Body, BucketDescription, Moving};
use crate::request::{Call, DirectoryCall};
use crate::ring::{RingCall, RingDescription};
use crate::{BucketId, BucketName, GroupId, NodeId, Partition};
use bytes::Bytes;

fn context(of: &Stuff) -> Context {
    Context(of.values[1].clone())
}

fn content(of: &Stuff) -> Content {
    let [key, other] = of.keys.clone();
    let [value, text] = of.values.clone();
    let headers = Headers {
        content_type: Bytes::from_static(b"text/plain"),
        charset: text.clone(),
        encoding: Bytes::new(),
        meta: vec![(key.clone(), text.clone())],
        links: vec![Link { bucket: key.clone(), key: other, tag: text.clone() }],
        indexes: vec![(key, value.clone()), (Bytes::new(), text)],
    };
    Content { value, headers }
}

fn wide() -> BucketName {
    BucketName::new("available", "Caf%C3%A9.~").expect("a wide name")
}

pub fn calls(of: &Stuff) -> Vec<Call> {
    let [key, other] = of.keys.clone();
    let [number, timeout] = of.numbers;
    let fetch = FetchOptions {
        r: Some(Quorum::One),
        pr: Some(Quorum::Number(number as u8)),
        node_confirms: Some(2),
        basic_quorum: Some(of.yes),
        notfound_ok: Some(!of.yes),
        timeout_ms: Some(timeout),
    };
    let store = StoreOptions {
        w: Some(Quorum::Quorum),
        dw: Some(Quorum::All),
        pw: Some(Quorum::Number(0)),
        node_confirms: Some(number as u8),
        timeout_ms: of.yes.then_some(timeout),
        return_body: of.yes,
    };
    let plain = Content::plain(of.values[0].clone());
    let stored = |content, context, condition| {
        let key = key.clone();
        AvailableCall::Store(Box::new(Store { key, content, context, options: store, condition }))
    };
    let mut all = vec![
        AvailableCall::Fetch { key: key.clone(), options: FetchOptions::default() },
        AvailableCall::Fetch { key: other.clone(), options: fetch },
        stored(plain.clone(), None, None),
        stored(content(of), Some(context(of)), Some(Condition::Absent)),
        stored(plain, None, Some(Condition::Unchanged(context(of)))),
        AvailableCall::Remove { key: key.clone(), context: None, options: store },
        AvailableCall::Remove {
            key: key.clone(),
            context: Some(context(of)),
            options: StoreOptions::default(),
        },
        AvailableCall::Keys { after: of.yes.then(|| key.clone()), rows_max: number as usize },
    ];
    for after in [None, Some(wide())] {
        all.push(AvailableCall::Buckets { after, rows_max: number as usize });
    }
    let ring = [RingCall::Describe, RingCall::Claim].map(DirectoryCall::Ring).map(Call::Directory);
    all.into_iter().map(Call::Available).chain(ring).collect()
}

pub fn bodies(of: &Stuff) -> Vec<Body> {
    let [one, two] = of.numbers;
    let sibling = |content, tombstone| Sibling {
        content,
        written_ms: one,
        vtag: Vtag(u128::from(one) << 64 | u128::from(two)),
        tombstone,
    };
    let values = vec![sibling(content(of), of.yes), sibling(Content::default(), true)];
    let replication = Replication {
        n_val: 5,
        r: Quorum::One,
        pw: Quorum::Number(two as u8),
        notfound_ok: of.yes,
        siblings_max: one as u16,
        datatype: DataType::Map,
        ..Replication::default()
    };
    let special = Properties { replication, ..Properties::available() };
    let bucket = |name, properties: &Properties, moving| BucketDescription {
        name,
        id: BucketId(0),
        group: GroupId(0),
        properties: properties.clone(),
        moving,
    };
    let moving = Some(Moving { group: GroupId(2), id: BucketId(one as u32) });
    vec![
        Body::Siblings(Siblings::default()),
        Body::Siblings(Siblings { context: context(of), values }),
        Body::Stored(context(of)),
        Body::Keys(Keys { keys: of.keys.to_vec(), more: of.yes }),
        Body::BucketNames(BucketNames { names: vec![wide()], more: of.yes }),
        Body::Ring(RingDescription { epoch: one, owners: of.numbers.map(NodeId).into() }),
        Body::Buckets(vec![
            bucket(wide(), &special, None),
            bucket(BucketName::default(), &Properties::default(), moving),
        ]),
        Body::Types(vec![
            ("available".into(), Properties::available()),
            ("special".into(), special),
        ]),
    ]
}

/// Types whose keys are written once.
pub fn once_bodies() -> Vec<Body> {
    let replication = Replication { write_once: true, allow_mult: false, ..Replication::default() };
    let once = Properties { replication, ..Properties::available() };
    vec![Body::Types(vec![("once".into(), once)])]
}

fn field(of: &Stuff, kind: FieldKind) -> Field {
    Field { name: of.keys[1].clone(), kind }
}

/// Calls on data types, and a request for a key's owners.
pub fn type_calls(of: &Stuff) -> Vec<Call> {
    let [key, other] = of.keys.clone();
    let [one, two] = of.numbers;
    let elements = vec![ElementStep::Add(key.clone()), ElementStep::Remove(other.clone())];
    let inner = TypeOperation::Fields(vec![FieldStep::Remove(field(of, FieldKind::Hll))]);
    let steps = vec![
        FieldStep::Update(field(of, FieldKind::Counter), TypeOperation::Add(one.cast_signed())),
        FieldStep::Update(field(of, FieldKind::Set), TypeOperation::Elements(elements.clone())),
        FieldStep::Update(field(of, FieldKind::Register), TypeOperation::Assign(key.clone())),
        FieldStep::Update(field(of, FieldKind::Flag), TypeOperation::Enable),
        FieldStep::Update(field(of, FieldKind::Flag), TypeOperation::Disable),
        FieldStep::Update(field(of, FieldKind::Map), inner),
        FieldStep::Remove(field(of, FieldKind::Gset)),
    ];
    let change = |operation, context| {
        let options = StoreOptions { return_body: of.yes, ..StoreOptions::default() };
        let change = TypeChange { key: key.clone(), operation, context, options };
        Call::Available(AvailableCall::Change(Box::new(change)))
    };
    let options = FetchOptions { timeout_ms: Some(two), ..FetchOptions::default() };
    vec![
        change(TypeOperation::Add(two.cast_signed()), None),
        change(TypeOperation::Elements(elements), Some(context(of))),
        change(TypeOperation::Fields(steps), Some(context(of))),
        Call::Available(AvailableCall::FetchType { key: key.clone(), options }),
        Call::Available(AvailableCall::Owners { key: key.clone() }),
        Call::Directory(DirectoryCall::ResetBucket),
    ]
}

/// Answers with data types and with a key's owners.
pub fn type_bodies(of: &Stuff) -> Vec<Body> {
    let [one, two] = of.numbers;
    let names = || of.keys.to_vec();
    let inner = vec![(field(of, FieldKind::Flag), TypeValue::Flag(of.yes))];
    let map = vec![
        (field(of, FieldKind::Gset), TypeValue::Gset(names())),
        (field(of, FieldKind::Register), TypeValue::Register(of.values[0].clone())),
        (field(of, FieldKind::Map), TypeValue::Map(inner)),
        (field(of, FieldKind::Hll), TypeValue::Hll(two)),
    ];
    let found = |value: TypeValue| TypeFound {
        kind: value.kind(),
        value: Some(value),
        context: context(of),
        tombstone: false,
    };
    let nothing = TypeFound {
        kind: FieldKind::Map,
        value: None,
        context: Context::default(),
        tombstone: of.yes,
    };
    let owner = Owner {
        partition: Partition(one as u32),
        node: "n1".into(),
        address: "127.0.0.1:7711".into(),
        primary: of.yes,
    };
    let typed = |found| Body::Typed(Box::new(found));
    vec![
        typed(nothing),
        typed(found(TypeValue::Counter(-i128::from(one) << 40))),
        typed(found(TypeValue::Set(names()))),
        typed(found(TypeValue::Map(map))),
        Body::Owners(vec![owner, Owner::default()]),
    ]
}
