//! Logins of users: passwords, API tokens, and names that a listener or a certificate vouches for.
//!
//! Promises: a wrong name costs what a wrong password costs; at most half of the threads' number of
//! passwords are verified at a time, off the threads that serve requests, and a bounded number
//! waits, of which one address has half; an address guesses a user's password a bounded number of
//! times a minute.
//! Never: keeps a password, or tells whether a user exists.
//! Read next: `verifier.rs`, `failures.rs`, `remembered.rs`.

mod failures;
mod places;
mod remembered;
mod verifier;

use base::access::{ApiToken, Login, Password, PasswordHash, check_user_name};
use base::{ClusterSecret, DerivedKey, Error, Principal, Reason, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use failures::Failures;
use node::Node;
use remembered::Remembered;
use std::net::IpAddr;
use std::sync::Arc;
use tls::{CertifiedName, Purpose};
use tokio::time::Instant;
use verifier::Verifier;
pub use verifier::hash_password;
use zeroize::Zeroizing;

/// Logins of users, for all connections.
pub struct Logins {
    verifier: Verifier,
    remembered: Remembered,
    failures: Failures,
    /// Key of what is remembered: nobody can compute its digests beforehand.
    key: DerivedKey,
}

impl Logins {
    /// Returns an empty state. It uses the threads of the current runtime.
    pub fn new() -> Logins {
        let secret = ClusterSecret::new(rand::random());
        Logins {
            verifier: Verifier::new(),
            remembered: Remembered::default(),
            failures: Failures::default(),
            key: secret.derive_key("credenza 2026 remembered logins"),
        }
    }

    /// Logs in by name and password.
    ///
    /// Errors: `Unauthenticated`, equal for wrong names and wrong passwords; `TooMany` failures;
    /// `Overloaded`.
    pub async fn by_password(
        &self,
        node: &Node,
        from: IpAddr,
        (user, password): (&[u8], &Password),
    ) -> Result<Arc<Login>> {
        let login = self.check_password(node, from, (user, password)).await;
        node.record_login(user, Some(from), &login);
        login
    }

    async fn check_password(
        &self,
        node: &Node,
        from: IpAddr,
        (user, password): (&[u8], &Password),
    ) -> Result<Arc<Login>> {
        let name = std::str::from_utf8(user).ok().filter(|name| check_user_name(name).is_ok());
        let account = name.and_then(|name| Some((name, node.user_account(name)?)));
        let account = account.filter(|(_, account)| account.is_enabled);
        let known = account.and_then(|(name, account)| {
            let login = Login { user: name.into(), since: account.since, token: None };
            Some((login, account.password?))
        });
        let now = Instant::now();
        // The hash is a part of it, so that a changed password is not remembered.
        let digest = known.as_ref().map(|(login, hash)| {
            self.key.mac(&[login.user.as_bytes(), hash.text().as_bytes(), password.bytes()])
        });
        if let (Some((login, _)), Some(digest)) = (&known, &digest)
            && self.remembered.contains(digest, now)
        {
            return Ok(Arc::new(login.clone()));
        }
        let guess = self.key.mac(&[b"failures", user]);
        self.failures.check((from, guess), now)?;
        self.failures.count((from, guess), now);
        let hash = known.as_ref().map(|(_, hash)| hash.clone());
        let verified = self.verifier.verify(from, hash, password).await;
        if !matches!(verified, Ok(false)) {
            self.failures.take_back((from, guess));
        }
        let is_right = verified?;
        match (known, digest) {
            (Some((login, _)), Some(digest)) if is_right => {
                self.remembered.insert(digest, now);
                Ok(Arc::new(login))
            }
            _ => Err(wrong_credentials()),
        }
    }

    /// Logs in by an API token.
    pub fn by_token(&self, node: &Node, token: &[u8]) -> Result<Arc<Login>> {
        let digest = ApiToken::digest_of(token.trim_ascii());
        let found = digest.and_then(|digest| Some((digest, node.api_token(&digest)?)));
        let (digest, token) = found.ok_or_else(wrong_credentials)?;
        Ok(Arc::new(Login { user: token.user, since: 0, token: Some(digest) }))
    }

    /// Logs in the user that a verified certificate names. `None`: it names none whom certificates
    /// log in; a node is never a user. Errors: `Unauthenticated`, if that user is disabled.
    pub fn by_certificate(
        &self,
        node: &Node,
        identity: Option<&CertifiedName>,
    ) -> Result<Option<Arc<Login>>> {
        let identity = identity.filter(|identity| identity.purpose == Purpose::Client);
        let Some(CertifiedName { name, .. }) = identity else { return Ok(None) };
        match node.user_account(name).filter(|account| account.certificates) {
            Some(account) if account.is_enabled => Ok(Some(Arc::new(Login::by_certificate(name)))),
            Some(_) => Err(wrong_credentials()),
            None => Ok(None),
        }
    }

    /// Does the same for a request from this address, or for a connection, and records the login if
    /// the caller was not that user before.
    pub fn record_by_certificate(
        &self,
        node: &Node,
        (from, before): (Option<IpAddr>, &Principal),
        identity: Option<&CertifiedName>,
    ) -> Result<Option<Arc<Login>>> {
        let login = self.by_certificate(node, identity).transpose();
        if let (Some(login), Some(identity)) = (&login, identity) {
            let is_known = match (login, before) {
                (Ok(login), Principal::User(known, _)) => login == known,
                _ => false,
            };
            if !is_known {
                node.record_login(identity.name.as_bytes(), from, login);
            }
        }
        login.transpose()
    }

    /// Logs in a user that the listener names, for a connection from this address.
    pub fn by_name(&self, node: &Node, from: Option<IpAddr>, name: &str) -> Result<Arc<Login>> {
        let account = node.user_account(name).filter(|account| account.is_enabled);
        let account = account.ok_or_else(wrong_credentials);
        let login = account.map(|account| {
            Arc::new(Login { user: name.into(), since: account.since, token: None })
        });
        node.record_login(name.as_bytes(), from, &login);
        login
    }

    /// Logs in by a header `Authorization`: `Basic` or `Bearer` (RFC 7617, RFC 6750).
    pub async fn by_header(&self, node: &Node, from: IpAddr, header: &[u8]) -> Result<Arc<Login>> {
        if let Some(token) = parameter(header, BEARER) {
            let login = self.by_token(node, token);
            node.record_login(&[], Some(from), &login);
            return login;
        }
        match basic(header) {
            Some((user, password)) => self.by_password(node, from, (&user, &password)).await,
            None => {
                let login = Err(wrong_credentials());
                node.record_login(&[], Some(from), &login);
                login
            }
        }
    }

    /// Hashes a new password. Errors: `Overloaded`.
    pub async fn hash(&self, password: &Password) -> Result<PasswordHash> {
        self.verifier.hash(password).await
    }

    /// Returns the number of passwords that were verified.
    #[cfg(test)]
    pub fn verifications(&self) -> u64 {
        self.verifier.verifications()
    }
}

const BASIC: &[u8] = b"basic ";
const BEARER: &[u8] = b"bearer ";

/// Returns the text behind a scheme. `None`: the header is of another scheme.
fn parameter<'a>(header: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (begin, rest) = header.split_at_checked(scheme.len())?;
    begin.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Returns the name and the password of a header of the scheme `Basic`. `None`: it is malformed, or
/// of another scheme.
fn basic(header: &[u8]) -> Option<(Vec<u8>, Password)> {
    let decoded = STANDARD.decode(parameter(header, BASIC)?.trim_ascii()).map(Zeroizing::new);
    let decoded = Password::new(&decoded.ok()?).ok()?;
    let mut parts = decoded.bytes().splitn(2, |byte| *byte == b':');
    let (user, password) = (parts.next().unwrap_or_default(), parts.next());
    Some((user.to_vec(), Password::new(password.unwrap_or_default()).ok()?))
}

/// Returns true if a header `Authorization` presents a user's credentials, and no join token.
pub fn is_of_user(header: &[u8]) -> bool {
    let is_api_token = |token: &[u8]| token.trim_ascii().starts_with(ApiToken::BEGIN.as_bytes());
    parameter(header, BASIC).is_some() || parameter(header, BEARER).is_some_and(is_api_token)
}

fn wrong_credentials() -> Error {
    let text = "wrong name, password or token, or the user is disabled";
    Error::new(Reason::Unauthenticated, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_header_of_a_user_is_told_from_a_join_token() {
        let (api, join) = (ApiToken::from_secret([1; 20]), base::JoinToken::from_secret([1; 20]));
        assert!(is_of_user(b"Basic YTpi") && is_of_user(b"basic x"));
        assert!(is_of_user(format!("Bearer  {}", api.text()).as_bytes()));
        assert!(!is_of_user(format!("Bearer {}", join.text()).as_bytes()));
        assert!(!is_of_user(b"Bearer") && !is_of_user(b"") && !is_of_user(b"Digest x"));
    }
}
