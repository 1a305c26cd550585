//! Contexts that a client forges: none is accepted, none replaces a value that its client has not
//! read, and none makes the rows of other keys grow.

use super::{assert_refused, bucket, fetch, live_values, remove, store};
use crate::tests::{Place, bytes};
use base::codec::{Reader, checksum};
use base::dots::DotContext;
use base::{Actor, ClusterId, Context, Reason};
use vnode_rows::slots::Slot;

/// Size of the seal of a context with a MAC, behind its version and entries.
const SEAL_BYTES: usize = 8;

/// Returns the dots that a context names: its bytes are no secret.
fn dots(context: &Context) -> DotContext<Actor> {
    let entries = &context.0[1..context.0.len() - SEAL_BYTES];
    DotContext::take(&mut Reader::new(entries)).expect("entries")
}

/// Returns the forms in which a client can write a context without the cluster's secret.
fn forge(
    seen: &DotContext<Actor>,
    key: &str,
    cluster: ClusterId,
    genuine: &Context,
) -> [Context; 3] {
    let salt = checksum(key.as_bytes(), checksum(bucket().full().as_bytes(), cluster.0));
    let seal = genuine.0.last_chunk::<SEAL_BYTES>().expect("a seal");
    let forms = [
        seen.encode(salt),
        seen.encode_authenticated(|_| [0; SEAL_BYTES]),
        seen.encode_authenticated(|_| *seal),
    ];
    forms.map(|form| Context(form.into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_context_is_refused_and_neighbours_keep_their_actor() {
    let place = Place::new();
    let node = place.start().await;
    let cluster = node.cluster().cluster;
    let own = "own".to_string();
    let slot = Slot::for_key(&bucket(), &bytes(&own));
    let neighbour = (0..100_000)
        .map(|number| format!("n{number}"))
        .find(|key| Slot::for_key(&bucket(), &bytes(key)) == slot)
        .expect("one of so many shares the slot");
    let genuine = store(&node, &own, "v", None).await.expect("a write");
    store(&node, &neighbour, "v", None).await.expect("a write");
    let actor = *dots(&genuine).entries().next().expect("it names the write").0;
    for ahead in 0..20 {
        let seen = dots(&genuine).with_dot(actor, (1 << 40) + ahead);
        for forged in forge(&seen, &own, cluster, &genuine) {
            assert_refused(store(&node, &own, "w", Some(&forged)).await, Reason::Malformed);
            assert_refused(remove(&node, &own, Some(&forged)).await, Reason::Malformed);
        }
        store(&node, &neighbour, "w", None).await.expect("a write");
        store(&node, &own, "x", None).await.expect("a write");
    }
    for key in [&own, &neighbour] {
        let siblings = fetch(&node, key).await.expect("a read");
        let actors: Vec<_> = dots(&siblings.context).entries().map(|(actor, _)| *actor).collect();
        assert_eq!(actors, [actor], "{key}");
        assert!(siblings.context.0.len() < 64, "{key}: {}", siblings.context.0.len());
    }
    assert!(node.samples().iter().any(|sample| {
        sample.name == "credenza_available_contexts_refused_total" && sample.value == 120.0
    }));
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_context_cannot_replace_a_value_that_was_not_read() {
    let place = Place::new();
    let node = place.start().await;
    let cluster = node.cluster().cluster;
    let first = store(&node, "k", "first", None).await.expect("a write");
    store(&node, "k", "second", None).await.expect("a write");
    let actor = *dots(&first).entries().next().expect("it names the write").0;
    // The dots of both values, of which the client has read one.
    let both = DotContext::from_counts([(actor, 2)]);
    for forged in forge(&both, "k", cluster, &first) {
        assert_refused(store(&node, "k", "third", Some(&forged)).await, Reason::Malformed);
    }
    assert_eq!(live_values(&node, "k").await, [bytes("first"), bytes("second")]);
    store(&node, "k", "third", Some(&first)).await.expect("its own context is accepted");
    assert_eq!(live_values(&node, "k").await, [bytes("second"), bytes("third")]);
    node.stop().await.expect("it stops");
}
