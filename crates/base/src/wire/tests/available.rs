//! Examples of each variant of calls to available buckets and their answers.

use super::examples::ExampleData;
use crate::available::{
    AvailableCall, BucketNames, Condition, Content, Context, FetchOptions, Headers, Keys, Link,
    Owner, Sibling, Siblings, Store, StoreOptions, TypeChange, TypeFound, Vtag,
};
use crate::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use crate::properties::{DataType, Properties, Replication};
use crate::quorum::Quorum;
use crate::reply::{Body, BucketDescription, MoveDestination};
use crate::request::{Call, DirectoryCall};
use crate::ring::{RingCall, RingDescription};
use crate::{BucketId, BucketName, GroupId, NodeId, Partition};
use bytes::Bytes;

fn context(data: &ExampleData) -> Context {
    Context(data.values[1].clone())
}

fn content(data: &ExampleData) -> Content {
    let [key, other] = data.keys.clone();
    let [value, text] = data.values.clone();
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

fn wide_name() -> BucketName {
    BucketName::new("available", "Caf%C3%A9.~").expect("a wide name")
}

pub fn calls(data: &ExampleData) -> Vec<Call> {
    let [key, other] = data.keys.clone();
    let [number, timeout] = data.numbers;
    let fetch = FetchOptions {
        r: Some(Quorum::One),
        pr: Some(Quorum::Number(number as u8)),
        node_confirms: Some(2),
        basic_quorum: Some(data.flag),
        notfound_ok: Some(!data.flag),
        timeout_ms: Some(timeout),
    };
    let store = StoreOptions {
        w: Some(Quorum::Quorum),
        dw: Some(Quorum::All),
        pw: Some(Quorum::Number(0)),
        node_confirms: Some(number as u8),
        timeout_ms: data.flag.then_some(timeout),
        return_body: data.flag,
    };
    let plain = Content::plain(data.values[0].clone());
    let stored = |content, context, condition| {
        let key = key.clone();
        AvailableCall::Store(Box::new(Store { key, content, context, options: store, condition }))
    };
    let mut all = vec![
        AvailableCall::Fetch { key: key.clone(), options: FetchOptions::default() },
        AvailableCall::Fetch { key: other.clone(), options: fetch },
        stored(plain.clone(), None, None),
        stored(content(data), Some(context(data)), Some(Condition::Absent)),
        stored(plain, None, Some(Condition::Unchanged(context(data)))),
        AvailableCall::Remove { key: key.clone(), context: None, options: store },
        AvailableCall::Remove {
            key: key.clone(),
            context: Some(context(data)),
            options: StoreOptions::default(),
        },
        AvailableCall::Keys { after: data.flag.then(|| key.clone()), rows_max: number as usize },
    ];
    for after in [None, Some(wide_name())] {
        all.push(AvailableCall::Buckets { after, rows_max: number as usize });
    }
    let ring = [RingCall::Describe, RingCall::Claim].map(DirectoryCall::Ring).map(Call::Directory);
    all.into_iter().map(Call::Available).chain(ring).collect()
}

pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers;
    let sibling = |content, tombstone| Sibling {
        content,
        written_ms: one,
        vtag: Vtag(u128::from(one) << 64 | u128::from(two)),
        tombstone,
    };
    let values = vec![sibling(content(data), data.flag), sibling(Content::default(), true)];
    let replication = Replication {
        n_val: 5,
        r: Quorum::One,
        pw: Quorum::Number(two as u8),
        notfound_ok: data.flag,
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
    let moving = Some(MoveDestination { group: GroupId(2), id: BucketId(one as u32) });
    vec![
        Body::Siblings(Siblings::default()),
        Body::Siblings(Siblings { context: context(data), values }),
        Body::Stored(context(data)),
        Body::Keys(Keys { keys: data.keys.to_vec(), more: data.flag }),
        Body::BucketNames(BucketNames { names: vec![wide_name()], more: data.flag }),
        Body::Ring(RingDescription { epoch: one, owners: data.numbers.map(NodeId).into() }),
        Body::Buckets(vec![
            bucket(wide_name(), &special, None),
            bucket(BucketName::default(), &Properties::default(), moving),
        ]),
        Body::Types(vec![
            ("available".into(), Properties::available()),
            ("special".into(), special),
        ]),
    ]
}

/// Bucket types with `write_once`.
pub fn once_bodies() -> Vec<Body> {
    let replication = Replication { write_once: true, allow_mult: false, ..Replication::default() };
    let once = Properties { replication, ..Properties::available() };
    vec![Body::Types(vec![("once".into(), once)])]
}

fn field(data: &ExampleData, kind: FieldKind) -> Field {
    Field { name: data.keys[1].clone(), kind }
}

/// Calls on data types, and a request for a key's owners.
pub fn type_calls(data: &ExampleData) -> Vec<Call> {
    let [key, other] = data.keys.clone();
    let [one, two] = data.numbers;
    let elements = vec![ElementStep::Add(key.clone()), ElementStep::Remove(other.clone())];
    let inner = TypeOperation::Fields(vec![FieldStep::Remove(field(data, FieldKind::Hll))]);
    let steps = vec![
        FieldStep::Update(field(data, FieldKind::Counter), TypeOperation::Add(one.cast_signed())),
        FieldStep::Update(field(data, FieldKind::Set), TypeOperation::Elements(elements.clone())),
        FieldStep::Update(field(data, FieldKind::Register), TypeOperation::Assign(key.clone())),
        FieldStep::Update(field(data, FieldKind::Flag), TypeOperation::Enable),
        FieldStep::Update(field(data, FieldKind::Flag), TypeOperation::Disable),
        FieldStep::Update(field(data, FieldKind::Map), inner),
        FieldStep::Remove(field(data, FieldKind::Gset)),
    ];
    let change = |operation, context| {
        let options = StoreOptions { return_body: data.flag, ..StoreOptions::default() };
        let change = TypeChange { key: key.clone(), operation, context, options };
        Call::Available(AvailableCall::Change(Box::new(change)))
    };
    let options = FetchOptions { timeout_ms: Some(two), ..FetchOptions::default() };
    vec![
        change(TypeOperation::Add(two.cast_signed()), None),
        change(TypeOperation::Elements(elements), Some(context(data))),
        change(TypeOperation::Fields(steps), Some(context(data))),
        Call::Available(AvailableCall::FetchType { key: key.clone(), options }),
        Call::Available(AvailableCall::Owners { key: key.clone() }),
        Call::Directory(DirectoryCall::ResetBucket),
    ]
}

/// Answers with data types and with a key's owners.
pub fn type_bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers;
    let names = || data.keys.to_vec();
    let inner = vec![(field(data, FieldKind::Flag), TypeValue::Flag(data.flag))];
    let map = vec![
        (field(data, FieldKind::Gset), TypeValue::Gset(names())),
        (field(data, FieldKind::Register), TypeValue::Register(data.values[0].clone())),
        (field(data, FieldKind::Map), TypeValue::Map(inner)),
        (field(data, FieldKind::Hll), TypeValue::Hll(two)),
    ];
    let found = |value: TypeValue| TypeFound {
        kind: value.kind(),
        value: Some(value),
        context: context(data),
        tombstone: false,
    };
    let nothing = TypeFound {
        kind: FieldKind::Map,
        value: None,
        context: Context::default(),
        tombstone: data.flag,
    };
    let owner = Owner {
        partition: Partition(one as u32),
        node: "n1".into(),
        address: "127.0.0.1:7711".into(),
        primary: data.flag,
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
