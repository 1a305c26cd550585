//! Users, roles and tokens of an experiment, made by the tool's own commands at a node's local
//! socket; and what an answer says about the rights of its request.

use crate::client::{ArakoonError, HttpResponse, RespReply};
use crate::cluster::wait_until;
use crate::environment::path_str;
use crate::server::tool;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Exit code of the tool where nothing happened: the command may be repeated.
const UNAVAILABLE: i32 = 5;

/// Administrator at the local socket of a node.
#[derive(Clone, Debug)]
pub struct AccessAdmin {
    data: PathBuf,
}

impl AccessAdmin {
    /// Returns the administrator of the node with this data directory.
    pub fn new(data: &Path) -> AccessAdmin {
        AccessAdmin { data: data.into() }
    }

    /// Turns access on; returns the password of the user `admin`.
    pub fn turn_on(&self) -> String {
        self.run(&["access", "init"]).trim().into()
    }

    /// Returns true if the node has applied that access is on.
    pub fn is_on(&self) -> bool {
        let state: serde_json::Value =
            serde_json::from_str(&self.run(&["access", "status"])).expect("the state is JSON");
        state["on"] == true
    }

    /// Runs a command, which must succeed; returns its output. Repeats it while the directory has
    /// no master.
    pub fn run(&self, words: &[&str]) -> String {
        self.run_with(words, "")
    }

    /// Runs a command with this standard input, which must succeed; returns its output.
    pub fn run_with(&self, words: &[&str], input: &str) -> String {
        let mut stdout = String::new();
        wait_until("a change of users", || {
            let mut command = tool(words);
            command.args(["--data", path_str(&self.data)]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("the tool runs");
            // A command that reads nothing may have ended.
            let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
            let output = child.wait_with_output().expect("a child can be waited for");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => stdout = String::from_utf8_lossy(&output.stdout).into_owned(),
                Some(UNAVAILABLE) => return Err(stderr),
                code => panic!("credenza {}: {code:?}: {stderr}", words.join(" ")),
            }
            Ok(())
        });
        stdout
    }

    /// Sets the grants of a role.
    pub fn set_role(&self, role: &str, grants: &[&str]) {
        self.run(&[&["role", "set", role][..], grants].concat());
    }

    /// Creates a user with a password and one role.
    pub fn add_user(&self, name: &str, password: &str, role: &str) {
        self.run_with(&["user", "add", name, "--role", role, "--password-stdin"], password);
    }

    /// Creates an API token of a user; returns it.
    pub fn add_token(&self, user: &str, label: &str) -> String {
        self.run(&["user", "token", user, "--label", label]).trim().into()
    }
}

/// Returns the header `Authorization` of a user's name and password.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Decision about a request, as its answer tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessVerdict {
    /// The request may be made; it was carried out, or failed for another reason.
    Granted,
    /// A right is missing.
    Forbidden,
    /// A valid login is missing.
    Unauthenticated,
    /// The node can't serve at the moment; holds the reason, as the protocol tells it.
    Unavailable(String),
}

impl AccessVerdict {
    /// Returns the verdict of a reply in Redis' protocol.
    pub fn of_resp(reply: &RespReply) -> AccessVerdict {
        const UNAVAILABLE: [&str; 8] = [
            "LOADING",
            "NOREPLICAS",
            "OVERLOADED",
            "READONLY",
            "STALEREPLICA",
            "TOOMANY",
            "TRYAGAIN",
            "UNKNOWN",
        ];
        let Some(text) = reply.error() else { return AccessVerdict::Granted };
        match text.split(' ').next().unwrap_or_default() {
            "NOPERM" => AccessVerdict::Forbidden,
            "NOAUTH" | "WRONGPASS" => AccessVerdict::Unauthenticated,
            code if UNAVAILABLE.contains(&code) => AccessVerdict::Unavailable(text.into()),
            _ => AccessVerdict::Granted,
        }
    }

    /// Returns the verdict of an HTTP answer, native or Riak's.
    pub fn of_http(answer: &HttpResponse) -> AccessVerdict {
        match answer.status {
            401 => AccessVerdict::Unauthenticated,
            // Riak answers so, too, for a data type in a bucket of plain values.
            403 if answer.text().contains("is not a supported type") => AccessVerdict::Granted,
            403 => AccessVerdict::Forbidden,
            503 => AccessVerdict::Unavailable(answer.reason()),
            _ => AccessVerdict::Granted,
        }
    }

    /// Returns the verdict of an Arakoon answer. The protocol has no codes for it, only words.
    pub fn of_arakoon<T>(answer: &Result<T, ArakoonError>) -> AccessVerdict {
        const NOT_MASTER: i32 = 4;
        let Err(error) = answer else { return AccessVerdict::Granted };
        let message = error.message();
        match error.code() {
            // Commands of operators are refused as not supported, with the same sentence.
            _ if message.starts_with("forbidden: ") || message.contains("` lacks `") => {
                AccessVerdict::Forbidden
            }
            _ if message.starts_with("unauthenticated: ") => AccessVerdict::Unauthenticated,
            None | Some(NOT_MASTER) => AccessVerdict::Unavailable(message),
            Some(_) => AccessVerdict::Granted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_tells_missing_rights_and_logins_from_other_errors() {
        let resp = |text: &str| AccessVerdict::of_resp(&RespReply::Error(text.into()));
        assert_eq!(resp("NOPERM user `a` lacks `read`"), AccessVerdict::Forbidden);
        assert_eq!(resp("NOAUTH Authentication required."), AccessVerdict::Unauthenticated);
        assert_eq!(resp("ERR value is not an integer"), AccessVerdict::Granted);
        assert!(matches!(resp("TRYAGAIN no master"), AccessVerdict::Unavailable(_)));
        let arakoon = |code, text: &str| {
            AccessVerdict::of_arakoon::<()>(&Err(ArakoonError::Server(code, text.into())))
        };
        assert_eq!(arakoon(0xff, "forbidden: user `a` lacks"), AccessVerdict::Forbidden);
        assert_eq!(arakoon(0x20, "user `a` lacks `watch` on"), AccessVerdict::Forbidden);
        assert_eq!(arakoon(0xff, "unauthenticated: log in"), AccessVerdict::Unauthenticated);
        assert_eq!(arakoon(5, "k"), AccessVerdict::Granted);
        assert!(matches!(arakoon(4, "n2"), AccessVerdict::Unavailable(_)));
    }

    #[test]
    fn basic_header_is_that_of_rfc_7617() {
        assert_eq!(basic("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }
}
