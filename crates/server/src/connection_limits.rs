//! Places of connections: limits on how many may be open at a time.
//!
//! All clients share one number of places, and one address gets only a part of them, so that a
//! single client can't exclude the others. A 64-bit IPv6 network counts as one address, because
//! each of its hosts owns all of its addresses. The operators' listener has places of its own, so a
//! node still shows its status when its clients use up theirs.

use crate::connection::ListenerKind;
use base::limits::OPERATORS_MAX;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of open connections, against the limits.
#[derive(Debug, Default)]
pub struct ConnectionLimiter(Mutex<ConnectionCounts>);

#[derive(Debug, Default)]
struct ConnectionCounts {
    clients: usize,
    operators: usize,
    /// Client connections by address or network, without those from this machine.
    addresses: BTreeMap<IpAddr, usize>,
}

/// Limits of client connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum of all client connections.
    pub clients: usize,
    /// Maximum of connections from one IPv4 address or 64-bit IPv6 network. Connections from this
    /// machine are exempt.
    pub per_address: usize,
}

/// Limit that a refused connection exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The limit of all clients.
    All(usize),
    /// The limit of one address.
    OfAddress(usize),
}

impl Full {
    /// Returns the limit in connections.
    pub fn limit(self) -> usize {
        let (Full::All(limit) | Full::OfAddress(limit)) = self;
        limit
    }
}

/// Place that a connection occupies; dropping it frees the place.
#[derive(Debug)]
pub struct ConnectionPermit {
    all: Arc<ConnectionLimiter>,
    kind: ListenerKind,
    address: IpAddr,
}

impl ConnectionLimiter {
    /// Takes a place for a connection from this address. Fails if a limit is reached.
    pub fn take(
        self: &Arc<ConnectionLimiter>,
        kind: ListenerKind,
        address: IpAddr,
        limits: ConnectionLimits,
    ) -> Result<ConnectionPermit, Full> {
        let address = address_or_network(address);
        let mut taken = self.taken();
        if kind == ListenerKind::Operators {
            if taken.operators >= OPERATORS_MAX {
                return Err(Full::All(OPERATORS_MAX));
            }
            taken.operators += 1;
        } else {
            if taken.clients >= limits.clients {
                return Err(Full::All(limits.clients));
            }
            if !address.is_loopback() {
                let here = taken.addresses.get(&address).copied().unwrap_or(0);
                if here >= limits.per_address {
                    return Err(Full::OfAddress(limits.per_address));
                }
                taken.addresses.insert(address, here + 1);
            }
            taken.clients += 1;
        }
        Ok(ConnectionPermit { all: self.clone(), kind, address })
    }

    fn taken(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.all.taken();
        if self.kind == ListenerKind::Operators {
            taken.operators -= 1;
            return;
        }
        taken.clients -= 1;
        if let Some(here) = taken.addresses.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                taken.addresses.remove(&self.address);
            }
        }
    }
}

/// Returns the address that a connection is counted under; for IPv6, its network.
fn address_or_network(address: IpAddr) -> IpAddr {
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

    const LIMITS: ConnectionLimits = ConnectionLimits { clients: 4, per_address: 2 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_address_takes_its_part_and_leaves_the_others() {
        let places = Arc::<ConnectionLimiter>::default();
        let take = |last| places.take(ListenerKind::Clients, address(last), LIMITS);
        let first: Vec<_> = (0..2).map(|_| take(1).expect("a place")).collect();
        assert_eq!(take(1).expect_err("it has two"), Full::OfAddress(2));
        // The same address as an IPv4-mapped one, from a dual-stack listener.
        let mapped = "::ffff:192.0.2.1".parse().expect("an address");
        let mapped = places.take(ListenerKind::Clients, mapped, LIMITS);
        assert_eq!(mapped.expect_err("it has two"), Full::OfAddress(2));
        let others: Vec<_> = (2..4).map(|last| take(last).expect("a place")).collect();
        assert_eq!(take(4).expect_err("all are taken"), Full::All(4));
        drop(first);
        assert!(take(1).is_ok());
        drop(others);
        let taken = places.taken();
        assert!(taken.addresses.is_empty() && taken.clients == 0, "{taken:?}");
    }

    #[test]
    fn hosts_of_one_ipv6_network_share_one_part() {
        let places = Arc::<ConnectionLimiter>::default();
        let take = |address: &str| {
            let address = address.parse().expect("an address");
            places.take(ListenerKind::Clients, address, LIMITS)
        };
        let taken = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"].map(take);
        assert_eq!(taken.iter().filter(|place| place.is_ok()).count(), 2);
        assert_eq!(take("2001:db8:0:1::3").expect_err("it has two"), Full::OfAddress(2));
        let other = take("2001:db8:0:2::1");
        assert!(other.is_ok() && take("::1").is_ok());
        drop((taken, other));
        assert!(places.taken().addresses.is_empty());
    }

    #[test]
    fn operators_and_this_machine_are_not_kept_out_by_others() {
        let places = Arc::<ConnectionLimiter>::default();
        let here = IpAddr::from([127, 0, 0, 1]);
        let take = |kind, address| places.take(kind, address, LIMITS);
        let clients: Vec<_> =
            (0..4).map(|_| take(ListenerKind::Both, here).expect("a place")).collect();
        assert_eq!(take(ListenerKind::Both, here).expect_err("all are taken"), Full::All(4));
        let operators = (0..OPERATORS_MAX).map(|_| take(ListenerKind::Operators, address(1)));
        let operators: Vec<_> = operators.map(|taken| taken.expect("their own")).collect();
        assert!(take(ListenerKind::Operators, here).is_err());
        drop((clients, operators));
        let taken = places.taken();
        assert_eq!((taken.clients, taken.operators), (0, 0));
    }
}
