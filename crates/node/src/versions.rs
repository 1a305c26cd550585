//! Versions of the peer protocol that the directory's content requires of all nodes.
//!
//! A node of an earlier program that became master of a group with counted buckets would
//! change their rows without their counts. One that knows no users would serve everybody. So a
//! bucket or a type is counted, and a user created, only once every member is known to be able to,
//! and from then on a node that is not is no peer.

use crate::locator::GroupLocator;
use base::properties::{COUNTED, Changes};
use base::{DirectoryCall, Error, Reason, Result};
use transport::{VERSION_LOWEST, VERSION_WITH_COUNTS, VERSION_WITH_PRINCIPALS};

/// Version that a change of the directory requires of every member, and what for.
struct Requirement {
    version: u16,
    what: &'static str,
}

const COUNTS: Requirement =
    Requirement { version: VERSION_WITH_COUNTS, what: "keep counts (`counted`)" };
const USERS: Requirement =
    Requirement { version: VERSION_WITH_PRINCIPALS, what: "check the rights of users" };

impl GroupLocator {
    /// Returns the lowest protocol version that other nodes may speak.
    pub(crate) fn version_min(&self) -> u16 {
        if self.catalog.access.version() > 0 {
            USERS.version
        } else if self.catalog.has_counted() {
            COUNTS.version
        } else {
            VERSION_LOWEST
        }
    }

    /// Refuses a call that makes buckets counted, or changes users, unless every other member is
    /// connected and can keep counts, or check rights.
    pub(crate) fn check_versions(&self, call: &DirectoryCall) -> Result<()> {
        let requirement = match call {
            // From the first user on, no node of an older program is connected.
            DirectoryCall::Access(_) if self.catalog.access.version() == 0 => USERS,
            DirectoryCall::CreateBucket(changes)
            | DirectoryCall::AlterBucket(changes)
            | DirectoryCall::PlaceBucket { changes, .. }
            | DirectoryCall::CreateType(changes)
            | DirectoryCall::AlterType(changes)
                if makes_counted(changes) =>
            {
                COUNTS
            }
            _ => return Ok(()),
        };
        let (cluster, peers) = (self.catalog.cluster(), self.links.peers.get());
        for member in cluster.members.iter().filter(|member| member.node != self.links.node) {
            let version = peers.and_then(|peers| peers.version(member.node));
            check_version(&member.name, version, &requirement)?;
        }
        Ok(())
    }
}

fn makes_counted(changes: &Changes) -> bool {
    changes.iter().any(|(name, text)| name == COUNTED && text == "true")
}

/// Checks the version of a member's connection. `None`: it has none.
fn check_version(name: &str, version: Option<u16>, requirement: &Requirement) -> Result<()> {
    let what = requirement.what;
    match version {
        Some(version) if version >= requirement.version => Ok(()),
        Some(_) => Err(Error::new(
            Reason::NotSupported,
            format!(
                "nothing was changed: the program of node `{name}` can't {what}: upgrade every \
                 node first"
            ),
        )),
        None => Err(Error::new(
            Reason::NoQuorum,
            format!(
                "nothing was changed: node `{name}` is not connected, and its program may be too \
                 old to {what}: start the node or remove it, and try again"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_users_require_a_connected_member_of_their_version() {
        for requirement in [COUNTS, USERS] {
            let version = requirement.version;
            assert_eq!(check_version("n2", Some(version), &requirement), Ok(()));
            assert_eq!(check_version("n2", Some(version + 1), &requirement), Ok(()));
            let reason =
                |version| check_version("n2", version, &requirement).map_err(|error| error.reason);
            assert_eq!(reason(Some(version - 1)), Err(Reason::NotSupported));
            assert_eq!(reason(None), Err(Reason::NoQuorum));
        }
        let change = |name: &str, text: &str| vec![(name.to_string(), text.to_string())];
        assert!(makes_counted(&change("counted", "true")));
        assert!(!makes_counted(&change("counted", "false")));
        assert!(!makes_counted(&change("sync", "interval")));
    }
}
