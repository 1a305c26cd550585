//! Rows of users, roles, tokens and quotas: their keys and their bytes.
//!
//! ```text
//! n/access             -> on or off, version: raised by every change of these rows
//! u/<name>             -> whether enabled, whether by certificates, version of its credentials,
//!                         hash of its password, roles
//! p/<name>             -> the grants of a role
//! k/<digest, 64 digits> -> user, label, roles that it is narrowed to; expires with its row
//! q/<name>             -> the quota of a user: a row of its own, so that programs that know no
//!                         quotas read the user's
//! ```

use crate::rows::{ROW_VERSION, bad_row, check_version};
use base::access::{ApiTokenAccount, Grant, PasswordHash, Scope, UserAccount, UserQuota, Verbs};
use base::codec::{Malformed, Reader, Writer};
use base::limits::{
    BUCKET_NAME_BYTES_MAX, GRANTS_PER_ROLE_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, ROLES_PER_USER_MAX,
};
use base::{Key, Result, TokenDigest, Value};
use bytes::Bytes;

/// Key of the switch.
pub(crate) const ACCESS: &[u8] = b"n/access";
/// Prefix of the users.
pub(crate) const USERS: &[u8] = b"u/";
/// Prefix of the roles.
pub(crate) const ROLES: &[u8] = b"p/";
/// Prefix of the API tokens.
pub(crate) const API_TOKENS: &[u8] = b"k/";
/// Prefix of the quotas of users.
pub(crate) const QUOTAS: &[u8] = b"q/";

/// Longest text of a scope: three bytes for each of the prefix.
const SCOPE_BYTES_MAX: usize = NAME_BYTES_MAX + BUCKET_NAME_BYTES_MAX + 2 + 3 * KEY_BYTES_MAX;

type RowResult<T> = std::result::Result<T, Malformed>;

/// The row `n/access`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchRow {
    /// True if requests need rights.
    pub is_on: bool,
    /// Number of changes of the access rows so far.
    pub version: u64,
}

pub(crate) fn user_key(name: &str) -> Key {
    Bytes::from([USERS, name.as_bytes()].concat())
}

pub(crate) fn role_key(name: &str) -> Key {
    Bytes::from([ROLES, name.as_bytes()].concat())
}

pub(crate) fn quota_key(user: &str) -> Key {
    Bytes::from([QUOTAS, user.as_bytes()].concat())
}

pub(crate) fn api_token_key(digest: &TokenDigest) -> Key {
    let digits: String = digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
    Bytes::from(format!("k/{digits}"))
}

/// Returns the name in the key of a user, a role or a quota.
pub(crate) fn name_of<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(prefix)?).ok()
}

/// Returns the digest of an API token's key.
pub(crate) fn digest_of(key: &[u8]) -> Option<TokenDigest> {
    let digits = std::str::from_utf8(key.strip_prefix(API_TOKENS)?).ok()?;
    let mut digest = [0; TokenDigest::BYTES];
    if digits.len() != 2 * digest.len() || !digits.is_ascii() {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(TokenDigest(digest))
}

pub(crate) fn write_switch(row: SwitchRow) -> Value {
    let mut bytes = vec![ROW_VERSION, row.is_on.into()];
    bytes.put_u64(row.version);
    bytes.into()
}

pub(crate) fn read_switch(value: &[u8]) -> Result<SwitchRow> {
    read(value, "access", |reader| {
        Ok(SwitchRow { is_on: read_bool(reader)?, version: reader.u64("access")? })
    })
}

pub(crate) fn write_user(row: &UserAccount) -> Value {
    let mut bytes = vec![ROW_VERSION, row.is_enabled.into(), row.certificates.into()];
    bytes.put_u64(row.since);
    bytes.put_string(row.password.as_ref().map_or(b"", |hash| hash.text().as_bytes()));
    put_names(&row.roles, &mut bytes);
    bytes.into()
}

pub(crate) fn read_user(value: &[u8]) -> Result<UserAccount> {
    read(value, "user", |reader| {
        let (is_enabled, certificates) = (read_bool(reader)?, read_bool(reader)?);
        let since = reader.u64("user")?;
        let password = match text(reader, PasswordHash::TEXT_BYTES)? {
            "" => None,
            text => Some(PasswordHash::parse(text).map_err(|_| Malformed("user's password"))?),
        };
        Ok(UserAccount { is_enabled, certificates, since, password, roles: take_names(reader)? })
    })
}

pub(crate) fn write_role(grants: &[Grant]) -> Value {
    let mut bytes = vec![ROW_VERSION];
    bytes.put_u32(grants.len() as u32);
    for Grant { scope, verbs } in grants {
        bytes.put_string(scope.to_string().as_bytes());
        bytes.put_u32(verbs.bits().into());
    }
    bytes.into()
}

pub(crate) fn read_role(value: &[u8]) -> Result<Vec<Grant>> {
    read(value, "role", |reader| {
        let count = count(reader, GRANTS_PER_ROLE_MAX)?;
        let grant = |reader: &mut Reader<'_>| {
            let scope = Scope::parse(text(reader, SCOPE_BYTES_MAX)?).ok();
            let bits = u16::try_from(reader.u32("role")?).ok();
            let verbs = bits.and_then(Verbs::from_bits);
            let parts = scope.zip(verbs).ok_or(Malformed("role"))?;
            Grant::new(parts.0, parts.1).map_err(|_| Malformed("role"))
        };
        (0..count).map(|_| grant(reader)).collect()
    })
}

pub(crate) fn write_api_token(row: &ApiTokenAccount) -> Value {
    let mut bytes = vec![ROW_VERSION];
    bytes.put_string(row.user.as_bytes());
    bytes.put_string(row.label.as_bytes());
    put_names(&row.roles, &mut bytes);
    bytes.into()
}

pub(crate) fn read_api_token(value: &[u8]) -> Result<ApiTokenAccount> {
    read(value, "API token", |reader| {
        let user = text(reader, NAME_BYTES_MAX)?.to_string();
        let label = text(reader, NAME_BYTES_MAX)?.to_string();
        Ok(ApiTokenAccount { user, label, roles: take_names(reader)? })
    })
}

/// Writes a quota. 0 stands for no bound, which no quota is. A bound on sessions follows behind the
/// others, so that programs before it refuse its rows and read all others.
pub(crate) fn write_quota(row: &UserQuota) -> Value {
    let UserQuota { connections, requests, operations, bytes, burst_ms, sessions } = *row;
    let mut row = vec![ROW_VERSION];
    for number in [connections, requests, operations] {
        row.put_u32(number.unwrap_or(0));
    }
    row.put_u64(bytes.unwrap_or(0));
    row.put_u32(burst_ms);
    if let Some(sessions) = sessions {
        row.put_u32(sessions);
    }
    row.into()
}

pub(crate) fn read_quota(value: &[u8]) -> Result<UserQuota> {
    read(value, "quota", |reader| {
        let mut number = || reader.u32("quota").map(|number| Some(number).filter(|it| *it > 0));
        let (connections, requests, operations) = (number()?, number()?, number()?);
        let bytes = Some(reader.u64("quota")?).filter(|bytes| *bytes > 0);
        let burst_ms = reader.u32("quota")?;
        let sessions = match reader.is_empty() {
            true => None,
            false => Some(reader.u32("quota")?),
        };
        let quota = UserQuota { connections, requests, operations, bytes, burst_ms, sessions };
        quota.check().map_err(|_| Malformed("quota")).map(|()| quota)
    })
}

/// Reads a row from its version to its end.
fn read<T>(
    value: &[u8],
    field: &'static str,
    take: impl FnOnce(&mut Reader<'_>) -> RowResult<T>,
) -> Result<T> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, field)?;
        let row = take(&mut reader)?;
        reader.end(field).map(|()| row)
    };
    read().map_err(bad_row)
}

fn read_bool(reader: &mut Reader<'_>) -> RowResult<bool> {
    match reader.u8("yes or no")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("yes or no")),
    }
}

fn text<'a>(reader: &mut Reader<'a>, max: usize) -> RowResult<&'a str> {
    std::str::from_utf8(reader.string(max, "access row")?).map_err(|_| Malformed("access row"))
}

fn count(reader: &mut Reader<'_>, max: usize) -> RowResult<usize> {
    let count = reader.u32("access row")? as usize;
    if count > max { Err(Malformed("access row")) } else { Ok(count) }
}

fn put_names(names: &[String], bytes: &mut Vec<u8>) {
    bytes.put_u32(names.len() as u32);
    names.iter().for_each(|name| bytes.put_string(name.as_bytes()));
}

fn take_names(reader: &mut Reader<'_>) -> RowResult<Vec<String>> {
    let count = count(reader, ROLES_PER_USER_MAX)?;
    (0..count).map(|_| text(reader, NAME_BYTES_MAX).map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash() -> PasswordHash {
        let text = format!("{}{}${}", PasswordHash::PREFIX, "s".repeat(22), "h".repeat(43));
        PasswordHash::parse(&text).expect("a hash")
    }

    fn examples() -> Vec<(Key, Value)> {
        let roles = vec!["reader".into(), "web".into()];
        let user = |is_enabled, password| UserAccount {
            is_enabled,
            certificates: !is_enabled,
            since: 7,
            password,
            roles: roles.clone(),
        };
        let token =
            ApiTokenAccount { user: "ada".into(), label: "ci".into(), roles: roles.clone() };
        let quota = UserQuota {
            connections: Some(10),
            requests: Some(64),
            operations: None,
            bytes: Some(1 << 20),
            burst_ms: 2_000,
            sessions: None,
        };
        let grants = ["read,list:logs/*", "write:logs/web/a%00", "watch:cluster"]
            .map(|text| Grant::parse(text).expect("a grant"));
        vec![
            (Bytes::from_static(ACCESS), write_switch(SwitchRow { is_on: true, version: 9 })),
            (user_key("ada"), write_user(&user(true, Some(hash())))),
            (user_key("bob"), write_user(&user(false, None))),
            (role_key("web"), write_role(&grants)),
            (api_token_key(&TokenDigest([7; 32])), write_api_token(&token)),
            (quota_key("ada"), write_quota(&quota)),
        ]
    }

    #[test]
    fn access_rows_match_golden_file() {
        let mut text = String::new();
        for (key, value) in examples() {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("{} {digits}\n", String::from_utf8_lossy(&key)));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../systest/golden/access-v1.txt");
        let kept = include_str!("../../../systest/golden/access-v1.txt");
        assert_eq!(text, kept, "{path}: what was once written is never changed");
    }

    #[test]
    fn quota_of_sessions_follows_the_other_bounds() {
        let before = UserQuota { connections: Some(10), ..UserQuota::default() };
        let quota = UserQuota { sessions: Some(0x0706), ..before };
        let value = write_quota(&quota);
        assert_eq!(read_quota(&value), Ok(quota));
        let others = write_quota(&before);
        assert_eq!(value, [&others[..], &[6, 7, 0, 0]].concat());
        for bad in [&value[..value.len() - 1], &[&others[..], &[0; 4]].concat()] {
            assert!(read_quota(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn access_rows_round_trip_and_their_prefixes_are_refused() {
        for (key, value) in examples() {
            let reencoded = |value: &[u8]| match key[0] {
                b'n' => read_switch(value).map(write_switch),
                b'u' => read_user(value).map(|row| write_user(&row)),
                b'p' => read_role(value).map(|row| write_role(&row)),
                b'q' => read_quota(value).map(|row| write_quota(&row)),
                _ => read_api_token(value).map(|row| write_api_token(&row)),
            };
            assert_eq!(reencoded(&value).as_ref(), Ok(&value), "{key:?}");
            for end in 0..value.len() {
                assert!(reencoded(&value[..end]).is_err(), "{key:?} cut at {end}");
            }
            let longer = [&value[..], &[0]].concat();
            assert!(reencoded(&longer).is_err(), "{key:?}");
            let newer = [&[2][..], &value[1..]].concat();
            assert!(reencoded(&newer).is_err(), "{key:?} of a later version");
        }
        let digest = TokenDigest([7; 32]);
        assert_eq!(digest_of(&api_token_key(&digest)), Some(digest));
        assert_eq!(digest_of(b"k/07"), None);
        assert_eq!(name_of(&user_key("ada"), USERS), Some("ada"));
        let many = vec![Grant::parse("read:a/b").expect("a grant"); GRANTS_PER_ROLE_MAX + 1];
        assert!(read_role(&write_role(&many)).is_err(), "more than a role may have");
    }
}
