//! Users, roles, quotas and the switch of access: their routes, and the carrying out of their
//! requests.

use super::errors::malformed;
use super::json::bodies::read_plain;
use super::render::json_answer;
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, cluster, confirmed};
use super::target::RequestTarget;
use crate::http::{AnswerContent, HttpAnswer, Method, StatusCode};
use crate::shared::Shared;
use base::access::{
    ApiToken, ApiTokenAccount, BUILT_IN_ROLES, Grant, Password, Scope, UserQuota, Verb,
    built_in_grants,
};
use base::rights::{KeySet, Need};
use base::{AccessCall, BucketName, Call, DirectoryCall, Principal, Request, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;

const ACCESS: &str = "/v1/access";
const USER: &str = "/v1/access/users/{name}";
const ROLE: &str = "/v1/access/roles/{name}";
/// Number of random bytes of a password that a node makes up.
const RANDOM_PASSWORD_BYTES: usize = 18;

/// Routes about users, roles, quotas and the switch of access.
pub static ROUTES: [HttpRoute; 13] = [
    cluster(
        (RouteName::ShowAccess, Method::Get, ACCESS),
        (RequestBody::Nothing, ResponseBody::Json("AccessState")),
        "Returns whether access is on, and all users and roles.",
    ),
    cluster(
        (RouteName::InitAccess, Method::Post, "/v1/access/init"),
        (RequestBody::Nothing, ResponseBody::CreatedJson("Administrator")),
        "Creates the user `admin` with a random password, returned only once, and turns access on.",
    ),
    confirmed(cluster(
        (RouteName::SwitchAccess, Method::Put, ACCESS),
        (RequestBody::Json("AccessSwitch"), ResponseBody::Nothing),
        "Turns access on or off.",
    )),
    cluster(
        (RouteName::CheckAccess, Method::Post, "/v1/access/check"),
        (RequestBody::Json("AccessQuestion"), ResponseBody::Json("AccessDecision")),
        "Returns whether a user may do something, and the grant that decides.",
    ),
    cluster(
        (RouteName::AddUser, Method::Put, USER),
        (RequestBody::Json("NewUser"), ResponseBody::Created),
        "Creates a user.",
    ),
    cluster(
        (RouteName::ChangeUser, Method::Patch, USER),
        (RequestBody::Json("UserChange"), ResponseBody::Nothing),
        "Changes the roles of a user, and whether and how it may log in.",
    ),
    confirmed(cluster(
        (RouteName::RemoveUser, Method::Delete, USER),
        (RequestBody::Nothing, ResponseBody::Nothing),
        "Removes a user with its API tokens.",
    )),
    cluster(
        (RouteName::SetPassword, Method::Put, "/v1/access/users/{name}/password"),
        (RequestBody::Json("NewPassword"), ResponseBody::Nothing),
        "Sets a user's password; logins with the former one end.",
    ),
    cluster(
        (RouteName::AddApiToken, Method::Post, "/v1/access/users/{name}/tokens"),
        (RequestBody::Json("NewApiToken"), ResponseBody::CreatedJson("ApiTokenReply")),
        "Creates an API token of a user; the token is returned only once.",
    ),
    cluster(
        (RouteName::RevokeApiToken, Method::Delete, "/v1/access/users/{name}/tokens/{label}"),
        (RequestBody::Nothing, ResponseBody::Nothing),
        "Revokes an API token of a user.",
    ),
    cluster(
        (RouteName::SetRole, Method::Put, ROLE),
        (RequestBody::Json("RoleGrants"), ResponseBody::Nothing),
        "Creates a role, or replaces its grants.",
    ),
    confirmed(cluster(
        (RouteName::RemoveRole, Method::Delete, ROLE),
        (RequestBody::Nothing, ResponseBody::Nothing),
        "Removes a role that no user has.",
    )),
    cluster(
        (RouteName::SetQuota, Method::Put, "/v1/access/users/{name}/quota"),
        (RequestBody::Json("UserQuota"), ResponseBody::Nothing),
        "Sets a user's quota, in place of the former one; without any bound it is removed.",
    ),
];

/// Request about users and roles. All need `secure`.
#[derive(PartialEq)]
pub enum AccessRequest {
    /// Return users and roles.
    Show,
    /// Create the first administrator.
    Init,
    /// Return which of a user's grants covers a verb on a scope.
    Check(String, Verb, Scope),
    /// Create a user with this password and these roles.
    AddUser(String, Option<Password>, Vec<String>),
    /// Set a user's password.
    SetPassword(String, Option<Password>),
    /// Create an API token of a user: label, roles, lifetime.
    AddApiToken(String, String, Vec<String>, Option<u64>),
    /// Change that needs no secret.
    Change(AccessCall),
}

impl fmt::Debug for AccessRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessRequest")
    }
}

/// Parses a request about users and roles. `None`: the route is another one.
pub fn parse(target: &mut RequestTarget, body: &[u8]) -> Result<Option<AccessRequest>> {
    let name = || target.member.clone();
    Ok(Some(match target.route.name {
        RouteName::ShowAccess => AccessRequest::Show,
        RouteName::InitAccess => AccessRequest::Init,
        RouteName::SwitchAccess => {
            let api::AccessSwitch { on } = read_plain(body)?;
            AccessRequest::Change(AccessCall::Switch { on })
        }
        RouteName::CheckAccess => {
            let api::AccessQuestion { user, verb, scope } = read_plain(body)?;
            AccessRequest::Check(user, Verb::parse(&verb)?, Scope::parse(&scope)?)
        }
        RouteName::AddUser => {
            let api::NewUser { password, roles } = read_plain(body)?;
            AccessRequest::AddUser(name(), parse_password(password)?, roles)
        }
        RouteName::ChangeUser => {
            let api::UserChange { roles, enabled, certificates } = read_plain(body)?;
            let name = name();
            AccessRequest::Change(AccessCall::ChangeUser { name, roles, enabled, certificates })
        }
        RouteName::RemoveUser => AccessRequest::Change(AccessCall::RemoveUser { name: name() }),
        RouteName::SetPassword => {
            let api::NewPassword { password } = read_plain(body)?;
            AccessRequest::SetPassword(name(), parse_password(password)?)
        }
        RouteName::AddApiToken => {
            let api::NewApiToken { label, roles, lifetime_ms } = read_plain(body)?;
            let lifetime_ms = lifetime_ms.map(|lifetime| lifetime.0);
            AccessRequest::AddApiToken(name(), label, roles.unwrap_or_default(), lifetime_ms)
        }
        RouteName::RevokeApiToken => {
            let label = std::mem::take(&mut target.label);
            AccessRequest::Change(AccessCall::RevokeApiToken { user: target.member.clone(), label })
        }
        RouteName::SetRole => {
            let api::RoleGrants { grants } = read_plain(body)?;
            let grants = grants.iter().map(|text| Grant::parse(text)).collect::<Result<_>>()?;
            AccessRequest::Change(AccessCall::SetRole { name: name(), grants })
        }
        RouteName::RemoveRole => AccessRequest::Change(AccessCall::RemoveRole { name: name() }),
        RouteName::SetQuota => {
            let quota = parse_quota(&read_plain(body)?)?;
            AccessRequest::Change(AccessCall::SetQuota { user: name(), quota })
        }
        _ => return Ok(None),
    }))
}

fn parse_quota(quota: &api::UserQuota) -> Result<UserQuota> {
    let small = |number: Option<api::Integer>| match number {
        Some(number) => u32::try_from(number.0).map(Some).map_err(|_| {
            let text = format!("{} is too large for a quota: at most {}", number.0, u32::MAX);
            malformed(text)
        }),
        None => Ok(None),
    };
    let quota = UserQuota {
        connections: small(quota.connections)?,
        requests: small(quota.requests)?,
        operations: small(quota.operations)?,
        bytes: quota.bytes.map(|bytes| bytes.0),
        burst_ms: small(quota.burst_ms)?.unwrap_or(UserQuota::BURST_MS_DEFAULT),
        sessions: small(quota.sessions)?,
    };
    quota.check().map(|()| quota)
}

/// Returns a quota and its use as their JSON.
fn quota_reply(
    (quota, used): (UserQuota, Option<node::UserUse>),
) -> (api::UserQuota, Option<api::UserUse>) {
    let small = |number: Option<u32>| number.map(|number| api::Integer(number.into()));
    let quota = api::UserQuota {
        connections: small(quota.connections),
        requests: small(quota.requests),
        operations: small(quota.operations),
        bytes: quota.bytes.map(api::Integer),
        burst_ms: small(Some(quota.burst_ms)),
        sessions: small(quota.sessions),
    };
    let used = used.map(|used| api::UserUse {
        connections: api::Integer(used.connections),
        requests: api::Integer(used.requests),
        operations: api::Integer(used.operations),
        bytes: api::Integer(used.bytes),
        refused: api::Integer(used.refused),
    });
    (quota, used)
}

fn parse_password(password: Option<api::SecretText>) -> Result<Option<Password>> {
    password.map(|password| Password::new(password.text().as_bytes())).transpose()
}

/// Carries out a request about users and roles, which the principal may make.
pub async fn execute(
    shared: &Shared,
    principal: &Principal,
    request: AccessRequest,
) -> Result<HttpAnswer> {
    let done = |status| HttpAnswer::new(status, AnswerContent::None);
    match request {
        AccessRequest::Show => Ok(json_answer(StatusCode::Ok, &state(shared))),
        AccessRequest::Check(user, verb, scope) => {
            Ok(json_answer(StatusCode::Ok, &decision(shared, &user, verb, &scope)?))
        }
        AccessRequest::Init => {
            let random: [u8; RANDOM_PASSWORD_BYTES] = rand::random();
            let text = api::SecretText::from(URL_SAFE_NO_PAD.encode(random));
            let password = Password::new(text.text().as_bytes())?;
            let password = shared.logins.hash(&password).await?;
            change(shared, principal, AccessCall::Init { password }).await?;
            let made = api::Administrator { user: "admin".into(), password: text };
            Ok(json_answer(StatusCode::Created, &made))
        }
        AccessRequest::AddUser(name, password, roles) => {
            let password = hash(shared, password).await?;
            change(shared, principal, AccessCall::AddUser { name, password, roles }).await?;
            Ok(done(StatusCode::Created))
        }
        AccessRequest::SetPassword(name, password) => {
            let password = hash(shared, password).await?;
            change(shared, principal, AccessCall::SetPassword { name, password }).await?;
            Ok(done(StatusCode::NoContent))
        }
        AccessRequest::AddApiToken(user, label, roles, lifetime_ms) => {
            let token = ApiToken::from_secret(rand::random());
            let digest = token.digest();
            let call = AccessCall::AddApiToken { digest, user, label, roles, lifetime_ms };
            change(shared, principal, call).await?;
            let made = api::ApiTokenReply { token: token.text().into() };
            Ok(json_answer(StatusCode::Created, &made))
        }
        AccessRequest::Change(call) => {
            change(shared, principal, call).await?;
            Ok(done(StatusCode::NoContent))
        }
    }
}

async fn hash(
    shared: &Shared,
    password: Option<Password>,
) -> Result<Option<base::access::PasswordHash>> {
    match password {
        Some(password) => shared.logins.hash(&password).await.map(Some),
        None => Ok(None),
    }
}

async fn change(shared: &Shared, principal: &Principal, call: AccessCall) -> Result<()> {
    let call = Call::Directory(DirectoryCall::Access(call));
    let request = Request { bucket: BucketName::default(), call, retry: None };
    shared.node.handle(principal, request).await.map(|_| ())
}

fn state(shared: &Shared) -> api::AccessState {
    let node = &shared.node;
    let user = |(name, account): (String, base::access::UserAccount)| {
        let token =
            |token: ApiTokenAccount| api::TokenReply { label: token.label, roles: token.roles };
        let (quota, used) = node.user_quota(&name).map(quota_reply).unzip();
        api::UserReply {
            tokens: node.api_tokens_of(&name).into_iter().map(token).collect(),
            name,
            enabled: account.is_enabled,
            certificates: account.certificates,
            password: account.password.is_some(),
            roles: account.roles,
            quota,
            used: used.flatten(),
        }
    };
    let texts = |grants: &[Grant]| grants.iter().map(Grant::to_string).collect();
    let built_in = BUILT_IN_ROLES.into_iter().map(|name| api::RoleReply {
        name: name.into(),
        built_in: true,
        grants: texts(&built_in_grants(name).unwrap_or_default()),
    });
    let own = node.roles().into_iter().map(|(name, grants)| api::RoleReply {
        name,
        built_in: false,
        grants: texts(&grants),
    });
    api::AccessState {
        on: node.is_access_on(),
        version: node.access_version(),
        users: node.user_accounts().into_iter().map(user).collect(),
        roles: built_in.chain(own).collect(),
    }
}

/// Finds the grant that allows a user a verb on the whole of a scope.
fn decision(shared: &Shared, user: &str, verb: Verb, scope: &Scope) -> Result<api::AccessDecision> {
    let account = shared.node.user_account(user);
    let account = account.ok_or_else(|| malformed(format!("no user `{user}`")))?;
    let need = match scope {
        Scope::Cluster => Need::Cluster(verb),
        Scope::Type(kind) => Need::Type(verb, kind),
        Scope::Bucket(bucket) => Need::Keys(verb, bucket, KeySet::All),
        Scope::Prefix(bucket, prefix) => Need::Keys(verb, bucket, KeySet::Prefix(prefix)),
    };
    let grants = shared.node.grants_of(user);
    let found = grants.into_iter().find(|(_, grant)| account.is_enabled && grant.covers(&need));
    Ok(api::AccessDecision {
        allowed: found.is_some(),
        role: found.as_ref().map(|(role, _)| role.clone()),
        grant: found.map(|(_, grant)| grant.to_string()),
    })
}
