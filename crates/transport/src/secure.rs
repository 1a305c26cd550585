//! TLS below the greetings: which connections are encrypted, and whose certificate must be shown.
//!
//! A certificate names a node of the cluster. The member list gives the id in a greeting its name,
//! so a node can greet as no other member, whatever secrets it knows.

use super::refusal::Refusal;
use super::settings::PeerSettings;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
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

/// Handshakes in succession that fail before a member is dialled without, during a migration. One
/// may fail because the member stops, and two nodes that could encrypt would stay with a plain
/// connection.
const FAILURES_MIN: u8 = 2;

/// Completes the handshake with the dialled member of this name. During a migration a member that
/// answers no handshake is dialled without at a later attempt: `failures` counts them.
pub(super) async fn connect(
    settings: &PeerSettings,
    socket: TcpStream,
    name: &str,
    failures: &AtomicU8,
) -> io::Result<Stream> {
    let Some(tls) = settings.tls_in_use() else { return Ok(socket.into()) };
    // Counted first: the attempt may be given up for lack of time.
    let failed = failures.fetch_add(1, Relaxed);
    if tls.peer_mode() == PeerMode::Accept && failed >= FAILURES_MIN {
        failures.store(0, Relaxed);
        return Ok(socket.into());
    }
    let stream = tls.connect_peer(socket, name).await.map_err(|error| {
        io::Error::new(error.kind(), format!("the TLS handshake failed: {error}"))
    })?;
    failures.store(0, Relaxed);
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
