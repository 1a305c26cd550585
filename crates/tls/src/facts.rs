//! Facts that a certificate states: number, names, times. They are read for display, for
//! identities and for expiry; trust is decided by the verifier alone.

use crate::identity::{CertifiedName, Purpose};
use base::{Error, Reason, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;
use std::path::Path;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Facts that a certificate states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Number that its authority gave it, in hexadecimal.
    pub serial: String,
    /// Name of the subject, as text.
    pub subject: String,
    /// DNS names that it is valid for.
    pub dns_names: Vec<String>,
    /// Addresses that it is valid for.
    pub addresses: Vec<IpAddr>,
    /// Begin of its validity, seconds since 1970.
    pub not_before_s: u64,
    /// End of its validity, seconds since 1970.
    pub not_after_s: u64,
}

impl CertificateFacts {
    /// Reads the facts. `None`: the bytes are not a certificate.
    pub fn read(certificate: &CertificateDer<'_>) -> Option<CertificateFacts> {
        let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
        let names = certificate.get::<SubjectAltName>().ok()?;
        let names = names.map_or_else(Vec::new, |(_, names)| names.0);
        let dns_name = |name: &GeneralName| match name {
            GeneralName::DnsName(name) => Some(name.to_string()),
            _ => None,
        };
        let address = |name: &GeneralName| match name {
            GeneralName::IpAddress(bytes) => read_address(bytes.as_bytes()),
            _ => None,
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(CertificateFacts {
            serial: hex(certificate.serial_number.as_bytes()),
            subject: certificate.subject.to_string(),
            dns_names: names.iter().filter_map(dns_name).collect(),
            addresses: names.iter().filter_map(address).collect(),
            not_before_s: certificate.validity.not_before.to_unix_duration().as_secs(),
            not_after_s: certificate.validity.not_after.to_unix_duration().as_secs(),
        })
    }

    /// Reads the facts of the first certificate in a PEM file.
    ///
    /// Errors: `Malformed`, with the file and the reason.
    pub fn read_file(path: &Path) -> Result<CertificateFacts> {
        let malformed =
            |what: &str| Error::new(Reason::Malformed, format!("{}: {what}", path.display()));
        let certificate = CertificateDer::from_pem_file(path);
        let certificate = certificate.map_err(|error| malformed(&error.to_string()))?;
        CertificateFacts::read(&certificate).ok_or_else(|| malformed("it is no certificate"))
    }

    /// Returns the identities that it states.
    pub fn identities(&self) -> impl Iterator<Item = CertifiedName> {
        self.dns_names.iter().filter_map(|name| CertifiedName::parse(name))
    }

    /// Returns its identity of this purpose in a cluster (`None`: in any). Fails if it states none
    /// or several: then it is not clear whom it belongs to.
    pub(crate) fn identity(
        &self,
        purpose: Purpose,
        cluster: Option<&str>,
    ) -> Option<CertifiedName> {
        let mut matching = self.identities().filter(|identity| {
            let is_of_cluster = cluster.is_none_or(|cluster| identity.cluster == cluster);
            identity.purpose == purpose && is_of_cluster
        });
        matching.next().filter(|_| matching.next().is_none())
    }
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}
