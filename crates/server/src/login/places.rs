//! Places of passwords that are verified or wait for that, in total and by address.

use base::{Error, Reason, Result, address_or_network};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of taken places, against the limits.
pub struct Places {
    total_max: usize,
    per_address_max: usize,
    counts: Mutex<PlaceCounts>,
}

#[derive(Default)]
struct PlaceCounts {
    total: usize,
    /// By address or network, without those from this machine.
    addresses: BTreeMap<IpAddr, usize>,
}

/// Place of one password; dropping it releases the place.
pub struct HeldPlace {
    places: Arc<Places>,
    address: Option<IpAddr>,
}

impl Places {
    /// Returns the places, all free.
    pub fn new(total_max: usize, per_address_max: usize) -> Places {
        Places { total_max, per_address_max, counts: Mutex::default() }
    }

    /// Acquires a place for a password from this address. `None`: it is nobody's attempt to log in.
    /// Errors: `Overloaded`.
    pub fn acquire(self: &Arc<Places>, from: Option<IpAddr>) -> Result<HeldPlace> {
        let address = from.map(address_or_network).filter(|address| !address.is_loopback());
        let mut counts = self.lock_counts();
        let of_address = address.and_then(|address| counts.addresses.get(&address).copied());
        let of_address = of_address.unwrap_or(0);
        if counts.total >= self.total_max || of_address >= self.per_address_max {
            return Err(overloaded());
        }
        counts.total += 1;
        if let Some(address) = address {
            counts.addresses.insert(address, of_address + 1);
        }
        Ok(HeldPlace { places: self.clone(), address })
    }

    fn lock_counts(&self) -> MutexGuard<'_, PlaceCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut counts = self.places.lock_counts();
        counts.total -= 1;
        let Some(address) = &self.address else { return };
        if let Some(of_address) = counts.addresses.get_mut(address) {
            *of_address -= 1;
            if *of_address == 0 {
                counts.addresses.remove(address);
            }
        }
    }
}

/// Returns the refusal of a login for which there is no place.
pub fn overloaded() -> Error {
    Error::new(Reason::Overloaded, "too many logins are in progress: try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_to_others() {
        let places = Arc::new(Places::new(8, 4));
        let take = |address: &str, count: usize| -> Vec<HeldPlace> {
            let from = address.parse().expect("an address");
            (0..count).filter_map(|_| places.acquire(Some(from)).ok()).collect()
        };
        let of_one = take("192.0.2.1", 8);
        assert_eq!(of_one.len(), 4);
        assert_eq!(take("::ffff:192.0.2.1", 1).len(), 0, "it is the same address");
        let of_network = take("2001:db8:0:1::1", 3);
        assert_eq!(take("2001:db8:0:1::2", 4).len(), 1, "hosts of a network share their places");
        // Clients of this machine share no bound of their own: a proxy is one of them.
        assert_eq!(take("127.0.0.1", 4).len(), 1, "all places are taken");
        drop(of_network);
        assert_eq!(take("127.0.0.1", 8).len(), 4);
        assert!(places.acquire(None).is_ok());
        drop(of_one);
        let counts = places.lock_counts();
        assert!(counts.total == 0 && counts.addresses.is_empty());
    }
}
