//! Mapping of Arakoon cluster ids to buckets, and creation of these buckets.
//!
//! A cluster id keeps clients from writing into the wrong cluster, so the server accepts no unknown
//! id. It serves an id if its bucket exists, or if the setting `arakoon_clusters` has it; then the
//! first client's connection creates the bucket. For any other id it closes the connection without
//! an answer, as Arakoon does.

use super::errors::ArakoonRefusal;
use super::output::Output;
use crate::{Shared, writer};
use base::limits::NAME_BYTES_MAX;
use base::{
    BucketName, Call, DirectoryCall, Error, Principal, Read, ReadLevel, Reason, Request, Result,
};
use node::Node;
use tls::Stream;

/// Bucket type of ids that are valid bucket names.
const PLAIN: &str = "arakoon";
/// Name of a connection's opening in the audit log.
const CONNECT: &str = "connect";
/// Bucket type of all other ids, which are escaped.
const ESCAPED: &str = "arakoon-escaped";

/// Returns the bucket of a cluster id, or `None` if the id is empty or too long. A valid bucket
/// name becomes that name in type `arakoon`. Any other id is escaped in type `arakoon-escaped`: an
/// `x` in front, a capital letter as `_` and its lower-case letter, any other byte as `__` and two
/// hexadecimal digits.
pub fn bucket_of(cluster: &[u8]) -> Option<BucketName> {
    let plain = std::str::from_utf8(cluster).ok();
    let valid = plain.and_then(|id| BucketName::new(PLAIN, id).ok());
    if let Some(name) = valid.filter(BucketName::is_plain) {
        return Some(name);
    }
    let mut escaped = String::from("x");
    for &byte in cluster {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => escaped.push(char::from(byte)),
            b'A'..=b'Z' => {
                escaped.push('_');
                escaped.push(char::from(byte.to_ascii_lowercase()));
            }
            other => escaped.push_str(&format!("__{other:02x}")),
        }
        if escaped.len() > NAME_BYTES_MAX {
            return None;
        }
    }
    if cluster.is_empty() { None } else { BucketName::new(ESCAPED, &escaped).ok() }
}

/// Returns the bucket of a cluster that this node serves, and that the principal may enter. Creates
/// it for a configured cluster.
pub(super) async fn open(
    shared: &Shared,
    principal: &Principal,
    cluster: &[u8],
) -> Result<BucketName> {
    let (node, configured) = (&shared.node, &shared.settings.arakoon_clusters);
    let Some(bucket) = bucket_of(cluster) else {
        return Err(Error::new(Reason::NoSuchBucket, "no bucket can have this cluster's name"));
    };
    check_entry(node, principal, &bucket)?;
    let request = |call| Request { bucket: bucket.clone(), call, retry: None };
    // A dirty read of no key needs no quorum, and fails only if the bucket does not exist.
    let probe = Call::Read(Read::Exists(Vec::new()), ReadLevel::Dirty);
    // The node's own: it tells a client no more than that the bucket exists, which it may enter.
    let result = node.handle(&Principal::Node, request(probe)).await;
    let is_configured = configured.iter().any(|name| name.as_bytes() == cluster);
    match result {
        Ok(_) => return Ok(bucket),
        // This node's catalog is behind, so the directory's master answers below.
        Err(error) if error.reason == Reason::StaleReplica => {}
        Err(error) if error.reason != Reason::NoSuchBucket || !is_configured => return Err(error),
        Err(_) => {}
    }
    if is_configured {
        create_bucket(node, principal, &bucket).await?;
    }
    // Another node may have created it. This request returns once this node's catalog has the
    // bucket.
    let describe = Call::Directory(DirectoryCall::DescribeBucket);
    node.handle(&Principal::Node, request(describe)).await?;
    Ok(bucket)
}

/// Checks that the principal may enter a cluster's bucket now, also on a connection that is open
/// since before its rights ended, or since before access was on.
pub(super) fn check_entry(node: &Node, principal: &Principal, bucket: &BucketName) -> Result<()> {
    if !node.is_access_on() {
        return Ok(());
    }
    let may_enter = match principal {
        Principal::User(login, _) => node.may_enter(login, bucket),
        Principal::Anonymous(_) => false,
        Principal::Node | Principal::LocalOperator => true,
    };
    if may_enter {
        return Ok(());
    }
    let reason = match principal.user() {
        Some(_) => Reason::Forbidden,
        None => Reason::Unauthenticated,
    };
    node.record_refusal(principal, CONNECT, bucket.full().into(), reason);
    let text = "the user of the client's certificate, or else of the listener (`arakoon_user`), \
                has no right in it, or there is none";
    Err(Error::new(Reason::Forbidden, text))
}

/// Creates a cluster's bucket and its type. Succeeds if they exist already.
async fn create_bucket(node: &Node, principal: &Principal, bucket: &BucketName) -> Result<()> {
    for call in [DirectoryCall::CreateType(Vec::new()), DirectoryCall::CreateBucket(Vec::new())] {
        let call = Call::Directory(call);
        let request = Request { bucket: bucket.clone(), call, retry: None };
        match node.handle(principal, request).await {
            Err(error) if error.reason != Reason::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Rejects the client of a cluster that this node does not serve, and logs the reason. A node that
/// starts or stops sends an error; otherwise the connection closes without a byte, as in Arakoon.
pub(super) async fn reject_client(
    stream: &mut Stream,
    shared: &Shared,
    cluster: &[u8],
    error: &Error,
) {
    shared.warn_limited(|| {
        let id = base::codec::printable(cluster);
        format!(
            "an Arakoon client is refused: cluster id `{id}`: {error}; add the id to \
             `arakoon_clusters` to serve it"
        )
    });
    if matches!(error.reason, Reason::Starting | Reason::ShuttingDown) {
        let mut out = Output::default();
        out.refuse(&ArakoonRefusal::shutting_down());
        let _ = writer::write(stream, &out).await;
        writer::close_after_answer(stream).await;
    }
}
