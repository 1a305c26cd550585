//! One node: every value, and no other, as a model of sets of values has it.

use super::{
    assert_refused, bucket, call, fetch, get, keys, live_values, remove, store, store_call, values,
};
use crate::tests::many::ask;
use crate::tests::{Place, bytes, set};
use crate::{Node, NodeSettings};
use base::limits::{SIBLINGS_BYTES_MAX, SIBLINGS_HARD_MAX, VALUE_BYTES_MAX};
use base::request::{OnMissing, SequenceMode};
use base::{
    AvailableCall, Body, BucketName, Call, Condition, Content, Context, DirectoryCall, Headers,
    Outcome, Read, Reason, RetryId, SessionCall, SessionId, Share, Shortfall, Store, StoreOptions,
    Update,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::process::Command;

/// A row of numbers by chance, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
        (self.0 >> 33) % limit
    }
}

/// Context and values that a client read of a key.
type Read_ = (Context, Vec<Bytes>);

/// Model of writes of every kind, with the expected values.
struct Model {
    chance: Chance,
    rows: BTreeMap<String, Vec<Bytes>>,
    reads: BTreeMap<String, Vec<Read_>>,
    number: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let (rows, reads) = (BTreeMap::new(), BTreeMap::new());
        Model { chance: Chance(seed), rows, reads, number: 0 }
    }

    async fn step(&mut self, node: &Node) {
        let key = format!("k{}", self.chance.below(8));
        self.number += 1;
        let value = format!("v{}", self.number);
        let here = self.rows.entry(key.clone()).or_default();
        let reads = self.reads.entry(key.clone()).or_default();
        let old = (!reads.is_empty()).then(|| {
            let at = self.chance.below(reads.len() as u64) as usize;
            reads[at].clone()
        });
        match (self.chance.below(10), old) {
            (0..3, _) => {
                let siblings = fetch(node, &key).await.expect("a read");
                let mut expected = here.clone();
                expected.sort();
                assert_eq!(values(&siblings), expected, "{key} at {}", self.number);
                reads.push((siblings.context.clone(), here.clone()));
            }
            (3..7, Some((context, seen))) => {
                store(node, &key, &value, Some(&context)).await.expect("a write");
                here.retain(|value| !seen.contains(value));
                here.push(bytes(&value));
            }
            (7, Some((context, seen))) => {
                remove(node, &key, Some(&context)).await.expect("a delete");
                here.retain(|value| !seen.contains(value));
            }
            (8, _) => {
                let update = Call::Update(set(&key, &value));
                ask(node, &bucket(), update).await.expect("a set");
                *here = vec![bytes(&value)];
            }
            _ if here.len() < 20 => {
                store(node, &key, &value, None).await.expect("a blind write");
                here.push(bytes(&value));
            }
            _ => {}
        }
    }

    async fn check(&self, node: &Node) {
        for (key, expected) in &self.rows {
            let mut expected = expected.clone();
            expected.sort();
            assert_eq!(live_values(node, key).await, expected, "{key}");
        }
        let expected = self.rows.iter().filter(|(_, values)| !values.is_empty());
        let expected: Vec<_> = expected.map(|(key, _)| bytes(key)).collect();
        assert_eq!(keys(node, None, 100).await, (expected, false));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_node_matches_sibling_model_across_restarts() {
    for seed in 0..3 {
        let place = Place::new();
        let mut model = Model::new(seed);
        for _ in 0..4 {
            let node = place.start().await;
            model.check(&node).await;
            for _ in 0..120 {
                model.step(&node).await;
            }
            model.check(&node).await;
            node.stop().await.expect("it stops");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copied_data_directory_keeps_writes_and_uses_a_new_actor() {
    let place = Place::new();
    let node = place.start().await;
    let mut model = Model::new(7);
    for _ in 0..200 {
        model.step(&node).await;
    }
    let actor = |node: &Node, key: &str| {
        let (name, key) = (bucket(), bytes(key));
        let owners = node.router.available.key_owners(&name, &key, 3).expect("there is a ring");
        let row =
            node.router.available.vnode_store.read(&owners.key_ref).expect("a row").expect("there");
        let row = vnode_rows::layout::read_row(&row).expect("it reads");
        row.ids().copied().collect::<Vec<_>>()
    };
    store(&node, "fresh", "1", None).await.expect("a write");
    let copy = Place::new();
    let copied = Command::new("cp").arg("-a").arg(place.path()).arg(copy.path()).status();
    assert!(copied.expect("cp runs").success());
    let data = copy.path().to_path_buf();
    let other =
        Node::start(NodeSettings { data_dir: data, ..copy.settings() }).await.expect("it starts");
    model.check_but(&other, "fresh").await;
    store(&other, "fresh", "2", None).await.expect("a write");
    store(&node, "fresh", "3", None).await.expect("a write");
    let (there, here) = (actor(&other, "fresh"), actor(&node, "fresh"));
    assert_eq!((there.len(), here.len()), (2, 1), "{there:?} {here:?}");
    assert!(there.contains(&here[0]), "what it wrote before it was copied is in both");
    other.stop().await.expect("it stops");
    // A node that stopped cleanly keeps its actors: clocks do not grow with every restart.
    let before = here;
    node.stop().await.expect("it stops");
    let node = place.start().await;
    store(&node, "fresh", "4", None).await.expect("a write");
    assert_eq!(actor(&node, "fresh"), before);
    node.stop().await.expect("it stops");
}

impl Model {
    async fn check_but(&self, node: &Node, key: &str) {
        for (known, expected) in self.rows.iter().filter(|(known, _)| *known != key) {
            let mut expected = expected.clone();
            expected.sort();
            assert_eq!(live_values(node, known).await, expected, "{known}");
        }
    }
}

#[tokio::test]
async fn plain_calls_are_served_and_unsupported_calls_are_refused() {
    let place = Place::new();
    let node = place.start().await;
    let name = bucket();
    let say = |call: Call| ask(&node, &name, call);
    assert_eq!(get(&node, "k").await, Ok(None));
    for value in ["1", "2"] {
        say(Call::Update(set("k", value))).await.expect("a set");
        assert_eq!(get(&node, "k").await, Ok(Some(bytes(value))), "a set overwrites");
    }
    store(&node, "k", "3", None).await.expect("a blind write");
    assert_refused(get(&node, "k").await, Reason::Siblings);
    let delete = |missing| Call::Update(Update::Delete { key: bytes("k"), missing });
    let existed = |existed| Ok(Body::Updated(Outcome::Existed(existed)));
    assert_eq!(say(delete(OnMissing::Skip)).await.map(|reply| reply.body), existed(true));
    assert_eq!(get(&node, "k").await, Ok(None));
    assert_eq!(say(delete(OnMissing::Skip)).await.map(|reply| reply.body), existed(false));
    assert_refused(say(delete(OnMissing::Fail)).await, Reason::NotFound);
    assert_refused(remove(&node, "k", None).await, Reason::NotFound);
    let nop = || Update::Nop;
    let steps = Update::Sequence { steps: vec![nop()], mode: SequenceMode::AllOrNothing };
    for call in [
        Call::Update(nop()),
        Call::Update(steps),
        Call::Update(Update::Add { key: bytes("k"), delta: 1 }),
        Call::Session(SessionCall::Open),
        Call::Read(Read::KeyCount, base::ReadLevel::Consistent),
    ] {
        assert_refused(say(call).await, Reason::NotSupported);
    }
    let retry = Some(RetryId { session: SessionId(1), number: 1 });
    let named = base::Request { bucket: bucket(), call: Call::Update(set("k", "v")), retry };
    assert_refused(node.handle(&base::Principal::Node, named).await, Reason::NotSupported);
    // A consistent bucket has one value, and nothing on the ring.
    let consistent = BucketName::default();
    let stored = ask(&node, &consistent, Call::Available(store_call("k", "v", None))).await;
    assert_eq!(stored.expect("one value").body, Body::Stored(Context::default()));
    let owners = Call::Available(AvailableCall::Owners { key: bytes("k") });
    assert_refused(ask(&node, &consistent, owners).await, Reason::NotSupported);
    let unknown = BucketName::new("nosuch", "b").expect("a name");
    assert_refused(ask(&node, &unknown, Call::Update(set("k", "v"))).await, Reason::NoSuchBucket);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn context_is_valid_for_its_key_and_covers_only_writes_seen() {
    let place = Place::new();
    let node = place.start().await;
    let first = store(&node, "k", "1", None).await.expect("a write");
    store(&node, "k", "2", None).await.expect("a write");
    assert_refused(store(&node, "other", "x", Some(&first)).await, Reason::Malformed);
    let bad = Context(Bytes::from_static(b"no context"));
    assert_refused(store(&node, "k", "x", Some(&bad)).await, Reason::Malformed);
    // A client that wrote "1" and was shown nothing since has not seen "2".
    store(&node, "k", "3", Some(&first)).await.expect("a write");
    assert_eq!(live_values(&node, "k").await, [bytes("2"), bytes("3")]);
    let all = fetch(&node, "k").await.expect("a read").context;
    let stored = |condition| {
        let (key, content) = (bytes("k"), Content::plain(bytes("4")));
        let (context, condition) = (Some(all.clone()), Some(condition));
        let options = StoreOptions { return_body: true, ..StoreOptions::default() };
        AvailableCall::Store(Box::new(Store { key, content, context, options, condition }))
    };
    assert_refused(call(&node, stored(Condition::Absent)).await, Reason::Changed);
    assert_refused(call(&node, stored(Condition::Unchanged(first))).await, Reason::Changed);
    let done = call(&node, stored(Condition::Unchanged(all.clone()))).await.expect("a write");
    let Body::Siblings(siblings) = done else { panic!("the body was asked for: {done:?}") };
    assert_eq!(values(&siblings), [bytes("4")]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn value_headers_are_returned_with_the_value() {
    let place = Place::new();
    let node = place.start().await;
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let headers = Headers {
        content_type: text("image/png"),
        meta: vec![(text("colour"), text("red"))],
        indexes: vec![(text("age_int"), text("7"))],
        ..Headers::default()
    };
    let content = Content { value: bytes("v"), headers };
    let written = Store { key: bytes("k"), content: content.clone(), ..Store::default() };
    call(&node, AvailableCall::Store(Box::new(written))).await.expect("a write");
    let siblings = fetch(&node, "k").await.expect("a read");
    assert_eq!(siblings.values[0].content, content);
    assert_ne!(siblings.values[0].vtag, base::Vtag::default());
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn siblings_are_bounded_by_count_and_bytes() {
    let place = Place::new();
    let node = place.start().await;
    let alter = |name: &str, text: &str| {
        let changes = vec![(name.to_string(), text.to_string())];
        Call::Directory(DirectoryCall::AlterBucket(changes))
    };
    ask(&node, &bucket(), alter("siblings_max", "3")).await.expect("altered");
    for number in 0..3 {
        store(&node, "k", &number.to_string(), None).await.expect("a write");
    }
    assert_refused(store(&node, "k", "4", None).await, Reason::TooManySiblings);
    assert_eq!(live_values(&node, "k").await.len(), 3, "nothing was dropped to make room");
    let fetched = fetch(&node, "k").await.expect("a read").context;
    store(&node, "k", "merged", Some(&fetched)).await.expect("a write");
    assert_eq!(live_values(&node, "k").await, [bytes("merged")]);

    let limit = SIBLINGS_HARD_MAX.to_string();
    ask(&node, &bucket(), alter("siblings_max", &limit)).await.expect("altered");
    let large = "x".repeat(VALUE_BYTES_MAX);
    let fit = SIBLINGS_BYTES_MAX / VALUE_BYTES_MAX - 1;
    for _ in 0..fit {
        store(&node, "large", &large, None).await.expect("a write");
    }
    assert_refused(store(&node, "large", &large, None).await, Reason::TooLarge);
    let larger = "x".repeat(VALUE_BYTES_MAX + 1);
    assert_refused(store(&node, "larger", &larger, None).await, Reason::TooLarge);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn bucket_without_allow_mult_keeps_only_the_newest_value() {
    let place = Place::new();
    let node = place.start().await;
    let alter = |text: &str| {
        let changes = vec![("allow_mult".to_string(), text.to_string())];
        Call::Directory(DirectoryCall::AlterBucket(changes))
    };
    ask(&node, &bucket(), alter("false")).await.expect("altered");
    for value in ["1", "2", "3"] {
        store(&node, "k", value, None).await.expect("a write");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(live_values(&node, "k").await, [bytes("3")]);
    node.stop().await.expect("it stops");
    let node = place.start().await;
    assert_eq!(get(&node, "k").await, Ok(Some(bytes("3"))));
    ask(&node, &bucket(), alter("true")).await.expect("altered");
    store(&node, "k", "4", None).await.expect("a write");
    assert_eq!(live_values(&node, "k").await.len(), 2);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn keys_and_buckets_are_listed_in_pages() {
    let place = Place::new();
    let node = place.start().await;
    let key = |number: usize| format!("key{number:03}");
    for number in 0..250 {
        ask(&node, &bucket(), Call::Update(set(&key(number), "v"))).await.expect("a set");
    }
    for number in (0..250).step_by(10) {
        remove(&node, &key(number), None).await.expect("a delete");
    }
    let (mut seen, mut after) = (Vec::new(), None::<String>);
    loop {
        let (page, more) = keys(&node, after.as_deref(), 40).await;
        assert!(page.len() <= 40);
        after = page.last().map(|key| String::from_utf8_lossy(key).into_owned());
        seen.extend(page);
        if !more {
            break;
        }
    }
    let expected: Vec<_> = (0..250).filter(|n| n % 10 != 0).map(|n| bytes(&key(n))).collect();
    assert_eq!(seen, expected);
    for name in ["a%2F", "much-longer-than-the-others", "c"] {
        let name = BucketName::new(BucketName::AVAILABLE, name).expect("a name");
        ask(&node, &name, Call::Update(set("k", "v"))).await.expect("a set");
    }
    let removed = BucketName::new(BucketName::AVAILABLE, "gone").expect("a name");
    ask(&node, &removed, Call::Update(set("k", "v"))).await.expect("a set");
    let delete = Update::Delete { key: bytes("k"), missing: OnMissing::Fail };
    ask(&node, &removed, Call::Update(delete)).await.expect("a delete");
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let list = AvailableCall::Buckets { after: after.clone(), rows_max: 2 };
        let Body::BucketNames(page) = call(&node, list).await.expect("a list") else {
            panic!("names are listed")
        };
        after = page.names.last().cloned();
        seen.extend(page.names.iter().map(|name| name.name().to_string()));
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, ["a%2F", "b", "c", "much-longer-than-the-others"]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn node_confirms_above_node_count_fails_with_shortfall() {
    let place = Place::new();
    let node = place.start().await;
    let options = StoreOptions { node_confirms: Some(2), ..StoreOptions::default() };
    let written =
        Store { key: bytes("k"), content: Content::plain(bytes("v")), options, ..Store::default() };
    let error = call(&node, AvailableCall::Store(Box::new(written))).await.expect_err("one node");
    let short = Shortfall::from_error(&error).expect("it is told in numbers");
    assert_eq!((short.share, short.needed), (Share::NodeConfirms, 2), "{error}");
    // It may have happened, and did.
    while live_values(&node, "k").await != [bytes("v")] {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    node.stop().await.expect("it stops");
}
