//! Users, roles, API tokens, quotas and the switch of access. Types with a secret have no `Debug`.

use crate::number::Integer;
use crate::schema::MEMBER_PATTERN;
use crate::secret_text::SecretText;
use base::limits::API_TOKEN_MS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of access, with all users and roles.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AccessState {
    /// True if every request needs rights.
    pub on: bool,
    /// Number of changes of users and roles so far.
    pub version: u64,
    /// Users, ordered by name.
    pub users: Vec<UserReply>,
    /// Roles, the built-in ones first.
    pub roles: Vec<RoleReply>,
}

/// User.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct UserReply {
    /// Name of the user.
    pub name: String,
    /// False: the user can't log in.
    pub enabled: bool,
    /// True if a client certificate of this name logs the user in.
    pub certificates: bool,
    /// True if the user has a password.
    pub password: bool,
    /// Roles of the user.
    pub roles: Vec<String>,
    /// API tokens of the user.
    pub tokens: Vec<TokenReply>,
    /// Quota of the user; null: none.
    pub quota: Option<UserQuota>,
    /// Use of the node that answers by the user's clients; null: it does not count them, or they
    /// have used nothing since it began to.
    pub used: Option<UserUse>,
}

/// Quota of a user, which each node counts by itself. Null in a field: no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserQuota {
    /// Maximum number of connections.
    pub connections: Option<Integer>,
    /// Maximum number of requests under way.
    pub requests: Option<Integer>,
    /// Maximum number of operations a second.
    pub operations: Option<Integer>,
    /// Maximum bytes of requests and answers a second.
    pub bytes: Option<Integer>,
    /// Time in milliseconds whose operations and bytes may be used at once; null: 1000.
    pub burst_ms: Option<Integer>,
    /// Maximum number of open sessions in a group; null: 50000.
    pub sessions: Option<Integer>,
}

/// Use of a node by the clients of a user, now and since the node began to count.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct UserUse {
    /// Connections that are open.
    pub connections: Integer,
    /// Requests under way.
    pub requests: Integer,
    /// Operations so far.
    pub operations: Integer,
    /// Bytes of requests and answers so far.
    pub bytes: Integer,
    /// Requests that were refused for the quota so far.
    pub refused: Integer,
}

/// API token of a user.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TokenReply {
    /// Label of the token.
    pub label: String,
    /// Roles that the token is narrowed to; empty: all roles of the user.
    pub roles: Vec<String>,
}

/// Role.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RoleReply {
    /// Name of the role.
    pub name: String,
    /// True if every cluster has the role, and it can't be changed.
    pub built_in: bool,
    /// Grants, as `VERB,VERB:SCOPE`.
    pub grants: Vec<String>,
}

/// Switch of access.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessSwitch {
    /// True: every request needs rights.
    pub on: bool,
}

/// User to create.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Password; null: the user can't log in with one.
    pub password: Option<SecretText>,
    /// Roles of the user.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// Change of a user; absent fields stay.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    /// New roles.
    pub roles: Option<Vec<String>>,
    /// False: the user can't log in, and its logins have ended.
    pub enabled: Option<bool>,
    /// True if a client certificate of this name logs the user in.
    pub certificates: Option<bool>,
}

/// New password.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// Password; null: the user can't log in with one.
    pub password: Option<SecretText>,
}

/// Administrator that was created, with the password that is shown once.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Administrator {
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: SecretText,
}

/// API token to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewApiToken {
    /// Label, by which the token is revoked.
    #[schemars(regex(pattern = MEMBER_PATTERN))]
    pub label: String,
    /// Roles of the user that the token is narrowed to; absent: all.
    pub roles: Option<Vec<String>>,
    /// Lifetime in milliseconds; absent: until it is revoked.
    #[schemars(range(min = 1, max = API_TOKEN_MS_MAX))]
    pub lifetime_ms: Option<Integer>,
}

/// API token that was created; it is shown once.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApiTokenReply {
    /// The token.
    pub token: SecretText,
}

/// Grants of a role.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleGrants {
    /// Grants, as `VERB,VERB:SCOPE`.
    pub grants: Vec<String>,
}

/// Question whether a user may do something.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessQuestion {
    /// Name of the user.
    pub user: String,
    /// Verb.
    pub verb: String,
    /// Scope.
    pub scope: String,
}

/// Decision about a question, and the grant that decides.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AccessDecision {
    /// True if the user may.
    pub allowed: bool,
    /// Role of the grant that allows it; null: none does.
    pub role: Option<String>,
    /// Grant that allows it; null: none does.
    pub grant: Option<String>,
}
