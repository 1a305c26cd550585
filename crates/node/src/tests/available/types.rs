//! Data types: what one node makes of changes, and what three that did not know of each other's
//! agree on.

use super::three::{three, wait_settled};
use super::{assert_refused, bytes, call, remove, store};
use crate::Node;
use crate::tests::Place;
use crate::tests::many::{Cluster, ask};
use base::available::{TypeChange, TypeFound};
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use base::{
    AvailableCall, Body, BucketName, Call, Content, Context, DirectoryCall, FetchOptions, Reason,
    Result, Store, StoreOptions,
};

fn of(kind: &str) -> BucketName {
    BucketName::new(kind, "b").expect("a name")
}

fn creating(changes: &[(&str, &str)]) -> DirectoryCall {
    let owned = |(name, text): &(&str, &str)| (name.to_string(), text.to_string());
    let all = [("consistency", "available")].iter().chain(changes).map(owned);
    DirectoryCall::CreateType(all.collect())
}

async fn make(node: &Node, kind: &str, changes: &[(&str, &str)]) {
    ask(node, &of(kind), Call::Directory(creating(changes))).await.expect("made");
}

async fn change(
    node: &Node,
    (kind, key): (&str, &str),
    operation: TypeOperation,
    context: Option<&Context>,
) -> Result<TypeFound> {
    let options = StoreOptions { return_body: true, ..StoreOptions::default() };
    let context = context.cloned();
    let change = TypeChange { key: bytes(key), operation, context, options };
    let call = Call::Available(AvailableCall::Change(Box::new(change)));
    match ask(node, &of(kind), call).await?.body {
        Body::Typed(found) => Ok(*found),
        other => panic!("a change gives the data type, not {other:?}"),
    }
}

async fn fetch_type(node: &Node, (kind, key): (&str, &str)) -> Result<TypeFound> {
    let options = FetchOptions::default();
    let call = Call::Available(AvailableCall::FetchType { key: bytes(key), options });
    match ask(node, &of(kind), call).await?.body {
        Body::Typed(found) => Ok(*found),
        other => panic!("a data type, not {other:?}"),
    }
}

fn adding(elements: &[&str]) -> TypeOperation {
    TypeOperation::Elements(elements.iter().map(|it| ElementStep::Add(bytes(it))).collect())
}

fn removing(element: &str) -> TypeOperation {
    TypeOperation::Elements(vec![ElementStep::Remove(bytes(element))])
}

fn set(elements: &[&str]) -> Option<TypeValue> {
    Some(TypeValue::Set(elements.iter().map(|it| bytes(it)).collect()))
}

#[tokio::test]
async fn data_type_operations_apply_and_mismatched_ones_are_refused() {
    let place = Place::new();
    let node = place.start().await;
    for kind in ["counter", "set", "map", "hll", "gset"] {
        make(&node, kind, &[("datatype", kind)]).await;
    }
    let nothing = fetch_type(&node, ("set", "k")).await.expect("a read");
    assert_eq!((nothing.kind, nothing.value, nothing.tombstone), (FieldKind::Set, None, false));
    let counted = change(&node, ("counter", "k"), TypeOperation::Add(5), None).await;
    assert_eq!(counted.expect("done").value, Some(TypeValue::Counter(5)));
    let counted = change(&node, ("counter", "k"), TypeOperation::Add(-7), None).await;
    assert_eq!(counted.expect("done").value, Some(TypeValue::Counter(-2)));
    change(&node, ("hll", "k"), adding(&["a", "b", "a"]), None).await.expect("done");
    let about = fetch_type(&node, ("hll", "k")).await.expect("a read").value;
    assert_eq!(about, Some(TypeValue::Hll(2)));
    let field = Field { name: bytes("n"), kind: FieldKind::Counter };
    let update = FieldStep::Update(field.clone(), TypeOperation::Add(3));
    let map = TypeOperation::Fields(vec![update]);
    change(&node, ("map", "k"), map, None).await.expect("done");
    node.stop().await.expect("it stops");
    let node = place.start().await;
    let found = fetch_type(&node, ("map", "k")).await.expect("a read").value;
    assert_eq!(found, Some(TypeValue::Map(vec![(field, TypeValue::Counter(3))])));
    for (kind, operation, reason) in [
        ("counter", adding(&["x"]), Reason::Malformed),
        ("set", TypeOperation::Add(1), Reason::Malformed),
        ("gset", removing("x"), Reason::Malformed),
        ("set", removing("not there"), Reason::AssertionFailed),
        ("available", adding(&["x"]), Reason::NotSupported),
    ] {
        assert_refused(change(&node, (kind, "k"), operation, None).await, reason);
    }
    let set = Call::Update(crate::tests::set("k", "v"));
    assert_refused(ask(&node, &of("set"), set).await, Reason::NotSupported);
    let large = "x".repeat(1 << 10);
    let alter = |name: &str, text: &str| {
        Call::Directory(DirectoryCall::AlterType(vec![(name.into(), text.into())]))
    };
    ask(&node, &of("gset"), alter("value_bytes_max", "1024")).await.expect("altered");
    assert_refused(change(&node, ("gset", "k"), adding(&[&large]), None).await, Reason::TooLarge);
    assert_refused(ask(&node, &of("set"), alter("datatype", "map")).await, Reason::NotSupported);
    assert_refused(
        ask(&node, &of("hll"), alter("hll_precision", "15")).await,
        Reason::NotSupported,
    );
    ask(&node, &of("hll"), alter("hll_precision", "12")).await.expect("coarser it may be");
    node.stop().await.expect("it stops");
}

/// As clients of Riak 1.4 have them; the bucket's values are plain otherwise.
#[tokio::test]
async fn plain_bucket_with_siblings_also_holds_counters() {
    let place = Place::new();
    let node = place.start().await;
    let kind = BucketName::AVAILABLE;
    change(&node, (kind, "c"), TypeOperation::Add(5), None).await.expect("done");
    let counted = change(&node, (kind, "c"), TypeOperation::Add(2), None).await.expect("done");
    assert_eq!(counted.value, Some(TypeValue::Counter(7)));
    assert_refused(super::get(&node, "c").await, Reason::NotSupported);
    let seen = super::fetch(&node, "c").await.expect("a read");
    assert_eq!(seen.values[0].content.headers.content_type, "application/riak_counter");
    store(&node, "plain", "v", None).await.expect("a write");
    assert_refused(fetch_type(&node, (kind, "plain")).await, Reason::Siblings);
    assert_refused(
        change(&node, (kind, "plain"), TypeOperation::Add(1), None).await,
        Reason::Siblings,
    );
    remove(&node, "c", None).await.expect("deleted");
    let removed = fetch_type(&node, (kind, "c")).await.expect("a read");
    assert_eq!((removed.value, removed.tombstone), (None, true));
    let alter = vec![("allow_mult".to_string(), "false".to_string())];
    ask(&node, &of(kind), Call::Directory(DirectoryCall::AlterBucket(alter))).await.expect("so");
    let one = change(&node, (kind, "d"), TypeOperation::Add(1), None).await;
    assert_refused(one, Reason::NotSupported);
    // Its type's properties count again.
    ask(&node, &of(kind), Call::Directory(DirectoryCall::ResetBucket)).await.expect("reset");
    ask(&node, &of(kind), Call::Directory(DirectoryCall::ResetBucket)).await.expect("again");
    change(&node, (kind, "d"), TypeOperation::Add(1), None).await.expect("done");
    match call(&node, AvailableCall::Owners { key: bytes("d") }).await.expect("owners") {
        Body::Owners(owners) => {
            assert_eq!(owners.len(), 1);
            assert!(owners[0].primary && !owners[0].node.is_empty());
        }
        other => panic!("owners, not {other:?}"),
    }
    node.stop().await.expect("it stops");
}

/// Riak's property for keys that are written once: no read before a write, and no siblings.
#[tokio::test]
async fn write_once_keys_have_no_siblings_and_the_property_is_fixed() {
    let place = Place::new();
    let node = place.start().await;
    make(&node, "once", &[("write_once", "true")]).await;
    for value in ["first", "second"] {
        let content = Content::plain(bytes(value));
        let write = Store { key: bytes("k"), content, ..Store::default() };
        let call = Call::Available(AvailableCall::Store(Box::new(write)));
        ask(&node, &of("once"), call).await.expect("a write");
    }
    let options = FetchOptions::default();
    let call = Call::Available(AvailableCall::Fetch { key: bytes("k"), options });
    match ask(&node, &of("once"), call).await.expect("a read").body {
        Body::Siblings(found) => assert_eq!(super::values(&found), ["second"]),
        other => panic!("values, not {other:?}"),
    }
    let change = |text: &str| vec![("write_once".to_string(), text.to_string())];
    for (kind, text) in [("once", "false"), (BucketName::AVAILABLE, "true")] {
        for call in
            [DirectoryCall::AlterType(change(text)), DirectoryCall::AlterBucket(change(text))]
        {
            assert_refused(
                ask(&node, &of(kind), Call::Directory(call)).await,
                Reason::NotSupported,
            );
        }
    }
    let several = vec![("allow_mult".to_string(), "true".to_string())];
    let call = Call::Directory(DirectoryCall::AlterBucket(several));
    assert_refused(ask(&node, &of("once"), call).await, Reason::Malformed);
    let same = Call::Directory(DirectoryCall::AlterBucket(change("true")));
    ask(&node, &of("once"), same).await.expect("nothing is changed");
    node.stop().await.expect("it stops");
}

async fn kinds(cluster: &Cluster, kind: &str) {
    let call = Call::Directory(creating(&[("datatype", kind)]));
    cluster.surely(of(kind), call).await.expect("made");
    // The others hear of it a moment later.
    for node in cluster.nodes.iter().flatten() {
        while fetch_type(node, (kind, "none")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_type_changes_merge_and_remove_affects_only_seen_adds() {
    let mut cluster = three().await;
    kinds(&cluster, "set").await;
    kinds(&cluster, "counter").await;
    let count = |which| change(cluster.node(which), ("counter", "k"), TypeOperation::Add(1), None);
    for _ in 0..5 {
        let (one, two, three) = tokio::join!(count(0), count(1), count(2));
        one.and(two).and(three).expect("all count");
    }
    let key = ("set", "k");
    let add = |which: usize, element: &'static str| {
        let operation = adding(&[element]);
        let node = cluster.node(which);
        async move { change(node, key, operation, None).await }
    };
    let (one, two, three) = tokio::join!(add(0, "a"), add(1, "b"), add(2, "c"));
    one.and(two).and(three).expect("all add");
    let seen = fetch_type(cluster.node(1), key).await.expect("a read");
    assert_eq!(seen.value, set(&["a", "b", "c"]));
    // Added again after it was seen: the remove does not reach that.
    change(cluster.node(2), key, adding(&["b", "d"]), None).await.expect("added");
    let removed = TypeOperation::Elements(vec![
        ElementStep::Remove(bytes("a")),
        ElementStep::Remove(bytes("b")),
    ]);
    change(cluster.node(0), key, removed, Some(&seen.context)).await.expect("removed");
    for which in 0..3 {
        let now = fetch_type(cluster.node(which), key).await.expect("a read").value;
        assert_eq!(now, set(&["b", "c", "d"]), "{which}");
        let sum = fetch_type(cluster.node(which), ("counter", "k")).await.expect("a read").value;
        assert_eq!(sum, Some(TypeValue::Counter(15)), "{which}");
    }
    // One misses a delete; what it has does not come back by way of it.
    cluster.stop(2).await;
    let drop =
        AvailableCall::Remove { key: bytes("k"), context: None, options: StoreOptions::default() };
    ask(cluster.node(0), &of("set"), Call::Available(drop)).await.expect("deleted");
    change(cluster.node(1), key, adding(&["new"]), None).await.expect("added");
    cluster.start(2).await;
    wait_settled(&cluster).await;
    change(cluster.node(2), key, adding(&["newer"]), None).await.expect("added");
    for which in 0..3 {
        let now = fetch_type(cluster.node(which), key).await.expect("a read").value;
        assert_eq!(now, set(&["new", "newer"]), "{which}");
    }
}
