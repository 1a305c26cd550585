//! Confirmation of what can't be undone: the request names what it destroys or changes a second
//! time, by the parameter `confirm`.
//!
//! The command line asks its user for the name, or has it as its argument, and sends it. A program
//! that mistakes a path, or a page of the shell's history, thus destroys nothing. The rights of the
//! caller are decided first, so that a missing parameter tells strangers nothing.

use super::errors::malformed;
use super::parameters::Query;
use crate::http::head::parse_number;
use crate::http::percent::{PlusMeaning, decode};
use base::{AccessCall, BucketName, ClusterCall, DirectoryCall, Error, RingCall};

/// Word that confirms that access is turned off.
const OFF: &str = "off";

/// Fails if a call to the directory about this bucket, or about the cluster, destroys what its
/// request does not confirm. `confirm`: the parameter.
pub fn check_call(
    confirm: Option<&[u8]>,
    bucket: &BucketName,
    call: &DirectoryCall,
) -> Result<(), Error> {
    match call {
        DirectoryCall::DropBucket | DirectoryCall::ClearBucket => require(confirm, bucket.full()),
        DirectoryCall::Cluster(call) => check_member_call(confirm, call),
        DirectoryCall::Ring(RingCall::Commit { epoch }) => check_epoch(confirm, *epoch),
        _ => Ok(()),
    }
}

/// Fails if a change of users and roles takes away what its request does not confirm.
pub fn check_access_call(confirm: Option<&[u8]>, call: &AccessCall) -> Result<(), Error> {
    match call {
        AccessCall::RemoveUser { name } | AccessCall::RemoveRole { name } => require(confirm, name),
        AccessCall::Switch { on: false } => require(confirm, OFF),
        _ => Ok(()),
    }
}

/// Fails if a request does not confirm the checkpoint that it removes, whose name is still
/// percent-encoded.
pub fn check_checkpoint(confirm: Option<&[u8]>, encoded: &str) -> Result<(), Error> {
    let name = decode(encoded, PlusMeaning::Plus);
    let is_same = confirm.is_some() && confirm == name.as_deref();
    if is_same { Ok(()) } else { require(confirm, encoded) }
}

/// Fails if a call about members and groups takes a replica away that its request does not confirm.
/// That a member's place may be taken needs none: a damaged member asks for it, and it stays until
/// its successor joins. A join token allows none of these calls, and the directory refuses it.
fn check_member_call(confirm: Option<&[u8]>, call: &ClusterCall) -> Result<(), Error> {
    match call {
        ClusterCall::RemoveMember { name }
        | ClusterCall::ReplaceMember { name, by: Some(_) }
        | ClusterCall::SetPart { name, part: None, .. } => require(confirm, name),
        ClusterCall::DropGroup { group } => require(confirm, &group.to_string()),
        _ => Ok(()),
    }
}

/// Fails if a request does not confirm the epoch of the ring whose plan it commits: the plan that
/// was looked at may not be the present one.
fn check_epoch(confirm: Option<&[u8]>, epoch: Option<u64>) -> Result<(), Error> {
    match epoch {
        Some(epoch) if confirm.and_then(parse_number) == Some(epoch) => Ok(()),
        Some(epoch) => require(confirm, &epoch.to_string()),
        None => Err(malformed(
            "nothing was done: data will move; look at the plan (`GET /v1/cluster/ring/plan`), \
             and to mean it, send its epoch as the parameter `confirm`",
        )),
    }
}

/// Returns the epoch that a query confirms. `None`: it confirms no number.
pub fn epoch(query: &Query) -> Option<u64> {
    query.confirm.as_deref().and_then(parse_number)
}

/// Fails unless a request confirms this name.
pub fn require(confirm: Option<&[u8]>, name: &str) -> Result<(), Error> {
    if confirm == Some(name.as_bytes()) {
        return Ok(());
    }
    let fault = match confirm {
        Some(_) => "the parameter `confirm` names something else",
        None => "this can't be undone",
    };
    let text =
        format!("nothing was done: {fault}; to mean it, send the parameter `confirm={name}`");
    Err(malformed(text))
}
