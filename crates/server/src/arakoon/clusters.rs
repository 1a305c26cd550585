//! Arakoon cluster ids: the bucket that each means, and its creation.
//!
//! A cluster id is what keeps clients from writing into the wrong cluster, so it is never made up:
//! an id is served if its bucket exists, or if the setting `arakoon_clusters` names it, which makes
//! the bucket when the first client comes. Any other is turned away without a word, as Arakoon
//! does.

use super::errors::ArakoonRefusal;
use super::output::Output;
use crate::{Shared, writer};
use base::limits::NAME_BYTES_MAX;
use base::{BucketName, Call, DirectoryCall, Error, Read, ReadLevel, Reason, Request, Result};
use node::Node;
use tokio::net::TcpStream;

/// The bucket type of ids that are bucket names as they are.
const PLAIN: &str = "arakoon";
/// The bucket type of all other ids.
const ESCAPED: &str = "arakoon-escaped";

/// The bucket of a cluster id; none when the id is empty or too long. An id that is a bucket name
/// is one of type `arakoon`. In one of type `arakoon-escaped` a capital letter stands as `_` and
/// the small one, any other byte as `__` and two hexadecimal digits, and an `x` stands in front.
pub fn bucket_of(cluster: &[u8]) -> Option<BucketName> {
    let plain = std::str::from_utf8(cluster).ok();
    let named = plain.and_then(|id| BucketName::new(PLAIN, id).ok());
    if let Some(name) = named.filter(BucketName::is_plain) {
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

/// The bucket of a cluster that is served; makes it if the settings name the cluster.
pub async fn enter(node: &Node, cluster: &[u8], named: &[String]) -> Result<BucketName> {
    let Some(bucket) = bucket_of(cluster) else {
        return Err(Error::new(Reason::NoSuchBucket, "no bucket can have this cluster's name"));
    };
    let ask = |call| Request { bucket: bucket.clone(), call, retry: None };
    // A dirty look at no key: answered without a quorum, and fails only if there is no bucket.
    let look = Call::Read(Read::Exists(Vec::new()), ReadLevel::Dirty);
    let found = node.handle(ask(look)).await;
    let is_named = named.iter().any(|name| name.as_bytes() == cluster);
    match found {
        Ok(_) => return Ok(bucket),
        // This node has not heard of all buckets yet: the directory's master is asked.
        Err(error) if error.reason == Reason::StaleReplica => {}
        Err(error) if error.reason != Reason::NoSuchBucket || !is_named => return Err(error),
        Err(_) => {}
    }
    if is_named {
        make(node, &bucket).await?;
    }
    // Another node may have made it: asked for it, this one waits until it knows it, too.
    node.handle(ask(Call::Directory(DirectoryCall::DescribeBucket))).await?;
    Ok(bucket)
}

/// Makes a cluster's bucket, and its type, unless others did.
async fn make(node: &Node, bucket: &BucketName) -> Result<()> {
    for call in [DirectoryCall::CreateType(Vec::new()), DirectoryCall::CreateBucket(Vec::new())] {
        let call = Call::Directory(call);
        match node.handle(Request { bucket: bucket.clone(), call, retry: None }).await {
            Err(error) if error.reason != Reason::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A cluster that is not served is closed without a byte, as Arakoon does; the log says why.
pub(super) async fn answer_until_started(
    stream: &mut TcpStream,
    shared: &Shared,
    cluster: &[u8],
    error: &Error,
) {
    shared.complain(|| {
        let id = base::codec::printable(cluster);
        format!(
            "an Arakoon client is turned away: cluster id `{id}`: {error}; name it in \
             `arakoon_clusters` if it shall be served"
        )
    });
    if matches!(error.reason, Reason::Starting | Reason::ShuttingDown) {
        let mut out = Output::default();
        out.refuse(&ArakoonRefusal::closing());
        let _ = writer::write(stream, &out).await;
        writer::hang_up(stream).await;
    }
}
