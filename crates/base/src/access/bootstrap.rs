//! First users and roles of a cluster, from a file of the node that founds it.
//!
//! They are written in one change, and only while there are none. So they are complete or absent,
//! and a later start, with the same file or another one, changes nothing.

use super::grant::Grant;
use super::password::PasswordHash;
use super::roles::{BUILT_IN_ROLES, check_role_name, check_user_name};
use crate::limits::{GRANTS_PER_ROLE_MAX, ROLES_MAX, ROLES_PER_USER_MAX, USERS_MAX};
use crate::{Error, Reason, Result};
use std::collections::BTreeMap;

/// Role that a user must have who can turn access off again.
const ADMIN: &str = "admin";

/// First users and roles of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessBootstrap {
    /// True if requests need rights from the beginning.
    pub is_on: bool,
    /// Grants of each role.
    pub roles: BTreeMap<String, Vec<Grant>>,
    /// Users by name.
    pub users: BTreeMap<String, BootstrapUser>,
}

/// First user of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapUser {
    /// Hash of its password. `None`: it can't log in with one.
    pub password: Option<PasswordHash>,
    /// Names of its roles.
    pub roles: Vec<String>,
    /// True if a client certificate of its name logs the user in.
    pub certificates: bool,
}

impl AccessBootstrap {
    /// Fails unless users and roles are within their limits, and name roles that exist. If access
    /// is to be on, a user must be able to turn it off.
    pub fn check(&self) -> Result<()> {
        check_count(self.users.len(), USERS_MAX, "users (users_max)")?;
        check_count(self.roles.len(), ROLES_MAX, "roles (roles_max)")?;
        for (name, grants) in &self.roles {
            check_role_name(name)?;
            if BUILT_IN_ROLES.contains(&name.as_str()) {
                let text = format!("the role `{name}` is built in: make another role");
                return Err(Error::new(Reason::NotSupported, text));
            }
            let what = format!("grants (grants_per_role_max) of role `{name}`");
            check_count(grants.len(), GRANTS_PER_ROLE_MAX, &what)?;
        }
        for (name, user) in &self.users {
            check_user_name(name)?;
            let what = format!("roles (roles_per_user_max) of user `{name}`");
            check_count(user.roles.len(), ROLES_PER_USER_MAX, &what)?;
            let is_known =
                |role: &String| BUILT_IN_ROLES.contains(&role.as_str()) || self.has_role(role);
            if let Some(role) = user.roles.iter().find(|role| !is_known(role)) {
                let text = format!("user `{name}` has the role `{role}`, which does not exist");
                return Err(Error::new(Reason::NotFound, text));
            }
        }
        let is_administrator = |user: &BootstrapUser| {
            user.password.is_some() && user.roles.iter().any(|role| role == ADMIN)
        };
        if self.is_on && !self.users.values().any(is_administrator) {
            let text = "no user could log in and turn access off again: give one the role `admin` \
                        and a password";
            return Err(Error::new(Reason::Changed, text));
        }
        Ok(())
    }

    fn has_role(&self, name: &str) -> bool {
        self.roles.contains_key(name)
    }
}

fn check_count(count: usize, max: usize, what: &str) -> Result<()> {
    if count <= max {
        return Ok(());
    }
    Err(Error::new(Reason::TooLarge, format!("{count} {what}: at most {max} are allowed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash() -> PasswordHash {
        let text = format!("{}{}${}", PasswordHash::PREFIX, "c".repeat(22), "H".repeat(43));
        PasswordHash::parse(&text).expect("it has the form")
    }

    fn user(password: Option<PasswordHash>, roles: &[&str]) -> BootstrapUser {
        let roles = roles.iter().map(|role| role.to_string()).collect();
        BootstrapUser { password, roles, certificates: false }
    }

    fn bootstrap() -> AccessBootstrap {
        let grant = Grant::parse("read:logs/*").expect("a grant");
        AccessBootstrap {
            is_on: true,
            roles: BTreeMap::from([("web".into(), vec![grant])]),
            users: BTreeMap::from([
                ("ada".into(), user(Some(hash()), &["admin"])),
                ("ci".into(), user(None, &["web", "reader"])),
            ]),
        }
    }

    #[test]
    fn first_users_are_refused_unless_one_of_them_can_turn_access_off() {
        assert_eq!(bootstrap().check(), Ok(()));
        for administrator in [user(None, &["admin"]), user(Some(hash()), &["operator"])] {
            let mut changed = bootstrap();
            changed.users.insert("ada".into(), administrator);
            let refused = changed.check().expect_err("nobody could");
            assert!(refused.text().contains("`admin`"), "{refused}");
            changed.is_on = false;
            assert_eq!(changed.check(), Ok(()), "an operator turns it on later");
        }
        assert_eq!(AccessBootstrap::default().check(), Ok(()));
    }

    #[test]
    fn first_users_and_roles_with_wrong_names_or_beyond_limits_are_refused() {
        let grant = || Grant::parse("read:logs/*").expect("a grant");
        let changed = |change: &dyn Fn(&mut AccessBootstrap)| {
            let mut bootstrap = bootstrap();
            change(&mut bootstrap);
            bootstrap.check().map_err(|error| error.reason)
        };
        let add_role = |name: &'static str, grants: usize| {
            move |it: &mut AccessBootstrap| {
                drop(it.roles.insert(name.into(), vec![grant(); grants]))
            }
        };
        let add_user = |name: &'static str, user: BootstrapUser| {
            move |it: &mut AccessBootstrap| drop(it.users.insert(name.into(), user.clone()))
        };
        assert_eq!(changed(&add_role("largest", GRANTS_PER_ROLE_MAX)), Ok(()));
        assert_eq!(changed(&add_user("bob", user(None, &["web"; ROLES_PER_USER_MAX]))), Ok(()));
        for (refused, reason) in [
            (changed(&add_role("a b", 1)), Reason::Malformed),
            (changed(&add_role("reader", 1)), Reason::NotSupported),
            (changed(&add_role("large", GRANTS_PER_ROLE_MAX + 1)), Reason::TooLarge),
            (changed(&add_user("a/b", user(None, &[]))), Reason::Malformed),
            (changed(&add_user("bob", user(None, &["none"]))), Reason::NotFound),
            (
                changed(&add_user("bob", user(None, &["web"; ROLES_PER_USER_MAX + 1]))),
                Reason::TooLarge,
            ),
        ] {
            assert_eq!(refused, Err(reason));
        }
    }
}
