//! Quota of what lasts beyond a connection: sessions, buckets, types and changes of buckets that
//! the clients at one address make in an hour.
//!
//! A cluster has room for a limited number of each, and one client must not take all. Clients on
//! this machine are exempt, as they are from the limit of connections.

use base::limits::CREATIONS_PER_ADDRESS_MAX;
use base::{Call, DirectoryCall, Error, Reason, SessionCall, address_or_network};
use node::SubmitResult;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Length of the time in which creations are counted.
const WINDOW_MS: u64 = 3_600_000;
/// Maximum number of addresses that are counted.
const ADDRESSES_MAX: usize = 4_096;

/// Counts of creations by address.
#[derive(Debug, Default)]
pub struct CreationQuota(Mutex<BTreeMap<IpAddr, Creations>>);

#[derive(Clone, Copy, Debug)]
struct Creations {
    /// Begin of the hour, in milliseconds since 1970.
    since_ms: u64,
    count: usize,
}

/// Returns true if the call creates what lasts beyond its connection.
pub fn is_creation(call: &Call) -> bool {
    match call {
        Call::Session(SessionCall::Open) => true,
        Call::Directory(call) => matches!(
            call,
            DirectoryCall::CreateBucket(_)
                | DirectoryCall::PlaceBucket { .. }
                | DirectoryCall::CreateType(_)
                // An available bucket gets a row by its first change.
                | DirectoryCall::AlterBucket(_)
        ),
        _ => false,
    }
}

impl CreationQuota {
    /// Counts a creation and submits it by `create`. One that is refused at once is not counted:
    /// nothing was created. Refuses it itself if the address has created too many.
    pub fn submit(
        &self,
        address: IpAddr,
        now_ms: u64,
        create: impl FnOnce() -> SubmitResult,
    ) -> SubmitResult {
        if let Err(refused) = self.count(address, now_ms) {
            return SubmitResult::Ready(Err(refused));
        }
        let submitted = create();
        if matches!(submitted, SubmitResult::Ready(Err(_))) {
            self.give_back(address);
        }
        submitted
    }

    /// Counts one creation. Fails if the address has created too many within the hour.
    fn count(&self, address: IpAddr, now_ms: u64) -> Result<(), Error> {
        let address = address_or_network(address);
        if address.is_loopback() {
            return Ok(());
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Also after the clock was set back.
        let is_over = |it: &Creations| now_ms.wrapping_sub(it.since_ms) >= WINDOW_MS;
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&address) {
            counts.retain(|_, it| !is_over(it));
            let fewest = || counts.iter().min_by_key(|(_, it)| it.count).map(|(key, _)| *key);
            if counts.len() >= ADDRESSES_MAX
                && let Some(fewest) = fewest()
            {
                counts.remove(&fewest);
            }
        }
        let entry = counts.entry(address).or_insert(Creations { since_ms: now_ms, count: 0 });
        if is_over(entry) {
            *entry = Creations { since_ms: now_ms, count: 0 };
        }
        if entry.count >= CREATIONS_PER_ADDRESS_MAX {
            return Err(Error::new(
                Reason::TooMany,
                format!(
                    "clients at {address} have created {CREATIONS_PER_ADDRESS_MAX} sessions and \
                     buckets, or changed properties of buckets, within an hour: nothing was done; \
                     keep sessions open and use them again"
                ),
            ));
        }
        entry.count += 1;
        Ok(())
    }

    /// Counts one creation of this address no more.
    fn give_back(&self, address: IpAddr) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = counts.get_mut(&address_or_network(address)) {
            entry.count = entry.count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Body, LogIndex, Reply};

    fn address(last: u16) -> IpAddr {
        let [high, low] = last.to_be_bytes();
        IpAddr::from([198, 18, high, low])
    }

    #[test]
    fn creations_of_one_address_are_bounded_within_an_hour() {
        let quota = CreationQuota::default();
        for _ in 0..CREATIONS_PER_ADDRESS_MAX {
            quota.count(address(1), 5).expect("below the quota");
        }
        let refused = quota.count(address(1), WINDOW_MS + 4).expect_err("one too many");
        assert_eq!(refused.reason, Reason::TooMany);
        assert!(refused.text().contains("198.18.0.1"), "{refused:?}");
        quota.count(address(2), 5).expect("another address");
        quota.count(address(1), WINDOW_MS + 5).expect("the next hour");
        for _ in 0..=CREATIONS_PER_ADDRESS_MAX {
            quota.count(IpAddr::from([127, 0, 0, 1]), 5).expect("this machine is exempt");
        }
    }

    #[test]
    fn creation_that_is_refused_at_once_is_not_counted() {
        let quota = CreationQuota::default();
        let count = |address: IpAddr| quota.0.lock().expect("plain data")[&address].count;
        let made = || SubmitResult::Ready(Ok(Reply::new(LogIndex(1), Body::Done)));
        let refused = || SubmitResult::Ready(Err(Error::new(Reason::Quota, "of sessions")));
        for expected in 1..=3 {
            assert!(matches!(quota.submit(address(1), 5, made), SubmitResult::Ready(Ok(_))));
            assert!(matches!(quota.submit(address(1), 5, refused), SubmitResult::Ready(Err(_))));
            assert_eq!(count(address(1)), expected);
        }
        while quota.count(address(1), 5).is_ok() {}
        let SubmitResult::Ready(Err(refused)) = quota.submit(address(1), 5, made) else {
            panic!("one too many")
        };
        assert_eq!(refused.reason, Reason::TooMany);
        assert_eq!(count(address(1)), CREATIONS_PER_ADDRESS_MAX, "what it refuses was not counted");
    }

    #[test]
    fn counted_addresses_are_bounded_and_the_busiest_stays_counted() {
        let quota = CreationQuota::default();
        for _ in 0..CREATIONS_PER_ADDRESS_MAX {
            quota.count(address(0), 5).expect("below the quota");
        }
        for at in 1..=2 * ADDRESSES_MAX as u16 {
            quota.count(address(at), 6).expect("the first of its address");
        }
        assert_eq!(quota.0.lock().expect("plain data").len(), ADDRESSES_MAX);
        assert!(quota.count(address(0), 7).is_err());
    }

    #[test]
    fn sessions_buckets_types_and_changes_of_buckets_are_creations_and_nothing_else_is() {
        assert!(is_creation(&Call::Session(SessionCall::Open)));
        assert!(is_creation(&Call::Directory(DirectoryCall::CreateBucket(Vec::new()))));
        assert!(is_creation(&Call::Directory(DirectoryCall::CreateType(Vec::new()))));
        assert!(is_creation(&Call::Directory(DirectoryCall::AlterBucket(Vec::new()))));
        let place = base::BucketPlace::Replicas(3);
        let placed = DirectoryCall::PlaceBucket { changes: Vec::new(), place };
        assert!(is_creation(&Call::Directory(placed)));
        assert!(!is_creation(&Call::Directory(DirectoryCall::DescribeBucket)));
    }
}
