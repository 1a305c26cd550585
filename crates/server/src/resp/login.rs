//! Login of a connection: by its client's certificate, by `AUTH`, and by `HELLO` with `AUTH`.
//!
//! Until it, a client may send only small requests, and is answered only what it needs to log in.
//! `AUTH` replaces a login by certificate; `RESET` ends a login, and the certificate counts again.

use super::errors;
use super::serve::RespConnection;
use super::translate::{CommandContext, LoginCommand, greet};
use base::access::Login;
use base::{Principal, Reason};
use std::sync::Arc;

impl RespConnection {
    /// Returns true if the client must log in before anything else. Logs it in by its certificate,
    /// if it has one that a user may log in with.
    #[inline]
    pub(super) fn is_stranger(&mut self) -> bool {
        let is_anonymous =
            self.shared.node.is_access_on() && self.client.principal.user().is_none();
        is_anonymous && !self.log_in_by_certificate() && self.shared.node.requires_login()
    }

    fn log_in_by_certificate(&mut self) -> bool {
        let (logins, identity) = (&self.shared.logins, self.stream.identity());
        let caller = (Some(self.client.info.address.ip()), &self.client.principal);
        match logins.record_by_certificate(&self.shared.node, caller, identity) {
            Ok(Some(login)) => {
                self.set_login(login);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn set_login(&mut self, login: Arc<Login>) {
        let info = &self.client.info;
        info.names().user.clone_from(&login.user);
        let principal = Principal::User(login, info.listener);
        self.flow.set_principal(principal.clone());
        self.client.principal = principal;
    }

    /// Ends the login of a connection that has sent `RESET`.
    #[inline]
    pub(super) fn end_login_after_reset(&mut self) {
        if std::mem::take(&mut self.client.has_reset) {
            self.flow.set_principal(self.client.principal.clone());
        }
    }

    /// Logs in. A refused client stays what it was: its former login ends only with another one.
    pub(super) async fn login(&mut self, command: LoginCommand) {
        let LoginCommand { credentials, hello } = command;
        let (shared, info) = (self.shared.clone(), self.client.info.clone());
        let logged_in = shared
            .logins
            .by_password(
                &shared.node,
                info.address.ip(),
                (&credentials.user, &credentials.password),
            )
            .await;
        match logged_in {
            Ok(login) => self.set_login(login),
            Err(error) if error.reason == Reason::Unauthenticated => {
                return self.refuse(&errors::WRONG_PASSWORD);
            }
            Err(error) => return self.fail(&error),
        }
        let Some((protocol, name)) = hello else { return self.out.ok() };
        let (client, out) = (&mut self.client, &mut self.out);
        let clock = self.registry.clock;
        let shared = &*shared;
        greet(
            protocol,
            name,
            &mut CommandContext { client, out, clock, shared, is_step: false, depth: 0 },
        );
    }
}
