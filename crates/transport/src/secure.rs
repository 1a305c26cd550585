//! TLS below the greetings: which connections are encrypted, and whose certificate must be shown.
//!
//! A certificate names a node of the cluster. The member list gives the id in a greeting its name,
//! so a node can greet as no other member, whatever secrets it knows.

use super::refusal::Refusal;
use super::settings::PeerSettings;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tls::{PeerMode, Stream};
use tokio::net::TcpStream;

/// First byte of a TLS handshake; a greeting begins with another.
const TLS_HANDSHAKE: u8 = 0x16;

/// Completes the handshake with a caller that begins one. Whether a plain caller is accepted is
/// decided once its greeting has been read ([`check`]), so that it can be answered.
pub(super) async fn accept(settings: &PeerSettings, socket: TcpStream) -> io::Result<Stream> {
    let Some(tls) = settings.tls_in_use() else { return Ok(socket.into()) };
    let mut first = [0];
    if socket.peek(&mut first).await? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    match first {
        [TLS_HANDSHAKE] => tls.accept_peer(socket).await,
        _ => Ok(socket.into()),
    }
}

/// Completes the handshake with the dialled member of this name. During a migration a member that
/// answers no handshake is dialled without at the next attempt: `handshake_failed` remembers that.
pub(super) async fn connect(
    settings: &PeerSettings,
    socket: TcpStream,
    name: &str,
    handshake_failed: &AtomicBool,
) -> io::Result<Stream> {
    let Some(tls) = settings.tls_in_use() else { return Ok(socket.into()) };
    if tls.peer_mode() == PeerMode::Accept && handshake_failed.swap(false, Relaxed) {
        return Ok(socket.into());
    }
    // Also if the attempt is given up for lack of time.
    handshake_failed.store(true, Relaxed);
    let stream = tls.connect_peer(socket, name).await.map_err(|error| {
        io::Error::new(error.kind(), format!("the TLS handshake failed: {error}"))
    })?;
    handshake_failed.store(false, Relaxed);
    Ok(stream)
}

/// Checks that a connection is as secure as the settings require.
pub(super) fn check_encryption(settings: &PeerSettings, stream: &Stream) -> Result<(), Refusal> {
    let is_required = settings.tls.as_ref().is_some_and(|it| it.peer_mode() == PeerMode::Required);
    match stream {
        Stream::Plain(_) if is_required => Err(Refusal::Unencrypted),
        _ => Ok(()),
    }
}

/// Checks that the certificate, if there is one, is that of the member whose id the greeting has.
pub(super) fn check_member(stream: &Stream, member: &str) -> Result<(), Refusal> {
    match (stream, stream.identity()) {
        (Stream::Plain(_), _) => Ok(()),
        (Stream::Tls(_), Some(identity)) if identity.name == member => Ok(()),
        (Stream::Tls(_), identity) => {
            let certified = identity.map_or_else(String::new, |identity| identity.name.clone());
            Err(Refusal::OtherCertificate { certified, member: member.into() })
        }
    }
}
