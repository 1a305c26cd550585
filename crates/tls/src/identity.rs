//! Identity that a certificate states: a node or a user of one cluster, as a DNS name.

use base::{Error, Reason, Result};
use std::fmt;

/// Domain of all identities. It is reserved for private networks, so no public authority signs it.
const DOMAIN: &str = ".credenza.internal";
/// Longest DNS name, bytes.
const DNS_NAME_BYTES_MAX: usize = 253;
/// Longest label of a DNS name, bytes.
const LABEL_BYTES_MAX: usize = 63;

/// Purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Node, towards other nodes.
    Node,
    /// Client, towards nodes.
    Client,
}

impl Purpose {
    /// Returns its label in a DNS name.
    pub fn label(self) -> &'static str {
        match self {
            Purpose::Node => "node",
            Purpose::Client => "client",
        }
    }

    fn parse(label: &str) -> Option<Purpose> {
        [Purpose::Node, Purpose::Client].into_iter().find(|purpose| purpose.label() == label)
    }
}

/// Node or user of one cluster, as a verified certificate states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedName {
    /// Purpose of the certificate.
    pub purpose: Purpose,
    /// Name of the node or user.
    pub name: String,
    /// Name of the cluster, as its certificate authority was given it.
    pub cluster: String,
}

impl CertifiedName {
    /// Returns the identity of these names. Fails if they can't stand in a DNS name.
    pub fn new(purpose: Purpose, name: &str, cluster: &str) -> Result<CertifiedName> {
        check_cluster(cluster)?;
        let identity = CertifiedName { purpose, name: name.into(), cluster: cluster.into() };
        let starts_alphanumeric = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let is_valid = starts_alphanumeric && name.split('.').all(is_label);
        if is_valid && identity.to_string().len() <= DNS_NAME_BYTES_MAX {
            return Ok(identity);
        }
        let what = purpose.label();
        let text = format!(
            "`{}` can't be the name of a {what} in a certificate: 1 to 63 of a-z A-Z 0-9 - _ are \
             wanted, beginning with a letter or digit",
            base::codec::printable(name.as_bytes())
        );
        Err(Error::new(Reason::Malformed, text))
    }

    /// Parses a DNS name of a certificate. `None`: it states no identity.
    pub(crate) fn parse(dns_name: &str) -> Option<CertifiedName> {
        let rest = dns_name.strip_suffix(DOMAIN)?;
        let (rest, cluster) = rest.rsplit_once('.')?;
        let (name, label) = rest.rsplit_once('.')?;
        CertifiedName::new(Purpose::parse(label)?, name, cluster).ok()
    }
}

impl fmt::Display for CertifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{DOMAIN}", self.name, self.purpose.label(), self.cluster)
    }
}

/// Checks the name of a cluster.
pub(crate) fn check_cluster(cluster: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if is_label(cluster) && cluster.bytes().all(is_allowed) {
        return Ok(());
    }
    let text = format!(
        "`{}` can't be the name of a cluster in a certificate: 1 to 63 of a-z 0-9 - are wanted, \
         without - at either end",
        base::codec::printable(cluster.as_bytes())
    );
    Err(Error::new(Reason::Malformed, text))
}

fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_round_trips_through_its_dns_name() {
        for (purpose, name, cluster) in [
            (Purpose::Node, "n1", "shop"),
            (Purpose::Node, "arakoon_0", "shop-2"),
            (Purpose::Node, "n1.dc1", "shop"),
            (Purpose::Client, "alice", "7"),
        ] {
            let identity = CertifiedName::new(purpose, name, cluster).expect("valid names");
            assert_eq!(CertifiedName::parse(&identity.to_string()), Some(identity));
        }
        let name = "n1.client";
        let parsed = CertifiedName::parse(&format!("{name}.node.shop.credenza.internal"));
        let parsed = parsed.expect("the last label before the cluster is the purpose");
        assert_eq!((parsed.purpose, parsed.name.as_str()), (Purpose::Node, name));
    }

    #[test]
    fn dns_name_without_exactly_one_identity_form_is_refused() {
        for dns_name in [
            "",
            "n1.example.org",
            "n1.node.shop.credenza.internal.example.org",
            "node.shop.credenza.internal",
            ".node.shop.credenza.internal",
            "n1..node.shop.credenza.internal",
            "*.node.shop.credenza.internal",
            "*.client.shop.credenza.internal",
            "n1.link.shop.credenza.internal",
            "n1.node.SHOP.credenza.internal",
            "n1.node.shop.Credenza.internal",
            "n 1.node.shop.credenza.internal",
        ] {
            assert_eq!(CertifiedName::parse(dns_name), None, "{dns_name}");
        }
        for name in ["", "-a", "a-", "_a", "a..b", "a/b", "\u{e9}", &"x".repeat(64)] {
            assert!(CertifiedName::new(Purpose::Client, name, "shop").is_err(), "{name}");
        }
        for cluster in ["", "-a", "a.b", "A", "a_b", &"x".repeat(64)] {
            assert!(CertifiedName::new(Purpose::Client, "a", cluster).is_err(), "{cluster}");
        }
        let long = ["x".repeat(60), "y".repeat(60), "z".repeat(60), "w".repeat(60)].join(".");
        assert!(CertifiedName::new(Purpose::Node, &long, "shop").is_err());
    }
}
