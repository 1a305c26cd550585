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
const FAILOVER_PAUSE: Duration = Duration::from_millis(10);
/// Time between a client's read and the write that follows from it.
const READ_TO_WRITE_PAUSE: Duration = Duration::from_millis(3);

/// Context, and the values with which the server returned it.
#[derive(Clone, Debug, Default)]
struct ReadContext {
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
    known: BTreeMap<String, ReadContext>,
    pub(super) history: SiblingHistory,
}

impl SiblingClient {
    pub(super) fn new(
        context: Arc<WorkloadContext>,
        plan: SiblingPlan,
        at: usize,
    ) -> SiblingClient {
        let dice = StdRng::seed_from_u64(plan.seed.wrapping_mul(1009) ^ at as u64);
        let number = context.next_client_number();
        let (known, history) = (BTreeMap::new(), SiblingHistory::default());
        SiblingClient { context, plan, dice, at, number, written: 0, known, history }
    }

    fn is_stopped(&self) -> bool {
        self.context.is_stopped()
    }

    /// Calls until stopped; goes to the next node whenever one does not serve it.
    pub(super) fn run(&mut self) {
        let (own_node, return_delay, context) =
            (self.at, self.plan.return_delay, self.context.clone());
        let must_return = |left_at: Option<Duration>| match (left_at, return_delay) {
            (Some(left_at), Some(return_delay)) => context.elapsed() >= left_at + return_delay,
            _ => false,
        };
        // Time at which the client left its own node. `None`: it is there.
        let mut left_at = None;
        while !self.is_stopped() {
            if must_return(left_at) {
                (self.at, left_at) = (own_node, None);
            }
            let (_, address) = self.context.node(self.at);
            if let Ok(mut client) = Riak::with_timeout(address, self.plan.timeout) {
                while !self.is_stopped()
                    && !must_return(left_at)
                    && self.call_random(&mut client).is_ok()
                {
                    std::thread::sleep(self.plan.pause);
                }
            }
            self.at += 1;
            left_at = left_at.or(Some(context.elapsed()));
            std::thread::sleep(FAILOVER_PAUSE);
        }
    }

    /// Makes one draw of calls. Fails if the client is not served here.
    fn call_random(&mut self, client: &mut Riak) -> io::Result<()> {
        let key = self.plan.key(self.dice.random_range(0..self.plan.keys));
        match self.dice.random_range(0..20) {
            0..5 => self.read(client, &key),
            5..14 => {
                self.read(client, &key)?;
                std::thread::sleep(READ_TO_WRITE_PAUSE);
                self.write(client, &key)
            }
            14..16 => {
                self.known.remove(&key);
                self.write(client, &key)
            }
            16..18 if self.plan.deletes => self.delete(client, &key),
            // Writes with the context of the last read, which may be long outdated.
            _ => self.write(client, &key),
        }
    }

    fn read(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        let began = self.context.now();
        let (outcome, result) = match client.fetch(&self.plan.bucket_path, key, "") {
            Ok(RiakOutcome::Done(object) | RiakOutcome::Absent(object)) => {
                (CallOutcome::Acknowledged(Some(self.update_known(key, object))), Ok(()))
            }
            Ok(RiakOutcome::Other(answer)) => (self.failure(&answer), Err(not_served())),
            Err(error) => (CallOutcome::Unknown, Err(error)),
        };
        self.record(began, (key, SiblingAction::Read, BTreeSet::new()), outcome);
        result
    }

    fn write(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        self.written += 1;
        let value = format!("{}.{}", self.number, self.written);
        let known = self.known.get(key).cloned().unwrap_or_default();
        let options = if self.dice.random_bool(0.25) { "returnbody=true" } else { "" };
        let context_and_options = (known.context.as_deref(), options);
        let began = self.context.now();
        let answer =
            client.store(&self.plan.bucket_path, key, value.as_bytes(), context_and_options);
        let (outcome, result) = self.change_outcome(answer);
        let outcome =
            outcome.map(|object| object.context.is_some().then(|| self.update_known(key, object)));
        self.record(began, (key, SiblingAction::Write(value), known.values), outcome);
        result
    }

    fn delete(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        let Some(known) = self.known.get(key).cloned() else { return self.read(client, key) };
        if known.context.is_none() {
            return self.read(client, key);
        }
        let began = self.context.now();
        let answer = client.remove(&self.plan.bucket_path, key, (known.context.as_deref(), ""));
        let (outcome, result) = self.change_outcome(answer);
        self.record(began, (key, SiblingAction::Delete, known.values), outcome.map(|_| None));
        result
    }

    /// Returns the outcome of a change; a delete of an absent key had no effect.
    fn change_outcome(
        &mut self,
        answer: io::Result<RiakOutcome>,
    ) -> (CallOutcome<RiakObject>, io::Result<()>) {
        match answer {
            Ok(RiakOutcome::Done(object)) => (CallOutcome::Acknowledged(object), Ok(())),
            Ok(RiakOutcome::Absent(_)) => (CallOutcome::Refused, Ok(())),
            Ok(RiakOutcome::Other(answer)) => (self.failure(&answer), Err(not_served())),
            Err(error) => (CallOutcome::Unknown, Err(error)),
        }
    }

    /// Returns the outcome of a failed call. A client error had no effect; after a server error,
    /// some replicas may have executed the call.
    fn failure<A>(&mut self, answer: &HttpResponse) -> CallOutcome<A> {
        let text: String = answer.text().lines().next().unwrap_or("").chars().take(90).collect();
        *self.history.refusals.entry(format!("{} {text}", answer.status)).or_default() += 1;
        if answer.status < 500 { CallOutcome::Refused } else { CallOutcome::Unknown }
    }

    fn update_known(&mut self, key: &str, object: RiakObject) -> BTreeSet<String> {
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
        let values: BTreeSet<_> = object.values.iter().map(text).collect();
        let context = ReadContext { context: object.context, values: values.clone() };
        self.known.insert(key.into(), context);
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

fn not_served() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}
