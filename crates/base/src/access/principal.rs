//! Principal: on whose behalf a request is made.

use crate::{TokenDigest, UserDigest};
use core::net::IpAddr;
use std::sync::Arc;

/// Separates digests of users' names from all other digests (BLAKE3, section 2.3).
const USER_CONTEXT: &str = "credenza 2026 user name";

/// On whose behalf a request is made. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A member of the cluster, for its own work; and a program that embeds a node.
    Node,
    /// An operator at a node's local socket: all rights but those of members.
    LocalOperator,
    /// A caller that has not logged in. While access is off, it has the rights of its listener.
    Anonymous(ListenerRights),
    /// A user.
    User(Arc<Login>, ListenerRights),
}

/// Rights of a listener's callers while access is off, and where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerRights {
    /// True if they may do everything; false: the verbs of buckets alone.
    pub operates: bool,
    /// Place of the caller. It is not sent to other nodes.
    pub origin: Origin,
}

/// Place from which a caller speaks, for the audit log. It grants nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Protocol of the caller. Empty: another node has passed the request on.
    pub protocol: &'static str,
    /// Address of the caller, if it is known.
    pub address: Option<IpAddr>,
}

/// Login of a user: what was checked when the user logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Version of the access rows that set the user's password: a login before a later one has
    /// ended. [`Login::BY_CERTIFICATE`] for a login by certificate, which does not depend on it.
    pub since: u64,
    /// Digest of the API token, if the user logged in with one.
    pub token: Option<TokenDigest>,
}

impl Login {
    /// Version of a login by certificate; no change of the rows ever reaches it.
    pub const BY_CERTIFICATE: u64 = u64::MAX;

    /// Returns the login of a user by a certificate.
    pub fn by_certificate(user: impl Into<String>) -> Login {
        Login { user: user.into(), since: Login::BY_CERTIFICATE, token: None }
    }

    /// Returns true if the user logged in by a certificate.
    pub fn is_by_certificate(&self) -> bool {
        self.token.is_none() && self.since == Login::BY_CERTIFICATE
    }
}

impl Principal {
    /// Returns the name of the user. `None`: it is no user.
    pub fn user(&self) -> Option<&str> {
        match self {
            Principal::User(login, _) => Some(&login.user),
            Principal::Node | Principal::LocalOperator | Principal::Anonymous(_) => None,
        }
    }

    /// Returns the digest of the user's name (its first 64 bits); stored, so it never changes.
    /// `None`: it is no user.
    pub fn user_digest(&self) -> Option<UserDigest> {
        let mut digest = [0; 8];
        let mut hasher = blake3::Hasher::new_derive_key(USER_CONTEXT);
        hasher.update(self.user()?.as_bytes()).finalize_xof().fill(&mut digest);
        Some(UserDigest(u64::from_le_bytes(digest)))
    }

    /// Returns the rights of the listener at which the caller is; a node's own work has all.
    pub fn listener(&self) -> ListenerRights {
        match self {
            Principal::Node | Principal::LocalOperator => {
                ListenerRights { operates: true, ..ListenerRights::default() }
            }
            Principal::Anonymous(listener) | Principal::User(_, listener) => *listener,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_a_user_is_that_of_its_name_and_never_changes() {
        let user = |name: &str, rights| Principal::User(Login::by_certificate(name).into(), rights);
        let ada = user("ada", ListenerRights::default());
        assert_eq!(ada.user_digest(), Some(UserDigest(0x6c94_ea4f_1da6_9a7b)));
        let elsewhere = ListenerRights { operates: true, ..ListenerRights::default() };
        assert_eq!(user("ada", elsewhere).user_digest(), ada.user_digest());
        assert_ne!(user("bob", elsewhere).user_digest(), ada.user_digest());
        assert_eq!(Principal::LocalOperator.user_digest(), None);
    }
}
