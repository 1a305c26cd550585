//! Limits of available buckets: a request that is too large is refused in words before it reaches
//! another node.

use super::three::three;
use super::{assert_refused, bucket, call, fetch, get, live_values, remove, store, store_call};
use crate::tests::many::ask;
use crate::tests::{Place, bytes, set};
use base::dots::DotContext;
use base::limits::{CONTEXT_BYTES_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, TTL_MS_MAX};
use base::request::Expiry;
use base::{
    Actor, AvailableCall, Call, Condition, Content, NodeId, Read, ReadLevel, Reason, Store, Update,
};
use dynamo::vnode_ops::WritePolicy;
use vnode_rows::layout::Row;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_key_is_refused_by_every_node_without_breaking_links() {
    let mut cluster = three().await;
    cluster.join().await;
    let (limit, long) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
    for nth in 0..4 {
        let node = cluster.node(nth);
        let incarnations =
            |node: &crate::Node| node.cluster.links.peers.get().expect("peers").status();
        let before: Vec<_> = incarnations(node).iter().map(|peer| peer.connected).collect();
        assert_refused(ask(node, &bucket(), Call::Update(set(&long, "v"))).await, Reason::TooLarge);
        assert_refused(
            ask(node, &bucket(), Call::Available(store_call(&long, "v", None))).await,
            Reason::TooLarge,
        );
        assert_refused(store(node, &long, "v", None).await, Reason::TooLarge);
        assert_refused(get(node, &long).await, Reason::TooLarge);
        assert_refused(fetch(node, &long).await, Reason::TooLarge);
        assert_refused(remove(node, &long, None).await, Reason::TooLarge);
        let after: Vec<_> = incarnations(node).iter().map(|peer| peer.connected).collect();
        assert_eq!(after, before, "no link was broken");
        ask(node, &bucket(), Call::Update(set(&limit, &nth.to_string()))).await.expect("fits");
        assert_eq!(live_values(node, &limit).await, [bytes(&nth.to_string())]);
    }
}

#[tokio::test]
async fn oversized_ttl_and_too_many_keys_are_refused() {
    let place = Place::new();
    let node = place.start().await;
    let set_for = |ms| {
        let (key, value) = (bytes("k"), bytes("v"));
        Call::Update(Update::Set { key, value, expiry: Expiry::After(ms) })
    };
    assert_refused(ask(&node, &bucket(), set_for(TTL_MS_MAX + 1)).await, Reason::TooLarge);
    assert_eq!(get(&node, "k").await, Ok(None));
    ask(&node, &bucket(), set_for(TTL_MS_MAX)).await.expect("it fits");
    let many = |count| vec![bytes("k"); count];
    let all = |read| Call::Read(read, ReadLevel::Consistent);
    for read in [Read::MultiGet, Read::MultiGetAll, Read::Exists] {
        let too_many = all(read(many(KEYS_PER_READ_MAX + 1)));
        assert_refused(ask(&node, &bucket(), too_many).await, Reason::TooLarge);
        ask(&node, &bucket(), all(read(many(3)))).await.expect("they are there");
    }
    let one_is_gone = Read::MultiGetAll(vec![bytes("k"), bytes("nowhere")]);
    assert_refused(ask(&node, &bucket(), all(one_is_gone)).await, Reason::NotFound);
    node.stop().await.expect("it stops");
}

/// Every incarnation of a node that did not shut down cleanly may leave an actor in a row.
#[tokio::test]
async fn row_with_more_actors_than_a_context_holds_stays_usable() {
    let place = Place::new();
    let node = place.start().await;
    store(&node, "k", "1", None).await.expect("a write");
    let old = fetch(&node, "k").await.expect("a read").context;
    let actor = |incarnation| Actor { node: NodeId(7), vnode: 3, incarnation };
    let incarnations = DotContext::from_counts((1..5_000).map(|life| (actor(life << 32), 1 << 20)));
    let (name, key) = (bucket(), bytes("k"));
    let owners = node.router.available.key_owners(&name, &key, 3).expect("there is a ring");
    let rules = WritePolicy {
        sync: true,
        keep_newest_only: false,
        last_write_wins: false,
        siblings_max: 9,
    };
    node.router
        .available
        .vnode_store
        .merge(&owners.key_ref, Row::empty().discard(&incarnations), rules, None)
        .expect("kept");
    // What is written later is readable later.
    store(&node, "other", "1", None).await.expect("a write");
    let read = fetch(&node, "k").await.expect("a read");
    let length = read.context.0.len();
    assert!((old.0.len() + 1..=CONTEXT_BYTES_MAX).contains(&length), "{length}");
    let unchanged = |context| {
        let condition = Some(Condition::Unchanged(context));
        let content = Content::plain(bytes("3"));
        let new = Store { key: bytes("k"), content, condition, ..Store::default() };
        call(&node, AvailableCall::Store(Box::new(new)))
    };
    let own = store(&node, "k", "2", Some(&read.context)).await.expect("a write");
    assert_eq!(live_values(&node, "k").await, [bytes("2")], "it replaces what was read");
    assert_refused(unchanged(read.context).await, Reason::Changed);
    store(&node, "k", "3", Some(&own)).await.expect("a write");
    assert_eq!(live_values(&node, "k").await, [bytes("3")], "it replaces its writer's own");
    let now = fetch(&node, "k").await.expect("a read").context;
    unchanged(now).await.expect("nobody wrote since");
    node.stop().await.expect("it stops");
}
