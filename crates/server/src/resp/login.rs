//! Login of a connection: `AUTH`, and `HELLO` with `AUTH`.
//!
//! Until it, a client may send only small requests, and is answered only what it needs to log in.

use super::errors;
use super::serve::RespConnection;
use super::translate::{CommandContext, LoginCommand, greet};
use base::{Principal, Reason};

impl RespConnection {
    /// Returns true if the client must log in before anything else.
    #[inline]
    pub(super) fn is_stranger(&self) -> bool {
        self.shared.node.is_access_on() && self.client.principal.user().is_none()
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
            Ok(login) => {
                info.names().user.clone_from(&login.user);
                let principal = Principal::User(login, info.listener);
                self.flow.set_principal(principal.clone());
                self.client.principal = principal;
            }
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
