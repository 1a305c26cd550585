//! Notifications to the service manager (systemd's `sd_notify`): one datagram to its socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state (`READY=1`, `STOPPING=1`) if a service manager listens. A failure is only logged.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(name.as_encoded_bytes(), state) {
        tracing::warn!(%error, "the service manager can't be told that the node is {state}");
    }
}

fn send(name: &[u8], state: &str) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let address = match name.strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_notification_reaches_path_and_abstract_sockets() {
        let path = std::env::temp_dir().join(format!("credenza-notify-{}", std::process::id()));
        let hidden = format!("credenza-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&hidden).expect("a short name");
        let sockets = [UnixDatagram::bind(&path), UnixDatagram::bind_addr(&address)];
        let names = [path.as_os_str().as_encoded_bytes().to_vec(), format!("@{hidden}").into()];
        for (socket, name) in sockets.into_iter().zip(names) {
            send(&name, "READY=1").expect("someone listens");
            let mut bytes = [0; 16];
            let length = socket.expect("bound").recv(&mut bytes).expect("sent above");
            assert_eq!(&bytes[..length], b"READY=1");
        }
        std::fs::remove_file(path).expect("bound above");
    }
}
