//! Accounts: what the directory keeps of a user, and of an API token.

use super::password::PasswordHash;

/// Account of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccount {
    /// False: the user can't log in, and its logins have ended.
    pub is_enabled: bool,
    /// True if a client certificate of its name logs the user in.
    pub certificates: bool,
    /// Version of the access rows that set the password. Logins with a former one have ended.
    pub since: u64,
    /// Hash of its password. `None`: it can't log in with one.
    pub password: Option<PasswordHash>,
    /// Names of its roles, in order.
    pub roles: Vec<String>,
}

/// API token of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTokenAccount {
    /// Name of the user.
    pub user: String,
    /// Label of the token; unique for the user.
    pub label: String,
    /// Roles of the user that it is narrowed to. Empty: all that the user has.
    pub roles: Vec<String>,
}
