//! Stream of a connection: plain TCP, or TLS over it.
//!
//! A plain connection costs no more than its socket: no copy, no allocation and no system call is
//! added to it.

use crate::identity::CertifiedName;
use bytes::{Buf, BytesMut};
use rustls::ProtocolVersion;
use rustls::pki_types::CertificateDer;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// Label under which keying material of a session is exported.
const EXPORT_LABEL: &[u8] = b"EXPORTER-credenza-link";

/// Stream of a connection.
pub enum Stream {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP; on the heap, so that a plain connection is no larger for it.
    Tls(Box<TlsConnection>),
}

/// TLS connection after its handshake.
pub struct TlsConnection {
    stream: TlsStream<HandshakeStream>,
    identity: Option<CertifiedName>,
    not_after_s: Option<u64>,
    generation: u64,
}

/// Certificate that the other side of a connection presented, with the intermediate ones behind it.
pub struct PresentedChain {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// Generation of this side's files by which it was verified.
    pub(crate) generation: u64,
}

impl TlsConnection {
    pub(crate) fn new(
        stream: TlsStream<HandshakeStream>,
        (identity, not_after_s): (Option<CertifiedName>, Option<u64>),
        generation: u64,
    ) -> TlsConnection {
        TlsConnection { stream, identity, not_after_s, generation }
    }
}

impl Drop for TlsConnection {
    /// Tells the other side that the stream ends here, so that it takes this for no cut. Without
    /// room in the socket it is not told.
    fn drop(&mut self) {
        match &mut self.stream {
            TlsStream::Client(stream) => {
                let (below, session) = stream.get_mut();
                session.send_close_notify();
                let _ = session.write_tls(&mut SocketWriter(&below.socket));
            }
            TlsStream::Server(stream) => {
                let (below, session) = stream.get_mut();
                session.send_close_notify();
                let _ = session.write_tls(&mut SocketWriter(&below.socket));
            }
        }
    }
}

/// Writer of what a socket takes at once.
struct SocketWriter<'a>(&'a TcpStream);

impl io::Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// Returns the identity that the other side's verified certificate states. `None`: it
    /// presented none.
    pub fn identity(&self) -> Option<&CertifiedName> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(connection) => connection.identity.as_ref(),
        }
    }

    /// Returns the end of the validity of the other side's certificate, seconds since 1970. `None`:
    /// it presented none.
    pub fn not_after_s(&self) -> Option<u64> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(connection) => connection.not_after_s,
        }
    }

    /// Returns the generation of this side's files that the handshake used. `None`: plain.
    pub fn generation(&self) -> Option<u64> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(connection) => Some(connection.generation),
        }
    }

    /// Returns a copy of the certificates that the other side presented. `None`: none.
    pub fn presented_chain(&self) -> Option<PresentedChain> {
        let Stream::Tls(connection) = self else { return None };
        let chain = connection.stream.get_ref().1.peer_certificates()?.to_vec();
        Some(PresentedChain { chain, generation: connection.generation })
    }

    /// Returns the version of TLS, for the log. `None`: plain.
    pub fn version(&self) -> Option<&'static str> {
        let Stream::Tls(connection) = self else { return None };
        Some(match connection.stream.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            _ => "TLS 1.3",
        })
    }

    /// Returns bytes that only both ends of this TLS session know. `None`: plain.
    pub fn session_secret(&self) -> Option<[u8; 32]> {
        let Stream::Tls(connection) = self else { return None };
        let output = [0; 32];
        let exported = match &connection.stream {
            TlsStream::Client(stream) => {
                stream.get_ref().1.export_keying_material(output, EXPORT_LABEL, None)
            }
            TlsStream::Server(stream) => {
                stream.get_ref().1.export_keying_material(output, EXPORT_LABEL, None)
            }
        };
        // It fails only before the handshake is complete.
        exported.ok()
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(connection) => &connection.stream.get_ref().0.socket,
        }
    }

    /// Returns the address of the other side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket().peer_addr()
    }

    /// Returns the address of this side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Stream {
        Stream::Plain(socket)
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Stream::Tls(connection) => Pin::new(&mut connection.stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Stream::Tls(connection) => Pin::new(&mut connection.stream).poll_write(context, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Stream::Tls(connection) => {
                Pin::new(&mut connection.stream).poll_write_vectored(context, slices)
            }
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        true
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(context),
            Stream::Tls(connection) => Pin::new(&mut connection.stream).poll_flush(context),
        }
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Stream::Tls(connection) => Pin::new(&mut connection.stream).poll_shutdown(context),
        }
    }
}

/// Bytes that may be read behind a handshake before it ends: the first record of data, which a
/// client may send at once, and the library reads in pieces until that is complete.
const FIRST_RECORD_BYTES: usize = 5 + 16 * 1024 + 256 + 4 * 1024;

/// TCP stream below TLS: replays the bytes that told TLS from other protocols, and bounds the bytes
/// of the handshake.
pub(crate) struct HandshakeStream {
    socket: TcpStream,
    /// Bytes that were read before the handshake began.
    first: BytesMut,
    /// Bytes that the handshake may still take. `None`: it is complete.
    allowance: Option<usize>,
}

impl HandshakeStream {
    pub(crate) fn new(socket: TcpStream, first: BytesMut, bytes_max: usize) -> HandshakeStream {
        HandshakeStream { socket, first, allowance: Some(bytes_max + FIRST_RECORD_BYTES) }
    }

    /// Lifts the bound, once the handshake is complete.
    pub(crate) fn end_handshake(&mut self) {
        self.allowance = None;
    }

    /// Counts bytes of the handshake. Fails when they are too many.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        let Some(allowance) = &mut self.allowance else { return Ok(()) };
        match allowance.checked_sub(bytes) {
            Some(rest) => {
                *allowance = rest;
                Ok(())
            }
            None => {
                let text = "the handshake is longer than the limit";
                Err(io::Error::new(ErrorKind::InvalidData, text))
            }
        }
    }
}

impl AsyncRead for HandshakeStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if this.first.is_empty() {
            ready!(Pin::new(&mut this.socket).poll_read(context, buffer))?;
        } else {
            let bytes = this.first.len().min(buffer.remaining());
            buffer.put_slice(&this.first[..bytes]);
            this.first.advance(bytes);
            if this.first.is_empty() {
                // Its memory is not needed for the rest of the connection.
                this.first = BytesMut::new();
            }
        }
        Poll::Ready(this.count(buffer.filled().len() - before))
    }
}

impl AsyncWrite for HandshakeStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}
