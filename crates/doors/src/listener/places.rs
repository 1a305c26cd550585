//! Places of connections: how many may be open at a time, and for whom.
//!
//! All clients share one number of places, and no address takes more than its part of them, so that
//! one stranger leaves room for others. Operators' own listener has places of its own: a node whose
//! clients hold all of theirs still says how it is.

use super::Face;
use base::limits::OPERATORS_MAX;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    clients: usize,
    operators: usize,
    /// Client connections by address, without those of this machine.
    addresses: BTreeMap<IpAddr, usize>,
}

/// Limits of client connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections of all clients.
    pub clients: usize,
    /// Connections from one address; those of this machine have no such limit.
    pub per_address: usize,
}

/// Why a connection is refused: which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The limit of all clients.
    All(usize),
    /// The limit of one address.
    OfAddress(usize),
}

impl Full {
    /// The limit that is reached, in connections.
    pub fn limit(self) -> usize {
        let (Full::All(limit) | Full::OfAddress(limit)) = self;
        limit
    }
}

/// A place that is taken; given back when dropped.
#[derive(Debug)]
pub struct Place {
    all: Arc<Places>,
    face: Face,
    address: IpAddr,
}

impl Places {
    /// A place for a connection from this address.
    pub fn take(
        self: &Arc<Places>,
        face: Face,
        address: IpAddr,
        bounds: Bounds,
    ) -> Result<Place, Full> {
        let address = address.to_canonical();
        let mut taken = self.taken();
        if face == Face::Operators {
            if taken.operators >= OPERATORS_MAX {
                return Err(Full::All(OPERATORS_MAX));
            }
            taken.operators += 1;
        } else {
            if taken.clients >= bounds.clients {
                return Err(Full::All(bounds.clients));
            }
            if !address.is_loopback() {
                let here = taken.addresses.get(&address).copied().unwrap_or(0);
                if here >= bounds.per_address {
                    return Err(Full::OfAddress(bounds.per_address));
                }
                taken.addresses.insert(address, here + 1);
            }
            taken.clients += 1;
        }
        Ok(Place { all: self.clone(), face, address })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.all.taken();
        if self.face == Face::Operators {
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { clients: 4, per_address: 2 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_address_takes_its_part_and_leaves_the_others() {
        let places = Arc::<Places>::default();
        let take = |last| places.take(Face::Clients, address(last), BOUNDS);
        let first: Vec<_> = (0..2).map(|_| take(1).expect("a place")).collect();
        assert_eq!(take(1).expect_err("it has two"), Full::OfAddress(2));
        // The same address as it comes to a listener of both kinds.
        let mapped = "::ffff:192.0.2.1".parse().expect("an address");
        let mapped = places.take(Face::Clients, mapped, BOUNDS);
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
    fn operators_and_this_machine_are_not_kept_out_by_others() {
        let places = Arc::<Places>::default();
        let here = IpAddr::from([127, 0, 0, 1]);
        let take = |face, address| places.take(face, address, BOUNDS);
        let clients: Vec<_> = (0..4).map(|_| take(Face::Both, here).expect("a place")).collect();
        assert_eq!(take(Face::Both, here).expect_err("all are taken"), Full::All(4));
        let operators = (0..OPERATORS_MAX).map(|_| take(Face::Operators, address(1)));
        let operators: Vec<_> = operators.map(|taken| taken.expect("their own")).collect();
        assert!(take(Face::Operators, here).is_err());
        drop((clients, operators));
        let taken = places.taken();
        assert_eq!((taken.clients, taken.operators), (0, 0));
    }
}
