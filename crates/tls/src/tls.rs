//! TLS of a node: the configurations in force, their replacement by a reload, and handshakes.

use crate::configuration::{Acceptor, PeerConfiguration, TlsConfiguration};
use crate::facts::CertificateFacts;
use crate::identity::{CertifiedName, Purpose};
use crate::settings::{ListenerMode, PeerMode, TlsSettings};
use crate::sources::Sources;
use crate::stream::{HandshakeStream, PresentedChain, Stream, TlsConnection};
use base::limits::{TLS_HANDSHAKE_BYTES_MAX, TLS_HANDSHAKE_MS_MAX};
use base::{AlarmCode, Error, Reason, Result};
use bytes::BytesMut;
use rustls::pki_types::{CertificateDer, ServerName};
use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Days before the end of a certificate from which on it is warned of.
const EXPIRY_WARNING_DAYS: u64 = 30;
const DAY_S: u64 = 24 * 3_600;

/// State of TLS that an operator should know of. The row of its code names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsWarning {
    /// Code of the alarm: `TlsReloadFailed` or `TlsExpires`.
    pub code: AlarmCode,
    /// Files or certificate that it is about.
    pub subject: String,
    /// Description of what is wrong with them.
    pub detail: String,
}

/// TLS of a node.
pub struct Tls {
    settings: TlsSettings,
    configuration: RwLock<Arc<TlsConfiguration>>,
    /// Generation of the configuration in force.
    generation: watch::Sender<u64>,
    /// Reason why the last reload failed. `None`: it did not.
    failure: Mutex<Option<String>>,
    /// Held during a reload: one that read older files must not replace what a later one read.
    reloading: Mutex<()>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files and builds the configurations.
    ///
    /// Errors: `StartFailed`, with the setting, the file and the remedy.
    pub fn open(settings: TlsSettings) -> Result<Tls> {
        let configuration = load(&settings, 0)?;
        Ok(Tls {
            settings,
            configuration: RwLock::new(Arc::new(configuration)),
            generation: watch::Sender::new(0),
            failure: Mutex::default(),
            reloading: Mutex::default(),
        })
    }

    /// Reads the files again. Returns true if they have changed and are in force for new
    /// connections. After an error the former ones stay in force, and a warning says so.
    pub fn reload(&self) -> Result<bool> {
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current();
        let result = Sources::read(&self.settings).and_then(|sources| {
            if sources == current.sources {
                return Ok(None);
            }
            TlsConfiguration::build(&self.settings, sources, current.generation + 1).map(Some)
        });
        let loaded = match result {
            Ok(loaded) => {
                *self.failure.lock().expect("no one panics while holding it") = None;
                loaded
            }
            Err(text) => {
                let mut failure = self.failure.lock().expect("no one panics while holding it");
                *failure = Some(text.clone());
                return Err(Error::new(Reason::StartFailed, text));
            }
        };
        let Some(configuration) = loaded else { return Ok(false) };
        let generation = configuration.generation;
        *self.configuration.write().expect("no one panics while holding it") =
            Arc::new(configuration);
        // Announced last: who waits for it finds the new configuration.
        self.generation.send_replace(generation);
        Ok(true)
    }

    /// Returns what an operator should know: a failed reload, and certificates that end soon.
    /// `now_s`: seconds since 1970.
    pub fn warnings(&self, now_s: u64) -> Vec<TlsWarning> {
        let failure = self.failure.lock().expect("no one panics while holding it").clone();
        let failure = failure.map(|detail| TlsWarning {
            code: AlarmCode::TlsReloadFailed,
            subject: "files of TLS".into(),
            detail,
        });
        let current = self.current();
        let own = expiry_warning("this node's certificate", &current.own, now_s);
        let authorities = current.authorities.iter().filter_map(|authority| {
            let what = format!("the certificate of the authority {}", authority.subject);
            expiry_warning(&what, authority, now_s)
        });
        failure.into_iter().chain(own).chain(authorities).collect()
    }

    /// Returns the use of TLS at the listeners for clients.
    pub fn listener_mode(&self) -> ListenerMode {
        self.settings.listeners
    }

    /// Returns the use of TLS between nodes.
    pub fn peer_mode(&self) -> PeerMode {
        self.settings.peers
    }

    /// Returns the settings.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Returns the longest time for which a client's connection may last: until the end of its
    /// certificate, or the setting. `now_s`: seconds since 1970.
    pub fn session_time(&self, stream: &Stream, now_s: u64) -> Duration {
        let left = stream.not_after_s().map(|end| Duration::from_secs(end.saturating_sub(now_s)));
        let longest = Duration::from_millis(self.settings.session_ms_max);
        left.map_or(longest, |left| left.min(longest))
    }

    /// Resolves once a reload has made files effective that refuse this certificate: it was
    /// revoked, or its authority is trusted no more. Cancel-safe.
    pub async fn wait_until_refused(&self, presented: &PresentedChain) {
        let mut generation = self.watch_generation();
        let mut accepted = presented.generation;
        loop {
            let current = *generation.borrow_and_update();
            if current != accepted && !self.accepts(presented) {
                return;
            }
            accepted = current;
            if generation.changed().await.is_err() {
                // The sender lives as long as this object.
                return std::future::pending().await;
            }
        }
    }

    /// Returns true if the listeners for clients accept this certificate now.
    fn accepts(&self, presented: &PresentedChain) -> bool {
        let configuration = self.current();
        let verifier = configuration.clients.verifier.as_ref();
        verifier.is_some_and(|verifier| verifier.accepts(&presented.chain))
    }

    /// Returns the generation in force; the receiver learns of later ones.
    pub fn watch_generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Completes the handshake with a client. `first`: bytes that were read already.
    pub async fn accept_client(&self, socket: TcpStream, first: BytesMut) -> io::Result<Stream> {
        let configuration = self.current();
        let acceptor = configuration.clients.clone();
        accept(acceptor, socket, first, configuration.generation).await
    }

    /// Completes the handshake with a node that dialled this one.
    pub async fn accept_peer(&self, socket: TcpStream) -> io::Result<Stream> {
        let configuration = self.current();
        let acceptor = peers(&configuration)?.acceptor.clone();
        accept(acceptor, socket, BytesMut::new(), configuration.generation).await
    }

    /// Completes the handshake with a node that this one dialled, which must be the one of this
    /// name.
    pub async fn connect_peer(&self, socket: TcpStream, name: &str) -> io::Result<Stream> {
        let configuration = self.current();
        let PeerConfiguration { client, own, .. } = peers(&configuration)?;
        let invalid = |error: Error| io::Error::new(ErrorKind::InvalidInput, error.text());
        let expected = CertifiedName::new(Purpose::Node, name, &own.cluster).map_err(invalid)?;
        let server_name = ServerName::try_from(expected.to_string()).map_err(to_io_error)?;
        let stream = HandshakeStream::new(socket, BytesMut::new(), TLS_HANDSHAKE_BYTES_MAX);
        let connecting = TlsConnector::from(client.clone()).connect(server_name, stream);
        let mut stream = in_time(connecting).await?;
        stream.get_mut().0.end_handshake();
        let facts = presented(stream.get_ref().1.peer_certificates());
        // The library accepts a wildcard; a node is one node.
        if !facts.as_ref().is_some_and(|facts| facts.identities().any(|it| it == expected)) {
            let text = format!("its certificate does not name {expected}");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let verified = (Some(expected), facts.map(|facts| facts.not_after_s));
        let stream = TlsStream::Client(stream);
        let connection = TlsConnection::new(stream, verified, configuration.generation);
        Ok(Stream::Tls(Box::new(connection)))
    }

    fn current(&self) -> Arc<TlsConfiguration> {
        self.configuration.read().expect("no one panics while holding it").clone()
    }
}

fn load(settings: &TlsSettings, generation: u64) -> Result<TlsConfiguration> {
    let sources = Sources::read(settings);
    let built = sources.and_then(|sources| TlsConfiguration::build(settings, sources, generation));
    built.map_err(|text| Error::new(Reason::StartFailed, text))
}

fn peers(configuration: &TlsConfiguration) -> io::Result<&PeerConfiguration> {
    let missing = || io::Error::new(ErrorKind::Unsupported, "`peer_tls` is off");
    configuration.peers.as_ref().ok_or_else(missing)
}

/// Completes a handshake as the side that was called.
async fn accept(
    acceptor: Acceptor,
    socket: TcpStream,
    first: BytesMut,
    generation: u64,
) -> io::Result<Stream> {
    let stream = HandshakeStream::new(socket, first, TLS_HANDSHAKE_BYTES_MAX);
    let mut stream = in_time(TlsAcceptor::from(acceptor.server).accept(stream)).await?;
    stream.get_mut().0.end_handshake();
    let facts = presented(stream.get_ref().1.peer_certificates());
    let verifier = acceptor.verifier.as_ref();
    let identity = facts.as_ref().zip(verifier).and_then(|(facts, it)| it.identity(facts));
    let verified = (identity, facts.map(|facts| facts.not_after_s));
    let connection = TlsConnection::new(TlsStream::Server(stream), verified, generation);
    Ok(Stream::Tls(Box::new(connection)))
}

/// Returns the facts of the certificate that the other side presented.
fn presented(chain: Option<&[CertificateDer<'static>]>) -> Option<CertificateFacts> {
    CertificateFacts::read(chain?.first()?)
}

/// Waits for a handshake, as long as one may take.
pub(crate) async fn in_time<T>(handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let limit = Duration::from_millis(TLS_HANDSHAKE_MS_MAX);
    // Boxed: a connection's future has no space for what is needed once.
    match timeout(limit, Box::pin(handshake)).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(ErrorKind::TimedOut, "the handshake took too long")),
    }
}

pub(crate) fn to_io_error(error: impl fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error.to_string())
}

/// Returns the warning about a certificate that ends soon or has ended.
fn expiry_warning(what: &str, facts: &CertificateFacts, now_s: u64) -> Option<TlsWarning> {
    let left_s = facts.not_after_s.saturating_sub(now_s);
    let days = left_s / DAY_S;
    let detail = match left_s {
        0 => "has expired: others refuse it".into(),
        _ if days < EXPIRY_WARNING_DAYS => format!("expires in {days} days"),
        _ => return None,
    };
    Some(TlsWarning { code: AlarmCode::TlsExpires, subject: what.into(), detail })
}
