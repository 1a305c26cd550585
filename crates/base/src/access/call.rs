//! Calls that change users, roles, tokens, quotas and the switch of access. All need `secure`.

use super::grant::Grant;
use super::password::PasswordHash;
use super::quota::UserQuota;
use crate::TokenDigest;

/// Change of users, roles, tokens, or of the switch. Each is `Body::Done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessCall {
    /// Turns access on or off. On: every request needs rights. Refused if nobody could undo it: on
    /// needs an enabled user with the role `admin` and a password.
    Switch {
        /// True: on.
        on: bool,
    },
    /// Creates the user `admin` with the role `admin`, or sets its password, and turns access on.
    /// Refused if access is on.
    Init {
        /// Hash of its password.
        password: PasswordHash,
    },
    /// Creates a user.
    AddUser {
        /// Name of the user.
        name: String,
        /// Hash of the password. `None`: the user can't log in with one.
        password: Option<PasswordHash>,
        /// Roles of the user.
        roles: Vec<String>,
    },
    /// Changes a user. `None` in a field: it stays.
    ChangeUser {
        /// Name of the user.
        name: String,
        /// New roles.
        roles: Option<Vec<String>>,
        /// False: the user can't log in, and its logins have ended.
        enabled: Option<bool>,
        /// True if a client certificate of this name logs the user in. False: such logins have
        /// ended.
        certificates: Option<bool>,
    },
    /// Sets a user's password. Logins with the former one have ended; those by token or
    /// certificate stay.
    SetPassword {
        /// Name of the user.
        name: String,
        /// Hash of the password. `None`: the user can't log in with one.
        password: Option<PasswordHash>,
    },
    /// Removes a user with its tokens.
    RemoveUser {
        /// Name of the user.
        name: String,
    },
    /// Creates an API token of a user.
    AddApiToken {
        /// Digest of the token.
        digest: TokenDigest,
        /// Name of the user.
        user: String,
        /// Label of the token, by which it is revoked; unique for the user.
        label: String,
        /// Roles of the user that the token is narrowed to. Empty: all that the user has.
        roles: Vec<String>,
        /// Lifetime in milliseconds. `None`: until it is revoked.
        lifetime_ms: Option<u64>,
    },
    /// Revokes an API token.
    RevokeApiToken {
        /// Name of the user.
        user: String,
        /// Label of the token.
        label: String,
    },
    /// Creates a role, or replaces its grants.
    SetRole {
        /// Name of the role.
        name: String,
        /// Grants of the role.
        grants: Vec<Grant>,
    },
    /// Removes a role that no user has.
    RemoveRole {
        /// Name of the role.
        name: String,
    },
    /// Sets the quota of a user, in place of the former one. One that bounds nothing removes it.
    SetQuota {
        /// Name of the user.
        user: String,
        /// Quota of the user.
        quota: UserQuota,
    },
}
