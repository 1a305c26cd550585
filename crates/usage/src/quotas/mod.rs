//! Quotas of users: bounds on what the clients of a user use of this node.
//!
//! A user's quota is a row of the directory (`metadata/access`), so every node applies it; each
//! node counts by itself what its own clients use. Requests are counted where they enter the
//! cluster and nowhere else: what a node passes on was counted.
//!
//! Promises: a request that is refused has cost nothing and has taken nothing; users without a
//! quota are not counted; a changed quota is in force with the next request of each connection.
//! Never: ends a connection; refuses nodes, local operators or acts on the cluster; waits.
//! Read next: `meter.rs`, `token_bucket.rs`.

mod cost;
mod meter;
mod pending_tickets;
mod token_bucket;

pub use meter::UserUse;
pub use meter::{ConnectionPlace, MeteredRequest, UserMeter};

use base::access::UserQuota;
use base::limits::USERS_MAX;
use base::{Request, Result};
use cost::Cost;
use metadata::access::AccessTable;
use meter::{QuotaLimit, Refusals};
use runtime::sample::{Sample, SampleKind};
use runtime::submit::Ticket;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of users in the metrics, in the order of their names.
const USERS_SHOWN_MAX: usize = 100;

/// Part of a flow's requests that counts against the quota of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metering {
    /// None: they were counted where they entered, or are the node's own.
    None,
    /// All, and the flow itself as a connection.
    Connection,
    /// All.
    Request,
    /// All, but none is refused: they continue an answer that has begun.
    Continuation,
}

/// Meters of the users with a quota of requests whose clients have used this node. A quota of
/// sessions alone needs none: the masters of groups count those.
#[derive(Default)]
pub struct UserMeters {
    meters: Mutex<BTreeMap<String, Arc<UserMeter>>>,
    refusals: Arc<Refusals>,
}

impl UserMeters {
    /// Returns the meter of a user, with its present quota. `None`: it has none of requests.
    pub fn of(&self, table: &AccessTable, user: &str) -> Option<Arc<UserMeter>> {
        let mut meters = self.lock();
        // Read under the lock: of two quotas that are looked up at a time the later one stays.
        let Some(quota) = table.quota(user).filter(UserQuota::bounds_requests) else {
            meters.remove(user);
            return None;
        };
        let now_ms = world::milliseconds();
        if let Some(known) = meters.get(user) {
            known.set_quota(quota, now_ms);
            return Some(known.clone());
        }
        if meters.len() >= USERS_MAX {
            // Users that were removed meanwhile, or lost their quota.
            meters.retain(|user, _| table.quota(user).is_some_and(|quota| quota.bounds_requests()));
        }
        let meter = Arc::new(UserMeter::new(user, quota, &self.refusals, now_ms));
        meters.insert(user.to_string(), meter.clone());
        Some(meter)
    }

    /// Returns what the clients of a user use. `None`: nothing since the node started, or since the
    /// user got its quota of requests.
    pub fn used(&self, user: &str, is_settled: &dyn Fn(Ticket) -> bool) -> Option<UserUse> {
        let meter = self.lock().get(user).cloned()?;
        Some(meter.used(world::milliseconds(), is_settled))
    }

    /// Returns the use of the first users, and the refusals of all.
    pub fn samples(&self, is_settled: &dyn Fn(Ticket) -> bool) -> Vec<Sample> {
        let shown: Vec<_> = {
            let meters = self.lock();
            let first = meters.iter().take(USERS_SHOWN_MAX);
            first.map(|(user, meter)| (user.clone(), meter.clone())).collect()
        };
        let now_ms = world::milliseconds();
        let of_users = shown
            .iter()
            .flat_map(|(user, meter)| user_samples(user, meter.used(now_ms, is_settled)));
        let refusals = QuotaLimit::ALL.into_iter().zip(self.refusals.iter());
        let refusals = refusals.map(|(limit, count)| Sample {
            name: "credenza_quota_refused_total",
            help: "Requests refused because a user had used up a quota, by the bound.",
            kind: SampleKind::Counter,
            labels: vec![("limit", limit.name().to_string())],
            value: count.load(Relaxed) as f64,
        });
        of_users.chain(refusals).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<UserMeter>>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a request against a user's quota, and its flow as a connection. `None`: it counts against
/// none.
///
/// Errors: `Quota`; the request has taken nothing.
pub fn meter_request(
    meter: &Arc<UserMeter>,
    (metering, place): (Metering, &mut Option<ConnectionPlace>),
    request: &Request,
    is_settled: &dyn Fn(Ticket) -> bool,
) -> Result<Option<MeteredRequest>> {
    let Some(cost) = Cost::of(request) else { return Ok(None) };
    if metering == Metering::Connection && !place.as_ref().is_some_and(|place| place.is_of(meter)) {
        // The place at a former meter is given back first.
        *place = None;
        *place = Some(meter.connect()?);
    }
    let is_begun = metering == Metering::Continuation;
    meter.begin(cost, is_begun, world::milliseconds(), is_settled).map(Some)
}

/// Returns the samples of a user.
fn user_samples(user: &str, used: UserUse) -> impl Iterator<Item = Sample> {
    use SampleKind::{Counter, Gauge};
    let UserUse { connections, requests, operations, bytes, refused } = used;
    let label = user.to_string();
    [
        ("credenza_user_connections", Gauge, "Connections of a user with a quota.", connections),
        ("credenza_user_requests", Gauge, "Requests under way of a user with a quota.", requests),
        (
            "credenza_user_operations_total",
            Counter,
            "Operations of a user with a quota.",
            operations,
        ),
        (
            "credenza_user_bytes_total",
            Counter,
            "Bytes of requests and answers of a user with a quota.",
            bytes,
        ),
        (
            "credenza_user_refused_total",
            Counter,
            "Requests of a user that were refused for its quota.",
            refused,
        ),
    ]
    .into_iter()
    .map(move |(name, kind, help, value)| {
        let labels = vec![("user", label.clone())];
        Sample { name, help, kind, labels, value: value as f64 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{BucketName, Call};
    use metadata::catalog::Catalog;

    #[test]
    fn users_without_a_quota_have_no_meter_and_no_samples() {
        let (catalog, meters) = (Catalog::new(Default::default()), UserMeters::default());
        assert!(meters.of(&catalog.access, "ada").is_none());
        assert_eq!(meters.used("ada", &|_| false), None);
        let samples = meters.samples(&|_| false);
        assert_eq!(samples.len(), QuotaLimit::ALL.len(), "refusals by bound alone");
    }

    #[test]
    fn connection_that_is_refused_costs_no_operation() {
        let quota = UserQuota { connections: Some(1), ..UserQuota::default() };
        let meter = Arc::new(UserMeter::new("ada", quota, &Arc::default(), 0));
        let call = Call::Update(base::Update::Nop);
        let request = Request { bucket: BucketName::default(), call, retry: None };
        let mut places = [None, None];
        let [first, second] = &mut places;
        let ask = |place: &mut Option<ConnectionPlace>| {
            let counted = meter_request(&meter, (Metering::Connection, place), &request, &|_| true);
            counted.map(|_| ())
        };
        assert_eq!(ask(first), Ok(()));
        assert!(ask(second).is_err());
        assert_eq!(ask(first), Ok(()), "it has its place");
        let used = meter.used(0, &|_| true);
        assert_eq!((used.connections, used.operations, used.refused), (1, 2, 1));
        drop(places);
        assert_eq!(meter.used(0, &|_| true).connections, 0);
    }
}
