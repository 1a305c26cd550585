//! Requests of several steps: a client whose first step is done is never told that nothing was
//! done.

use super::{Place, bytes, request};
use crate::{Flow, SubmitResult};
use base::{AvailableCall, Body, Call, Content, Kind, Store, StoreOptions};
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;

fn store(key: &str, value: &str) -> Call {
    Call::Available(AvailableCall::Store(Box::new(Store {
        key: bytes(key),
        content: Content::plain(bytes(value)),
        context: None,
        options: StoreOptions { return_body: true, ..StoreOptions::default() },
        condition: None,
    })))
}

#[tokio::test]
async fn accepted_write_returns_body_or_unknown_while_node_stops() {
    let place = Place::new();
    let node = place.start().await;
    let submitted = node.submit(&mut Flow::of(base::Principal::Node), request(store("k", "v")));
    let SubmitResult::Later(mut answer) = submitted else { panic!("a write is awaited") };
    // The gate: the write is taken and not decided yet; what is asked from here on is refused.
    let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
    node.lifecycle.stopping.store(true, Ordering::Release);
    let told = match first {
        Poll::Ready(told) => told,
        Poll::Pending => answer.await,
    };
    node.lifecycle.stopping.store(false, Ordering::Release);
    match told.map(|reply| reply.body) {
        Ok(Body::Siblings(found)) => {
            assert_eq!(found.values.len(), 1);
            assert_eq!(found.values[0].content.value, bytes("v"));
        }
        Ok(other) => panic!("a value was asked for: {other:?}"),
        Err(error) => assert_eq!(error.kind(), Kind::Unknown, "the write is done: {error}"),
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn write_that_returns_body_issues_no_separate_read() {
    let place = Place::new();
    let node = place.start().await;
    let reads = || node.router.metrics.reads.load(Ordering::Relaxed);
    let before = reads();
    for value in ["v", "w"] {
        let told = node
            .handle(&base::Principal::Node, request(store("k", value)))
            .await
            .expect("it is taken");
        let Body::Siblings(found) = told.body else { panic!("a value was asked for") };
        assert_eq!(found.values[0].content.value, bytes(value));
        let version = u64::from_le_bytes(found.context.0[1..].try_into().expect("a version"));
        assert!(version > 0);
    }
    assert_eq!(reads(), before, "a second request could fail, or find what another wrote since");
    node.stop().await.expect("it stops");
}
