//! Register client: draws calls, sends them, and records the answers.

use super::Failover;
use super::RegisterAnswer::{Done, Existed, Found};
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
const RECONNECT_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct RegisterClient {
    context: Arc<WorkloadContext>,
    plan: RegisterPlan,
    dice: StdRng,
    /// Number of the node that it calls; it wraps around the list of nodes.
    at: usize,
    number: u32,
    /// Number under which the second call of a pair is recorded.
    pair_number: u32,
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
        let (number, pair_number, written) = (0, 0, 0);
        let mut client = RegisterClient {
            context,
            plan,
            dice,
            at,
            number,
            pair_number,
            written,
            known,
            history,
        };
        client.switch_node(at);
        client
    }

    /// Continues at a node, under new client numbers.
    pub(super) fn switch_node(&mut self, at: usize) {
        (self.at, self.number, self.pair_number) =
            (at, self.context.next_client_number(), self.context.next_client_number());
    }

    fn is_stopped(&self) -> bool {
        self.context.is_stopped()
    }

    /// Calls until stopped; reconnects whenever the connection breaks.
    pub(super) fn run(&mut self) {
        while !self.is_stopped() {
            let (_, address) = self.context.node(self.at);
            if let Ok(mut connection) = Resp::with_timeout(address, self.plan.timeout) {
                while !self.is_stopped() && self.call_random(&mut connection).is_ok() {
                    std::thread::sleep(self.plan.pause);
                }
            }
            if self.plan.failover == Failover::NextNode {
                self.switch_node(self.at + 1);
            }
            std::thread::sleep(RECONNECT_PAUSE);
        }
    }

    /// Makes one call. Fails if the client is not served here.
    fn call_random(&mut self, connection: &mut Resp) -> io::Result<()> {
        let calls_before = self.history.calls.len();
        if self.plan.pairs > 0 && self.dice.random_bool(0.2) {
            let keys = self.plan.pair(self.dice.random_range(0..self.plan.pairs));
            let action = match self.dice.random_bool(0.5) {
                true => RegisterAction::Put(self.value()),
                false => RegisterAction::Get,
            };
            self.call_pair(connection, keys, action)?;
        } else {
            let key = self.plan.key(self.dice.random_range(0..self.plan.keys));
            let operation = self.operation(&key);
            self.call(connection, key, operation)?;
        }
        let refused = self.history.calls[calls_before..]
            .iter()
            .any(|call| call.outcome == CallOutcome::Refused);
        if refused && self.plan.failover == Failover::NextNode {
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
        action: RegisterAction,
    ) -> io::Result<()> {
        let args = command_args(&key, &action);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let began = self.context.now();
        let answer = connection.call(&args);
        let ended = self.context.now();
        let (outcome, result) = match answer {
            Ok(reply) => match outcome(&action, &reply) {
                Some(outcome) => (outcome, Ok(())),
                None => {
                    self.history
                        .unexpected
                        .push(format!("{key}: {action:?} was answered {reply:?}"));
                    (CallOutcome::Unknown, Err(io::ErrorKind::InvalidData.into()))
                }
            },
            Err(error) => (CallOutcome::Unknown, Err(error)),
        };
        self.update_known(&key, &action, &outcome);
        let (client, unknown) = (self.number, outcome == CallOutcome::Unknown);
        let (node, op) = (self.context.node(self.at).0, RegisterOp { key, action });
        self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
        if unknown {
            self.switch_node(self.at);
        }
        result
    }

    /// Reads or writes a pair of keys, which must hold equal values at any time. Records one call
    /// of each key. Fails if the connection can't be used any more.
    pub(super) fn call_pair(
        &mut self,
        connection: &mut Resp,
        keys: [String; 2],
        action: RegisterAction,
    ) -> io::Result<()> {
        let [left, right] = [keys[0].as_bytes(), keys[1].as_bytes()];
        let began = self.context.now();
        let answer = match &action {
            RegisterAction::Put(value) => connection.call(&[b"MSET", left, value, right, value]),
            _ => connection.call(&[b"MGET", left, right]),
        };
        let ended = self.context.now();
        let (outcome, result) = match answer {
            Ok(reply) => match pair_outcome(&action, &reply) {
                Some(outcome) => (outcome, Ok(())),
                None => {
                    self.history.unexpected.push(format!("{keys:?}: {action:?} got {reply:?}"));
                    (CallOutcome::Unknown, Err(io::ErrorKind::InvalidData.into()))
                }
            },
            Err(error) => (CallOutcome::Unknown, Err(error)),
        };
        let node = self.context.node(self.at).0;
        for (client, key) in [self.number, self.pair_number].into_iter().zip(keys) {
            let (op, outcome) = (RegisterOp { key, action: action.clone() }, outcome.clone());
            self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
        }
        if outcome == CallOutcome::Unknown {
            self.switch_node(self.at);
        }
        result
    }

    fn update_known(
        &mut self,
        key: &str,
        action: &RegisterAction,
        outcome: &CallOutcome<RegisterAnswer>,
    ) {
        let value = match (action, outcome) {
            (RegisterAction::TestAndSet { expect, wanted }, Acknowledged(Found(old))) => {
                if old == expect { wanted.clone() } else { old.clone() }
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
fn command_args(key: &str, action: &RegisterAction) -> Vec<Vec<u8>> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let value = |value: &KeyValue| match value {
        Some(value) => vec![bytes("VALUE"), value.clone()],
        None => vec![bytes("ABSENT")],
    };
    match action {
        RegisterAction::Get => vec![bytes("GET"), bytes(key)],
        RegisterAction::Put(value) => vec![bytes("SET"), bytes(key), value.clone()],
        RegisterAction::Delete => vec![bytes("DEL"), bytes(key)],
        RegisterAction::TestAndSet { expect, wanted } => {
            [vec![bytes("CREDENZA.TAS"), bytes(key)], value(expect), value(wanted)].concat()
        }
    }
}

/// Returns the outcome of a call of a pair, for each key. `None`: the values differ, or the reply
/// does not fit the call.
fn pair_outcome(action: &RegisterAction, reply: &RespReply) -> Option<CallOutcome<RegisterAnswer>> {
    match (reply.outcome(), action, reply.list()) {
        (CallOutcome::Unknown, ..) => Some(CallOutcome::Unknown),
        (CallOutcome::Refused, ..) => Some(CallOutcome::Refused),
        (_, RegisterAction::Get, [RespReply::Bulk(left), RespReply::Bulk(right)])
            if left == right =>
        {
            Some(Acknowledged(Found(left.clone())))
        }
        (_, RegisterAction::Put(_), []) if *reply == RespReply::Simple("OK".into()) => {
            Some(Acknowledged(Done))
        }
        _ => None,
    }
}

/// Returns the outcome of a call. `None`: the reply does not fit the call.
fn outcome(action: &RegisterAction, reply: &RespReply) -> Option<CallOutcome<RegisterAnswer>> {
    match (reply.outcome(), action, reply) {
        (CallOutcome::Unknown, ..) => Some(CallOutcome::Unknown),
        (CallOutcome::Refused, ..) => Some(CallOutcome::Refused),
        (_, RegisterAction::Get | RegisterAction::TestAndSet { .. }, RespReply::Bulk(found)) => {
            Some(Acknowledged(Found(found.clone())))
        }
        (_, RegisterAction::Put(_), RespReply::Simple(text)) if text == "OK" => {
            Some(Acknowledged(Done))
        }
        (_, RegisterAction::Delete, RespReply::Number(count @ 0..=1)) => {
            Some(Acknowledged(Existed(*count == 1)))
        }
        _ => None,
    }
}
