//! Compiled copy of the access rows: users, roles, tokens and quotas as this node has applied them.
//!
//! Reads of whether access is on, and of the version, take no lock. The rights of a login are
//! compiled at its first request behind a change, and kept until the next change.

use super::rows::{
    self, ACCESS, API_TOKENS, QUOTAS, ROLES, SwitchRow, USERS, read_api_token, read_quota,
    read_role, read_switch, read_user,
};
use base::access::{ApiTokenAccount, Grant, Login, UserAccount, UserQuota, built_in_grants};
use base::rights::Rights;
use base::{Error, Reason, Result, TokenDigest, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Users, roles, tokens and quotas of a cluster.
#[derive(Default)]
pub struct AccessTable {
    is_on: AtomicBool,
    version: AtomicU64,
    /// Number of rows applied, on this node: raised with the rows, under their lock.
    changes: AtomicU64,
    rows: RwLock<AccessRows>,
}

#[derive(Default)]
struct AccessRows {
    users: BTreeMap<String, UserAccount>,
    roles: BTreeMap<String, Vec<Grant>>,
    tokens: BTreeMap<TokenDigest, ApiTokenAccount>,
    quotas: BTreeMap<String, UserQuota>,
    /// Rights of logins since the last change.
    compiled: BTreeMap<(String, Option<TokenDigest>), Arc<Rights>>,
}

impl AccessTable {
    /// Returns true if requests need rights.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Returns the version of the rows. 0: there were never any.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns a number that grows with every applied row, those that expire among them.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Applies a row, in the order of the log. `None`: it was removed. Returns false if the key is
    /// of no access row. A row that can't be read counts as removed, and is an error; the switch
    /// stays as it is.
    pub fn apply(&self, key: &[u8], value: Option<&Value>) -> Result<bool> {
        let mut outcome = Ok(());
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if key == ACCESS {
            let row = value.map(|value| read_switch(value)).transpose()?.unwrap_or_default();
            let SwitchRow { is_on, version } = row;
            self.is_on.store(is_on, Ordering::Release);
            self.version.store(version, Ordering::Release);
        } else if let Some(name) = rows::name_of(key, USERS) {
            let row = keep_error(value.map(|value| read_user(value)), &mut outcome);
            replace(&mut rows.users, name.to_string(), row);
        } else if let Some(name) = rows::name_of(key, ROLES) {
            let row = keep_error(value.map(|value| read_role(value)), &mut outcome);
            replace(&mut rows.roles, name.to_string(), row);
        } else if let Some(name) = rows::name_of(key, QUOTAS) {
            let row = keep_error(value.map(|value| read_quota(value)), &mut outcome);
            replace(&mut rows.quotas, name.to_string(), row);
        } else if let Some(digest) = rows::digest_of(key) {
            let row = keep_error(value.map(|value| read_api_token(value)), &mut outcome);
            replace(&mut rows.tokens, digest, row);
        } else {
            let prefixes = [USERS, ROLES, API_TOKENS, QUOTAS];
            return Ok(prefixes.iter().any(|prefix| key.starts_with(prefix)));
        }
        rows.compiled.clear();
        self.changes.fetch_add(1, Ordering::AcqRel);
        outcome.map(|()| true)
    }

    /// Returns a user's row.
    pub fn user(&self, name: &str) -> Option<UserAccount> {
        self.read().users.get(name).cloned()
    }

    /// Returns the quota of a user. `None`: it has none.
    pub fn quota(&self, user: &str) -> Option<UserQuota> {
        self.read().quotas.get(user).copied()
    }

    /// Returns the row of an API token.
    pub fn token(&self, digest: &TokenDigest) -> Option<ApiTokenAccount> {
        self.read().tokens.get(digest).cloned()
    }

    /// Returns all users, in the order of their names.
    pub fn users(&self) -> Vec<(String, UserAccount)> {
        self.read().users.iter().map(|(name, row)| (name.clone(), row.clone())).collect()
    }

    /// Returns all roles but the built-in ones, in the order of their names.
    pub fn roles(&self) -> Vec<(String, Vec<Grant>)> {
        self.read().roles.iter().map(|(name, grants)| (name.clone(), grants.clone())).collect()
    }

    /// Returns the tokens of a user, in the order of their labels.
    pub fn tokens_of(&self, user: &str) -> Vec<ApiTokenAccount> {
        let rows = self.read();
        let of_user = rows.tokens.values().filter(|token| token.user == user);
        let mut tokens: Vec<_> = of_user.cloned().collect();
        tokens.sort_by(|one, next| one.label.cmp(&next.label));
        tokens
    }

    /// Returns the grants of a user with the role that each comes from, in the order of its roles.
    pub fn grants_of(&self, user: &str) -> Vec<(String, Grant)> {
        let rows = self.read();
        let Some(row) = rows.users.get(user) else { return Vec::new() };
        let grants = |role: &String| {
            let of_role = |grant| (role.clone(), grant);
            rows.grants(role).into_iter().map(of_role).collect::<Vec<_>>()
        };
        row.roles.iter().flat_map(grants).collect()
    }

    /// Returns the rights of a login.
    ///
    /// Errors: `Unauthenticated`, if it has ended: the user was removed or disabled, its password
    /// changed, the token was revoked or has expired, certificates log the user in no more.
    pub fn rights(&self, login: &Login) -> Result<Arc<Rights>> {
        let key = (login.user.clone(), login.token);
        let rows = self.read();
        let roles = rows.roles_of(login)?;
        if let Some(rights) = rows.compiled.get(&key) {
            return Ok(rights.clone());
        }
        let grants: Vec<_> = roles.iter().flat_map(|role| rows.grants(role)).collect();
        let (changes, rights) = (self.changes(), Arc::new(Rights::new(&grants)));
        drop(rows);
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        // Rows may have changed in between: such rights are used once, and not kept.
        if self.changes() == changes {
            rows.compiled.insert(key, rights.clone());
        }
        Ok(rights)
    }

    fn read(&self) -> RwLockReadGuard<'_, AccessRows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccessRows {
    /// Returns the grants of a role. A role that does not exist grants nothing.
    fn grants(&self, role: &str) -> Vec<Grant> {
        let own = || self.roles.get(role).cloned().unwrap_or_default();
        built_in_grants(role).unwrap_or_else(own)
    }

    /// Returns the roles of a login that has not ended.
    fn roles_of(&self, login: &Login) -> Result<Vec<String>> {
        let user = self.users.get(&login.user).filter(|user| user.is_enabled);
        let user = user.ok_or_else(ended)?;
        match &login.token {
            None if login.is_by_certificate() && user.certificates => Ok(user.roles.clone()),
            None if user.since == login.since => Ok(user.roles.clone()),
            None => Err(ended()),
            Some(digest) => {
                let token = self.tokens.get(digest).filter(|token| token.user == login.user);
                let token = token.ok_or_else(ended)?;
                let is_kept = |role: &&String| token.roles.is_empty() || token.roles.contains(role);
                Ok(user.roles.iter().filter(is_kept).cloned().collect())
            }
        }
    }
}

fn ended() -> Error {
    let text = "the login has ended: the user, its password, the token or the use of certificates \
                changed; log in again";
    Error::new(Reason::Unauthenticated, text)
}

fn keep_error<T>(row: Option<Result<T>>, outcome: &mut Result<()>) -> Option<T> {
    match row? {
        Ok(row) => Some(row),
        Err(error) => {
            *outcome = Err(error);
            None
        }
    }
}

fn replace<K: Ord, T>(rows: &mut BTreeMap<K, T>, key: K, row: Option<T>) {
    match row {
        Some(row) => drop(rows.insert(key, row)),
        None => drop(rows.remove(&key)),
    }
}

#[cfg(test)]
mod tests {
    use super::rows::{
        api_token_key, quota_key, role_key, user_key, write_api_token, write_quota, write_role,
        write_switch, write_user,
    };
    use super::*;
    use base::BucketName;
    use base::access::{Verb, Verbs};

    const DIGEST: TokenDigest = TokenDigest([7; 32]);

    fn table() -> AccessTable {
        let table = AccessTable::default();
        set_user(&table, true, 1);
        set_role(&table, "read,list:logs/web");
        set_switch(&table, true, 1);
        table
    }

    fn set_user(table: &AccessTable, is_enabled: bool, since: u64) {
        set_certificates(table, is_enabled, since, false);
    }

    fn set_certificates(table: &AccessTable, is_enabled: bool, since: u64, certificates: bool) {
        let roles = vec!["monitor".into(), "web".into()];
        let row = UserAccount { is_enabled, certificates, since, password: None, roles };
        assert_eq!(table.apply(&user_key("ada"), Some(&write_user(&row))), Ok(true));
    }

    fn set_role(table: &AccessTable, grant: &str) {
        let grants = [Grant::parse(grant).expect("a grant")];
        assert_eq!(table.apply(&role_key("web"), Some(&write_role(&grants))), Ok(true));
    }

    fn set_switch(table: &AccessTable, is_on: bool, version: u64) {
        let row = write_switch(SwitchRow { is_on, version });
        assert_eq!(table.apply(ACCESS, Some(&row)), Ok(true));
    }

    fn login(since: u64, token: Option<TokenDigest>) -> Login {
        Login { user: "ada".into(), since, token }
    }

    fn verbs(table: &AccessTable, login: &Login) -> Option<Verbs> {
        let bucket = BucketName::parse("logs/web").expect("a name");
        table.rights(login).ok().map(|rights| rights.on_bucket(&bucket))
    }

    #[test]
    fn change_of_a_role_reaches_logins_and_a_changed_password_ends_them() {
        let table = table();
        assert!(table.is_on() && table.version() == 1);
        let read = Some(Verbs::of(&[Verb::Read, Verb::List, Verb::Watch]));
        assert_eq!(verbs(&table, &login(1, None)), read);
        set_role(&table, "write:logs/*");
        set_switch(&table, true, 2);
        let write = Some(Verbs::of(&[Verb::Write, Verb::Watch]));
        assert_eq!(verbs(&table, &login(1, None)), write);
        assert_eq!(table.apply(&role_key("web"), None), Ok(true));
        assert_eq!(verbs(&table, &login(1, None)), Some(Verbs::of(&[Verb::Watch])));
        set_user(&table, true, 3);
        assert_eq!(verbs(&table, &login(1, None)), None, "its password changed");
        let refused = table.rights(&login(1, None)).map_err(|error| error.reason);
        assert_eq!(refused, Err(Reason::Unauthenticated));
        set_user(&table, false, 3);
        assert_eq!(verbs(&table, &login(3, None)), None, "it is disabled");
        assert_eq!(table.apply(&user_key("ada"), None), Ok(true));
        assert_eq!(verbs(&table, &login(3, None)), None, "it is removed");
    }

    #[test]
    fn login_by_certificate_lasts_while_certificates_log_the_enabled_user_in() {
        let table = table();
        let by_certificate = Login::by_certificate("ada");
        assert_eq!(verbs(&table, &by_certificate), None, "it was never allowed");
        set_certificates(&table, true, 1, true);
        assert_eq!(verbs(&table, &by_certificate), verbs(&table, &login(1, None)));
        set_certificates(&table, true, 2, true);
        assert!(verbs(&table, &by_certificate).is_some(), "a password is another way");
        set_certificates(&table, false, 2, true);
        assert_eq!(verbs(&table, &by_certificate), None, "the user is disabled");
        set_certificates(&table, true, 3, false);
        assert_eq!(verbs(&table, &by_certificate), None, "certificates are off");
        assert!(verbs(&table, &login(3, None)).is_some(), "other logins are not concerned");
    }

    #[test]
    fn token_narrows_roles_and_ends_with_its_row() {
        let table = table();
        let set_token = |user: &str, roles: Vec<String>| {
            let row = ApiTokenAccount { user: user.into(), label: "ci".into(), roles };
            assert_eq!(
                table.apply(&api_token_key(&DIGEST), Some(&write_api_token(&row))),
                Ok(true)
            );
        };
        let by_token = login(0, Some(DIGEST));
        assert_eq!(verbs(&table, &by_token), None, "there is no such token");
        set_token("ada", Vec::new());
        assert_eq!(verbs(&table, &by_token), verbs(&table, &login(1, None)));
        set_token("ada", vec!["monitor".into(), "admin".into()]);
        assert_eq!(verbs(&table, &by_token), Some(Verbs::of(&[Verb::Watch])), "never more");
        assert_eq!(table.tokens_of("ada").len(), 1);
        set_token("bob", Vec::new());
        assert_eq!(verbs(&table, &by_token), None, "it is another user's");
        set_token("ada", Vec::new());
        assert_eq!(table.apply(&api_token_key(&DIGEST), None), Ok(true));
        assert_eq!(verbs(&table, &by_token), None, "it has expired");
    }

    #[test]
    fn quota_is_that_of_its_last_row_and_no_other_row_depends_on_it() {
        let table = table();
        let quota = UserQuota { operations: Some(5), ..UserQuota::default() };
        let changes = table.changes();
        assert_eq!(table.quota("ada"), None);
        assert_eq!(table.apply(&quota_key("ada"), Some(&write_quota(&quota))), Ok(true));
        assert_eq!((table.quota("ada"), table.quota("bob")), (Some(quota), None));
        assert!(table.changes() > changes, "connections look it up again");
        let bad = Value::from_static(b"no row");
        assert!(table.apply(&quota_key("ada"), Some(&bad)).is_err());
        assert_eq!(table.quota("ada"), None);
        assert!(verbs(&table, &login(1, None)).is_some(), "the user's row is another one");
        assert_eq!(table.apply(&quota_key("ada"), Some(&write_quota(&quota))), Ok(true));
        assert_eq!(table.apply(&quota_key("ada"), None), Ok(true));
        assert_eq!(table.quota("ada"), None);
    }

    #[test]
    fn unreadable_row_grants_nothing_and_other_keys_are_no_access_rows() {
        let table = table();
        let bad = Value::from_static(b"no row");
        assert!(table.apply(&role_key("web"), Some(&bad)).is_err());
        assert_eq!(verbs(&table, &login(1, None)), Some(Verbs::of(&[Verb::Watch])));
        assert!(table.apply(&user_key("ada"), Some(&bad)).is_err());
        assert_eq!(verbs(&table, &login(1, None)), None);
        assert!(table.apply(ACCESS, Some(&bad)).is_err() && table.is_on(), "it stays on");
        let changes = table.changes();
        assert_eq!(table.apply(b"b/default/default", None), Ok(false));
        assert_eq!(table.changes(), changes);
    }
}
