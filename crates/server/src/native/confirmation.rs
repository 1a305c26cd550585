//! Confirmation of what can't be undone: the request names what it destroys or changes a second
//! time, by the parameter `confirm`.
//!
//! The command line asks its user for the name, or has it as its argument, and sends it. A program
//! that mistakes a path, or a page of the shell's history, thus destroys nothing.

use super::errors::malformed;
use super::parameters::Query;
use super::routes::RouteName;
use super::target::RequestTarget;
use crate::http::head::parse_number;
use crate::http::percent::{PlusMeaning, decode};
use base::{ClusterCall, Error};

/// Word that confirms that access is turned off.
const OFF: &str = "off";

/// Fails if the target's request destroys what it does not confirm.
pub fn check(target: &RequestTarget) -> Result<(), Error> {
    let RequestTarget { route, query, bucket, member, checkpoint, .. } = target;
    match route.name {
        RouteName::DropBucket | RouteName::ClearBucket | RouteName::EmptyPrefix => {
            require(query, bucket.full())
        }
        RouteName::RemoveUser | RouteName::RemoveRole => require(query, member),
        RouteName::RemoveCheckpoint => {
            // The path's segment is still percent-encoded.
            let name = decode(checkpoint, PlusMeaning::Plus);
            let is_same = query.confirm.is_some() && query.confirm == name;
            if is_same { Ok(()) } else { require(query, checkpoint) }
        }
        _ => Ok(()),
    }
}

/// Fails if a request that turns access off does not confirm it.
pub fn check_switch(query: &Query, on: bool) -> Result<(), Error> {
    if on { Ok(()) } else { require(query, OFF) }
}

/// Fails if a call about members and groups takes a replica away that its request does not confirm.
/// That a member's place may be taken needs none: a damaged member asks for it, and it stays until
/// its successor joins.
pub fn check_call(query: &Query, call: &ClusterCall) -> Result<(), Error> {
    match call {
        ClusterCall::RemoveMember { name }
        | ClusterCall::ReplaceMember { name, by: Some(_) }
        | ClusterCall::SetPart { name, part: None, .. } => require(query, name),
        ClusterCall::DropGroup { group } => require(query, &group.to_string()),
        _ => Ok(()),
    }
}

/// Returns the epoch of the ring whose plan a request commits: it must confirm it, because the plan
/// that was looked at may not be the present one. `epoch`: that of its body, if it has one.
pub fn confirmed_epoch(query: &Query, epoch: Option<u64>) -> Result<u64, Error> {
    if let Some(epoch) = epoch {
        return require(query, &epoch.to_string()).map(|()| epoch);
    }
    query.confirm.as_deref().and_then(parse_number).ok_or_else(|| {
        malformed(
            "nothing was done: data will move; look at the plan (`GET /v1/cluster/ring/plan`), \
             and to mean it, send its epoch as the parameter `confirm`",
        )
    })
}

fn require(query: &Query, name: &str) -> Result<(), Error> {
    if query.confirm.as_deref() == Some(name.as_bytes()) {
        return Ok(());
    }
    let fault = match query.confirm {
        Some(_) => "the parameter `confirm` names something else",
        None => "this can't be undone",
    };
    let text =
        format!("nothing was done: {fault}; to mean it, send the parameter `confirm={name}`");
    Err(malformed(text))
}
