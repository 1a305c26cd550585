//! Register client: draws calls, sends them, and records the answers.

use super::RegisterAnswer::{Done, Existed, Found};
use super::Turns;
use super::{RegisterAction, RegisterAnswer, RegisterHistory, RegisterOp, RegisterPlan};
use crate::client::{CallOutcome, Resp, RespReply};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::{KeyValue, WorkloadCall, WorkloadContext};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a client before it connects again.
const REST: Duration = Duration::from_millis(5);

pub(super) struct RegisterClient {
    context: Arc<WorkloadContext>,
    plan: RegisterPlan,
    dice: StdRng,
    /// Number of the node that it calls; it wraps around the list of nodes.
    at: usize,
    number: u32,
    /// Number under which the second call of a pair is recorded.
    second: u32,
    written: u32,
    /// Last known value of each key: the expected value of a test-and-set.
    known: BTreeMap<String, KeyValue>,
    pub(super) history: RegisterHistory,
}

impl RegisterClient {
    pub(super) fn new(
        context: Arc<WorkloadContext>,
        plan: RegisterPlan,
        at: usize,
    ) -> RegisterClient {
        let dice = StdRng::seed_from_u64(plan.seed.wrapping_mul(1009) ^ at as u64);
        let (known, history) = (BTreeMap::new(), RegisterHistory::default());
        let (number, second, written) = (0, 0, 0);
        let mut client =
            RegisterClient { context, plan, dice, at, number, second, written, known, history };
        client.arrive(at);
        client
    }

    /// Continues at a node, under new client numbers.
    pub(super) fn arrive(&mut self, at: usize) {
        (self.at, self.number, self.second) = (at, self.context.number(), self.context.number());
    }

    fn stopped(&self) -> bool {
        self.context.stopped()
    }

    /// Calls until stopped; reconnects whenever the connection breaks.
    pub(super) fn work(&mut self) {
        while !self.stopped() {
            let (_, address) = self.context.node(self.at);
            if let Ok(mut connection) = Resp::with_patience(address, self.plan.patience) {
                while !self.stopped() && self.choose(&mut connection).is_ok() {
                    std::thread::sleep(self.plan.pause);
                }
            }
            if self.plan.turns == Turns::On {
                self.arrive(self.at + 1);
            }
            std::thread::sleep(REST);
        }
    }

    /// Makes one call. Fails if the client is not served here.
    fn choose(&mut self, connection: &mut Resp) -> io::Result<()> {
        let known = self.history.calls.len();
        if self.plan.pairs > 0 && self.dice.random_bool(0.2) {
            let keys = self.plan.pair(self.dice.random_range(0..self.plan.pairs));
            let what = match self.dice.random_bool(0.5) {
                true => RegisterAction::Put(self.value()),
                false => RegisterAction::Get,
            };
            self.call_pair(connection, keys, what)?;
        } else {
            let key = self.plan.key(self.dice.random_range(0..self.plan.keys));
            let operation = self.operation(&key);
            self.call(connection, key, operation)?;
        }
        let refused =
            self.history.calls[known..].iter().any(|call| call.outcome == CallOutcome::Refused);
        if refused && self.plan.turns == Turns::On {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(())
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        format!("{}.{}", self.number, self.written).into_bytes()
    }

    fn operation(&mut self, key: &str) -> RegisterAction {
        match self.dice.random_range(0..20) {
            0..8 => RegisterAction::Get,
            8..14 => RegisterAction::Put(self.value()),
            14..16 => RegisterAction::Delete,
            roll => {
                let expect = self.known.get(key).cloned().flatten();
                let wanted = if roll == 19 { None } else { Some(self.value()) };
                RegisterAction::TestAndSet { expect, wanted }
            }
        }
    }

    /// Makes one call and records it, whatever its outcome. Fails if the connection can't be used
    /// any more.
    pub(super) fn call(
        &mut self,
        connection: &mut Resp,
        key: String,
        what: RegisterAction,
    ) -> io::Result<()> {
        let words = words(&key, &what);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let began = self.context.now();
        let answer = connection.call(&words);
        let ended = self.context.now();
        let (outcome, broken) = match answer {
            Ok(word) => match outcome(&what, &word) {
                Some(outcome) => (outcome, Ok(())),
                None => {
                    self.history.strange.push(format!("{key}: {what:?} was answered {word:?}"));
                    (CallOutcome::Unknown, Err(io::ErrorKind::InvalidData.into()))
                }
            },
            Err(error) => (CallOutcome::Unknown, Err(error)),
        };
        self.learn(&key, &what, &outcome);
        let (client, unknown) = (self.number, outcome == CallOutcome::Unknown);
        let (node, op) = (self.context.node(self.at).0, RegisterOp { key, action: what });
        self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
        if unknown {
            self.arrive(self.at);
        }
        broken
    }

    /// Reads or writes a pair of keys, which must hold equal values at any time. Records one call
    /// of each key. Fails if the connection can't be used any more.
    pub(super) fn call_pair(
        &mut self,
        connection: &mut Resp,
        keys: [String; 2],
        what: RegisterAction,
    ) -> io::Result<()> {
        let [left, right] = [keys[0].as_bytes(), keys[1].as_bytes()];
        let began = self.context.now();
        let answer = match &what {
            RegisterAction::Put(value) => connection.call(&[b"MSET", left, value, right, value]),
            _ => connection.call(&[b"MGET", left, right]),
        };
        let ended = self.context.now();
        let (outcome, broken) = match answer {
            Ok(word) => match pair_outcome(&what, &word) {
                Some(outcome) => (outcome, Ok(())),
                None => {
                    self.history.strange.push(format!("{keys:?}: {what:?} got {word:?}"));
                    (CallOutcome::Unknown, Err(io::ErrorKind::InvalidData.into()))
                }
            },
            Err(error) => (CallOutcome::Unknown, Err(error)),
        };
        let node = self.context.node(self.at).0;
        for (client, key) in [self.number, self.second].into_iter().zip(keys) {
            let (op, outcome) = (RegisterOp { key, action: what.clone() }, outcome.clone());
            self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
        }
        if outcome == CallOutcome::Unknown {
            self.arrive(self.at);
        }
        broken
    }

    fn learn(&mut self, key: &str, what: &RegisterAction, outcome: &CallOutcome<RegisterAnswer>) {
        let value = match (what, outcome) {
            (RegisterAction::TestAndSet { expect, wanted }, Acknowledged(Found(found))) => {
                if found == expect { wanted.clone() } else { found.clone() }
            }
            (_, Acknowledged(Found(value))) => value.clone(),
            (RegisterAction::Put(value), Acknowledged(Done)) => Some(value.clone()),
            (RegisterAction::Delete, Acknowledged(Existed(_))) => None,
            _ => return,
        };
        self.known.insert(key.into(), value);
    }
}

/// Returns the command of a call.
fn words(key: &str, what: &RegisterAction) -> Vec<Vec<u8>> {
    let said = |word: &str| word.as_bytes().to_vec();
    let value = |value: &KeyValue| match value {
        Some(value) => vec![said("VALUE"), value.clone()],
        None => vec![said("ABSENT")],
    };
    match what {
        RegisterAction::Get => vec![said("GET"), said(key)],
        RegisterAction::Put(value) => vec![said("SET"), said(key), value.clone()],
        RegisterAction::Delete => vec![said("DEL"), said(key)],
        RegisterAction::TestAndSet { expect, wanted } => {
            [vec![said("CREDENZA.TAS"), said(key)], value(expect), value(wanted)].concat()
        }
    }
}

/// Returns the outcome of a call of a pair, for each key. `None`: the values differ, or the reply
/// does not fit the call.
fn pair_outcome(what: &RegisterAction, word: &RespReply) -> Option<CallOutcome<RegisterAnswer>> {
    match (word.outcome(), what, word.list()) {
        (CallOutcome::Unknown, ..) => Some(CallOutcome::Unknown),
        (CallOutcome::Refused, ..) => Some(CallOutcome::Refused),
        (_, RegisterAction::Get, [RespReply::Bulk(left), RespReply::Bulk(right)])
            if left == right =>
        {
            Some(Acknowledged(Found(left.clone())))
        }
        (_, RegisterAction::Put(_), []) if *word == RespReply::Simple("OK".into()) => {
            Some(Acknowledged(Done))
        }
        _ => None,
    }
}

/// Returns the outcome of a call. `None`: the reply does not fit the call.
fn outcome(what: &RegisterAction, word: &RespReply) -> Option<CallOutcome<RegisterAnswer>> {
    match (word.outcome(), what, word) {
        (CallOutcome::Unknown, ..) => Some(CallOutcome::Unknown),
        (CallOutcome::Refused, ..) => Some(CallOutcome::Refused),
        (_, RegisterAction::Get | RegisterAction::TestAndSet { .. }, RespReply::Bulk(found)) => {
            Some(Acknowledged(Found(found.clone())))
        }
        (_, RegisterAction::Put(_), RespReply::Simple(said)) if said == "OK" => {
            Some(Acknowledged(Done))
        }
        (_, RegisterAction::Delete, RespReply::Number(count @ 0..=1)) => {
            Some(Acknowledged(Existed(*count == 1)))
        }
        _ => None,
    }
}
