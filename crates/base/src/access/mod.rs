//! Users, roles and rights as values: verbs, scopes, grants, quotas, the principal of a request,
//! and the calls that change them in the directory.
//!
//! Promises: text and bytes of each have one form; a grant only adds rights, and what is not
//! granted is denied.
//! Never: keeps a password or a token: only their hash and digest. Says what a request needs (that
//! is `rights`).
//! Read next: `verbs.rs`, `grant.rs`, `principal.rs`, then `rights/requests.rs`.

mod account;
mod api_token;
mod bootstrap;
mod call;
mod grant;
mod password;
mod principal;
mod quota;
mod roles;
mod verbs;

pub use account::{ApiTokenAccount, UserAccount};
pub use api_token::ApiToken;
pub use bootstrap::{AccessBootstrap, BootstrapUser};
pub use call::AccessCall;
pub use grant::{Grant, Scope};
pub use password::{Password, PasswordHash};
pub use principal::{ListenerRights, Login, Origin, Principal};
pub use quota::UserQuota;
pub use roles::{BUILT_IN_ROLES, built_in_grants, check_role_name, check_user_name};
pub use verbs::{Verb, Verbs};
