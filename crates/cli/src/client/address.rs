//! Address of a node: its URL, the files of TLS, and the longest wait for an answer.

use super::Client;
use program::{Failure, Outcome};
use std::path::PathBuf;
use std::time::Duration;
use tls::TlsClient;

/// Begin of the URL of an encrypted address.
pub(super) const HTTPS: &str = "https://";

/// Address of the node, and the longest wait for it.
#[derive(Clone, Debug, clap::Args)]
pub struct Address {
    /// The node's HTTP address
    #[arg(long, env = "CREDENZA_URL", default_value = "http://127.0.0.1:7711", global = true)]
    pub url: String,
    /// Authority that signed the node's certificate, in PEM; needed for https://
    #[arg(long = "ca", env = "CREDENZA_CA", value_name = "FILE", global = true)]
    pub tls_ca: Option<PathBuf>,
    /// Own certificate in PEM, where the node asks for one
    #[arg(long = "cert", env = "CREDENZA_CERT", value_name = "FILE", global = true)]
    #[arg(requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the own certificate
    #[arg(long = "key", env = "CREDENZA_KEY", value_name = "FILE", global = true)]
    #[arg(requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout, global = true)]
    #[arg(allow_hyphen_values = true)]
    pub timeout: Duration,
}

impl Address {
    /// Returns the address of a node that is called without encryption.
    pub fn plain(url: String, timeout: Duration) -> Address {
        Address { url, tls_ca: None, tls_cert: None, tls_key: None, timeout }
    }

    /// Returns the TLS for this address. `None`: it is plain.
    pub(super) fn tls(&self) -> Outcome<Option<TlsClient>> {
        if !self.url.starts_with(HTTPS) {
            return Ok(None);
        }
        let Some(ca) = &self.tls_ca else {
            return Err(Failure::invalid(format!(
                "{}: name the authority that signed the node's certificate with --ca",
                self.url
            )));
        };
        let client = TlsClient::open(ca, self.tls_cert.as_deref().zip(self.tls_key.as_deref()));
        client.map(Some).map_err(|error| Failure::invalid(format!("--{}", error.text())))
    }

    /// Returns a client of the node; it connects with the first request.
    pub fn client(&self) -> Outcome<Client> {
        Client::new(self)
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    crate::settings::units::time_with_unit_ms(text).map(Duration::from_millis)
}
