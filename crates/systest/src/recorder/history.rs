//! What clients saw: their calls, and what can be measured of them.

use crate::checkers::{CallOperation, CallOutcome, ClientCall};
use std::collections::BTreeMap;
use std::time::Duration;

/// What clients saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Their calls.
    pub calls: Vec<ClientCall>,
    /// Answers that no such call may get.
    pub strange: Vec<String>,
    /// Which node each client called, by the client's number; nodes count from 0.
    pub places: BTreeMap<u32, usize>,
}

impl History {
    /// How many calls were acknowledged, were refused, stay unknown.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |wanted: fn(&CallOutcome) -> bool| {
            self.calls.iter().filter(|call| wanted(&call.outcome)).count() as u64
        };
        let refused = count(|outcome| *outcome == CallOutcome::Refused);
        let unknown = count(|outcome| *outcome == CallOutcome::Unknown);
        (self.calls.len() as u64 - refused - unknown, refused, unknown)
    }

    /// When updates were acknowledged, in the recorder's time, in order.
    pub fn updates(&self) -> Vec<Duration> {
        let done = |call: &&ClientCall| match (&call.operation, &call.outcome) {
            (_, CallOutcome::Refused | CallOutcome::Unknown) | (CallOperation::Get, _) => false,
            (CallOperation::TestAndSet { expect, .. }, CallOutcome::Found(found)) => {
                expect == found
            }
            _ => true,
        };
        let ends = self.calls.iter().filter(done).map(|call| Duration::from_nanos(call.ended));
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        ends
    }

    /// The longest time between two moments in which no update was acknowledged.
    pub fn gap(&self, from: Duration, to: Duration) -> Duration {
        let within = self.updates().into_iter().filter(|at| (from..to).contains(at));
        let moments: Vec<_> = [from].into_iter().chain(within).chain([to]).collect();
        moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// How long each answered call of one node's clients took that began between two moments.
    pub fn times(&self, from: Duration, to: Duration, at: usize) -> Vec<Duration> {
        let mine = |call: &&ClientCall| {
            let began = Duration::from_nanos(call.began);
            call.is_known() && (from..to).contains(&began) && self.places[&call.client] == at
        };
        let calls = self.calls.iter().filter(mine);
        let mut times: Vec<_> =
            calls.map(|call| Duration::from_nanos(call.ended - call.began)).collect();
        times.sort_unstable();
        times
    }

    pub(super) fn join(&mut self, other: History) {
        self.calls.extend(other.calls);
        self.strange.extend(other.strange);
        self.places.extend(other.places);
    }
}
