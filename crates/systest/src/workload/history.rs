//! History of a workload: its calls with their times and outcomes, and what is measured of them.

use crate::client::CallOutcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// Beginning and end of a call that no figure counts, such as one that was made before a workload.
pub const UNTIMED: u64 = u64::MAX;

/// A call: operation, outcome and interval on the workload's one clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCall<O, A> {
    /// Client that called. A client has one call open at a time; one whose call stays without an
    /// answer is never heard of again (its connection goes on under another number).
    pub client: u32,
    /// Node that was called, counted from 0.
    pub node: usize,
    /// Operation that was asked for.
    pub op: O,
    /// Outcome, with the answer of an acknowledged call.
    pub outcome: CallOutcome<A>,
    /// Start of the call, in nanoseconds of the workload's clock.
    pub began: u64,
    /// Time of the answer. Of an unknown outcome: when the client gave up, which says nothing.
    pub ended: u64,
}

impl<O, A> WorkloadCall<O, A> {
    /// Returns true if the client learned the outcome.
    pub fn is_known(&self) -> bool {
        !matches!(self.outcome, CallOutcome::Unknown)
    }

    fn duration(&self) -> Duration {
        Duration::from_nanos(self.ended - self.began)
    }
}

/// Calls of all clients of a workload.
#[derive(Clone, Debug)]
pub struct History<O, A> {
    /// Calls, those of one client in order.
    pub calls: Vec<WorkloadCall<O, A>>,
    /// Descriptions of answers that no such call may get.
    pub unexpected: Vec<String>,
    /// Texts of refusals, with their counts.
    pub refusals: BTreeMap<String, u64>,
}

impl<O, A> Default for History<O, A> {
    fn default() -> History<O, A> {
        History { calls: Vec::new(), unexpected: Vec::new(), refusals: BTreeMap::new() }
    }
}

impl<O, A> History<O, A> {
    /// Returns the numbers of calls that were acknowledged, that were refused, and whose outcome is
    /// unknown.
    pub fn counts(&self) -> (u64, u64, u64) {
        let (mut ok, mut refused, mut unknown) = (0, 0, 0);
        for call in &self.calls {
            match call.outcome {
                CallOutcome::Acknowledged(_) => ok += 1,
                CallOutcome::Refused => refused += 1,
                CallOutcome::Unknown => unknown += 1,
            }
        }
        (ok, refused, unknown)
    }

    /// Returns the calls that began in a span at these nodes.
    pub fn calls_within(
        &self,
        (from, to): (Duration, Duration),
        is_node_included: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = &WorkloadCall<O, A>> {
        let timed = self.calls.iter().filter(|call| call.began != UNTIMED);
        timed.filter(move |call| {
            (from..to).contains(&Duration::from_nanos(call.began)) && is_node_included(call.node)
        })
    }

    /// Returns the number of answered calls, and of all calls, that began in a span at these nodes.
    pub fn answer_counts(
        &self,
        span: (Duration, Duration),
        is_node_included: impl Fn(usize) -> bool,
    ) -> (u64, u64) {
        let calls: Vec<_> = self.calls_within(span, is_node_included).collect();
        let known = calls.iter().filter(|call| call.is_known()).count();
        (known as u64, calls.len() as u64)
    }

    /// Returns the duration that this percentage of the calls that began in a span do not exceed.
    pub fn percentile(
        &self,
        span: (Duration, Duration),
        is_node_included: impl Fn(usize) -> bool,
        percent: usize,
    ) -> Duration {
        let mut durations: Vec<_> =
            self.calls_within(span, is_node_included).map(WorkloadCall::duration).collect();
        durations.sort_unstable();
        durations.get(durations.len() * percent / 100).copied().unwrap_or_default()
    }

    /// Returns the durations of the answered calls of one node that began in a span, sorted.
    pub fn durations(&self, from: Duration, to: Duration, node: usize) -> Vec<Duration> {
        let calls = self.calls_within((from, to), |at| at == node).filter(|call| call.is_known());
        let mut durations: Vec<_> = calls.map(WorkloadCall::duration).collect();
        durations.sort_unstable();
        durations
    }

    /// Appends the calls of another history.
    pub fn join(&mut self, other: History<O, A>) {
        self.calls.extend(other.calls);
        self.unexpected.extend(other.unexpected);
        for (text, count) in other.refusals {
            *self.refusals.entry(text).or_default() += count;
        }
    }
}
