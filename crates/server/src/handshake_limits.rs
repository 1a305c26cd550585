//! Limits of TLS handshakes in progress, in total and by address: a handshake costs this node more
//! than its client.

use base::address_or_network;
use base::limits::{TLS_HANDSHAKE_MS_MAX, TLS_HANDSHAKES_MAX, TLS_HANDSHAKES_PER_ADDRESS_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause in milliseconds between two attempts to get a place.
const RETRY_MS: u64 = 5;

/// Counts of handshakes in progress, against the limits.
#[derive(Debug, Default)]
pub struct HandshakeLimiter(Mutex<HandshakeCounts>);

#[derive(Debug, Default)]
struct HandshakeCounts {
    total: usize,
    /// By address or network, without those from this machine.
    addresses: BTreeMap<IpAddr, usize>,
}

/// Permit of one handshake; dropping it releases the place.
#[derive(Debug)]
pub struct HandshakePermit {
    limiter: Arc<HandshakeLimiter>,
    address: IpAddr,
}

impl HandshakeLimiter {
    /// Acquires a place for a handshake with this address. Waits for one as long as a handshake may
    /// take: many clients of one address connect at the same moment after a restart.
    pub async fn acquire(self: &Arc<HandshakeLimiter>, address: IpAddr) -> Option<HandshakePermit> {
        let deadline = Instant::now() + Duration::from_millis(TLS_HANDSHAKE_MS_MAX);
        loop {
            if let Some(permit) = self.try_acquire(address) {
                return Some(permit);
            }
            if Instant::now() >= deadline {
                return None;
            }
            sleep(Duration::from_millis(RETRY_MS)).await;
        }
    }

    fn try_acquire(self: &Arc<HandshakeLimiter>, address: IpAddr) -> Option<HandshakePermit> {
        let address = address_or_network(address);
        let mut counts = self.lock_counts();
        if counts.total >= TLS_HANDSHAKES_MAX {
            return None;
        }
        if !address.is_loopback() {
            let from_address = counts.addresses.get(&address).copied().unwrap_or(0);
            if from_address >= TLS_HANDSHAKES_PER_ADDRESS_MAX {
                return None;
            }
            counts.addresses.insert(address, from_address + 1);
        }
        counts.total += 1;
        Some(HandshakePermit { limiter: self.clone(), address })
    }

    fn lock_counts(&self) -> MutexGuard<'_, HandshakeCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.lock_counts();
        counts.total -= 1;
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

    #[test]
    fn handshakes_are_bounded_in_total_and_by_address() {
        let limiter = Arc::<HandshakeLimiter>::default();
        let acquire = |last: u8| limiter.try_acquire(IpAddr::from([192, 0, 2, last]));
        let from_one: Vec<_> = (0..100).filter_map(|_| acquire(1)).collect();
        assert_eq!(from_one.len(), TLS_HANDSHAKES_PER_ADDRESS_MAX);
        // Clients of this machine share no bound of their own: a proxy is one of them.
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let local: Vec<_> = (0..1_000).filter_map(|_| limiter.try_acquire(loopback)).collect();
        assert_eq!(local.len(), TLS_HANDSHAKES_MAX - from_one.len());
        assert!(acquire(2).is_none(), "all places are taken");
        drop(from_one);
        assert!(acquire(2).is_some() && acquire(1).is_some());
        drop(local);
        let counts = limiter.lock_counts();
        assert!(counts.total == 0 && counts.addresses.is_empty(), "{counts:?}");
    }
}
