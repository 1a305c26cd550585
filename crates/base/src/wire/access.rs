//! Codec of calls about users and roles, and of principals.

use super::WireResult;
use super::fields::{FieldReader, FieldWriter};
use crate::TokenDigest;
use crate::access::{
    AccessCall, Grant, ListenerRights, Login, PasswordHash, Principal, Scope, UserQuota, Verbs,
};
use crate::codec::Malformed;
use crate::limits::{
    BUCKET_NAME_BYTES_MAX, GRANTS_PER_ROLE_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, ROLES_PER_USER_MAX,
};
use std::sync::Arc;

/// Longest text of a scope: three bytes for each of the prefix.
const SCOPE_BYTES_MAX: usize = NAME_BYTES_MAX + BUCKET_NAME_BYTES_MAX + 2 + 3 * KEY_BYTES_MAX;

pub(super) fn put_call<W: FieldWriter>(call: &AccessCall, out: &mut W) {
    match call {
        AccessCall::Switch { on } => {
            out.u8(0).bool(*on);
        }
        AccessCall::Init { password } => {
            out.u8(1).bytes(password.text().as_bytes());
        }
        AccessCall::AddUser { name, password, roles } => {
            put_password(password.as_ref(), out.u8(2).bytes(name.as_bytes()));
            put_names(roles, out);
        }
        AccessCall::ChangeUser { name, roles, enabled, certificates } => {
            out.u8(3).bytes(name.as_bytes()).bool(roles.is_some());
            if let Some(roles) = roles {
                put_names(roles, out);
            }
            put_optional_bool(*enabled, out);
            put_optional_bool(*certificates, out);
        }
        AccessCall::SetPassword { name, password } => {
            put_password(password.as_ref(), out.u8(4).bytes(name.as_bytes()));
        }
        AccessCall::RemoveUser { name } => {
            out.u8(5).bytes(name.as_bytes());
        }
        AccessCall::AddApiToken { digest, user, label, roles, lifetime_ms } => {
            out.u8(6).bytes(&digest.0).bytes(user.as_bytes()).bytes(label.as_bytes());
            put_names(roles, out);
            out.optional_u64(*lifetime_ms);
        }
        AccessCall::RevokeApiToken { user, label } => {
            out.u8(7).bytes(user.as_bytes()).bytes(label.as_bytes());
        }
        AccessCall::SetRole { name, grants } => {
            out.u8(8).bytes(name.as_bytes()).list(grants, |grant, out| {
                out.bytes(grant.scope.to_string().as_bytes()).u32(grant.verbs.bits().into());
            });
        }
        AccessCall::RemoveRole { name } => {
            out.u8(9).bytes(name.as_bytes());
        }
        AccessCall::SetQuota { user, quota } => {
            // Programs before quotas of sessions refuse the later kind, and none loses the bound.
            let kind = if quota.sessions.is_none() { 10 } else { 11 };
            put_quota(quota, out.u8(kind).bytes(user.as_bytes()));
            if let Some(sessions) = quota.sessions {
                out.u32(sessions);
            }
        }
    }
}

pub(super) fn take_call(from: &mut FieldReader<'_>) -> WireResult<AccessCall> {
    Ok(match from.u8("kind of access call")? {
        0 => AccessCall::Switch { on: from.bool("access on or off")? },
        1 => AccessCall::Init { password: take_password(from)? },
        2 => AccessCall::AddUser {
            name: take_name(from)?,
            password: from.optional("password or none", take_password)?,
            roles: take_names(from)?,
        },
        3 => AccessCall::ChangeUser {
            name: take_name(from)?,
            roles: from.optional("roles or none", take_names)?,
            enabled: from.optional("enabled or none", |from| from.bool("enabled"))?,
            certificates: from
                .optional("certificates or none", |from| from.bool("certificates"))?,
        },
        4 => AccessCall::SetPassword {
            name: take_name(from)?,
            password: from.optional("password or none", take_password)?,
        },
        5 => AccessCall::RemoveUser { name: take_name(from)? },
        6 => AccessCall::AddApiToken {
            digest: take_digest(from)?,
            user: take_name(from)?,
            label: take_name(from)?,
            roles: take_names(from)?,
            lifetime_ms: from.optional("lifetime or none", |from| from.u64("lifetime"))?,
        },
        7 => AccessCall::RevokeApiToken { user: take_name(from)?, label: take_name(from)? },
        8 => AccessCall::SetRole {
            name: take_name(from)?,
            grants: from.list((GRANTS_PER_ROLE_MAX, 8), "number of grants", take_grant)?,
        },
        9 => AccessCall::RemoveRole { name: take_name(from)? },
        10 => AccessCall::SetQuota { user: take_name(from)?, quota: take_quota(from)? },
        11 => {
            let (user, quota) = (take_name(from)?, take_quota(from)?);
            let quota = UserQuota { sessions: Some(from.u32("quota")?), ..quota };
            AccessCall::SetQuota { user, quota: checked_quota(quota)? }
        }
        _ => return Err(Malformed("kind of access call")),
    })
}

/// Appends a quota. 0 stands for no bound, which no quota is.
fn put_quota<W: FieldWriter>(quota: &UserQuota, out: &mut W) {
    let UserQuota { connections, requests, operations, bytes, burst_ms, sessions: _ } = *quota;
    out.u32(connections.unwrap_or(0)).u32(requests.unwrap_or(0)).u32(operations.unwrap_or(0));
    out.u64(bytes.unwrap_or(0)).u32(burst_ms);
}

fn take_quota(from: &mut FieldReader<'_>) -> WireResult<UserQuota> {
    let mut number = || from.u32("quota").map(|number| Some(number).filter(|it| *it > 0));
    let (connections, requests, operations) = (number()?, number()?, number()?);
    let bytes = Some(from.u64("quota")?).filter(|bytes| *bytes > 0);
    let (burst_ms, sessions) = (from.u32("quota")?, None);
    checked_quota(UserQuota { connections, requests, operations, bytes, burst_ms, sessions })
}

fn checked_quota(quota: UserQuota) -> WireResult<UserQuota> {
    quota.check().map_err(|_| Malformed("quota")).map(|()| quota)
}

fn put_names<W: FieldWriter>(names: &[String], out: &mut W) {
    out.list(names, |name, out| {
        out.bytes(name.as_bytes());
    });
}

fn take_names(from: &mut FieldReader<'_>) -> WireResult<Vec<String>> {
    from.list((ROLES_PER_USER_MAX, 4), "number of roles", take_name)
}

fn take_name(from: &mut FieldReader<'_>) -> WireResult<String> {
    from.text(NAME_BYTES_MAX, "name").map(String::from)
}

fn put_optional_bool<W: FieldWriter>(value: Option<bool>, out: &mut W) {
    out.bool(value.is_some());
    if let Some(value) = value {
        out.bool(value);
    }
}

fn put_password<W: FieldWriter>(password: Option<&PasswordHash>, out: &mut W) {
    out.bool(password.is_some());
    if let Some(password) = password {
        out.bytes(password.text().as_bytes());
    }
}

fn take_password(from: &mut FieldReader<'_>) -> WireResult<PasswordHash> {
    let text = from.text(PasswordHash::TEXT_BYTES, "password's hash")?;
    PasswordHash::parse(text).map_err(|_| Malformed("password's hash"))
}

fn take_digest(from: &mut FieldReader<'_>) -> WireResult<TokenDigest> {
    let bytes = from.bytes(TokenDigest::BYTES, "token")?;
    Ok(TokenDigest(bytes[..].try_into().map_err(|_| Malformed("token"))?))
}

fn take_grant(from: &mut FieldReader<'_>) -> WireResult<Grant> {
    let text = from.text(SCOPE_BYTES_MAX, "scope")?;
    let scope = Scope::parse(text).map_err(|_| Malformed("scope"))?;
    // One form for each scope: bytes are encoded again as they were.
    if scope.to_string() != text {
        return Err(Malformed("scope"));
    }
    let bits = u16::try_from(from.u32("verbs")?).ok();
    let verbs = bits.and_then(Verbs::from_bits).ok_or(Malformed("verbs"))?;
    Grant::new(scope, verbs).map_err(|_| Malformed("grant"))
}

pub(super) fn put_principal<W: FieldWriter>(principal: &Principal, out: &mut W) {
    match principal {
        Principal::Node => {
            out.u8(0);
        }
        Principal::LocalOperator => {
            out.u8(1);
        }
        Principal::Anonymous(_) => {
            out.u8(2);
        }
        Principal::User(login, _) => {
            out.u8(3).bytes(login.user.as_bytes()).u64(login.since).bool(login.token.is_some());
            if let Some(digest) = &login.token {
                out.bytes(&digest.0);
            }
        }
    }
}

pub(super) fn take_principal(from: &mut FieldReader<'_>) -> WireResult<Principal> {
    let elsewhere = ListenerRights::default();
    Ok(match from.u8("principal")? {
        0 => Principal::Node,
        1 => Principal::LocalOperator,
        2 => Principal::Anonymous(elsewhere),
        3 => {
            let login = Login {
                user: take_name(from)?,
                since: from.u64("version of a login")?,
                token: from.optional("token or none", take_digest)?,
            };
            Principal::User(Arc::new(login), elsewhere)
        }
        _ => return Err(Malformed("principal")),
    })
}
