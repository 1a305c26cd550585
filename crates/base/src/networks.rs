//! Networks of IP addresses: which addresses may call, and which count as one.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;

/// Networks from which addresses are accepted. The empty list accepts every address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpNetworks(Vec<IpNetwork>);

/// Network: an address, and the number of its leading bits that all addresses in it share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IpNetwork {
    address: IpAddr,
    prefix: u32,
}

impl IpNetworks {
    /// Parses networks such as `10.1.0.0/16` and addresses, comma-separated; `any` is every
    /// address. `None`: an item is neither, or has bits set beyond its prefix.
    pub fn parse(text: &str) -> Option<IpNetworks> {
        if text.trim() == "any" {
            return Some(IpNetworks::default());
        }
        text.split(',')
            .map(|item| IpNetwork::parse(item.trim()))
            .collect::<Option<_>>()
            .map(IpNetworks)
    }

    /// Returns true if the address is within one of the networks, or every address is accepted.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.is_empty() || self.0.iter().any(|network| network.contains(address))
    }
}

impl fmt::Display for IpNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("any");
        }
        for (at, IpNetwork { address, prefix }) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator}{address}/{prefix}")?;
        }
        Ok(())
    }
}

impl IpNetwork {
    fn parse(text: &str) -> Option<IpNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= longest)?
            }
            Some(_) => return None,
        };
        let network = IpNetwork { address, prefix };
        (network.bits(address) == all_bits(address)).then_some(network)
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && self.bits(address) == self.bits(self.address)
    }

    /// Returns the leading bits of the address; the others are zero.
    fn bits(&self, address: IpAddr) -> u128 {
        let unused = if address.is_ipv4() { 32 } else { 128 } - self.prefix;
        all_bits(address) & u128::MAX.checked_shl(unused).unwrap_or(0)
    }
}

fn all_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns the address under which a caller is counted: a 64-bit IPv6 network counts as one, since
/// each of its hosts owns all of its addresses.
pub fn address_or_network(address: IpAddr) -> IpAddr {
    const NETWORK: u128 = !(u64::MAX as u128);
    match address.to_canonical() {
        IpAddr::V6(host) if !host.is_loopback() => {
            Ipv6Addr::from_bits(host.to_bits() & NETWORK).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_contain_addresses_of_their_prefix_only() {
        let networks = IpNetworks::parse("10.1.0.0/16, 192.0.2.7 ,fd00::/8").expect("networks");
        for inside in ["10.1.255.1", "::ffff:10.1.0.9", "192.0.2.7", "fd12::1"] {
            assert!(networks.contains(address(inside)), "{inside}");
        }
        for outside in ["10.2.0.1", "192.0.2.8", "fe80::1", "::a01:1", "0.0.0.0"] {
            assert!(!networks.contains(address(outside)), "{outside}");
        }
        assert_eq!(networks.to_string(), "10.1.0.0/16,192.0.2.7/32,fd00::/8");
        let all = IpNetworks::parse("0.0.0.0/0").expect("a network");
        assert!(all.contains(address("203.0.113.9")) && !all.contains(address("fd00::1")));
        let any = IpNetworks::parse("any").expect("a word");
        assert!(any.contains(address("203.0.113.9")) && any.to_string() == "any");
    }

    #[test]
    fn malformed_networks_are_refused() {
        for text in ["", "none", "10.0.0.0/33", "10.1.0.0/8", "fd00::/129", "10.0.0.0/", "host/8"] {
            assert_eq!(IpNetworks::parse(text), None, "{text}");
        }
        assert_eq!(IpNetworks::parse("10.0.0.0/8,"), None);
        assert_eq!(IpNetworks::parse("10.0.0.0/+8"), None);
    }
}
