//! Sibling client: draws calls, sends them, and records the answers.

use super::{SiblingAction, SiblingAnswer, SiblingHistory, SiblingOp, SiblingPlan};
use crate::client::{CallOutcome, HttpResponse, Riak, RiakObject, RiakOutcome};
use crate::workload::{WorkloadCall, WorkloadContext};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a client before it connects again.
const REST: Duration = Duration::from_millis(10);
/// Time between a client's read and the write that follows from it.
const THINKING: Duration = Duration::from_millis(3);

/// Context, and the values with which the server returned it.
#[derive(Clone, Debug, Default)]
struct GivenContext {
    context: Option<String>,
    values: BTreeSet<String>,
}

pub(super) struct SiblingClient {
    context: Arc<WorkloadContext>,
    plan: SiblingPlan,
    dice: StdRng,
    /// Number of the node that it calls; it wraps around the list of nodes.
    at: usize,
    number: u32,
    written: u32,
    /// Context and values that it last read of each key.
    known: BTreeMap<String, GivenContext>,
    pub(super) history: SiblingHistory,
}

impl SiblingClient {
    pub(super) fn new(
        context: Arc<WorkloadContext>,
        plan: SiblingPlan,
        at: usize,
    ) -> SiblingClient {
        let dice = StdRng::seed_from_u64(plan.seed.wrapping_mul(1009) ^ at as u64);
        let number = context.number();
        let (known, history) = (BTreeMap::new(), SiblingHistory::default());
        SiblingClient { context, plan, dice, at, number, written: 0, known, history }
    }

    fn stopped(&self) -> bool {
        self.context.stopped()
    }

    /// Calls until stopped; goes to the next node whenever one does not serve it.
    pub(super) fn work(&mut self) {
        let (home, after, context) = (self.at, self.plan.returns, self.context.clone());
        let returns = |left: Option<Duration>| match (left, after) {
            (Some(left), Some(after)) => context.elapsed() >= left + after,
            _ => false,
        };
        // Time at which the client left its own node. `None`: it is there.
        let mut left = None;
        while !self.stopped() {
            if returns(left) {
                (self.at, left) = (home, None);
            }
            let (_, address) = self.context.node(self.at);
            if let Ok(mut client) = Riak::with_patience(address, self.plan.patience) {
                while !self.stopped() && !returns(left) && self.choose(&mut client).is_ok() {
                    std::thread::sleep(self.plan.pause);
                }
            }
            self.at += 1;
            left = left.or(Some(context.elapsed()));
            std::thread::sleep(REST);
        }
    }

    /// Makes one draw of calls. Fails if the client is not served here.
    fn choose(&mut self, client: &mut Riak) -> io::Result<()> {
        let key = self.plan.key(self.dice.random_range(0..self.plan.keys));
        match self.dice.random_range(0..20) {
            0..5 => self.read(client, &key),
            5..14 => {
                self.read(client, &key)?;
                std::thread::sleep(THINKING);
                self.write(client, &key)
            }
            14..16 => {
                self.known.remove(&key);
                self.write(client, &key)
            }
            16..18 if self.plan.deletes => self.delete(client, &key),
            // Writes with the last context that it knows, which may be long outdated.
            _ => self.write(client, &key),
        }
    }

    fn read(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        let began = self.context.now();
        let (outcome, end) = match client.fetch(&self.plan.place, key, "") {
            Ok(RiakOutcome::Done(shown) | RiakOutcome::Absent(shown)) => {
                (CallOutcome::Acknowledged(Some(self.learn(key, shown))), Ok(()))
            }
            Ok(RiakOutcome::Other(answer)) => (self.failure(&answer), Err(refused())),
            Err(error) => (CallOutcome::Unknown, Err(error)),
        };
        self.record(began, (key, SiblingAction::Read, BTreeSet::new()), outcome);
        end
    }

    fn write(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        self.written += 1;
        let value = format!("{}.{}", self.number, self.written);
        let known = self.known.get(key).cloned().unwrap_or_default();
        let options = if self.dice.random_bool(0.25) { "returnbody=true" } else { "" };
        let how = (known.context.as_deref(), options);
        let began = self.context.now();
        let answer = client.store(&self.plan.place, key, value.as_bytes(), how);
        let (outcome, end) = self.change_outcome(answer);
        let outcome = outcome.map(|shown| shown.context.is_some().then(|| self.learn(key, shown)));
        self.record(began, (key, SiblingAction::Write(value), known.values), outcome);
        end
    }

    fn delete(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        let Some(known) = self.known.get(key).cloned() else { return self.read(client, key) };
        if known.context.is_none() {
            return self.read(client, key);
        }
        let began = self.context.now();
        let answer = client.remove(&self.plan.place, key, (known.context.as_deref(), ""));
        let (outcome, end) = self.change_outcome(answer);
        self.record(began, (key, SiblingAction::Delete, known.values), outcome.map(|_| None));
        end
    }

    /// Returns the outcome of a change; a delete of an absent key had no effect.
    fn change_outcome(
        &mut self,
        answer: io::Result<RiakOutcome>,
    ) -> (CallOutcome<RiakObject>, io::Result<()>) {
        match answer {
            Ok(RiakOutcome::Done(shown)) => (CallOutcome::Acknowledged(shown), Ok(())),
            Ok(RiakOutcome::Absent(_)) => (CallOutcome::Refused, Ok(())),
            Ok(RiakOutcome::Other(answer)) => (self.failure(&answer), Err(refused())),
            Err(error) => (CallOutcome::Unknown, Err(error)),
        }
    }

    /// Returns the outcome of a failed call. A client error had no effect; after a server error,
    /// some replicas may have executed the call.
    fn failure<A>(&mut self, answer: &HttpResponse) -> CallOutcome<A> {
        let words: String = answer.text().lines().next().unwrap_or("").chars().take(90).collect();
        *self.history.refusals.entry(format!("{} {words}", answer.status)).or_default() += 1;
        if answer.status < 500 { CallOutcome::Refused } else { CallOutcome::Unknown }
    }

    fn learn(&mut self, key: &str, shown: RiakObject) -> BTreeSet<String> {
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
        let values: BTreeSet<_> = shown.values.iter().map(text).collect();
        let known = GivenContext { context: shown.context, values: values.clone() };
        self.known.insert(key.into(), known);
        values
    }

    fn record(
        &mut self,
        began: u64,
        (key, action, seen): (&str, SiblingAction, BTreeSet<String>),
        outcome: CallOutcome<SiblingAnswer>,
    ) {
        let (ended, node) = (self.context.now(), self.context.node(self.at).0);
        let (client, op) = (self.number, SiblingOp { key: key.into(), action, seen });
        self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
    }
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}
