//! Examples of calls about users and roles, and of principals.

use super::examples::ExampleData;
use crate::access::{
    AccessCall, Grant, ListenerRights, Login, PasswordHash, Principal, Scope, UserQuota, Verb,
    Verbs,
};
use crate::{BucketName, Call, DirectoryCall, TokenDigest};
use bytes::Bytes;
use std::fmt::Write;
use std::sync::Arc;

fn password() -> PasswordHash {
    let text = format!("{}{}${}", PasswordHash::PREFIX, "s".repeat(22), "h".repeat(43));
    PasswordHash::parse(&text).expect("a hash")
}

/// Calls that were added with users.
pub fn calls(data: &ExampleData) -> Vec<Call> {
    let name = || String::from("ada");
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    let [lifetime_ms, _] = data.numbers;
    let prefix = Scope::of_prefix(BucketName::default(), data.keys[0].clone());
    let verbs = Verbs::of(&[Verb::Read, Verb::List]);
    let grants = vec![
        Grant { scope: Scope::Cluster, verbs: Verbs::of(&Verb::ALL) },
        Grant { scope: Scope::Type("logs".into()), verbs },
        Grant { scope: prefix, verbs },
    ];
    let (roles, label) = (vec!["reader".into(), "web".into()], || String::from("ci"));
    [
        AccessCall::Switch { on: data.flag },
        AccessCall::Init { password: password() },
        AccessCall::AddUser { name: name(), password: Some(password()), roles: roles.clone() },
        AccessCall::AddUser { name: name(), password: None, roles: Vec::new() },
        AccessCall::ChangeUser {
            name: name(),
            roles: Some(roles.clone()),
            enabled: Some(data.flag),
            certificates: None,
        },
        AccessCall::ChangeUser {
            name: name(),
            roles: None,
            enabled: None,
            certificates: Some(data.flag),
        },
        AccessCall::SetPassword { name: name(), password: Some(password()) },
        AccessCall::SetPassword { name: name(), password: None },
        AccessCall::RemoveUser { name: name() },
        AccessCall::AddApiToken {
            digest,
            user: name(),
            label: label(),
            roles,
            lifetime_ms: Some(lifetime_ms),
        },
        AccessCall::RevokeApiToken { user: name(), label: label() },
        AccessCall::SetRole { name: name(), grants },
        AccessCall::RemoveRole { name: name() },
    ]
    .map(|call| Call::Directory(DirectoryCall::Access(call)))
    .into()
}

/// Calls that were added with quotas.
pub fn quota_calls() -> Vec<Call> {
    let user = || String::from("ada");
    let (connections, requests, operations) = (Some(10), Some(64), Some(1_000));
    let bytes = Some(1 << 20);
    let (burst_ms, sessions) = (2_000, None);
    let all = UserQuota { connections, requests, operations, bytes, burst_ms, sessions };
    [
        AccessCall::SetQuota { user: user(), quota: all },
        AccessCall::SetQuota { user: user(), quota: UserQuota::default() },
    ]
    .map(|call| Call::Directory(DirectoryCall::Access(call)))
    .into()
}

/// Calls that were added with quotas of sessions.
pub fn session_quota_calls() -> Vec<Call> {
    let quota = UserQuota { sessions: Some(0x0706), ..UserQuota::default() };
    let call = AccessCall::SetQuota { user: "ada".into(), quota };
    vec![Call::Directory(DirectoryCall::Access(call))]
}

#[test]
fn quota_that_no_row_may_hold_is_malformed() {
    let [call, _] = quota_calls().try_into().expect("two");
    let request = super::request(call);
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    assert_eq!(crate::Request::read(&bytes.clone().into()), Ok(request));
    // The burst stands last.
    let burst = bytes.len() - 4;
    bytes[burst..].fill(0);
    assert!(crate::Request::read(&bytes.into()).is_err());
}

fn principals() -> [(&'static str, Principal); 5] {
    let rights = ListenerRights::default();
    let login =
        |token| Principal::User(Arc::new(Login { user: "ada".into(), since: 9, token }), rights);
    [
        ("node", Principal::Node),
        ("local", Principal::LocalOperator),
        ("anonymous", Principal::Anonymous(rights)),
        ("user", login(None)),
        ("token", login(Some(TokenDigest([7; TokenDigest::BYTES])))),
    ]
}

/// Writes a line of golden bytes for each kind of principal.
pub fn write_principals(text: &mut String) {
    for (name, principal) in principals() {
        let mut bytes = Vec::new();
        principal.write(&mut bytes);
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "principal {name} {digits}").expect("a string takes all");
    }
}

#[test]
fn principal_round_trips_before_other_bytes_and_its_prefixes_are_malformed() {
    for (name, principal) in principals() {
        let mut bytes = Vec::new();
        principal.write(&mut bytes);
        let length = bytes.len();
        bytes.extend_from_slice(b"behind");
        let bytes = Bytes::from(bytes);
        let (read, rest) = Principal::read(&bytes).expect(name);
        assert_eq!((read, &rest[..]), (principal, &b"behind"[..]), "{name}");
        for end in 0..length {
            assert!(Principal::read(&bytes.slice(..end)).is_err(), "{name} cut at {end}");
        }
    }
    assert!(Principal::read(&Bytes::from_static(&[4])).is_err());
    let operates =
        Principal::Anonymous(ListenerRights { operates: true, ..ListenerRights::default() });
    let mut bytes = Vec::new();
    operates.write(&mut bytes);
    let (read, _) = Principal::read(&bytes.into()).expect("anonymous");
    assert!(!read.listener().operates, "a listener's rights end at its node");
}
