//! Address of a node: its URL, the files of TLS, the login, and the longest wait for an answer.

use crate::Client;
use crate::login::LoginArguments;
use program::{Failure, Outcome};
use std::path::PathBuf;
use std::time::Duration;
use tls::TlsClient;

/// Begin of the URL of an encrypted address.
pub(crate) const HTTPS: &str = "https://";

/// Address of the node, the login there, and the longest wait for it.
#[derive(Clone, Debug, clap::Args)]
pub struct Address {
    /// The node's HTTP address
    #[arg(long, env = "CREDENZA_URL", default_value = "http://127.0.0.1:7711", global = true)]
    pub url: String,
    /// Files of TLS.
    #[command(flatten)]
    pub tls: TlsArguments,
    /// Login there.
    #[command(flatten)]
    pub login: LoginArguments,
    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout, global = true)]
    #[arg(allow_hyphen_values = true)]
    pub timeout: Duration,
}

/// Files of TLS of a client.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArguments {
    /// Authority that signed the node's certificate, in PEM; needed for https://
    #[arg(long = "ca", env = "CREDENZA_CA", value_name = "FILE", global = true)]
    pub tls_ca: Option<PathBuf>,
    /// Own certificate in PEM, where the node asks for one; it may be a login
    #[arg(long = "cert", env = "CREDENZA_CERT", value_name = "FILE", global = true)]
    #[arg(requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the own certificate
    #[arg(long = "key", env = "CREDENZA_KEY", value_name = "FILE", global = true)]
    #[arg(requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl Address {
    /// Returns the address of a node that is called without encryption and login.
    pub fn plain(url: String, timeout: Duration) -> Address {
        let (tls, login) = (TlsArguments::default(), LoginArguments::default());
        Address { url, tls, login, timeout }
    }

    /// Returns host and port. Fails if the URL is none of a node.
    pub(crate) fn authority(&self) -> Outcome<String> {
        let rest = ["http://", HTTPS].iter().find_map(|begin| self.url.strip_prefix(begin));
        let authority = rest.unwrap_or(&self.url).trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            let what = format!(
                "--url {}: expected http://HOST:PORT, https://HOST:PORT or HOST:PORT",
                self.url
            );
            return Err(Failure::invalid(what));
        }
        let has_port =
            authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(if has_port { authority.into() } else { format!("{authority}:7711") })
    }

    /// Returns the TLS for this address. `None`: it is plain.
    pub(crate) fn tls_client(&self) -> Outcome<Option<TlsClient>> {
        if !self.url.starts_with(HTTPS) {
            return Ok(None);
        }
        let TlsArguments { tls_ca, tls_cert, tls_key } = &self.tls;
        let Some(ca) = tls_ca else {
            return Err(Failure::invalid(format!(
                "{}: name the authority that signed the node's certificate with --ca",
                self.url
            )));
        };
        let client = TlsClient::open(ca, tls_cert.as_deref().zip(tls_key.as_deref()));
        client.map(Some).map_err(|error| Failure::invalid(format!("--{}", error.text())))
    }

    /// Returns a client of the node; it connects with the first request.
    pub fn client(&self) -> Outcome<Client> {
        Client::new(self)
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    program::units::time_with_unit_ms(text).map(Duration::from_millis)
}
