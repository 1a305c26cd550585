//! Available buckets: on one node beside a model, and on three that are stopped and started.
//!
//! Promises: real files and real sockets; what a model says of every key is compared with what
//! clients read.
//! Never: waits for a fixed time where it can wait for what must come about.
//! Read next: `one.rs`, then `three.rs` and `types.rs`.

mod batch;
mod contexts;
mod expiry;
mod feeds;
mod growth;
mod healing;
mod indexes;
mod interrupted;
mod limits;
mod lists;
mod load;
mod moving;
mod one;
mod resizing;
mod three;
mod types;

use super::many::ask;
use super::{bytes, reason};
use crate::Node;
use base::{
    AvailableCall, Body, BucketName, Call, Content, Context, FetchOptions, Key, Read, ReadLevel,
    Reason, Result, Siblings, Store, StoreOptions,
};
use bytes::Bytes;

fn bucket() -> BucketName {
    BucketName::new(BucketName::AVAILABLE, "b").expect("a name")
}

async fn call(node: &Node, call: AvailableCall) -> Result<Body> {
    ask(node, &bucket(), Call::Available(call)).await.map(|reply| reply.body)
}

pub(super) fn store_call(key: &str, value: &str, context: Option<&Context>) -> AvailableCall {
    AvailableCall::Store(Box::new(Store {
        key: bytes(key),
        content: Content::plain(bytes(value)),
        context: context.cloned(),
        ..Store::default()
    }))
}

/// Writes a value. Returns the context of the client's own write.
async fn store(node: &Node, key: &str, value: &str, context: Option<&Context>) -> Result<Context> {
    match call(node, store_call(key, value, context)).await? {
        Body::Stored(context) => Ok(context),
        other => panic!("a write is stored, not {other:?}"),
    }
}

async fn fetch(node: &Node, key: &str) -> Result<Siblings> {
    let options = FetchOptions::default();
    match call(node, AvailableCall::Fetch { key: bytes(key), options }).await? {
        Body::Siblings(siblings) => Ok(siblings),
        other => panic!("a read gives siblings, not {other:?}"),
    }
}

async fn remove(node: &Node, key: &str, context: Option<&Context>) -> Result<Body> {
    let (key, context) = (bytes(key), context.cloned());
    call(node, AvailableCall::Remove { key, context, options: StoreOptions::default() }).await
}

/// Returns the live values, in order.
fn values(siblings: &Siblings) -> Vec<Bytes> {
    let mut values: Vec<_> =
        siblings.without_tombstones().map(|sibling| sibling.content.value.clone()).collect();
    values.sort();
    values
}

async fn live_values(node: &Node, key: &str) -> Vec<Bytes> {
    values(&fetch(node, key).await.expect("a read"))
}

async fn keys(node: &Node, after: Option<&str>, rows_max: usize) -> (Vec<Key>, bool) {
    let after = after.map(bytes);
    match call(node, AvailableCall::Keys { after, rows_max }).await.expect("a list") {
        Body::Keys(keys) => (keys.keys, keys.more),
        other => panic!("keys are listed, not {other:?}"),
    }
}

/// Reads a key with a plain get.
async fn get(node: &Node, key: &str) -> Result<Option<Bytes>> {
    let call = Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent);
    match ask(node, &bucket(), call).await?.body {
        Body::Row(row) => Ok(row.map(|row| row.value)),
        other => panic!("a get gives a row, not {other:?}"),
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T>, expected: Reason) {
    assert_eq!(reason(result), expected);
}
