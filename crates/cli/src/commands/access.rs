//! `credenza access`, `credenza user`, `credenza role`: who may do what.
//!
//! They speak to the local socket in a node's data directory, where its operator always has all
//! rights, or to the address of `--at`, with a login.

use super::user_quota::{self, QuotaArguments};
use crate::output;
use api::{AccessQuestion, NewApiToken, NewPassword, NewUser, RoleGrants, SecretText, UserChange};
use base::access::Password;
use clap::Subcommand;
use client::{Address, Client, LoginArguments, TlsArguments};
use program::{Failure, Outcome, units};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

pub const EXAMPLES: &str = "\
Examples:
  credenza access init --data /srv/credenza        the first administrator; turns access on
  credenza access hash < password                  for access_bootstrap_file
  credenza user add ada --role reader --password-stdin < password
  credenza role set web read,write:logs/* list:logs/web/2026-
  credenza access check ada write logs/web         which grant decides
  credenza user token ada --label ci --for 30d
  credenza user quota ada --operations 1000 --bytes 1MiB
  credenza user remove ada --confirm ada";

/// Longest password on standard input, with its line end.
const PASSWORD_BYTES_MAX: u64 = base::limits::PASSWORD_BYTES_MAX as u64 + 2;

/// Place where users and roles are changed, and the format of the answer.
#[derive(clap::Args)]
pub struct AccessAddress {
    /// Data directory of a node on this machine, whose local socket is used
    #[arg(long, value_name = "DIR", default_value = "data", global = true)]
    data: PathBuf,
    /// A node's address instead; where access is on, with a login
    #[arg(long = "at", value_name = "URL", global = true)]
    url: Option<String>,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    login: LoginArguments,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
}

impl AccessAddress {
    fn client(&self) -> Outcome<Client> {
        let timeout = Duration::from_secs(60);
        let Some(url) = self.url.clone() else {
            let socket = format!("unix:{}", self.data.join("admin.sock").display());
            return Address::plain(socket, timeout).client();
        };
        let (tls, login) = (self.tls.clone(), self.login.clone());
        Address { url, tls, login, timeout }.client()
    }

    fn done(&self, text: &str) -> Outcome {
        if self.json {
            output::json(&serde_json::json!({ "done": true }))
        } else {
            output::text(text)
        }
    }
}

/// `credenza access`.
#[derive(clap::Args)]
pub struct AccessCommand {
    #[command(flatten)]
    address: AccessAddress,
    #[command(subcommand)]
    verb: AccessVerb,
}

#[derive(Subcommand)]
enum AccessVerb {
    /// Create the user `admin` with a random password, shown once, and turn access on
    Init,
    /// Show whether access is on, and all users and roles
    Status,
    /// Turn access on: every request needs rights
    On,
    /// Turn access off: everybody may do what their listener allows
    Off {
        /// The word `off`, again
        #[arg(long, value_name = "off")]
        confirm: String,
    },
    /// Print the hash of a password, read from standard input, for `access_bootstrap_file`
    Hash,
    /// Show whether a user may do something, and which grant decides
    Check {
        /// The user
        user: String,
        /// read, write, list, call, own, watch, operate, place or secure
        verb: String,
        /// `cluster`, `TYPE/*`, `TYPE/BUCKET` or `TYPE/BUCKET/PREFIX`
        scope: String,
    },
}

impl AccessCommand {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let (address, mut client) = (&self.address, self.address.client()?);
        match self.verb {
            AccessVerb::Init => {
                let made = client.init_access().await?;
                if address.json {
                    return output::json(&made);
                }
                eprintln!("access is on; the password of user `{}`, shown only now:", made.user);
                output::text(&format!("{}\n", made.password.text()))
            }
            AccessVerb::Status => output::json(&client.access_state().await?),
            AccessVerb::On => {
                client.switch_access(true).await?;
                address.done("access is on\n")
            }
            AccessVerb::Off { confirm } => {
                confirm_name(&confirm, "off")?;
                client.switch_access(false).await?;
                address.done("access is off: everybody may do what their listener allows\n")
            }
            AccessVerb::Hash => {
                let password = Password::new(read_password()?.text().as_bytes())?;
                let hash = server::hash_password(&password)?;
                if address.json {
                    return output::json(&serde_json::json!({ "password_hash": hash.text() }));
                }
                output::text(&format!("{}\n", hash.text()))
            }
            AccessVerb::Check { user, verb, scope } => {
                let question = AccessQuestion { user, verb, scope };
                let decision = client.check_access(&question).await?;
                if address.json {
                    return output::json(&decision);
                }
                output::text(&match (decision.role, decision.grant) {
                    (Some(role), Some(grant)) => format!("yes: role {role} grants {grant}\n"),
                    _ => "no: no grant covers it\n".into(),
                })
            }
        }
    }
}

/// `credenza user`.
#[derive(clap::Args)]
pub struct UserCommand {
    #[command(flatten)]
    address: AccessAddress,
    #[command(subcommand)]
    verb: UserVerb,
}

#[derive(Subcommand)]
enum UserVerb {
    /// Create a user
    Add {
        /// Name of the user
        name: String,
        /// A role; may be repeated
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
        /// Read a password from standard input; without it the user can't log in with one
        #[arg(long)]
        password_stdin: bool,
    },
    /// Change the roles of a user, or whether a client certificate logs it in
    Set {
        /// Name of the user
        name: String,
        /// A role; all that are named replace the present ones
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
        /// `on`: a client certificate of this name logs the user in; `off`: such logins end
        #[arg(long, value_name = "SWITCH", value_parser = units::switch)]
        certificates: Option<bool>,
    },
    /// Set a user's password, read from standard input; logins with the former one end
    Password {
        /// Name of the user
        name: String,
    },
    /// Disable a user: it can't log in, and its logins end
    Disable {
        /// Name of the user
        name: String,
    },
    /// Enable a disabled user
    Enable {
        /// Name of the user
        name: String,
    },
    /// Show or set the quota of a user: what its clients may use of each node
    Quota(QuotaArguments),
    /// Remove a user with its API tokens
    Remove {
        /// Name of the user
        name: String,
        /// The name, again
        #[arg(long, value_name = "NAME")]
        confirm: String,
    },
    /// List users, with the use of those that have a quota
    List,
    /// Create an API token of a user, shown once
    Token {
        /// Name of the user
        name: String,
        /// Label of the token
        #[arg(long)]
        label: String,
        /// A role of the user that the token is narrowed to; may be repeated
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
        /// Lifetime of the token; without it the token is valid until it is revoked
        #[arg(long = "for", value_name = "TIME", value_parser = units::time_with_unit_ms)]
        lifetime_ms: Option<u64>,
        /// Revoke the token of this label instead
        #[arg(long, conflicts_with_all = ["roles", "lifetime_ms"])]
        revoke: bool,
    },
}

impl UserCommand {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let (address, mut client) = (&self.address, self.address.client()?);
        match self.verb {
            UserVerb::Add { name, roles, password_stdin } => {
                let password = password_stdin.then(read_password).transpose()?;
                client.add_user(&name, &NewUser { password, roles }).await?;
                address.done(&format!("user {name} is created\n"))
            }
            UserVerb::Set { name, roles, certificates } => {
                let roles = Some(roles).filter(|roles| !roles.is_empty());
                let change = UserChange { roles, certificates, enabled: None };
                client.change_user(&name, &change).await?;
                address.done(&format!("user {name} is changed\n"))
            }
            UserVerb::Password { name } => {
                let password = Some(read_password()?);
                client.set_password(&name, &NewPassword { password }).await?;
                address.done(&format!("the password of user {name} is set\n"))
            }
            UserVerb::Disable { name } => enable(&mut client, address, &name, false).await,
            UserVerb::Enable { name } => enable(&mut client, address, &name, true).await,
            UserVerb::Quota(quota) => match quota.run(&mut client, address.json).await? {
                Some(text) => address.done(&text),
                None => Ok(()),
            },
            UserVerb::Remove { name, confirm } => {
                confirm_name(&confirm, &name)?;
                client.remove_user(&name).await?;
                address.done(&format!("user {name} is removed\n"))
            }
            UserVerb::List => {
                let state = client.access_state().await?;
                if address.json {
                    return output::json(&state.users);
                }
                let line = |user: api::UserReply| {
                    let disabled = if user.enabled { "" } else { "  (disabled)" };
                    let quota = user.quota.as_ref().map(|_| user_quota::describe(&user));
                    let quota = quota.map(|quota| format!("  {quota}")).unwrap_or_default();
                    format!("{}  {}{quota}{disabled}\n", user.name, user.roles.join(","))
                };
                output::text(&state.users.into_iter().map(line).collect::<String>())
            }
            UserVerb::Token { name, label, revoke: true, .. } => {
                client.revoke_api_token(&name, &label).await?;
                address.done(&format!("token {label} of user {name} is revoked\n"))
            }
            UserVerb::Token { name, label, roles, lifetime_ms, revoke: false } => {
                let roles = Some(roles).filter(|roles| !roles.is_empty());
                let lifetime_ms = lifetime_ms.map(api::Integer);
                let token = NewApiToken { label, roles, lifetime_ms };
                let made = client.add_api_token(&name, &token).await?;
                if address.json {
                    output::json(&made)
                } else {
                    output::text(&format!("{}\n", made.token.text()))
                }
            }
        }
    }
}

async fn enable(
    client: &mut Client,
    address: &AccessAddress,
    name: &str,
    enabled: bool,
) -> Outcome {
    let change = UserChange { enabled: Some(enabled), ..UserChange::default() };
    client.change_user(name, &change).await?;
    let state = if enabled { "enabled" } else { "disabled" };
    address.done(&format!("user {name} is {state}\n"))
}

/// `credenza role`.
#[derive(clap::Args)]
pub struct RoleCommand {
    #[command(flatten)]
    address: AccessAddress,
    #[command(subcommand)]
    verb: RoleVerb,
}

#[derive(Subcommand)]
enum RoleVerb {
    /// Create a role, or replace its grants
    Set {
        /// Name of the role
        name: String,
        /// Grants: VERB[,VERB...]:SCOPE
        grants: Vec<String>,
    },
    /// Remove a role that no user has
    Remove {
        /// Name of the role
        name: String,
        /// The name, again
        #[arg(long, value_name = "NAME")]
        confirm: String,
    },
    /// List roles with their grants
    List,
}

impl RoleCommand {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let (address, mut client) = (&self.address, self.address.client()?);
        match self.verb {
            RoleVerb::Set { name, grants } => {
                client.set_role(&name, &RoleGrants { grants }).await?;
                address.done(&format!("role {name} is set\n"))
            }
            RoleVerb::Remove { name, confirm } => {
                confirm_name(&confirm, &name)?;
                client.remove_role(&name).await?;
                address.done(&format!("role {name} is removed\n"))
            }
            RoleVerb::List => {
                let state = client.access_state().await?;
                if address.json {
                    return output::json(&state.roles);
                }
                let line = |role: api::RoleReply| {
                    let built_in = if role.built_in { "  (built in)" } else { "" };
                    format!("{}  {}{built_in}\n", role.name, role.grants.join(" "))
                };
                output::text(&state.roles.into_iter().map(line).collect::<String>())
            }
        }
    }
}

fn confirm_name(confirm: &str, name: &str) -> Outcome {
    match confirm == name {
        true => Ok(()),
        false => Err(Failure::invalid(format!("nothing was done: --confirm must be `{name}`"))),
    }
}

/// Reads a password from standard input; a line end behind it is no part of it.
fn read_password() -> Outcome<SecretText> {
    // In one piece: a text that grows would leave parts of it behind.
    let mut text = Zeroizing::new(String::with_capacity(PASSWORD_BYTES_MAX as usize));
    let read = std::io::stdin().lock().take(PASSWORD_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::invalid(format!("standard input can't be read: {error}")))?;
    let password = text.trim_end_matches(['\n', '\r']);
    match password.is_empty() {
        true => Err(Failure::invalid("a password is expected on standard input")),
        false => Ok(password.into()),
    }
}
