//! Versions of the peer protocol that the directory's content requires of all nodes.
//!
//! A node of an earlier program that became master of a group with counted buckets would
//! change their rows without their counts. So a bucket or a type is counted only once every member
//! is known to be able to, and from then on a node that is not is no peer.

use crate::locator::GroupLocator;
use base::properties::{COUNTED, Changes};
use base::{DirectoryCall, Error, Reason, Result};
use transport::{VERSION_LOWEST, VERSION_WITH_COUNTS};

impl GroupLocator {
    /// Returns the lowest protocol version that other nodes may speak.
    pub(crate) fn version_min(&self) -> u16 {
        if self.catalog.has_counted() { VERSION_WITH_COUNTS } else { VERSION_LOWEST }
    }

    /// Refuses a call that makes buckets counted, unless every other member is connected and can
    /// keep counts.
    pub(crate) fn check_versions(&self, call: &DirectoryCall) -> Result<()> {
        let changes = match call {
            DirectoryCall::CreateBucket(changes)
            | DirectoryCall::AlterBucket(changes)
            | DirectoryCall::PlaceBucket { changes, .. }
            | DirectoryCall::CreateType(changes)
            | DirectoryCall::AlterType(changes) => changes,
            _ => return Ok(()),
        };
        if !makes_counted(changes) {
            return Ok(());
        }
        let (cluster, peers) = (self.catalog.cluster(), self.links.peers.get());
        for member in cluster.members.iter().filter(|member| member.node != self.links.node) {
            let version = peers.and_then(|peers| peers.version(member.node));
            check_version(&member.name, version)?;
        }
        Ok(())
    }
}

fn makes_counted(changes: &Changes) -> bool {
    changes.iter().any(|(name, text)| name == COUNTED && text == "true")
}

/// Checks the version of a member's connection. `None`: it has none.
fn check_version(name: &str, version: Option<u16>) -> Result<()> {
    match version {
        Some(VERSION_WITH_COUNTS..) => Ok(()),
        Some(_) => Err(Error::new(
            Reason::NotSupported,
            format!(
                "nothing was changed: the program of node `{name}` can't keep counts \
                 (`{COUNTED}`): upgrade every node first"
            ),
        )),
        None => Err(Error::new(
            Reason::NoQuorum,
            format!(
                "nothing was changed: node `{name}` is not connected, and its program may be too \
                 old to keep counts (`{COUNTED}`): start the node or remove it, and try again"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_require_a_connected_member_of_a_version_with_counts() {
        assert_eq!(check_version("n2", Some(VERSION_WITH_COUNTS)), Ok(()));
        assert_eq!(check_version("n2", Some(VERSION_WITH_COUNTS + 1)), Ok(()));
        let reason = |version| check_version("n2", version).map_err(|error| error.reason);
        assert_eq!(reason(Some(VERSION_LOWEST)), Err(Reason::NotSupported));
        assert_eq!(reason(None), Err(Reason::NoQuorum));
        let change = |name: &str, text: &str| vec![(name.to_string(), text.to_string())];
        assert!(makes_counted(&change("counted", "true")));
        assert!(!makes_counted(&change("counted", "false")));
        assert!(!makes_counted(&change("sync", "interval")));
    }
}
