//! Declared indexes in the directory: definitions, numbers, states and refusals.

use super::many::ask;
use super::{Place, reason};
use crate::Node;
use base::index::{
    BuildProgress, IndexCall, IndexDescription, IndexReport, IndexSpec, IndexState, ReportPlace,
    ReportedState,
};
use base::limits::INDEXES_PER_BUCKET_MAX;
use base::{Body, BucketId, BucketName, Call, DirectoryCall, NodeId, Reason, Result};
use std::sync::atomic::Ordering;

pub(super) fn spec(name: &str) -> IndexSpec {
    IndexSpec {
        name: name.into(),
        path: "$.count".into(),
        value_type: "int".into(),
        format: "json".into(),
        is_unique: false,
        is_strict: false,
    }
}

fn bucket(name: &str) -> BucketName {
    BucketName::parse(name).expect("a name")
}

async fn directory(node: &Node, bucket: &BucketName, call: DirectoryCall) -> Result<Body> {
    ask(node, bucket, Call::Directory(call)).await.map(|reply| reply.body)
}

pub(super) async fn call(node: &Node, bucket: &BucketName, call: IndexCall) -> Result<Body> {
    directory(node, bucket, DirectoryCall::Index(call)).await
}

pub(super) async fn create(
    node: &Node,
    bucket: &BucketName,
    spec: IndexSpec,
) -> Result<IndexDescription> {
    match call(node, bucket, IndexCall::Create(spec)).await? {
        Body::Indexes(mut all) if all.len() == 1 => Ok(all.remove(0)),
        other => panic!("a created index is described, not {other:?}"),
    }
}

async fn list(node: &Node, bucket: &BucketName) -> Vec<IndexDescription> {
    match call(node, bucket, IndexCall::List).await.expect("a list") {
        Body::Indexes(all) => all,
        other => panic!("indexes are listed, not {other:?}"),
    }
}

pub(super) async fn state(node: &Node, bucket: &BucketName, name: &str) -> Result<IndexState> {
    match call(node, bucket, IndexCall::Describe { name: name.into() }).await? {
        Body::Indexes(mut all) if all.len() == 1 => Ok(all.remove(0).state),
        other => panic!("an index is described, not {other:?}"),
    }
}

async fn drop_index(node: &Node, bucket: &BucketName, name: &str) -> Result<Body> {
    call(node, bucket, IndexCall::Drop { name: name.into() }).await
}

pub(super) async fn report(
    node: &Node,
    bucket: &BucketName,
    (number, place): (u32, ReportPlace),
    state: ReportedState,
) {
    let report = IndexCall::Report(IndexReport { number, place, state });
    assert_eq!(call(node, bucket, report).await, Ok(Body::Done));
}

/// Returns the place of a consistent bucket.
pub(super) fn place(node: &Node, bucket: &BucketName) -> ReportPlace {
    let found = node.router.locator.catalog.find(bucket).expect("it is there");
    ReportPlace::Bucket(found.id)
}

/// Returns the names of the definitions in force by the catalog, and their version.
fn in_force(node: &Node, bucket: &BucketName) -> (Vec<String>, u64) {
    let found = node.router.locator.catalog.indexes.find(bucket);
    let found = found.map(|indexes| (*indexes).clone()).unwrap_or_default();
    (found.definitions.iter().map(|it| it.name.to_string()).collect(), found.version)
}

/// Lets no group tend its indexes, so that reports of tests alone change states.
pub(super) fn pause_keeper(node: &Node) {
    node.router.is_index_keeper_paused.store(true, Ordering::Release);
}

fn building(done: u64, total: u64) -> ReportedState {
    ReportedState::Building(BuildProgress { done, total })
}

#[tokio::test]
async fn index_is_created_once_for_the_same_definition_in_both_consistencies() {
    let data = Place::new();
    let mut node = data.start().await;
    pause_keeper(&node);
    for name in ["default", "available/b"].map(bucket) {
        let made = create(&node, &name, spec("by-count")).await.expect("made");
        assert_eq!(made.state, IndexState::Building(BuildProgress::default()));
        let same = IndexSpec { path: "$['count']".into(), ..spec("by-count") };
        assert_eq!(create(&node, &name, same).await, Ok(made.clone()), "the same path");
        for other in [
            IndexSpec { path: "$.total".into(), ..spec("by-count") },
            IndexSpec { value_type: "float".into(), ..spec("by-count") },
            IndexSpec { format: "msgpack".into(), ..spec("by-count") },
            IndexSpec { is_strict: true, ..spec("by-count") },
        ] {
            let refused = create(&node, &name, other).await.expect_err("the name is taken");
            assert_eq!(refused.reason, Reason::AlreadyExists);
            assert!(refused.text().contains("path $.count, type int"), "{refused}");
        }
        create(&node, &name, spec("a")).await.expect("made");
        let listed: Vec<_> = list(&node, &name).await.into_iter().map(|it| it.spec.name).collect();
        assert_eq!(listed, ["a", "by-count"], "in the order of their names");
        assert_eq!(in_force(&node, &name).0, ["by-count", "a"], "in the order of their numbers");
        assert_eq!(reason(state(&node, &name, "b").await), Reason::NoSuchIndex);
    }
    let known = async |node: &Node| {
        let all = list(node, &bucket("default")).await.into_iter();
        all.map(|index| (index.number, index.spec)).collect::<Vec<_>>()
    };
    let before = known(&node).await;
    node.stop().await.expect("it stops");
    node = data.start().await;
    pause_keeper(&node);
    assert_eq!(known(&node).await, before, "also after a restart");
    assert_eq!(in_force(&node, &bucket("available/b")).0, ["by-count", "a"]);
    assert!(node.router.locator.catalog.indexes.find(&bucket("available/c")).is_none());
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn invalid_definitions_are_refused_with_their_reason() {
    let data = Place::new();
    let node = data.start().await;
    pause_keeper(&node);
    let (consistent, available) = (bucket("default"), bucket("available/b"));
    let with = |change: &dyn Fn(&mut IndexSpec)| {
        let mut changed = spec("by-count");
        change(&mut changed);
        changed
    };
    let unique = with(&|spec| spec.is_unique = true);
    create(&node, &consistent, unique.clone()).await.expect("a consistent bucket can");
    for (name, spec, expected) in [
        (&available, unique, Reason::NotSupported),
        (&bucket("missing"), spec("a"), Reason::NoSuchBucket),
        (&bucket("nokind/b"), spec("a"), Reason::NoSuchBucket),
        (&consistent, spec("age_int"), Reason::Malformed),
        (&consistent, spec(""), Reason::Malformed),
        (&consistent, with(&|spec| spec.path = "count".into()), Reason::Malformed),
        (&consistent, with(&|spec| spec.path = "$..count".into()), Reason::NotSupported),
        (
            &consistent,
            with(&|spec| spec.path = format!("$.{}", "x".repeat(1_023))),
            Reason::TooLarge,
        ),
        (&consistent, with(&|spec| spec.value_type = "date".into()), Reason::Malformed),
        (&consistent, with(&|spec| spec.format = "xml".into()), Reason::Malformed),
        (&consistent, with(&|spec| spec.value_type = "bytes".into()), Reason::Malformed),
    ] {
        let refused = create(&node, name, spec.clone()).await;
        assert_eq!(reason(refused), expected, "{name}: {spec:?}");
    }
    let longest = with(&|spec| {
        spec.name = "long".into();
        spec.path = format!("$.{}", "x".repeat(1_022));
    });
    create(&node, &consistent, longest).await.expect("1,024 bytes");
    let kind = vec![
        ("consistency".to_string(), "available".to_string()),
        ("datatype".to_string(), "map".to_string()),
    ];
    let maps = bucket("maps/b");
    directory(&node, &maps, DirectoryCall::CreateType(kind)).await.expect("a type");
    let refused = create(&node, &maps, spec("a")).await.expect_err("no documents");
    assert_eq!(refused.reason, Reason::NotSupported);
    assert!(refused.text().contains("data types (map)"), "{refused}");
    assert_eq!(
        reason(call(&node, &bucket("missing"), IndexCall::List).await),
        Reason::NoSuchBucket
    );
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn bucket_has_at_most_32_indexes_and_numbers_are_never_used_again() {
    let data = Place::new();
    let node = data.start().await;
    pause_keeper(&node);
    let (first, other) = (bucket("default"), bucket("available/b"));
    let mut numbers = Vec::new();
    for number in 0..INDEXES_PER_BUCKET_MAX {
        let made = create(&node, &first, spec(&format!("i{number}"))).await.expect("made");
        numbers.push(made.number);
    }
    let refused = create(&node, &first, spec("one-more")).await.expect_err("the bucket is full");
    assert_eq!(refused.reason, Reason::TooLarge);
    assert!(refused.text().contains("indexes_per_bucket_max"), "{refused}");
    create(&node, &first, spec("i0")).await.expect("it is there, so nothing is added");
    for round in 0..3 {
        let made = create(&node, &other, spec("again")).await.expect("made");
        assert!(!numbers.contains(&made.number), "{round}: {numbers:?}");
        numbers.push(made.number);
        let indexes = &node.router.locator.catalog.indexes;
        let found = indexes.find(&other).expect("it has one");
        let number = found.definitions.iter().next().expect("it is in force").number;
        assert_eq!((number.0, indexes.is_dropped(number)), (made.number, false));
        assert_eq!(drop_index(&node, &other, "again").await, Ok(Body::Done));
        assert!(list(&node, &other).await.is_empty(), "it is gone at once");
        assert!(indexes.is_dropped(number));
    }
    assert_eq!(reason(drop_index(&node, &other, "again").await), Reason::NoSuchIndex);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn consistent_index_follows_its_group_and_goes_when_the_group_removed_it() {
    let data = Place::new();
    let node = data.start().await;
    pause_keeper(&node);
    let name = bucket("default");
    let made = create(&node, &name, spec("by-count")).await.expect("made");
    let at = (made.number, place(&node, &name));
    let ready = || node.router.locator.catalog.indexes.ready(&name, "by-count");
    assert_eq!(reason(ready()), Reason::IndexBuilding);
    report(&node, &name, at, building(3, 9)).await;
    let progress = BuildProgress { done: 3, total: 9 };
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Building(progress)));
    let refused = ready().expect_err("it is being built");
    assert_eq!(BuildProgress::from_error(&refused), Some(progress));
    for (number, place) in [
        (made.number, ReportPlace::Bucket(BucketId(99))),
        (made.number, ReportPlace::Node(NodeId(1))),
        (made.number + 1, at.1),
    ] {
        report(&node, &name, (number, place), ReportedState::Complete(9)).await;
        assert_eq!(reason(ready()), Reason::IndexBuilding, "another place, or another index");
    }
    let version = in_force(&node, &name).1;
    report(&node, &name, at, ReportedState::Complete(9)).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Ready));
    assert_eq!(ready().map(|it| it.number.0), Ok(made.number));
    assert_eq!(in_force(&node, &name).1, version, "a state is no other definition");
    report(&node, &name, at, ReportedState::Removed).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Ready), "nobody dropped it");
    for _ in 0..2 {
        assert_eq!(drop_index(&node, &name, "by-count").await, Ok(Body::Done), "idempotent");
        assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Dropping));
    }
    assert_eq!((reason(ready()), in_force(&node, &name).0.len()), (Reason::NoSuchIndex, 0));
    let refused = create(&node, &name, spec("by-count")).await.expect_err("it is being dropped");
    assert_eq!(refused.reason, Reason::Changed);
    assert!(refused.text().contains("still being dropped"), "{refused}");
    report(&node, &name, at, ReportedState::Complete(9)).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Dropping), "a late report");
    report(&node, &name, at, ReportedState::Removed).await;
    assert_eq!(reason(state(&node, &name, "by-count").await), Reason::NoSuchIndex);
    let again = create(&node, &name, spec("by-count")).await.expect("the name is free");
    assert!(again.number > made.number);
    report(&node, &name, at, ReportedState::Complete(9)).await;
    assert_eq!(reason(ready()), Reason::IndexBuilding, "a report about the former one");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn failed_index_says_why_until_it_is_dropped() {
    let data = Place::new();
    let node = data.start().await;
    pause_keeper(&node);
    let name = bucket("default");
    let made = create(&node, &name, spec("by-count")).await.expect("made");
    let at = (made.number, place(&node, &name));
    report(&node, &name, at, ReportedState::Failed("keys `a` and `b` have 7".into())).await;
    let refused = node.router.locator.catalog.indexes.ready(&name, "by-count");
    let refused = refused.expect_err("it failed");
    assert_eq!(refused.reason, Reason::IndexFailed);
    assert!(refused.text().contains("keys `a` and `b` have 7"), "{refused}");
    assert!(in_force(&node, &name).0.is_empty(), "writes need not maintain it");
    let again = create(&node, &name, spec("by-count")).await.expect("the same definition");
    assert_eq!(again.state.name(), "failed", "it is not begun anew");
    assert_eq!(drop_index(&node, &name, "by-count").await, Ok(Body::Done));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn available_index_is_ready_once_the_ring_is_covered() {
    let data = Place::new();
    let node = data.start().await;
    pause_keeper(&node);
    let name = bucket("available/b");
    let made = create(&node, &name, spec("by-count")).await.expect("made");
    let own = ReportPlace::Node(node.cluster.links.node);
    report(&node, &name, (made.number, own), building(1, 4)).await;
    let progress = BuildProgress { done: 1, total: 4 };
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Building(progress)));
    let stranger = ReportPlace::Node(NodeId(77));
    report(&node, &name, (made.number, stranger), ReportedState::Complete(4)).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Building(progress)));
    report(&node, &name, (made.number, own), ReportedState::Complete(4)).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Ready));
    report(&node, &name, (made.number, own), building(1, 4)).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Ready), "it stays ready");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn indexes_begin_anew_with_a_clear_and_end_with_their_bucket() {
    let data = Place::new();
    let node = data.start().await;
    pause_keeper(&node);
    let name = bucket("b");
    directory(&node, &name, DirectoryCall::CreateBucket(Vec::new())).await.expect("made");
    let made = create(&node, &name, spec("by-count")).await.expect("made");
    let dropped = create(&node, &name, spec("dropped")).await.expect("made");
    let before = place(&node, &name);
    report(&node, &name, (made.number, before), ReportedState::Complete(9)).await;
    drop_index(&node, &name, "dropped").await.expect("it goes");
    directory(&node, &name, DirectoryCall::ClearBucket).await.expect("cleared");
    let listed = list(&node, &name).await;
    assert_eq!(listed.len(), 1, "what was being dropped went with the former rows: {listed:?}");
    assert_eq!((listed[0].number, listed[0].state.name()), (made.number, "building"));
    report(&node, &name, (made.number, before), ReportedState::Complete(9)).await;
    assert_eq!(list(&node, &name).await, listed, "a report about the former rows");
    report(&node, &name, (made.number, place(&node, &name)), ReportedState::Complete(0)).await;
    assert_eq!(state(&node, &name, "by-count").await, Ok(IndexState::Ready));
    directory(&node, &name, DirectoryCall::DropBucket).await.expect("dropped");
    assert!(node.router.locator.catalog.indexes.find(&name).is_none());
    assert_eq!(reason(call(&node, &name, IndexCall::List).await), Reason::NoSuchBucket);
    report(&node, &name, (made.number, before), ReportedState::Complete(9)).await;
    directory(&node, &name, DirectoryCall::CreateBucket(Vec::new())).await.expect("made");
    assert!(list(&node, &name).await.is_empty(), "another bucket of this name has no indexes");
    let again = create(&node, &name, spec("by-count")).await.expect("made");
    assert!(again.number > dropped.number);
    node.stop().await.expect("it stops");
}
