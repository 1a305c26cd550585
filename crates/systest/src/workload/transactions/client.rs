//! Transaction client: draws transactions, sends them, and records the answers.

use super::front_ends::{self, FrontEndClient};
use super::{
    ANSWER_TIMEOUT, Level, StepAnswer, TransactionAnswer, TransactionHistory, TransactionOp,
    TransactionStep, resp_transaction,
};
use crate::client::{CallOutcome, Http, Resp};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::transactions::TransactionAnswer::{Done, Failed};
use crate::workload::{KeyValue, WorkloadCall, WorkloadContext};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a client between two transactions, and before it connects again.
const STEP_PAUSE: Duration = Duration::from_millis(4);
/// Number of attempts of an update in a session; its outcome is unknown afterwards.
const ATTEMPTS_MAX: usize = 12;
const REGISTERS: usize = 5;
/// Number of rows that expire: enough for each to stay unwritten for longer than its time to live.
const EXPIRING_ROWS: usize = 8;
const PAIRS: usize = 2;
const MEMBERS: usize = 6;
/// Time to live of rows that expire, in milliseconds.
const TTL_MS: u64 = 300;

pub(super) struct TransactionClient {
    context: Arc<WorkloadContext>,
    /// Prefix of every key.
    prefix: String,
    dice: StdRng,
    /// Number from which node and front-end are derived; both wrap around.
    at: usize,
    connection: u32,
    name: usize,
    written: u32,
    /// Highest index that an answer named.
    index: u64,
    session: Option<(u64, u64)>,
    pub history: TransactionHistory,
}

impl TransactionClient {
    pub fn new(
        context: Arc<WorkloadContext>,
        prefix: &str,
        at: usize,
        seed: u64,
    ) -> TransactionClient {
        let dice = StdRng::seed_from_u64(seed.wrapping_mul(1009) ^ at as u64);
        let (connection, history) = (context.next_client_number(), TransactionHistory::default());
        let (written, index, session, name, prefix) = (0, 0, None, at, prefix.to_string());
        TransactionClient {
            context,
            prefix,
            dice,
            at,
            connection,
            name,
            written,
            index,
            session,
            history,
        }
    }

    fn is_stopped(&self) -> bool {
        self.context.is_stopped()
    }

    /// Calls until stopped; after a refusal or a broken connection it goes to the next node and
    /// front-end.
    pub fn run(&mut self) {
        while !self.is_stopped() {
            // The node advances by one more after each round of front-ends, so that no front-end
            // stays bound to the same node.
            let node = self.at + self.at / front_ends::ROUND_LENGTH;
            let (_, address) = self.context.node(node);
            self.connection = self.context.next_client_number();
            if let Ok(mut client) = FrontEndClient::open(self.at, address) {
                for _ in 0..40 {
                    if self.is_stopped() {
                        return;
                    }
                    if let Err(error) = self.call_random(&mut client) {
                        if error.kind() == io::ErrorKind::InvalidData {
                            self.history.unexpected.push(error.to_string());
                        }
                        break;
                    }
                    std::thread::sleep(STEP_PAUSE);
                }
            }
            self.at += 1;
            std::thread::sleep(STEP_PAUSE);
        }
    }

    fn key(&mut self, kind: &str, count: usize) -> String {
        format!("{}-{kind}{}", self.prefix, self.dice.random_range(0..count))
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        format!("{}.{}", self.name, self.written).into_bytes()
    }

    fn level(&mut self) -> Level {
        match self.dice.random_range(0..10) {
            0 | 1 => Level::Dirty,
            2 if self.index > 0 => Level::AtLeast(self.index),
            _ => Level::Consistent,
        }
    }

    fn call_random(&mut self, client: &mut FrontEndClient) -> io::Result<()> {
        let roll = self.dice.random_range(0..10);
        match client {
            FrontEndClient::Resp(resp) if roll < 3 => {
                let steps: Vec<_> = (0..6).map(|_| self.draw_step(true)).collect();
                let began = self.context.now();
                let (outcomes, result) = front_ends::pipelined(resp, &steps);
                let is_broken = outcomes.contains(&CallOutcome::Unknown);
                for (step, outcome) in steps.into_iter().zip(outcomes) {
                    self.record(
                        vec![step],
                        Level::Consistent,
                        "resp pipeline",
                        began,
                        (outcome, None),
                    );
                }
                result.and(if is_broken {
                    Err(io::ErrorKind::ConnectionReset.into())
                } else {
                    Ok(())
                })
            }
            FrontEndClient::Resp(resp) if roll < 5 => self.watched_transaction(resp),
            FrontEndClient::Http(web) if roll < 7 => self.sequence(web),
            client => {
                let has_all_types =
                    matches!(client, FrontEndClient::Resp(_) | FrontEndClient::Http(_));
                let step = match client {
                    FrontEndClient::Http(_) if roll == 9 => TransactionStep::Range(self.members()),
                    _ => self.draw_step(has_all_types),
                };
                let is_read = matches!(step, TransactionStep::Get(_) | TransactionStep::Range(_));
                let level = if is_read && has_all_types { self.level() } else { Level::Consistent };
                let (name, began) = (client.name(), self.context.now());
                let answer = client.one(&step, level);
                self.record_answer(vec![step], level, name, began, answer)
            }
        }
    }

    /// Draws a read or write of one key. `has_all_types`: also of numbers and of rows that expire.
    fn draw_step(&mut self, has_all_types: bool) -> TransactionStep {
        let key = self.key("register", REGISTERS);
        match self.dice.random_range(0..if has_all_types { 10 } else { 5 }) {
            0..3 => TransactionStep::Get(key),
            3 | 4 => TransactionStep::Set(key, self.value(), None),
            5 => TransactionStep::Get(self.key("mortal", EXPIRING_ROWS)),
            6 => {
                TransactionStep::Set(self.key("mortal", EXPIRING_ROWS), self.value(), Some(TTL_MS))
            }
            7 => TransactionStep::Get(self.key("number", 2)),
            _ => TransactionStep::Add(self.key("number", 2), self.dice.random_range(1..5)),
        }
    }

    /// Sends a transaction that watches one key of a pair, or both, and writes one.
    fn watched_transaction(&mut self, resp: &mut Resp) -> io::Result<()> {
        let pair = self.key("pair", PAIRS);
        let mut sides = ["left", "right"].map(|side| format!("{pair}-{side}"));
        if self.dice.random_bool(0.5) {
            sides.reverse();
        }
        let watched = &sides[..self.dice.random_range(1..3)];
        let number = TransactionStep::Add(self.key("number", 2), 2);
        let write = TransactionStep::Set(sides[1].clone(), self.value(), None);
        let steps = vec![TransactionStep::Get(sides[0].clone()), write, number];
        // It begins with `WATCH`: whatever changes from then on may make it fail.
        let began = self.context.now();
        let (steps, answer) = resp_transaction::run(resp, watched, steps);
        self.record_answer(steps, Level::Consistent, "resp transaction", began, answer)
    }

    fn members(&self) -> String {
        format!("{}-member", self.prefix)
    }

    /// Sends a sequence; some of its assertions expect what was read just before.
    fn sequence(&mut self, web: &mut Http) -> io::Result<()> {
        let pair = self.key("pair", PAIRS);
        let [left, right] = ["left", "right"].map(|side| format!("{pair}-{side}"));
        match self.dice.random_range(0..7) {
            0..3 => {
                let rows = self.send_sequence(
                    web,
                    vec![TransactionStep::Get(left.clone()), TransactionStep::Get(right.clone())],
                )?;
                let value = self.value();
                let steps = match (self.dice.random_range(0..3), rows) {
                    (0, Some([one, _])) => {
                        vec![
                            TransactionStep::Assert(left, one),
                            TransactionStep::Set(right, value, None),
                        ]
                    }
                    (1, Some([_, other])) => {
                        vec![
                            TransactionStep::Assert(right, other),
                            TransactionStep::Set(left, value, None),
                        ]
                    }
                    (_, Some([one, other])) => vec![
                        TransactionStep::TestAndSet(left, one, value.clone()),
                        TransactionStep::TestAndSet(right, other, value),
                    ],
                    (_, None) => return Ok(()),
                };
                self.send_sequence(web, steps).map(drop)
            }
            3 => {
                let (member, value) = (self.key("member", MEMBERS), self.value());
                let register = TransactionStep::Set(self.key("register", REGISTERS), value, None);
                self.send_sequence(web, vec![TransactionStep::Delete(member), register]).map(drop)
            }
            4 => {
                let range = TransactionStep::Range(self.members());
                let began = self.context.now();
                let answer = FrontEndClient::one(
                    &mut FrontEndClient::Http(self.reconnect(web)?),
                    &range,
                    Level::Consistent,
                );
                let members = match &answer {
                    Ok((Acknowledged(Done(answers)), _)) => keys_of(answers),
                    _ => Vec::new(),
                };
                let other = self.context.next_client_number();
                let own_connection = std::mem::replace(&mut self.connection, other);
                let result =
                    self.record_answer(vec![range], Level::Consistent, "http", began, answer);
                self.connection = own_connection;
                result?;
                let (member, value) = (self.key("member", MEMBERS), self.value());
                let assertion = TransactionStep::AssertRange(self.members(), members);
                self.send_sequence(web, vec![assertion, TransactionStep::Set(member, value, None)])
                    .map(drop)
            }
            5 => self.add_in_session(),
            _ => {
                let number = TransactionStep::Add(self.key("number", 2), 3);
                let float = TransactionStep::AddFloat(self.key("float", 1), 0.25);
                let register =
                    TransactionStep::Set(self.key("register", REGISTERS), self.value(), None);
                self.send_sequence(web, vec![register, number, float]).map(drop)
            }
        }
    }

    /// Opens another connection to the same node.
    fn reconnect(&self, web: &Http) -> io::Result<Http> {
        let address =
            web.host().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Http::with_timeout(address, ANSWER_TIMEOUT)
    }

    /// Sends a sequence. Returns the two rows that it read. `None`: it did not read exactly two.
    fn send_sequence(
        &mut self,
        web: &mut Http,
        steps: Vec<TransactionStep>,
    ) -> io::Result<Option<[KeyValue; 2]>> {
        let began = self.context.now();
        let answer = front_ends::sequence(web, &steps, None);
        let rows = match &answer {
            Ok((Acknowledged(Done(answers)), _)) => match &answers[..] {
                [StepAnswer::Row(one), StepAnswer::Row(other)] => {
                    Some([one.clone(), other.clone()])
                }
                _ => None,
            },
            _ => None,
        };
        self.record_answer(steps, Level::Consistent, "http sequence", began, answer)?;
        Ok(rows)
    }

    /// Sends an update in a session to one node after another until it is answered. All attempts
    /// are one transaction, from the first attempt to the answer.
    fn add_in_session(&mut self) -> io::Result<()> {
        let connect = |at: usize| {
            let (_, address) = self.context.node(at);
            Http::with_timeout(address, ANSWER_TIMEOUT)
        };
        if self.session.is_none() {
            self.session = Some((front_ends::session(&mut connect(self.at)?)?, 0));
        }
        let Some((session, number)) = self.session.as_mut() else { return Ok(()) };
        *number += 1;
        let retry = (*session, *number);
        let key = format!("{}-number{}", self.prefix, self.dice.random_range(0..2));
        let steps = vec![TransactionStep::Add(key, 1)];
        let (began, mut outcome_and_index) = (self.context.now(), (CallOutcome::Refused, None));
        for at in self.at..self.at + ATTEMPTS_MAX {
            let answer =
                connect(at).and_then(|mut web| front_ends::sequence(&mut web, &steps, Some(retry)));
            match answer {
                Ok((CallOutcome::Refused, _)) => {}
                Ok((CallOutcome::Unknown, _)) => outcome_and_index.0 = CallOutcome::Unknown,
                Ok(final_answer) => {
                    outcome_and_index = final_answer;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => outcome_and_index.0 = CallOutcome::Unknown,
            }
            std::thread::sleep(10 * STEP_PAUSE);
        }
        if outcome_and_index.0 == CallOutcome::Unknown
            || outcome_and_index.0 == CallOutcome::Refused
        {
            // An attempt without an answer may still be in flight.
            (self.session, outcome_and_index.0) = (None, CallOutcome::Unknown);
        }
        let other = self.context.next_client_number();
        let own_connection = std::mem::replace(&mut self.connection, other);
        self.record(steps, Level::Consistent, "http session", began, outcome_and_index);
        self.connection = own_connection;
        Ok(())
    }

    /// Records a transaction. Fails if this node does not serve the client any more.
    fn record_answer(
        &mut self,
        steps: Vec<TransactionStep>,
        level: Level,
        front_end: &'static str,
        began: u64,
        protocol_answer: front_ends::ProtocolAnswer,
    ) -> io::Result<()> {
        let (answer, result) = match protocol_answer {
            Ok((outcome, index)) => {
                let keeps_connection =
                    matches!(outcome, Acknowledged(Done(_)) | Acknowledged(Failed))
                        || level != Level::Consistent;
                let result =
                    if keeps_connection { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) };
                ((outcome, index), result)
            }
            Err(error) => ((CallOutcome::Unknown, None), Err(error)),
        };
        self.record(steps, level, front_end, began, answer);
        result
    }

    fn record(
        &mut self,
        steps: Vec<TransactionStep>,
        level: Level,
        front_end: &'static str,
        began: u64,
        (outcome, index): (CallOutcome<TransactionAnswer>, Option<u64>),
    ) {
        self.index = self.index.max(index.unwrap_or(0));
        let (client, ended) = (self.connection, self.context.now());
        let node = self.context.node(self.at + self.at / front_ends::ROUND_LENGTH).0;
        let op = TransactionOp { steps, level, front_end, index };
        self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
    }
}

fn keys_of(answers: &[StepAnswer]) -> Vec<String> {
    match answers {
        [StepAnswer::Rows(rows)] => rows.iter().map(|(key, _)| key.clone()).collect(),
        _ => Vec::new(),
    }
}
