//! Limits on the number of open connections.
//!
//! All clients share one limit, and one address gets only a part of it, so that a single client
//! can't exclude the others. A 64-bit IPv6 network counts as one address, because each of its hosts
//! owns all of its addresses. Clients beyond this machine leave some places to those on it. The
//! operators' listener has a separate limit, so a node still shows its status when its clients
//! exhaust theirs.

use crate::connection::ListenerKind;
use base::address_or_network;
use base::limits::{LOOPBACK_PLACES_MAX, OPERATORS_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
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
pub enum ExceededLimit {
    /// The limit of all clients.
    Total(usize),
    /// The limit of one address.
    PerAddress(usize),
}

impl ExceededLimit {
    /// Returns the limit in connections.
    pub fn limit(self) -> usize {
        let (ExceededLimit::Total(limit) | ExceededLimit::PerAddress(limit)) = self;
        limit
    }
}

/// Permit of one open connection; dropping it releases the permit.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    kind: ListenerKind,
    address: IpAddr,
}

impl ConnectionLimiter {
    /// Acquires a permit for a connection from this address. Fails if a limit is reached.
    pub fn acquire(
        self: &Arc<ConnectionLimiter>,
        kind: ListenerKind,
        address: IpAddr,
        limits: ConnectionLimits,
    ) -> Result<ConnectionPermit, ExceededLimit> {
        let address = address_or_network(address);
        let mut counts = self.lock_counts();
        if kind == ListenerKind::Operators {
            if counts.operators >= OPERATORS_MAX {
                return Err(ExceededLimit::Total(OPERATORS_MAX));
            }
            counts.operators += 1;
        } else {
            let limit = match address.is_loopback() {
                true => limits.clients,
                false => limits.clients - LOOPBACK_PLACES_MAX.min(limits.clients / 8),
            };
            if counts.clients >= limit {
                return Err(ExceededLimit::Total(limits.clients));
            }
            if !address.is_loopback() {
                let from_address = counts.addresses.get(&address).copied().unwrap_or(0);
                if from_address >= limits.per_address {
                    return Err(ExceededLimit::PerAddress(limits.per_address));
                }
                counts.addresses.insert(address, from_address + 1);
            }
            counts.clients += 1;
        }
        Ok(ConnectionPermit { limiter: self.clone(), kind, address })
    }

    fn lock_counts(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.lock_counts();
        if self.kind == ListenerKind::Operators {
            counts.operators -= 1;
            return;
        }
        counts.clients -= 1;
        if let Some(from_address) = counts.addresses.get_mut(&self.address) {
            *from_address -= 1;
            if *from_address == 0 {
                counts.addresses.remove(&self.address);
            }
        }
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
    fn connection_limit_applies_per_address_and_in_total() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let acquire = |last| limiter.acquire(ListenerKind::Clients, address(last), LIMITS);
        let first: Vec<_> = (0..2).map(|_| acquire(1).expect("a place")).collect();
        assert_eq!(acquire(1).expect_err("it has two"), ExceededLimit::PerAddress(2));
        // The same address as an IPv4-mapped one, from a dual-stack listener.
        let mapped = "::ffff:192.0.2.1".parse().expect("an address");
        let mapped = limiter.acquire(ListenerKind::Clients, mapped, LIMITS);
        assert_eq!(mapped.expect_err("it has two"), ExceededLimit::PerAddress(2));
        let others: Vec<_> = (2..4).map(|last| acquire(last).expect("a place")).collect();
        assert_eq!(acquire(4).expect_err("all are taken"), ExceededLimit::Total(4));
        drop(first);
        assert!(acquire(1).is_ok());
        drop(others);
        let taken = limiter.lock_counts();
        assert!(taken.addresses.is_empty() && taken.clients == 0, "{taken:?}");
    }

    #[test]
    fn hosts_of_a_64_bit_ipv6_network_share_an_address_limit() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let acquire = |address: &str| {
            let address = address.parse().expect("an address");
            limiter.acquire(ListenerKind::Clients, address, LIMITS)
        };
        let permits = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"].map(acquire);
        assert_eq!(permits.iter().filter(|permit| permit.is_ok()).count(), 2);
        assert_eq!(
            acquire("2001:db8:0:1::3").expect_err("it has two"),
            ExceededLimit::PerAddress(2)
        );
        let other = acquire("2001:db8:0:2::1");
        assert!(other.is_ok() && acquire("::1").is_ok());
        drop((permits, other));
        assert!(limiter.lock_counts().addresses.is_empty());
    }

    #[test]
    fn clients_beyond_this_machine_leave_places_to_loopback() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let limits = ConnectionLimits { clients: 1_000, per_address: 1_000 };
        let acquire = |address| limiter.acquire(ListenerKind::Clients, address, limits);
        let permits = |address: IpAddr| -> Vec<_> {
            std::iter::from_fn(|| acquire(address).ok()).take(2_000).collect()
        };
        let (remote, local) = (permits(address(1)), permits(IpAddr::from([127, 0, 0, 1])));
        assert_eq!((remote.len(), local.len()), (1_000 - LOOPBACK_PLACES_MAX, LOOPBACK_PLACES_MAX));
        assert_eq!(acquire(address(2)).expect_err("taken"), ExceededLimit::Total(1_000));
        // Places of this machine's clients are not lost: they count with the others.
        drop(remote);
        assert_eq!(permits(IpAddr::from([127, 0, 0, 1])).len(), 1_000 - LOOPBACK_PLACES_MAX);
    }

    #[test]
    fn loopback_and_operators_are_exempt_from_the_address_limit() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let acquire = |kind, address| limiter.acquire(kind, address, LIMITS);
        let clients: Vec<_> =
            (0..4).map(|_| acquire(ListenerKind::Clients, loopback).expect("a place")).collect();
        assert_eq!(
            acquire(ListenerKind::Clients, loopback).expect_err("all are taken"),
            ExceededLimit::Total(4)
        );
        let operators = (0..OPERATORS_MAX).map(|_| acquire(ListenerKind::Operators, address(1)));
        let operators: Vec<_> = operators.map(|permit| permit.expect("their own")).collect();
        assert!(acquire(ListenerKind::Operators, loopback).is_err());
        drop((clients, operators));
        let counts = limiter.lock_counts();
        assert_eq!((counts.clients, counts.operators), (0, 0));
    }
}
