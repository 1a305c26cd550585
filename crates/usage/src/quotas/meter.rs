//! Meter of a user: what its clients use of this node, against its quota.

use super::cost::Cost;
use super::pending_tickets::PendingTickets;
use super::token_bucket::TokenBucket;
use base::access::UserQuota;
use base::wire::answer_bytes;
use base::{Error, Reason, Reply, Result};
use runtime::submit::{LaterReply, SubmitResult, Ticket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bound of a quota that a request can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaLimit {
    Connections,
    Requests,
    Operations,
    Bytes,
}

impl QuotaLimit {
    /// All of them.
    pub const ALL: [QuotaLimit; 4] =
        [QuotaLimit::Connections, QuotaLimit::Requests, QuotaLimit::Operations, QuotaLimit::Bytes];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        ["connections", "requests", "operations", "bytes"][self as usize]
    }
}

/// Numbers of refusals, by the bound that was met.
pub(super) type Refusals = [AtomicU64; QuotaLimit::ALL.len()];

/// Use of this node by the clients of a user, now and since the node began to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserUse {
    /// Connections that are open.
    pub connections: u64,
    /// Requests under way.
    pub requests: u64,
    /// Operations so far.
    pub operations: u64,
    /// Bytes of requests and answers so far.
    pub bytes: u64,
    /// Requests that were refused for the quota so far.
    pub refused: u64,
}

/// Meter of a user.
pub struct UserMeter {
    user: String,
    /// Refusals of all users on this node.
    refusals: Arc<Refusals>,
    state: Mutex<MeterState>,
}

struct MeterState {
    quota: UserQuota,
    operations: TokenBucket,
    bytes: TokenBucket,
    /// Use, without the updates that wait for their decision.
    used: UserUse,
    /// These updates, while the number of requests is bounded.
    pending: PendingTickets,
}

impl UserMeter {
    /// Returns the meter of a user that uses nothing.
    pub fn new(user: &str, quota: UserQuota, refusals: &Arc<Refusals>, now_ms: u64) -> UserMeter {
        let UserQuota { operations, bytes, burst_ms, .. } = quota;
        let state = MeterState {
            quota,
            operations: TokenBucket::new(operations.map(u64::from), burst_ms, now_ms),
            bytes: TokenBucket::new(bytes, burst_ms, now_ms),
            used: UserUse::default(),
            pending: PendingTickets::default(),
        };
        let (user, refusals) = (user.to_string(), refusals.clone());
        UserMeter { user, refusals, state: Mutex::new(state) }
    }

    /// Changes the quota. What is in use stays, also above the new one.
    pub fn set_quota(&self, quota: UserQuota, now_ms: u64) {
        let mut state = self.lock();
        if state.quota == quota {
            return;
        }
        let UserQuota { operations, bytes, burst_ms, .. } = quota;
        state.operations.change(operations.map(u64::from), burst_ms, now_ms);
        state.bytes.change(bytes, burst_ms, now_ms);
        if quota.requests.is_none() {
            state.pending = PendingTickets::default();
        }
        state.quota = quota;
    }

    /// Takes what a request costs, or refuses it. `is_begun`: its answer has begun, so that it is
    /// not refused. `is_settled`: whether a ticket is decided, or never will be.
    pub fn begin(
        self: &Arc<UserMeter>,
        cost: Cost,
        is_begun: bool,
        now_ms: u64,
        is_settled: &dyn Fn(Ticket) -> bool,
    ) -> Result<MeteredRequest> {
        let mut state = self.lock();
        let found = if is_begun { None } else { state.exceeded(cost, now_ms, is_settled) };
        if let Some((limit, wait_ms)) = found {
            return Err(self.refuse(&mut state, limit, wait_ms));
        }
        let Cost { operations, bytes } = cost;
        state.operations.take(operations);
        state.bytes.take(bytes);
        state.used.operations += operations;
        state.used.bytes += bytes;
        state.used.requests += 1;
        drop(state);
        Ok(MeteredRequest { meter: self.clone(), began_ms: now_ms })
    }

    /// Takes a place for a connection, or refuses it.
    pub fn connect(self: &Arc<UserMeter>) -> Result<ConnectionPlace> {
        let mut state = self.lock();
        let max = state.quota.connections;
        if max.is_some_and(|max| state.used.connections >= u64::from(max)) {
            return Err(self.refuse(&mut state, QuotaLimit::Connections, 0));
        }
        state.used.connections += 1;
        drop(state);
        Ok(ConnectionPlace(self.clone()))
    }

    /// Returns what is used.
    pub fn used(&self, now_ms: u64, is_settled: &dyn Fn(Ticket) -> bool) -> UserUse {
        let mut state = self.lock();
        state.pending.settle(now_ms, is_settled);
        UserUse { requests: state.under_way(), ..state.used }
    }

    fn refuse(&self, state: &mut MeterState, limit: QuotaLimit, wait_ms: u64) -> Error {
        state.used.refused += 1;
        self.refusals[limit as usize].fetch_add(1, Relaxed);
        let UserQuota { connections, requests, operations, bytes, .. } = state.quota;
        let (bound, what) = match limit {
            QuotaLimit::Connections => (connections.map(u64::from), "connections"),
            QuotaLimit::Requests => (requests.map(u64::from), "requests under way"),
            QuotaLimit::Operations => (operations.map(u64::from), "operations a second"),
            QuotaLimit::Bytes => (bytes, "bytes a second"),
        };
        let remedy = match limit {
            QuotaLimit::Connections => "close one, and try again".to_string(),
            QuotaLimit::Requests => "wait for an answer, and try again".to_string(),
            QuotaLimit::Operations | QuotaLimit::Bytes => format!("try again in {wait_ms} ms"),
        };
        let (user, bound) = (&self.user, bound.unwrap_or(0));
        let text = format!(
            "user `{user}` has used up its quota of {bound} {what} on this node; nothing was done: \
             {remedy}"
        );
        Error::new(Reason::Quota, text)
    }

    fn lock(&self) -> MutexGuard<'_, MeterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MeterState {
    fn under_way(&self) -> u64 {
        self.used.requests + self.pending.len() as u64
    }

    /// Returns the bound that a request of this cost would exceed, and the time in milliseconds
    /// after which it would not.
    fn exceeded(
        &mut self,
        cost: Cost,
        now_ms: u64,
        is_settled: &dyn Fn(Ticket) -> bool,
    ) -> Option<(QuotaLimit, u64)> {
        if let Some(max) = self.quota.requests.map(u64::from) {
            if self.under_way() >= max {
                self.pending.settle(now_ms, is_settled);
            }
            if self.under_way() >= max {
                return Some((QuotaLimit::Requests, 0));
            }
        }
        let waits = [
            (QuotaLimit::Operations, self.operations.wait_ms(cost.operations, now_ms)),
            (QuotaLimit::Bytes, self.bytes.wait_ms(cost.bytes, now_ms)),
        ];
        waits.into_iter().find(|(_, wait_ms)| *wait_ms > 0)
    }
}

/// Request under way that counts against a quota, until it is dropped.
pub struct MeteredRequest {
    meter: Arc<UserMeter>,
    began_ms: u64,
}

impl MeteredRequest {
    /// Counts a request until its answer is there, and the answer's bytes.
    pub fn follow(self, submitted: SubmitResult) -> SubmitResult {
        match submitted {
            SubmitResult::Ready(reply) => {
                self.count_answer(&reply);
                SubmitResult::Ready(reply)
            }
            SubmitResult::Pending(ticket, reply) => {
                self.count_answer(&reply);
                let mut state = self.meter.lock();
                if state.quota.requests.is_some() {
                    state.pending.push(ticket, self.began_ms);
                }
                drop(state);
                SubmitResult::Pending(ticket, reply)
            }
            SubmitResult::Later(reply) => SubmitResult::Later(self.follow_later(reply)),
            SubmitResult::Independent(key, reply) => {
                SubmitResult::Independent(key, self.follow_later(reply))
            }
        }
    }

    fn follow_later(self, reply: LaterReply) -> LaterReply {
        Box::pin(async move {
            let reply = reply.await;
            self.count_answer(&reply);
            reply
        })
    }

    fn count_answer(&self, reply: &Result<Reply>) {
        let bytes = answer_bytes(reply) as u64;
        let mut state = self.meter.lock();
        state.bytes.take(bytes);
        state.used.bytes += bytes;
    }
}

impl Drop for MeteredRequest {
    fn drop(&mut self) {
        self.meter.lock().used.requests -= 1;
    }
}

/// Place of a connection, until it is dropped.
pub struct ConnectionPlace(Arc<UserMeter>);

impl ConnectionPlace {
    /// Returns true if the place counts at this meter.
    pub fn is_of(&self, meter: &Arc<UserMeter>) -> bool {
        Arc::ptr_eq(&self.0, meter)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.0.lock().used.connections -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Body, GroupId, LogIndex};

    const ONE: Cost = Cost { operations: 1, bytes: 10 };

    fn meter(quota: UserQuota) -> Arc<UserMeter> {
        Arc::new(UserMeter::new("ada", quota, &Arc::default(), 0))
    }

    fn begin(meter: &Arc<UserMeter>, cost: Cost, now_ms: u64) -> Result<MeteredRequest> {
        meter.begin(cost, false, now_ms, &|_| false)
    }

    fn refusal<T>(result: Result<T>) -> String {
        let Err(error) = result else { panic!("it is refused") };
        assert_eq!(error.reason, Reason::Quota);
        error.text()
    }

    #[test]
    fn refused_request_takes_nothing_and_says_when_to_come_back() {
        let quota = UserQuota { operations: Some(2), bytes: Some(100), ..UserQuota::default() };
        let meter = meter(quota);
        let large = Cost { operations: 1, bytes: 90 };
        begin(&meter, large, 0).expect("within both");
        let refused = refusal(begin(&meter, large, 0));
        assert!(
            refused.contains("100 bytes a second") && refused.contains("in 800 ms"),
            "{refused}"
        );
        begin(&meter, ONE, 0).expect("its operation was left");
        let refused = refusal(begin(&meter, ONE, 0));
        assert!(refused.contains("user `ada` ") && refused.contains("2 operations"), "{refused}");
        assert!(refused.contains("try again in 500 ms"), "{refused}");
        begin(&meter, ONE, 500).expect("half a second later");
        let used = UserUse { operations: 3, bytes: 110, refused: 2, ..UserUse::default() };
        assert_eq!(meter.used(500, &|_| false), used);
        meter.set_quota(UserQuota { operations: Some(1_000), ..quota }, 500);
        begin(&meter, ONE, 501).expect("the new quota counts at once");
    }

    #[test]
    fn bytes_of_an_answer_delay_the_requests_behind_it() {
        let meter = meter(UserQuota { bytes: Some(100), ..UserQuota::default() });
        let value = |length: usize| {
            let (value, version) = (vec![7; length].into(), base::Version(1));
            let row = base::Row { value, version, expires_in_ms: None, tags: None };
            Ok(Reply::new(LogIndex(1), Body::Row(Some(row))))
        };
        let request = begin(&meter, ONE, 0).expect("within");
        drop(request.follow(SubmitResult::Ready(value(1_000))));
        let refused = refusal(begin(&meter, ONE, 1_000));
        assert!(refused.contains("bytes a second"), "{refused}");
        begin(&meter, ONE, 20_000).expect("the debt is paid");
        // An answer that has begun is not cut off in the middle.
        let more = meter.begin(Cost { operations: 1, bytes: 10_000 }, true, 20_000, &|_| false);
        drop(more.expect("never refused").follow(SubmitResult::Ready(value(1))));
        refusal(begin(&meter, ONE, 21_000));
    }

    #[test]
    fn requests_under_way_are_counted_until_answered_dropped_or_decided() {
        let meter = meter(UserQuota { requests: Some(2), ..UserQuota::default() });
        let waits = || SubmitResult::Later(Box::pin(std::future::pending()));
        let first = begin(&meter, ONE, 0).expect("one").follow(waits());
        let second = begin(&meter, ONE, 0).expect("two").follow(waits());
        let refused = refusal(begin(&meter, ONE, 0));
        assert!(refused.contains("2 requests under way"), "{refused}");
        drop((first, second));
        let ticket = |index| Ticket { group: GroupId(1), index: LogIndex(index), epoch: 1 };
        for index in [5, 6] {
            let done = Ok(Reply::new(LogIndex(index), Body::Done));
            let request = begin(&meter, ONE, 0).expect("its place is free");
            drop(request.follow(SubmitResult::Pending(ticket(index), done)));
        }
        refusal(begin(&meter, ONE, 0));
        assert_eq!(meter.used(0, &|_| false).requests, 2);
        let decided = |ticket: Ticket| ticket.index.0 <= 5;
        drop(meter.begin(ONE, false, 0, &decided).expect("one is decided"));
        assert_eq!(meter.used(0, &decided).requests, 1);
        meter.set_quota(UserQuota { operations: Some(9), ..UserQuota::default() }, 0);
        assert_eq!(meter.used(0, &|_| false).requests, 0, "without a bound nobody waits for them");
    }

    #[test]
    fn connections_above_a_lowered_quota_stay_and_new_ones_are_refused() {
        let quota = UserQuota { connections: Some(2), ..UserQuota::default() };
        let meter = meter(quota);
        let places = [meter.connect(), meter.connect()].map(|place| place.expect("two"));
        let refused = refusal(meter.connect());
        assert!(refused.contains("2 connections"), "{refused}");
        meter.set_quota(UserQuota { connections: Some(1), ..quota }, 0);
        let [first, second] = places;
        assert!(first.is_of(&meter));
        drop(first);
        refusal(meter.connect());
        drop(second);
        meter.connect().expect("there is none left");
        assert_eq!(meter.refusals[QuotaLimit::Connections as usize].load(Relaxed), 2);
    }
}
