//! TLS of the command line as a client: which authorities it trusts, and its own certificate.

use crate::configuration::{certificates, provider};
use crate::sources::read;
use crate::stream::{HandshakeStream, Stream, TlsConnection};
use crate::tls::{in_time, to_io_error};
use base::limits::TLS_HANDSHAKE_BYTES_MAX;
use base::{Error, Reason, Result};
use bytes::BytesMut;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

/// TLS of a client.
#[derive(Clone)]
pub struct TlsClient {
    configuration: Arc<ClientConfig>,
}

impl TlsClient {
    /// Reads the files: the authorities to trust, and the client's certificate with its key.
    ///
    /// Errors: `Malformed`, with the file and the reason.
    pub fn open(ca: &Path, own: Option<(&Path, &Path)>) -> Result<TlsClient> {
        build(ca, own).map_err(|text| Error::new(Reason::Malformed, text))
    }

    /// Completes the handshake with a node, whose certificate must name this host.
    pub async fn connect(&self, socket: TcpStream, host: &str) -> io::Result<Stream> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let server_name = ServerName::try_from(host.to_string()).map_err(to_io_error)?;
        let stream = HandshakeStream::new(socket, BytesMut::new(), TLS_HANDSHAKE_BYTES_MAX);
        let connector = TlsConnector::from(self.configuration.clone());
        let mut stream = in_time(connector.connect(server_name, stream)).await?;
        stream.get_mut().0.end_handshake();
        let connection = TlsConnection::new(TlsStream::Client(stream), (None, None), 0);
        Ok(Stream::Tls(Box::new(connection)))
    }
}

fn build(ca: &Path, own: Option<(&Path, &Path)>) -> std::result::Result<TlsClient, String> {
    let file = read("ca", ca, false)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&file)? {
        roots.add(authority).map_err(|error| file.failure(&error.to_string()))?;
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut configuration = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let (certificate, key) = (read("cert", certificate, false)?, read("key", key, true)?);
            let private = PrivateKeyDer::from_pem_slice(&key.pem);
            let private = private.map_err(|error| key.failure(&error.to_string()))?;
            let builder = builder.with_client_auth_cert(certificates(&certificate)?, private);
            builder.map_err(|error| certificate.failure(&error.to_string()))?
        }
    };
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsClient { configuration: Arc::new(configuration) })
}
