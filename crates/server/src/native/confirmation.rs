//! Confirmation of what destroys data or rights: the request names it a second time, by the
//! parameter `confirm`.
//!
//! The command line asks its user for the name, and sends it. A program that mistakes a path, or a
//! page of the shell's history, thus destroys nothing.

use super::errors::malformed;
use super::parameters::Query;
use super::routes::RouteName;
use super::target::RequestTarget;
use base::Error;

/// Word that confirms that access is turned off.
const OFF: &str = "off";

/// Fails if the target's request destroys what it does not confirm.
pub fn check(target: &RequestTarget) -> Result<(), Error> {
    match target.route.name {
        RouteName::DropBucket | RouteName::ClearBucket | RouteName::EmptyPrefix => {
            require(&target.query, target.bucket.full())
        }
        RouteName::RemoveUser | RouteName::RemoveRole => require(&target.query, &target.member),
        _ => Ok(()),
    }
}

/// Fails if a request that turns access off does not confirm it.
pub fn check_switch(query: &Query, on: bool) -> Result<(), Error> {
    if on { Ok(()) } else { require(query, OFF) }
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
