//! Login of the command line at a node: a user with a password, or an API token.
//!
//! Both come from a file or from the environment, never from the command line itself: every user of
//! the machine could read them in the list of processes. Neither is sent over a plain connection
//! beyond this machine, unless that is said to be meant.

use base::access::{ApiToken, Password, check_user_name};
use base::limits::PASSWORD_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use program::{Failure, Outcome, secret_file};
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use zeroize::Zeroizing;

const USER: &str = "CREDENZA_USER";
const PASSWORD: &str = "CREDENZA_PASSWORD";
const TOKEN: &str = "CREDENZA_TOKEN";

/// Most bytes that a file with a password may have, and one more: a longer one is refused.
const FILE_BYTES_MAX: usize = PASSWORD_BYTES_MAX + 3;

/// Login at the node, where access is on.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LoginArguments {
    /// User to log in as (or CREDENZA_USER), where the cluster requires it
    #[arg(long = "user", value_name = "NAME", global = true)]
    login_user: Option<String>,
    /// File with the user's password (or the password itself in CREDENZA_PASSWORD)
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "token_file")]
    password_file: Option<PathBuf>,
    /// File with an API token (or the token itself in CREDENZA_TOKEN), in place of a user
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "login_user")]
    token_file: Option<PathBuf>,
    /// Send a password or token without encryption beyond this machine
    #[arg(long = "insecure", global = true)]
    allows_plain: bool,
}

/// Value of the header `Authorization`. It is wiped when it is dropped, and has no `Debug`.
#[derive(Clone)]
pub struct Authorization(Arc<Zeroizing<String>>);

impl Authorization {
    fn basic(user: &str, password: &Password) -> Authorization {
        let plain = Zeroizing::new([user.as_bytes(), b":", password.bytes()].concat());
        let encoded = Zeroizing::new(STANDARD.encode(&*plain));
        Authorization(Arc::new(Zeroizing::new(format!("Basic {}", *encoded))))
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl LoginArguments {
    /// Returns a login by the API token in a file, in place of this one.
    pub fn with_token_file(&self, token_file: PathBuf) -> LoginArguments {
        let allows_plain = self.allows_plain;
        LoginArguments { token_file: Some(token_file), allows_plain, ..LoginArguments::default() }
    }

    /// Returns the login, from the flags or else from the environment. `None`: there is none.
    pub fn authorization(&self) -> Outcome<Option<Authorization>> {
        self.authorization_with(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn authorization_with(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Outcome<Option<Authorization>> {
        if let Some(path) = &self.token_file {
            let text = secret_file::read("--token-file", path, ("token", FILE_BYTES_MAX))?;
            return bearer(&text, &format!("--token-file {}", path.display())).map(Some);
        }
        let user = match &self.login_user {
            Some(user) => Some(user.clone()),
            None => variable(USER).map(|user| user.to_string_lossy().into_owned()),
        };
        if self.login_user.is_none()
            && let Some(token) = variable(TOKEN)
        {
            if user.is_some() {
                let text = format!("{USER} and {TOKEN} are both set: unset one of them");
                return Err(Failure::invalid(text));
            }
            return bearer(token.as_bytes(), TOKEN).map(Some);
        }
        match (user, &self.password_file, variable(PASSWORD)) {
            (Some(user), Some(path), _) => {
                let text =
                    secret_file::read("--password-file", path, ("password", FILE_BYTES_MAX))?;
                basic(&user, &text, &format!("--password-file {}", path.display())).map(Some)
            }
            (Some(user), None, Some(password)) => {
                let password = Zeroizing::new(password.as_bytes().to_vec());
                basic(&user, &password, PASSWORD).map(Some)
            }
            (Some(_), None, None) => Err(Failure::invalid(format!(
                "the user's password is missing: name its file with --password-file, or set \
                 {PASSWORD}"
            ))),
            (None, Some(_), _) => Err(Failure::invalid(format!(
                "--password-file needs a user: name it with --user, or set {USER}"
            ))),
            (None, None, Some(_)) => Err(Failure::invalid(format!(
                "{PASSWORD} is set, but no user: name it with --user, or set {USER}"
            ))),
            (None, None, None) => Ok(None),
        }
    }

    /// Fails if a secret would leave this machine without encryption.
    pub fn check_way(&self, authority: &str, is_encrypted: bool) -> Outcome {
        if is_encrypted || self.allows_plain || is_loopback(authority) {
            return Ok(());
        }
        let text = format!(
            "nothing was sent: http://{authority} is plain, and everybody on the way could read \
             the password or token: use https:// with --ca, or --insecure if that network is your \
             own"
        );
        Err(Failure::invalid(text))
    }
}

fn basic(user: &str, text: &[u8], from: &str) -> Outcome<Authorization> {
    check_user_name(user).map_err(|error| Failure::invalid(format!("--user: {}", error.text())))?;
    let password = Password::new(without_line_end(text));
    let password =
        password.map_err(|error| Failure::invalid(format!("{from}: {}", error.text())))?;
    Ok(Authorization::basic(user, &password))
}

fn bearer(text: &[u8], from: &str) -> Outcome<Authorization> {
    let text = text.trim_ascii();
    let token = std::str::from_utf8(text).ok().filter(|_| ApiToken::digest_of(text).is_some());
    let token = token.ok_or_else(|| {
        let text = format!("{from}: it holds no API token: `credenza user token` makes one");
        Failure::invalid(text)
    })?;
    Ok(Authorization(Arc::new(Zeroizing::new(format!("Bearer {token}")))))
}

/// Returns a text without the end of its line, which is no part of a password.
fn without_line_end(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

/// Returns true if an authority `HOST:PORT` is on this machine.
fn is_loopback(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|it: IpAddr| it.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    const API_TOKEN: &str = "credenza-api-0123456789012345678901234567890123456789";

    /// Makes a file of this mode in the folder of scratch files.
    fn file(name: &str, mode: u32, text: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("login-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        path
    }

    fn login(flags: LoginArguments, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let found = |name: &str| {
            let value = variables.iter().find(|(known, _)| *known == name);
            value.map(|(_, value)| OsString::from(value))
        };
        let login = flags.authorization_with(found).map_err(|failure| failure.to_string())?;
        Ok(login.map(|login| login.text().to_string()))
    }

    fn user(name: &str) -> LoginArguments {
        LoginArguments { login_user: Some(name.into()), ..LoginArguments::default() }
    }

    #[test]
    fn login_comes_from_files_or_from_the_environment_and_flags_win() {
        let password = file("login-password", 0o600, "correct horse: \n");
        let token = file("login-token", 0o600, &format!(" {API_TOKEN}\n"));
        let with_file = LoginArguments { password_file: Some(password.clone()), ..user("ada") };
        let basic = |text: &str| Ok(Some(format!("Basic {}", STANDARD.encode(text))));
        let bearer = || Ok(Some(format!("Bearer {API_TOKEN}")));
        let all = [(USER, "bob"), (PASSWORD, "from elsewhere"), (TOKEN, API_TOKEN)];
        assert_eq!(login(with_file.clone(), &[]), basic("ada:correct horse: "));
        assert_eq!(login(with_file, &all), basic("ada:correct horse: "));
        assert_eq!(login(user("ada"), &all), basic("ada:from elsewhere"));
        let only_file =
            LoginArguments { password_file: Some(password), ..LoginArguments::default() };
        assert_eq!(login(only_file, &all[..1]), basic("bob:correct horse: "));
        let by_token = LoginArguments { token_file: Some(token), ..LoginArguments::default() };
        assert_eq!(login(by_token, &all), bearer());
        assert_eq!(login(LoginArguments::default(), &all[2..]), bearer());
        assert_eq!(login(LoginArguments::default(), &all[..2]), basic("bob:from elsewhere"));
        assert_eq!(login(LoginArguments::default(), &[]), Ok(None));
    }

    #[test]
    fn incomplete_or_unsafe_login_is_refused_without_its_secret() {
        let open = file("login-open", 0o644, "secret");
        let long = file("login-long", 0o600, &"secret".repeat(1_000));
        let no_token = file("login-no-token", 0o600, "secret");
        let with = |path: PathBuf| LoginArguments { password_file: Some(path), ..user("ada") };
        let none = LoginArguments::default;
        let alone = LoginArguments { password_file: Some(long.clone()), ..none() };
        let cases = [
            (login(with(open), &[]), "chmod 600"),
            (login(with(long), &[]), "1 to 1024 bytes"),
            (login(with("/nowhere".into()), &[]), "/nowhere"),
            (login(LoginArguments { token_file: Some(no_token), ..none() }, &[]), "no API token"),
            (login(none(), &[(TOKEN, "secret")]), "CREDENZA_TOKEN"),
            (login(none(), &[(PASSWORD, "secret")]), "--user"),
            (login(alone, &[]), "--user"),
            (login(user("ada"), &[(TOKEN, API_TOKEN)]), "--password-file"),
            (login(user("a/b"), &[(PASSWORD, "secret")]), "--user"),
            (login(none(), &[(USER, "ada"), (TOKEN, API_TOKEN)]), "both set"),
        ];
        for (answer, expected) in cases {
            let said = answer.expect_err(expected);
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains("secret") && !said.contains(API_TOKEN), "{said}");
        }
    }

    #[test]
    fn secret_leaves_the_machine_only_encrypted_or_where_that_is_meant() {
        let flags = LoginArguments::default();
        for here in ["127.0.0.1:7711", "localhost:7711", "[::1]:7711", "127.9.9.9:1"] {
            assert!(flags.check_way(here, false).is_ok(), "{here}");
        }
        for there in ["10.0.0.1:7711", "db.example:7711", "[2001:db8::1]:7711", "0.0.0.0:1"] {
            let said = flags.check_way(there, false).expect_err(there).to_string();
            assert!(said.contains("--insecure") && said.contains("https://"), "{said}");
            assert!(flags.check_way(there, true).is_ok(), "{there}");
            let meant = LoginArguments { allows_plain: true, ..LoginArguments::default() };
            assert!(meant.check_way(there, false).is_ok(), "{there}");
        }
    }
}
