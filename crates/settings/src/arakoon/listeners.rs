//! Addresses at which a node of an Arakoon configuration listens for clients.
//!
//! The node listens at every address of the file, whatever `listen` is. Nodes of a cluster send
//! requests to each other over HTTP at the first address, so that one serves all protocols. A node
//! without a cluster opens no port that its file does not name, because machines run many clusters
//! of one node each.

use super::ini::{IniError, IniSection};
use super::{Configuration, addresses, required};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Configuration {
    /// Translates `ip` and `client_port`. `listen`: value of that setting from a flag, the
    /// environment or a settings file, which override this file.
    pub(super) fn translate_listeners(
        &mut self,
        node_section: &IniSection,
        nodes: usize,
        listen: Option<&str>,
    ) -> Result<(), IniError> {
        let all = addresses(node_section, "client_port")?;
        let line = required(node_section, "ip")?.line;
        let (first, is_cluster) = (all[0], nodes > 1);
        let main_address: Option<SocketAddr> = match listen {
            // An invalid address is reported later, as the value of `listen`.
            Some(text) => text.parse().ok(),
            None => default_listen(&all, is_cluster),
        };
        if let (None, Some(main_address)) = (listen, main_address) {
            self.add_setting("listen", main_address.to_string(), line);
        }
        let is_covered = |address: &SocketAddr| {
            main_address.is_some_and(|main_address| covers(main_address, *address))
        };
        let mut remaining: Vec<SocketAddr> =
            all.into_iter().filter(|address| !is_covered(address)).collect();
        if is_cluster && listen.is_some() {
            self.add_setting("advertise", first.to_string(), line);
            if remaining.first() == Some(&first) {
                self.add_setting("listen_also", remaining.remove(0).to_string(), line);
            }
        }
        if !remaining.is_empty() {
            let texts: Vec<_> = remaining.iter().map(ToString::to_string).collect();
            self.add_setting("arakoon_listen", texts.join(","), line);
        }
        Ok(())
    }
}

/// Returns the value of `listen` if no other source sets it. `None`: the setting's own default.
///
/// A node without a cluster whose address is not on loopback serves only Arakoon's protocol there.
/// All other protocols, and administration, are on loopback at the same port.
fn default_listen(all: &[SocketAddr], is_cluster: bool) -> Option<SocketAddr> {
    let first = all[0];
    if is_cluster || first.ip().is_loopback() {
        return Some(first);
    }
    let loopback = match first.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    let loopback_address = SocketAddr::new(loopback, first.port());
    // `0.0.0.0` covers that port on loopback, too.
    let is_covered = all
        .iter()
        .any(|address| *address != loopback_address && covers(*address, loopback_address));
    (!is_covered).then_some(loopback_address)
}

/// Returns true if a listener at one address excludes another one at the other.
fn covers(listener: SocketAddr, address: SocketAddr) -> bool {
    let is_wildcard = listener.ip().is_unspecified() && (listener.is_ipv6() || address.is_ipv4());
    listener.port() == address.port() && (is_wildcard || listener.ip() == address.ip())
}
