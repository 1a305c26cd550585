//! Reports of slow requests to the node's slow log.

use crate::counters::{ClientProtocol, OPERATIONS, OperationKind, PROTOCOLS};
use crate::shared::Shared;
use crate::stages::StageTimes;
use base::{BucketName, Call, Request};
use node::{KeyFingerprint, SlowRequest, call_key};
use std::net::SocketAddr;
use std::time::Duration;

/// Request as the slow log names it. Of requests that are answered together it is the first.
#[derive(Clone, Copy, Debug)]
pub struct NamedRequest {
    /// Name of the command.
    pub command: &'static str,
    /// Fingerprint of the key, if it is about one.
    pub key: Option<KeyFingerprint>,
}

impl NamedRequest {
    /// Names a call.
    #[inline]
    pub fn of_call(command: &'static str, call: &Call) -> NamedRequest {
        NamedRequest { command, key: fingerprint(call) }
    }

    /// Names a request about a key.
    #[inline]
    pub fn of_key(command: &'static str, key: &[u8]) -> NamedRequest {
        NamedRequest { command, key: Some(KeyFingerprint::of(key)) }
    }
}

/// Returns the fingerprint of a call's key. `None`: it is about no single key.
#[inline]
pub fn fingerprint(call: &Call) -> Option<KeyFingerprint> {
    call_key(call).map(|key| KeyFingerprint::of(key))
}

/// Bucket of a request, and fingerprint of its key.
#[derive(Clone, Debug)]
pub struct SlowTarget {
    bucket: BucketName,
    key: Option<KeyFingerprint>,
}

impl SlowTarget {
    /// Returns the target of a request.
    pub fn of(request: &Request) -> SlowTarget {
        SlowTarget { bucket: request.bucket.clone(), key: fingerprint(&request.call) }
    }
}

/// Returns the name of a kind of operation, as metrics have it.
pub fn operation_name(operation: OperationKind) -> &'static str {
    OPERATIONS[operation as usize]
}

/// Records one request that took this long, if that is slow. `target`: `None` if it did not reach
/// the node.
pub fn report_one(
    shared: &Shared,
    (protocol, operation): (ClientProtocol, OperationKind),
    target: Option<&SlowTarget>,
    took: Duration,
    stages: &StageTimes,
) {
    let key = target.and_then(|target| target.key);
    let request = NamedRequest { command: operation_name(operation), key };
    let bucket = target.map(|target| &target.bucket);
    report(shared, (protocol, None), (bucket, request), (1, took), stages);
}

/// Records requests of a client that took this long, if that is slow.
#[inline]
pub fn report(
    shared: &Shared,
    (protocol, client): (ClientProtocol, Option<SocketAddr>),
    (bucket, request): (Option<&BucketName>, NamedRequest),
    (requests, took): (u64, Duration),
    stages: &StageTimes,
) {
    if shared.node.is_slow(took) {
        record(shared, (protocol, client), (bucket, request), (requests, took), stages);
    }
}

#[cold]
fn record(
    shared: &Shared,
    (protocol, client): (ClientProtocol, Option<SocketAddr>),
    (bucket, request): (Option<&BucketName>, NamedRequest),
    (requests, took): (u64, Duration),
    stages: &StageTimes,
) {
    let NamedRequest { command, key } = request;
    let bucket = bucket.map_or_else(String::new, |bucket| bucket.full().to_string());
    let key_digest = key.map(|key| key.digest(&bucket));
    shared.node.record_slow(SlowRequest {
        protocol: PROTOCOLS[protocol as usize],
        command,
        bucket,
        key_digest,
        requests,
        took,
        stages: stages.of_slow(shared, took),
        client,
    });
}
