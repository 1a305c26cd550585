//! Values that live for a time: by their bucket, or each by its own write.

use super::{assert_refused, bucket, get};
use crate::Node;
use crate::tests::many::ask;
use crate::tests::test_cluster::wait;
use crate::tests::{Place, bytes};
use base::request::Expiry;
use base::{Body, BucketName, Call, DirectoryCall, Read, ReadLevel, Reason, Result, Row, Update};

/// Long enough to be seen, short enough to be waited for.
const MOMENT_MS: u64 = 300;

async fn write(node: &Node, key: &str, expiry: Expiry) -> Result<()> {
    let update = Update::Set { key: bytes(key), value: bytes("v"), expiry };
    ask(node, &bucket(), Call::Update(update)).await.map(|_| ())
}

async fn row(node: &Node, key: &str) -> Option<Row> {
    let call = Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent);
    match ask(node, &bucket(), call).await.expect("a read").body {
        Body::Row(row) => row,
        other => panic!("a get gives a row, not {other:?}"),
    }
}

async fn wait_expired(node: &Node, key: &str) {
    loop {
        if get(node, key).await == Ok(None) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn call_directory(node: &Node, name: &BucketName, call: DirectoryCall) -> Result<()> {
    ask(node, name, Call::Directory(call)).await.map(|_| ())
}

fn properties(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[tokio::test]
async fn value_expires_by_ttl_of_its_write_or_bucket() {
    let place = Place::new();
    let node = place.start().await;
    write(&node, "short", Expiry::After(MOMENT_MS)).await.expect("a set");
    let left = row(&node, "short").await.and_then(|row| row.expires_in_ms);
    assert!(left.is_some_and(|left| left <= MOMENT_MS), "{left:?}");
    wait_expired(&node, "short").await;
    write(&node, "long", Expiry::Default).await.expect("a set");
    assert_eq!(row(&node, "long").await.and_then(|row| row.expires_in_ms), None);
    assert_refused(write(&node, "long", Expiry::Keep).await, Reason::NotSupported);

    let ttl = properties(&[("ttl_ms", &MOMENT_MS.to_string())]);
    call_directory(&node, &bucket(), DirectoryCall::AlterBucket(ttl)).await.expect("altered");
    let known = || {
        let found = node.router.locator.catalog.available.find(&bucket());
        found.filter(|properties| properties.ttl_ms == MOMENT_MS).map(|_| ())
    };
    wait("the bucket's time to live", known).await;
    write(&node, "usual", Expiry::Default).await.expect("a set");
    write(&node, "kept", Expiry::Never).await.expect("a set");
    wait_expired(&node, "usual").await;
    assert_eq!(get(&node, "kept").await, Ok(Some(bytes("v"))), "its write said so");
    assert_eq!(get(&node, "long").await, Ok(Some(bytes("v"))), "it was there before");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn data_type_with_ttl_is_refused() {
    let place = Place::new();
    let node = place.start().await;
    let name = BucketName::new("counters", "b").expect("a name");
    let both =
        properties(&[("consistency", "available"), ("datatype", "counter"), ("ttl_ms", "9")]);
    let created = call_directory(&node, &name, DirectoryCall::CreateType(both)).await;
    let error = created.expect_err("one of them only");
    assert!(error.reason == Reason::NotSupported && error.text().contains("ttl_ms"), "{error}");
    node.stop().await.expect("it stops");
}
