//! Certificate authority of an operator: makes certificates of nodes and users, and the list of
//! revoked ones.
//!
//! It signs in memory; `cli` keeps the files. Its key never goes to a node: a node that has it
//! could make itself any other.

use crate::facts::CertificateFacts;
use crate::identity::{CertifiedName, Purpose, check_cluster};
use crate::keys::{KeyError, decode_key, encode_key, is_encrypted, to_pem};
use base::{Error, Reason, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::ops::Range;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use zeroize::Zeroizing;

/// Time for which an authority's certificate is valid.
const AUTHORITY_TIME: Duration = Duration::from_secs(3_652 * 24 * 3_600);
/// Clocks may differ by so much: certificates are valid from this long ago.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);
/// Time after which a list of revoked certificates should be replaced.
const LIST_TIME: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Bytes of a serial number: unguessable, and positive.
const SERIAL_BYTES: usize = 16;

/// Certificate authority with its key.
pub struct Authority {
    /// Name of its cluster.
    cluster: String,
    certificate: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificate that was made, with its key.
pub struct IssuedCertificate {
    /// Certificate in PEM.
    pub certificate: String,
    /// Key in PEM.
    pub key: Zeroizing<String>,
    /// Facts of the certificate.
    pub facts: CertificateFacts,
}

/// Certificate to revoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Number of the certificate, in hexadecimal.
    pub serial: String,
    /// Time of the revocation, seconds since 1970.
    pub revoked_s: u64,
}

impl Authority {
    /// Makes an authority for a cluster of this name.
    pub fn create(cluster: &str, now: SystemTime) -> Result<Authority> {
        check_cluster(cluster)?;
        let key = KeyPair::generate().map_err(|error| failure(&error))?;
        // Two authorities of a cluster need two names while one replaces the other: the issuer of a
        // list of revoked certificates is looked up by its name.
        let number: u32 = rand::random();
        let mut params = authority_params(&format!("{SUBJECT}{cluster} ({number:08x})"));
        params.not_before = (now - CLOCK_TOLERANCE).into();
        params.not_after = (now + AUTHORITY_TIME).into();
        params.serial_number = Some(random_serial());
        let certificate = params.self_signed(&key).map_err(|error| failure(&error))?;
        let certificate = certificate.der().to_vec();
        let issuer = Issuer::new(params, key);
        Ok(Authority { cluster: cluster.into(), certificate, issuer })
    }

    /// Opens an authority from its certificate and key in PEM.
    pub fn open(certificate: &str, key: &str, passphrase: Option<&str>) -> Result<Authority> {
        let malformed = || Error::new(Reason::Malformed, "the authority's certificate is no PEM");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
        let certificate = certificate.map_err(|_| malformed())?;
        let facts = CertificateFacts::read(&certificate).ok_or_else(malformed)?;
        let name = facts.subject.strip_prefix("CN=").unwrap_or_default();
        let cluster = name.strip_prefix(SUBJECT).ok_or_else(|| {
            let text = "this certificate is no authority that `credenza cert init` made";
            Error::new(Reason::Malformed, text)
        })?;
        // The first authorities have no number.
        let cluster = cluster.split_once(" (").map_or(cluster, |(cluster, _)| cluster);
        check_cluster(cluster)?;
        let key = decode_key(key, passphrase).map_err(|error| {
            Error::new(
                Reason::Malformed,
                match error {
                    KeyError::Malformed => "the authority's key is no PKCS #8 key in PEM",
                    KeyError::NeedsPassphrase => "the authority's key needs its passphrase",
                    KeyError::WrongPassphrase => "the passphrase is wrong",
                },
            )
        })?;
        let key = KeyPair::try_from(&key[..]).map_err(|error| failure(&error))?;
        let issuer = Issuer::new(authority_params(name), key);
        let (cluster, certificate) = (cluster.to_string(), certificate.to_vec());
        Ok(Authority { cluster, certificate, issuer })
    }

    /// Returns true if the authority's key in PEM needs a passphrase.
    pub fn needs_passphrase(key: &str) -> bool {
        is_encrypted(key)
    }

    /// Returns the name of its cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns its certificate in PEM.
    pub fn certificate(&self) -> Result<String> {
        to_pem("CERTIFICATE", &self.certificate).ok_or_else(too_long)
    }

    /// Returns its key in PEM, encrypted if there is a passphrase.
    pub fn key(&self, passphrase: Option<&str>) -> Result<Zeroizing<String>> {
        let key = Zeroizing::new(self.issuer.key().serialize_der());
        encode_key(&key, passphrase).ok_or_else(too_long)
    }

    /// Makes a certificate with a new key. `hosts`: names and addresses at which clients reach a
    /// node.
    pub fn issue(
        &self,
        purpose: Purpose,
        name: &str,
        hosts: &[String],
        validity: Range<SystemTime>,
    ) -> Result<IssuedCertificate> {
        let identity = CertifiedName::new(purpose, name, &self.cluster)?;
        let mut names = vec![identity.to_string()];
        names.extend_from_slice(hosts);
        let mut params = CertificateParams::new(names).map_err(|error| failure(&error))?;
        params.not_before = (validity.start - CLOCK_TOLERANCE).into();
        params.not_after = validity.end.into();
        params.serial_number = Some(random_serial());
        params.distinguished_name = common_name(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match purpose {
            // A node calls others, and is called.
            Purpose::Node => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            Purpose::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(|error| failure(&error))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|error| failure(&error))?;
        let facts = CertificateFacts::read(certificate.der()).ok_or_else(too_long)?;
        let der = Zeroizing::new(key.serialize_der());
        Ok(IssuedCertificate {
            certificate: to_pem("CERTIFICATE", certificate.der()).ok_or_else(too_long)?,
            key: encode_key(&der, None).ok_or_else(too_long)?,
            facts,
        })
    }

    /// Returns the list of revoked certificates in PEM. `number`: larger than that of the list
    /// before.
    pub fn revocation_list(
        &self,
        revoked: &[Revocation],
        number: u64,
        now: SystemTime,
    ) -> Result<String> {
        let revoked: Result<Vec<_>> = revoked.iter().map(Revocation::params).collect();
        let list = CertificateRevocationListParams {
            this_update: (now - CLOCK_TOLERANCE).into(),
            next_update: (now + LIST_TIME).into(),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).map_err(|error| failure(&error))?;
        to_pem("X509 CRL", list.der()).ok_or_else(too_long)
    }
}

impl Revocation {
    fn params(&self) -> Result<RevokedCertParams> {
        let digit_pairs = self.serial.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = digit_pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let bytes = bytes.filter(|bytes| !bytes.is_empty() && self.serial.len().is_multiple_of(2));
        let bytes = bytes.ok_or_else(|| {
            Error::new(Reason::Malformed, format!("`{}` is no serial number", self.serial))
        })?;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(self.revoked_s);
        Ok(RevokedCertParams {
            serial_number: SerialNumber::from_slice(&bytes),
            revocation_time: OffsetDateTime::from(time),
            reason_code: None,
            invalidity_date: None,
        })
    }
}

/// Begin of an authority's name; the name of its cluster and a number in parentheses follow.
const SUBJECT: &str = "Credenza CA of ";

/// Returns the parameters that follow from the authority's name, for a new one and for one that is
/// opened.
fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    distinguished_name
}

fn random_serial() -> SerialNumber {
    let mut bytes: [u8; SERIAL_BYTES] = rand::random();
    // Positive, and without a leading zero, so that the number has one spelling.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::from_slice(&bytes)
}

fn failure(error: &rcgen::Error) -> Error {
    Error::new(Reason::Malformed, format!("the certificate can't be made: {error}"))
}

fn too_long() -> Error {
    Error::new(Reason::Malformed, "the certificate can't be written: it is too long")
}
