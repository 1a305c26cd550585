//! Login of connections, of whose protocol none is a part.

use crate::Shared;
use crate::connection::{ListenerKind, ListenerRole};
use base::Principal;
use tls::Stream;

/// Returns the principal of a connection. The protocol has no login: the client's certificate names
/// a user, or a listener of Arakoon's alone does, for all others who reach it.
pub(super) fn principal(shared: &Shared, role: ListenerRole, stream: &Stream) -> Principal {
    if !shared.node.is_access_on() {
        return role.principal();
    }
    let of_listener = || {
        let name = shared.settings.arakoon_user.as_deref();
        let name = name.filter(|_| role.kind == ListenerKind::Arakoon)?;
        shared.logins.by_name(&shared.node, role.origin.address, name).ok()
    };
    let (caller, identity) = ((role.origin.address, &role.principal()), stream.identity());
    let login = match shared.logins.record_by_certificate(&shared.node, caller, identity) {
        Ok(Some(login)) => Some(login),
        Ok(None) => of_listener(),
        // The certificate's user is disabled: it does not become the listener's.
        Err(_) => None,
    };
    match login {
        Some(login) => Principal::User(login, role.rights()),
        None => role.principal(),
    }
}
