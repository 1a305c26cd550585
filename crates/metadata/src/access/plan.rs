//! Changes of users, roles, tokens and quotas: what each call changes, under assertions that make
//! it safe.

use super::rows::{
    ACCESS, API_TOKENS, ROLES, SwitchRow, USERS, api_token_key, digest_of, name_of, quota_key,
    read_api_token, read_role, read_switch, read_user, role_key, user_key, write_api_token,
    write_quota, write_role, write_switch, write_user,
};
use crate::rows::{assert, set};
use crate::{CallPlan, Directory};
use base::access::{
    AccessBootstrap, ApiTokenAccount, BUILT_IN_ROLES, Grant, PasswordHash, UserAccount, UserQuota,
    check_role_name, check_user_name,
};
use base::limits::{
    API_TOKEN_MS_MAX, API_TOKENS_MAX, GRANTS_PER_ROLE_MAX, ROLES_MAX, ROLES_PER_USER_MAX, USERS_MAX,
};
use base::request::{Expiry, OnMissing};
use base::{AccessCall, Body, Error, Key, Reason, Result, TokenDigest, Update, Value};
use bytes::Bytes;
use std::collections::BTreeMap;

/// User and role of the first administrator.
const ADMIN: &str = "admin";

/// Draft of a change. It asserts the version that it was made for, and raises it as its last step.
struct AccessDraft {
    before: Option<Value>,
    row: SwitchRow,
    steps: Vec<Update>,
}

impl AccessDraft {
    /// Returns the version that the change will have.
    fn next_version(&self) -> u64 {
        self.row.version + 1
    }

    fn put_user(&mut self, name: &str, account: &UserAccount) {
        self.steps.push(set(user_key(name), write_user(account)));
    }

    fn delete(&mut self, key: Key) {
        self.steps.push(Update::Delete { key, missing: OnMissing::Skip });
    }

    fn into_plan(self) -> CallPlan {
        let (key, version) = (Bytes::from_static(ACCESS), self.next_version());
        let row = SwitchRow { version, ..self.row };
        let mut steps = vec![assert(&key, self.before)];
        steps.extend(self.steps);
        steps.push(set(key, write_switch(row)));
        CallPlan::Change(steps)
    }
}

impl Directory {
    /// Plans a change of users, roles, tokens, quotas or of the switch.
    pub(crate) fn plan_access(&self, call: &AccessCall) -> Result<CallPlan> {
        let before = self.get(&Bytes::from_static(ACCESS))?;
        let row = before.as_deref().map(read_switch).transpose()?.unwrap_or_default();
        let mut draft = AccessDraft { before, row, steps: Vec::new() };
        match call {
            AccessCall::Switch { on } if *on == row.is_on => {
                return Ok(CallPlan::Answer(Body::Done));
            }
            AccessCall::Switch { on } => self.switch(&mut draft, *on)?,
            AccessCall::Init { password } => self.init(&mut draft, password)?,
            AccessCall::AddUser { name, password, roles } => {
                self.add_user(&mut draft, name, password.as_ref(), roles)?;
            }
            AccessCall::ChangeUser { name, roles, enabled, certificates } => {
                let account = self.user(name)?;
                if let Some(roles) = roles {
                    self.check_roles(roles)?;
                }
                let is_enabled = enabled.unwrap_or(account.is_enabled);
                let has_ended = account.is_enabled && !is_enabled;
                let account = UserAccount {
                    is_enabled,
                    certificates: certificates.unwrap_or(account.certificates),
                    since: if has_ended { draft.next_version() } else { account.since },
                    roles: roles.clone().unwrap_or(account.roles),
                    ..account
                };
                draft.put_user(name, &account);
            }
            AccessCall::SetPassword { name, password } => {
                let since = draft.next_version();
                let account = self.user(name)?;
                draft.put_user(name, &UserAccount { password: password.clone(), since, ..account });
            }
            AccessCall::RemoveUser { name } => {
                self.user(name)?;
                draft.delete(user_key(name));
                draft.delete(quota_key(name));
                let of_user = self.api_tokens()?.into_iter().filter(|(_, it)| it.user == *name);
                of_user.for_each(|(digest, _)| draft.delete(api_token_key(&digest)));
            }
            AccessCall::AddApiToken { digest, user, label, roles, lifetime_ms } => {
                let token = ApiTokenAccount {
                    user: user.clone(),
                    label: label.clone(),
                    roles: roles.clone(),
                };
                draft.steps.push(self.api_token_step(digest, &token, *lifetime_ms)?);
            }
            AccessCall::RevokeApiToken { user, label } => {
                let tokens = self.api_tokens()?;
                let found = tokens.iter().find(|(_, it)| it.user == *user && it.label == *label);
                let (digest, _) = found.ok_or_else(|| {
                    let text = format!("user `{user}` has no API token `{label}`");
                    Error::new(Reason::NotFound, text)
                })?;
                draft.delete(api_token_key(digest));
            }
            AccessCall::SetRole { name, grants } => self.set_role(&mut draft, name, grants)?,
            AccessCall::RemoveRole { name } => self.remove_role(&mut draft, name)?,
            AccessCall::SetQuota { user, quota } => self.set_quota(&mut draft, user, quota)?,
        }
        Ok(draft.into_plan())
    }

    /// Writes the first users and roles, unless there have ever been any. Returns true if they were
    /// written now. The caller has checked them.
    pub async fn bootstrap_access(&self, bootstrap: &AccessBootstrap) -> Result<bool> {
        let is_first = self.get(&Bytes::from_static(ACCESS))?.is_none();
        self.change(|| self.plan_bootstrap(bootstrap)).await.map(|_| is_first)
    }

    fn plan_bootstrap(&self, bootstrap: &AccessBootstrap) -> Result<CallPlan> {
        if self.get(&Bytes::from_static(ACCESS))?.is_some() {
            return Ok(CallPlan::Answer(Body::Done));
        }
        let AccessBootstrap { is_on, roles, users } = bootstrap;
        let row = SwitchRow { is_on: *is_on, ..SwitchRow::default() };
        let mut draft = AccessDraft { before: None, row, steps: Vec::new() };
        let role_step =
            |(name, grants): (&String, &Vec<Grant>)| set(role_key(name), write_role(grants));
        draft.steps.extend(roles.iter().map(role_step));
        for (name, user) in users {
            let account = UserAccount {
                is_enabled: true,
                certificates: user.certificates,
                since: draft.next_version(),
                password: user.password.clone(),
                roles: user.roles.clone(),
            };
            draft.put_user(name, &account);
        }
        Ok(draft.into_plan())
    }

    fn switch(&self, draft: &mut AccessDraft, on: bool) -> Result<()> {
        if on && !self.users()?.values().any(is_administrator) {
            let text = "no user could log in and turn access off again: create one with `credenza \
                        access init`";
            return Err(Error::new(Reason::Changed, text));
        }
        draft.row.is_on = on;
        Ok(())
    }

    fn init(&self, draft: &mut AccessDraft, password: &PasswordHash) -> Result<()> {
        if draft.row.is_on {
            let text = "access is on already: set the password of a user with `credenza user \
                        password NAME`";
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        let known = self.get(&user_key(ADMIN))?.map(|value| read_user(&value)).transpose()?;
        let mut roles = known.map(|account| account.roles).unwrap_or_default();
        if !roles.iter().any(|role| role == ADMIN) {
            roles.truncate(ROLES_PER_USER_MAX - 1);
            roles.push(ADMIN.into());
        }
        let account = UserAccount {
            is_enabled: true,
            certificates: false,
            since: draft.next_version(),
            password: Some(password.clone()),
            roles,
        };
        draft.put_user(ADMIN, &account);
        draft.row.is_on = true;
        Ok(())
    }

    fn add_user(
        &self,
        draft: &mut AccessDraft,
        name: &str,
        password: Option<&PasswordHash>,
        roles: &[String],
    ) -> Result<()> {
        check_user_name(name)?;
        self.check_roles(roles)?;
        if self.get(&user_key(name))?.is_some() {
            return Err(Error::new(Reason::AlreadyExists, format!("the user `{name}` exists")));
        }
        check_count(self.users()?.len(), USERS_MAX, "users (users_max)")?;
        let account = UserAccount {
            is_enabled: true,
            certificates: false,
            since: draft.next_version(),
            password: password.cloned(),
            roles: roles.to_vec(),
        };
        draft.put_user(name, &account);
        Ok(())
    }

    /// Returns the step that creates a token.
    fn api_token_step(
        &self,
        digest: &TokenDigest,
        token: &ApiTokenAccount,
        lifetime_ms: Option<u64>,
    ) -> Result<Update> {
        let ApiTokenAccount { user, label, roles } = token;
        check_role_name(label).map_err(|_| {
            let text = "a token's label must have the form of a user's name";
            Error::new(Reason::Malformed, text)
        })?;
        let account = self.user(user)?;
        if let Some(role) = roles.iter().find(|role| !account.roles.contains(role)) {
            let text = format!("user `{user}` does not have the role `{role}`");
            return Err(Error::new(Reason::Malformed, text));
        }
        let tokens = self.api_tokens()?;
        check_count(tokens.len(), API_TOKENS_MAX, "API tokens (api_tokens_max)")?;
        if tokens.values().any(|it| it.user == *user && it.label == *label) {
            let text = format!("user `{user}` has an API token `{label}`: revoke it first");
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        let expiry = match lifetime_ms {
            None => Expiry::Never,
            Some(ms @ 1..=API_TOKEN_MS_MAX) => Expiry::After(ms),
            Some(_) => {
                let text = format!("a token's lifetime must be 1 to {API_TOKEN_MS_MAX} ms");
                return Err(Error::new(Reason::Malformed, text));
            }
        };
        Ok(Update::Set { key: api_token_key(digest), value: write_api_token(token), expiry })
    }

    fn set_role(&self, draft: &mut AccessDraft, name: &str, grants: &[Grant]) -> Result<()> {
        check_not_built_in(name)?;
        check_role_name(name)?;
        if grants.len() > GRANTS_PER_ROLE_MAX {
            let count = grants.len();
            let text = format!(
                "{count} grants; at most {GRANTS_PER_ROLE_MAX} are allowed \
                                (grants_per_role_max)"
            );
            return Err(Error::new(Reason::TooLarge, text));
        }
        if self.get(&role_key(name))?.is_none() {
            check_count(self.count_rows(ROLES)?, ROLES_MAX, "roles (roles_max)")?;
        }
        draft.steps.push(set(role_key(name), write_role(grants)));
        Ok(())
    }

    fn set_quota(&self, draft: &mut AccessDraft, user: &str, quota: &UserQuota) -> Result<()> {
        quota.check()?;
        self.user(user)?;
        match quota.is_unlimited() {
            true => draft.delete(quota_key(user)),
            false => draft.steps.push(set(quota_key(user), write_quota(quota))),
        }
        Ok(())
    }

    fn remove_role(&self, draft: &mut AccessDraft, name: &str) -> Result<()> {
        check_not_built_in(name)?;
        let known = self.get(&role_key(name))?.map(|value| read_role(&value)).transpose()?;
        known.ok_or_else(|| no_such_role(name))?;
        let users = self.users()?;
        let has_role = |account: &UserAccount| account.roles.iter().any(|role| role == name);
        if let Some((user, _)) = users.iter().find(|(_, account)| has_role(account)) {
            let text = format!("user `{user}` has the role `{name}`: take it away first");
            return Err(Error::new(Reason::Changed, text));
        }
        draft.delete(role_key(name));
        Ok(())
    }

    fn check_roles(&self, roles: &[String]) -> Result<()> {
        if roles.len() > ROLES_PER_USER_MAX {
            let text = format!(
                "{} roles; at most {ROLES_PER_USER_MAX} are allowed (roles_per_user_max)",
                roles.len()
            );
            return Err(Error::new(Reason::TooLarge, text));
        }
        for role in roles {
            if !BUILT_IN_ROLES.contains(&role.as_str()) && self.get(&role_key(role))?.is_none() {
                return Err(no_such_role(role));
            }
        }
        Ok(())
    }

    fn user(&self, name: &str) -> Result<UserAccount> {
        let row = self.get(&user_key(name))?;
        let row = row.ok_or_else(|| {
            let text = format!("no user `{name}`: `credenza user list` lists them");
            Error::new(Reason::NotFound, text)
        })?;
        read_user(&row)
    }

    fn users(&self) -> Result<BTreeMap<String, UserAccount>> {
        let mut users = BTreeMap::new();
        self.for_each_row(USERS, |key, value| {
            let name = name_of(key, USERS).map(String::from);
            users.extend(name.zip(Some(read_user(value)?)));
            Ok(())
        })?;
        Ok(users)
    }

    fn api_tokens(&self) -> Result<BTreeMap<TokenDigest, ApiTokenAccount>> {
        let mut tokens = BTreeMap::new();
        self.for_each_row(API_TOKENS, |key, value| {
            tokens.extend(digest_of(key).zip(Some(read_api_token(value)?)));
            Ok(())
        })?;
        Ok(tokens)
    }

    fn count_rows(&self, prefix: &'static [u8]) -> Result<usize> {
        let mut count = 0;
        self.for_each_row(prefix, |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }
}

fn is_administrator(account: &UserAccount) -> bool {
    account.is_enabled && account.password.is_some() && account.roles.iter().any(|it| it == ADMIN)
}

fn check_count(count: usize, max: usize, what: &str) -> Result<()> {
    if count < max {
        return Ok(());
    }
    Err(Error::new(Reason::TooMany, format!("{max} {what} exist, the maximum: remove some")))
}

fn check_not_built_in(role: &str) -> Result<()> {
    if !BUILT_IN_ROLES.contains(&role) {
        return Ok(());
    }
    let text = format!("the role `{role}` is built in: make another role");
    Err(Error::new(Reason::NotSupported, text))
}

fn no_such_role(name: &str) -> Error {
    let text = format!("no role `{name}`: `credenza role list` lists them");
    Error::new(Reason::NotFound, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_users_roles_and_tokens_are_bounded_exactly() {
        for (max, named) in
            [(USERS_MAX, "10000 users"), (ROLES_MAX, "1000 roles"), (API_TOKENS_MAX, "10000 API")]
        {
            let what = named.split_once(' ').expect("a number and a name").1;
            assert_eq!(check_count(max - 1, max, what), Ok(()));
            let refused = check_count(max, max, what).expect_err("one too many");
            assert_eq!(refused.reason, Reason::TooMany);
            assert!(refused.text().starts_with(named), "{refused}");
        }
    }
}
