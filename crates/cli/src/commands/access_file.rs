//! Reading of `access_bootstrap_file`: the first users and roles of a cluster.
//!
//! ```toml
//! on = true
//! [roles]
//! web = ["read,write:logs/*"]
//! [users.ada]
//! roles = ["admin"]
//! password_hash = "$argon2id$..."
//! ```
//!
//! Promises: an error names the file, and the line where it can; it never repeats a value, which
//! may be a password in the wrong place.

use super::join;
use base::access::{AccessBootstrap, BootstrapUser, Grant, PasswordHash};
use node::PendingJoin;
use program::{Failure, Outcome, secret_file};
use serde::Deserialize;
use settings::{Settings, line_of};
use std::collections::BTreeMap;
use std::path::Path;

/// Setting that names the file.
const SETTING: &str = "access_bootstrap_file";
/// Largest file: it holds thousands of users.
const BYTES_MAX: usize = 1 << 20;

/// Content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    /// True if requests need rights from the beginning.
    #[serde(default = "is_on_by_default")]
    on: bool,
    /// Grants of each role, as text.
    #[serde(default)]
    roles: BTreeMap<String, Vec<String>>,
    /// Users by name.
    #[serde(default)]
    users: BTreeMap<String, FileUser>,
}

/// User in the file. A password itself has no place there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileUser {
    #[serde(default)]
    roles: Vec<String>,
    password_hash: Option<String>,
    #[serde(default)]
    certificates: bool,
}

fn is_on_by_default() -> bool {
    true
}

/// Reads the file that the settings name, if this node may found a cluster. A node that has data
/// may run without it: a cluster that has users and roles needs it no more.
pub fn load(settings: &mut Settings) -> Outcome {
    let Some(path) = &settings.access_bootstrap_file else { return Ok(()) };
    if !settings.join.is_empty() {
        return Ok(());
    }
    match read(path) {
        Ok(bootstrap) => settings.node.access_bootstrap = Some(bootstrap),
        Err(failure) if PendingJoin::is_fresh(&settings.node).map_err(join::start_failure)? => {
            return Err(failure);
        }
        Err(failure) => tracing::info!(%failure, "going on without {SETTING}"),
    }
    Ok(())
}

fn read(path: &Path) -> Outcome<AccessBootstrap> {
    let text = secret_file::read(SETTING, path, ("password", BYTES_MAX + 1))?;
    let invalid = |why: String| Failure::invalid(format!("{SETTING} {}: {why}", path.display()));
    if text.len() > BYTES_MAX {
        return Err(invalid(format!("it has more than {BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(&text).map_err(|_| invalid("it is no UTF-8".into()))?;
    parse(text).map_err(invalid)
}

/// Parses the text of a file. Fails with the reason.
fn parse(text: &str) -> Result<AccessBootstrap, String> {
    let AccessFile { on, roles, users } = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        format!("line {line}: {}", without_value(error.message()))
    })?;
    let mut bootstrap = AccessBootstrap { is_on: on, ..AccessBootstrap::default() };
    for (name, texts) in roles {
        let grants = texts.iter().map(|text| Grant::parse(text)).collect::<base::Result<_>>();
        let grants = grants.map_err(|error| format!("role `{name}`: {}", error.text()))?;
        bootstrap.roles.insert(name, grants);
    }
    for (name, FileUser { roles, password_hash, certificates }) in users {
        let password = password_hash.as_deref().map(PasswordHash::parse).transpose();
        let password = password.map_err(|error| {
            let text = error.text();
            format!("user `{name}`: {text} (`credenza access hash` makes one)")
        })?;
        bootstrap.users.insert(name, BootstrapUser { password, roles, certificates });
    }
    bootstrap.check().map_err(|error| error.text())?;
    Ok(bootstrap)
}

/// Returns a parser's message without the value that it complains about.
fn without_value(message: &str) -> &str {
    let names_value = message.starts_with("invalid type") || message.starts_with("invalid value");
    if names_value { "another kind of value is expected" } else { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{OpenOptions, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    /// Reads a file with this text that others may do `mode` with.
    fn read_with(mode: u32, text: &str) -> Outcome<AccessBootstrap> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access.toml");
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        read(&path)
    }

    fn hash() -> String {
        format!("{}{}${}", PasswordHash::PREFIX, "c".repeat(22), "H".repeat(43))
    }

    fn text() -> String {
        format!(
            "[roles]\nweb = [\"read,write:logs/*\", \"list:logs/web/2026-\"]\n\
             [users.ada]\nroles = [\"admin\"]\npassword_hash = \"{}\"\n\
             [users.\"c.i\"]\nroles = [\"web\"]\ncertificates = true\n",
            hash()
        )
    }

    #[test]
    fn access_bootstrap_file_has_users_roles_and_hashes() {
        let bootstrap = parse(&text()).expect("good");
        assert!(bootstrap.is_on, "unless the file says otherwise");
        assert_eq!(bootstrap.roles["web"].len(), 2);
        let ada = &bootstrap.users["ada"];
        assert_eq!((&ada.roles[..], ada.certificates), (&["admin".to_string()][..], false));
        assert_eq!(ada.password.as_ref().map(PasswordHash::text), Some(hash().as_str()));
        let ci = &bootstrap.users["c.i"];
        assert!(ci.certificates && ci.password.is_none());
        let off = parse("on = false\n[users.ada]\n").expect("good");
        assert!(!off.is_on && off.users.contains_key("ada"));
    }

    #[test]
    fn access_bootstrap_file_error_names_its_place_and_repeats_no_value() {
        let secret = "correct-horse";
        let with = |line: &str| format!("{}{line}\n", text());
        for (text, words) in [
            (String::new(), "turn access off"),
            (
                with("[users.bob]\npassword = \"correct-horse\""),
                "line 10: unknown field `password`",
            ),
            (with("[users.bob]\ncertificates = \"correct-horse\""), "line 10: another kind"),
            (with("[users.bob]\npassword_hash = \"correct-horse\""), "credenza access hash"),
            (with("[users.bob]\nroles = [\"none\"]"), "`none`, which does not exist"),
            (with("[users.\"b b\"]"), "name"),
            (with("[users.ada]"), "line 9: "),
            (text().replace("read,write:", "reed:"), "role `web`"),
            (text().replace("[roles]", "[rolls]"), "line 1: unknown field `rolls`"),
        ] {
            let refused = parse(&text).expect_err(&text);
            assert!(refused.contains(words), "{refused}");
            assert!(!refused.contains(secret), "{refused}");
        }
    }

    #[test]
    fn access_bootstrap_file_that_others_can_read_is_refused() {
        assert!(read_with(0o600, &text()).is_ok());
        for mode in [0o640, 0o604, 0o644] {
            let refused = read_with(mode, &text()).expect_err("others read it");
            let words = refused.to_string();
            assert!(words.contains(SETTING) && words.contains("chmod 600"), "{words}");
        }
        let long = "#".repeat(BYTES_MAX + 1);
        let words = read_with(0o600, &long).expect_err("too long").to_string();
        assert!(words.contains("more than 1048576 bytes"), "{words}");
        assert!(read(Path::new("/nowhere")).is_err());
    }
}
