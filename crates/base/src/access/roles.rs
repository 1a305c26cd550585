//! Names of users and roles, and the roles that every cluster has.

use super::grant::{Grant, Scope};
use super::verbs::{Verb, Verbs};
use crate::cluster::check_member_name;
use crate::{Error, Reason, Result};

/// Names of the roles that exist in every cluster and can't be changed.
pub const BUILT_IN_ROLES: [&str; 5] = ["admin", "operator", "monitor", "reader", "writer"];

/// Returns the grants of a built-in role. `None`: no built-in role has this name.
pub fn built_in_grants(role: &str) -> Option<Vec<Grant>> {
    let verbs: &[Verb] = match role {
        "admin" => &Verb::ALL,
        "operator" => &[Verb::Watch, Verb::Operate, Verb::Place],
        "monitor" => &[Verb::Watch],
        "reader" => &[Verb::Read, Verb::List],
        "writer" => &[Verb::Read, Verb::Write, Verb::List, Verb::Call],
        _ => return None,
    };
    Some(vec![Grant { scope: Scope::Cluster, verbs: Verbs::of(verbs) }])
}

/// Checks a user's name: it has the form of a member's.
pub fn check_user_name(name: &str) -> Result<()> {
    check_name(name, "user")
}

/// Checks a role's name: it has the form of a member's.
pub fn check_role_name(name: &str) -> Result<()> {
    check_name(name, "role")
}

fn check_name(name: &str, what: &str) -> Result<()> {
    check_member_name(name).map_err(|_| {
        let text = format!(
            "a {what}'s name must be 1 to 63 of a-z A-Z 0-9 - _ . and begin with a letter or digit"
        );
        Error::new(Reason::Malformed, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_roles_have_valid_grants_and_only_admin_has_all() {
        for role in BUILT_IN_ROLES {
            let grants = built_in_grants(role).expect("built in");
            assert!(check_role_name(role).is_ok());
            for Grant { scope, verbs } in grants {
                assert!(Grant::new(scope, verbs).is_ok(), "{role}");
                assert_eq!(verbs == Verbs::of(&Verb::ALL), role == "admin", "{role}");
            }
        }
        assert_eq!(built_in_grants("root"), None);
    }

    #[test]
    fn user_name_is_refused_in_words_about_users() {
        assert_eq!(check_user_name("ada-1.x_Y"), Ok(()));
        for bad in ["", "a:b", "a/b", "-a", "é", "a b", &"x".repeat(64)] {
            let refused = check_user_name(bad).expect_err(bad);
            assert!(refused.text().starts_with("a user's name"), "{refused}");
            assert!(check_role_name(bad).is_err(), "{bad}");
        }
    }
}
