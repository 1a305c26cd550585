//! The node's laws and examples, on real files.

pub(crate) mod access;
mod access_bootstrap;
mod access_decisions;
mod access_propagation;
mod admission;
mod alarms;
mod audit_records;
mod available;
mod bucket_audit;
mod buckets;
mod budget;
mod cluster;
mod comparison;
mod composites;
mod cost;
mod counted;
mod feeds;
mod forwarded;
mod full_log;
mod groups;
mod growth;
mod incarnations;
mod index_queries;
mod index_upkeep;
mod indexed;
mod installation;
mod interleavings;
mod large;
mod lasting;
mod late;
mod leaving;
mod levels;
mod many;
mod members;
mod mended;
mod mergers;
mod model;
mod moves;
mod order;
mod overload;
mod preferred;
mod pressed;
mod quorums;
mod quotas;
mod recover;
mod remembered;
mod runs;
mod second_decision;
mod secrets;
mod session_owners;
mod sessions;
mod sim;
mod spread;
mod staged;
mod stopped;
pub(crate) mod test_cluster;
mod time;
pub(crate) mod truncation;
mod unheard;
mod whole;
mod witness;

pub(crate) use sim::index_definition;

use crate::{Node, NodeSettings};
use base::request::Expiry;
use base::{
    Body, BucketName, Call, Error, Outcome, Read, ReadLevel, Reply, Request, Result, Update,
};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A data directory that goes away with the test.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("credenza-node-{}-{number}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&place);
        Place(place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn settings(&self) -> NodeSettings {
        NodeSettings {
            data_dir: self.0.clone(),
            segment_bytes: 1 << 20,
            disk_reserve_bytes: 0,
            ..NodeSettings::default()
        }
    }

    pub(crate) async fn start(&self) -> Node {
        Node::start(self.settings()).await.expect("it starts")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn set(key: &str, value: &str) -> Update {
    Update::Set { key: bytes(key), value: bytes(value), expiry: Expiry::Default }
}

pub(crate) fn request(call: Call) -> Request {
    Request { bucket: BucketName::default(), call, retry: None }
}

pub(crate) async fn update(node: &Node, update: Update) -> Result<Outcome> {
    match node.handle(&base::Principal::Node, request(Call::Update(update))).await?.body {
        Body::Updated(outcome) => Ok(outcome),
        other => panic!("an update is answered with an outcome, not {other:?}"),
    }
}

pub(crate) async fn read(node: &Node, read: Read) -> Result<Reply> {
    node.handle(&base::Principal::Node, request(Call::Read(read, ReadLevel::Consistent))).await
}

pub(crate) async fn get(node: &Node, key: &str) -> Option<Bytes> {
    match read(node, Read::Get(bytes(key))).await.expect("a get").body {
        Body::Row(row) => row.map(|row| row.value),
        other => panic!("a get is answered with a row, not {other:?}"),
    }
}

pub(crate) fn reason<T: std::fmt::Debug>(result: Result<T>) -> base::Reason {
    let error: Error = result.expect_err("it must fail");
    error.reason
}
