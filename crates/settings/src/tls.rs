//! Settings of TLS.

use crate::checks::not_empty;
use crate::row::SettingRow;
use program::units;
use std::path::PathBuf;
use tls::{CertificateDemand, ListenerMode, PeerMode};

/// Row of `tls`.
pub const TLS: SettingRow = SettingRow {
    name: "tls",
    value: "MODE",
    default: "off",
    doc: "encryption for clients at every listener: `off`, `optional` (each connection is plain or \
          encrypted), `required` (plain clients are refused)",
    apply: |settings, text| {
        settings.tls.listeners = match text {
            "off" => ListenerMode::Off,
            "optional" => ListenerMode::Optional,
            "required" => ListenerMode::Required,
            _ => return Err("off, optional or required is wanted".into()),
        };
        Ok(())
    },
};

/// Row of `tls_cert_file`.
pub const TLS_CERT_FILE: SettingRow = SettingRow {
    name: "tls_cert_file",
    value: "FILE",
    default: "none",
    doc: "certificate of this node in PEM (`credenza cert node`), for clients and for other nodes; \
          read again on SIGHUP and when it changes",
    apply: |settings, text| path(text).map(|path| settings.tls.certificate = path),
};

/// Row of `tls_key_file`.
pub const TLS_KEY_FILE: SettingRow = SettingRow {
    name: "tls_key_file",
    value: "FILE",
    default: "none",
    doc: "key of that certificate in PEM; only its owner, this user or root, may have access to it",
    apply: |settings, text| path(text).map(|path| settings.tls.key = path),
};

/// Row of `tls_ca_file`.
pub const TLS_CA_FILE: SettingRow = SettingRow {
    name: "tls_ca_file",
    value: "FILE",
    default: "none",
    doc: "authorities in PEM that may have signed the certificates of clients and other nodes; \
          several while one replaces another",
    apply: |settings, text| path(text).map(|path| settings.tls.authorities = path),
};

/// Row of `tls_crl_file`.
pub const TLS_CRL_FILE: SettingRow = SettingRow {
    name: "tls_crl_file",
    value: "FILE",
    default: "none",
    doc: "list of revoked certificates in PEM (`credenza cert revoke`)",
    apply: |settings, text| path(text).map(|path| settings.tls.revoked = path),
};

/// Row of `tls_client_certs`.
pub const TLS_CLIENT_CERTS: SettingRow = SettingRow {
    name: "tls_client_certs",
    value: "MODE",
    default: "off",
    doc: "certificates of clients (`credenza cert client`): `off`, `asked` (verified if a client \
          has one), `required` (others are refused)",
    apply: |settings, text| {
        settings.tls.client_certificates = match text {
            "off" => CertificateDemand::Off,
            "asked" => CertificateDemand::Asked,
            "required" => CertificateDemand::Required,
            _ => return Err("off, asked or required is wanted".into()),
        };
        Ok(())
    },
};

/// Row of `tls_min`.
pub const TLS_MIN: SettingRow = SettingRow {
    name: "tls_min",
    value: "VERSION",
    default: "1.3",
    doc: "lowest version of TLS for clients: `1.2` or `1.3`; nodes always use 1.3",
    apply: |settings, text| {
        settings.tls.allows_tls12 = match text {
            "1.2" => true,
            "1.3" => false,
            _ => return Err("1.2 or 1.3 is wanted".into()),
        };
        Ok(())
    },
};

/// Row of `tls_session_ms_max`.
pub const TLS_SESSION_MS_MAX: SettingRow = SettingRow {
    name: "tls_session_ms_max",
    value: "TIME",
    default: "24h",
    doc: "time after which an encrypted connection of a client ends, or with the client's \
          certificate if that ends earlier: a revoked certificate is used no longer than that",
    apply: |settings, text| {
        let time = units::time_ms(text)?;
        if time < 1_000 {
            return Err("at least 1s is wanted".into());
        }
        settings.tls.session_ms_max = time;
        Ok(())
    },
};

/// Row of `peer_tls`.
pub const PEER_TLS: SettingRow = SettingRow {
    name: "peer_tls",
    value: "MODE",
    default: "off",
    doc: "encryption between nodes, each with the certificate of its name: `off`, `accept` (both \
          kinds of connection, to migrate a running cluster), `required`",
    apply: |settings, text| {
        settings.tls.peers = match text {
            "off" => PeerMode::Off,
            "accept" => PeerMode::Accept,
            "required" => PeerMode::Required,
            _ => return Err("off, accept or required is wanted".into()),
        };
        Ok(())
    },
};

/// Parses a path; `none` is none.
fn path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(Some(not_empty(text)?).filter(|path| *path != "none").map(PathBuf::from))
}
