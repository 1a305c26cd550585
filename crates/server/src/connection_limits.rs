//! Limits on the number of open connections.
//!
//! All clients share one limit, and one address gets only a part of it, so that a single client
//! can't exclude the others. A 64-bit IPv6 network counts as one address, because each of its hosts
//! owns all of its addresses. Clients beyond this machine leave some places to those on it. The
//! operators' listener has places of its own under the same rules, so a node still shows its status
//! when its clients exhaust theirs, and no single address keeps the operators out.

use crate::connection::ListenerKind;
use base::address_or_network;
use base::limits::{LOOPBACK_PLACES_MAX, OPERATORS_MAX, OPERATORS_PER_ADDRESS_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of open connections, against the limits.
#[derive(Debug, Default)]
pub struct ConnectionLimiter(Mutex<ConnectionCounts>);

#[derive(Debug, Default)]
struct ConnectionCounts {
    clients: ListenerCounts,
    operators: ListenerCounts,
}

/// Counts of the connections that share one limit.
#[derive(Debug, Default)]
struct ListenerCounts {
    total: usize,
    /// Connections by address or network, without those from this machine.
    addresses: BTreeMap<IpAddr, usize>,
}

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum of all connections.
    pub total: usize,
    /// Maximum of connections from one IPv4 address or 64-bit IPv6 network. Connections from this
    /// machine are exempt.
    pub per_address: usize,
}

impl ConnectionLimits {
    /// Limits of the operators' listener.
    pub const OPERATORS: ConnectionLimits =
        ConnectionLimits { total: OPERATORS_MAX, per_address: OPERATORS_PER_ADDRESS_MAX };
}

/// Limit that a refused connection exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// The limit of all connections.
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
        self.lock_counts().of(kind).add(address, limits)?;
        Ok(ConnectionPermit { limiter: self.clone(), kind, address })
    }

    fn lock_counts(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionCounts {
    fn of(&mut self, kind: ListenerKind) -> &mut ListenerCounts {
        match kind {
            ListenerKind::Operators => &mut self.operators,
            ListenerKind::Clients
            | ListenerKind::Arakoon
            | ListenerKind::Riak
            | ListenerKind::RiakPbc => &mut self.clients,
        }
    }
}

impl ListenerCounts {
    /// Counts one more connection, or names the limit that it exceeds.
    fn add(&mut self, address: IpAddr, limits: ConnectionLimits) -> Result<(), ExceededLimit> {
        let ConnectionLimits { total, per_address } = limits;
        let open_to_address = match address.is_loopback() {
            true => total,
            false => total - LOOPBACK_PLACES_MAX.min(total / 8),
        };
        if self.total >= open_to_address {
            return Err(ExceededLimit::Total(total));
        }
        if !address.is_loopback() {
            let from_address = self.addresses.get(&address).copied().unwrap_or(0);
            if from_address >= per_address {
                return Err(ExceededLimit::PerAddress(per_address));
            }
            self.addresses.insert(address, from_address + 1);
        }
        self.total += 1;
        Ok(())
    }

    /// Counts a connection no more.
    fn remove(&mut self, address: IpAddr) {
        self.total -= 1;
        if let Some(from_address) = self.addresses.get_mut(&address) {
            *from_address -= 1;
            if *from_address == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.lock_counts().of(self.kind).remove(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits { total: 4, per_address: 2 };

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
        assert!(taken.clients.addresses.is_empty() && taken.clients.total == 0, "{taken:?}");
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
        assert!(limiter.lock_counts().clients.addresses.is_empty());
    }

    #[test]
    fn clients_beyond_this_machine_leave_places_to_loopback() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let limits = ConnectionLimits { total: 1_000, per_address: 1_000 };
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
    fn loopback_is_exempt_from_the_address_limit_and_operators_have_their_own() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let client = || limiter.acquire(ListenerKind::Clients, loopback, LIMITS);
        let operator =
            || limiter.acquire(ListenerKind::Operators, loopback, ConnectionLimits::OPERATORS);
        let clients: Vec<_> = (0..4).map(|_| client().expect("a place")).collect();
        assert_eq!(client().expect_err("all are taken"), ExceededLimit::Total(4));
        let operators: Vec<_> =
            (0..OPERATORS_MAX).map(|_| operator().expect("their own")).collect();
        assert_eq!(operator().expect_err("taken"), ExceededLimit::Total(OPERATORS_MAX));
        drop((clients, operators));
        let counts = limiter.lock_counts();
        assert_eq!((counts.clients.total, counts.operators.total), (0, 0));
    }

    #[test]
    fn one_address_gets_half_of_the_operators_places_and_loopback_keeps_some() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let acquire = |address: IpAddr| {
            limiter.acquire(ListenerKind::Operators, address, ConnectionLimits::OPERATORS)
        };
        let permits = |address: IpAddr| -> Vec<_> {
            std::iter::from_fn(|| acquire(address).ok()).take(2 * OPERATORS_MAX).collect()
        };
        let network =
            |host: &str| -> IpAddr { format!("2001:db8:0:1::{host}").parse().expect("an address") };
        let (one, same) = (permits(network("1")), permits(network("2")));
        assert_eq!((one.len(), same.len()), (OPERATORS_PER_ADDRESS_MAX, 0));
        let refused = acquire(network("3")).expect_err("its network has half of them");
        assert_eq!(refused, ExceededLimit::PerAddress(OPERATORS_PER_ADDRESS_MAX));
        let other = permits(address(2));
        assert_eq!(other.len(), OPERATORS_MAX - OPERATORS_PER_ADDRESS_MAX - LOOPBACK_PLACES_MAX);
        assert_eq!(acquire(address(3)).expect_err("taken"), ExceededLimit::Total(OPERATORS_MAX));
        assert_eq!(permits(IpAddr::from([127, 0, 0, 1])).len(), LOOPBACK_PLACES_MAX);
        drop((one, other));
        assert!(limiter.lock_counts().operators.addresses.is_empty());
    }
}
