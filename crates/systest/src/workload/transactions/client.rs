//! Transaction client: draws transactions, sends them, and records the answers.

use super::front_ends::{self, FrontEndClient};
use super::{
    Level, PATIENCE, StepAnswer, TransactionAnswer, TransactionHistory, TransactionOp,
    TransactionStep,
};
use crate::client::{CallOutcome, Http};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::transactions::TransactionAnswer::{Done, Failed};
use crate::workload::{KeyValue, WorkloadCall, WorkloadContext};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a client between two transactions, and before it connects again.
const PAUSE: Duration = Duration::from_millis(4);
/// Number of attempts of an update in a session; its outcome is unknown afterwards.
const TRIES_MAX: usize = 12;
const REGISTERS: usize = 5;
/// Number of rows that expire: enough for each to stay unwritten for longer than its time to live.
const MORTALS: usize = 8;
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
        let (connection, history) = (context.number(), TransactionHistory::default());
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

    fn stopped(&self) -> bool {
        self.context.stopped()
    }

    /// Calls until stopped; after a refusal or a broken connection it goes to the next node and
    /// front-end.
    pub fn work(&mut self) {
        while !self.stopped() {
            // The node advances by one more after each round of front-ends, so that no front-end
            // stays bound to the same node.
            let node = self.at + self.at / front_ends::KINDS;
            let (_, address) = self.context.node(node);
            self.connection = self.context.number();
            if let Ok(mut client) = FrontEndClient::open(self.at, address) {
                for _ in 0..40 {
                    if self.stopped() {
                        return;
                    }
                    if let Err(error) = self.choose(&mut client) {
                        if error.kind() == io::ErrorKind::InvalidData {
                            self.history.strange.push(error.to_string());
                        }
                        break;
                    }
                    std::thread::sleep(PAUSE);
                }
            }
            self.at += 1;
            std::thread::sleep(PAUSE);
        }
    }

    fn key(&mut self, kind: &str, many: usize) -> String {
        format!("{}-{kind}{}", self.prefix, self.dice.random_range(0..many))
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

    fn choose(&mut self, client: &mut FrontEndClient) -> io::Result<()> {
        let roll = self.dice.random_range(0..10);
        match client {
            FrontEndClient::Resp(resp) if roll < 3 => {
                let steps: Vec<_> = (0..6).map(|_| self.plain(true)).collect();
                let began = self.context.now();
                let (outcomes, end) = front_ends::pipelined(resp, &steps);
                let broken = outcomes.contains(&CallOutcome::Unknown);
                for (step, outcome) in steps.into_iter().zip(outcomes) {
                    self.note(
                        vec![step],
                        Level::Consistent,
                        "resp pipeline",
                        began,
                        (outcome, None),
                    );
                }
                end.and(if broken { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) })
            }
            FrontEndClient::Http(web) if roll < 7 => self.sequence(web),
            client => {
                let rich = matches!(client, FrontEndClient::Resp(_) | FrontEndClient::Http(_));
                let step = match client {
                    FrontEndClient::Http(_) if roll == 9 => TransactionStep::Range(self.members()),
                    _ => self.plain(rich),
                };
                let reads = matches!(step, TransactionStep::Get(_) | TransactionStep::Range(_));
                let level = if reads && rich { self.level() } else { Level::Consistent };
                let (name, began) = (client.name(), self.context.now());
                let answered = client.one(&step, level);
                self.answered(vec![step], level, name, began, answered)
            }
        }
    }

    /// Draws a read or write of one key. `rich`: also of numbers and of rows that expire.
    fn plain(&mut self, rich: bool) -> TransactionStep {
        let key = self.key("register", REGISTERS);
        match self.dice.random_range(0..if rich { 10 } else { 5 }) {
            0..3 => TransactionStep::Get(key),
            3 | 4 => TransactionStep::Set(key, self.value(), None),
            5 => TransactionStep::Get(self.key("mortal", MORTALS)),
            6 => TransactionStep::Set(self.key("mortal", MORTALS), self.value(), Some(TTL_MS)),
            7 => TransactionStep::Get(self.key("number", 2)),
            _ => TransactionStep::Add(self.key("number", 2), self.dice.random_range(1..5)),
        }
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
                let seen = self.sent(
                    web,
                    vec![TransactionStep::Get(left.clone()), TransactionStep::Get(right.clone())],
                )?;
                let value = self.value();
                let steps = match (self.dice.random_range(0..3), seen) {
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
                self.sent(web, steps).map(drop)
            }
            3 => {
                let (member, value) = (self.key("member", MEMBERS), self.value());
                let tag = TransactionStep::Set(self.key("register", REGISTERS), value, None);
                self.sent(web, vec![TransactionStep::Delete(member), tag]).map(drop)
            }
            4 => {
                let range = TransactionStep::Range(self.members());
                let began = self.context.now();
                let answered = FrontEndClient::one(
                    &mut FrontEndClient::Http(self.again(web)?),
                    &range,
                    Level::Consistent,
                );
                let there = match &answered {
                    Ok((Acknowledged(Done(said)), _)) => keys(said),
                    _ => Vec::new(),
                };
                let other = self.context.number();
                let mine = std::mem::replace(&mut self.connection, other);
                let noted = self.answered(vec![range], Level::Consistent, "http", began, answered);
                self.connection = mine;
                noted?;
                let (member, value) = (self.key("member", MEMBERS), self.value());
                let must = TransactionStep::AssertRange(self.members(), there);
                self.sent(web, vec![must, TransactionStep::Set(member, value, None)]).map(drop)
            }
            5 => self.retried(),
            _ => {
                let number = TransactionStep::Add(self.key("number", 2), 3);
                let float = TransactionStep::AddFloat(self.key("float", 1), 0.25);
                let tag = TransactionStep::Set(self.key("register", REGISTERS), self.value(), None);
                self.sent(web, vec![tag, number, float]).map(drop)
            }
        }
    }

    /// Opens another connection to the same node.
    fn again(&self, web: &Http) -> io::Result<Http> {
        let address =
            web.host().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Http::with_patience(address, PATIENCE)
    }

    /// Sends a sequence. Returns the two rows that it read. `None`: it did not read exactly two.
    fn sent(
        &mut self,
        web: &mut Http,
        steps: Vec<TransactionStep>,
    ) -> io::Result<Option<[KeyValue; 2]>> {
        let began = self.context.now();
        let answered = front_ends::sequence(web, &steps, None);
        let rows = match &answered {
            Ok((Acknowledged(Done(said)), _)) => match &said[..] {
                [StepAnswer::Row(one), StepAnswer::Row(other)] => {
                    Some([one.clone(), other.clone()])
                }
                _ => None,
            },
            _ => None,
        };
        self.answered(steps, Level::Consistent, "http sequence", began, answered)?;
        Ok(rows)
    }

    /// Sends an update in a session to one node after another until it is answered. All attempts
    /// are one transaction, from the first attempt to the answer.
    fn retried(&mut self) -> io::Result<()> {
        let connect = |at: usize| {
            let (_, address) = self.context.node(at);
            Http::with_patience(address, PATIENCE)
        };
        if self.session.is_none() {
            self.session = Some((front_ends::session(&mut connect(self.at)?)?, 0));
        }
        let Some((session, number)) = self.session.as_mut() else { return Ok(()) };
        *number += 1;
        let retry = (*session, *number);
        let key = format!("{}-number{}", self.prefix, self.dice.random_range(0..2));
        let steps = vec![TransactionStep::Add(key, 1)];
        let (began, mut last) = (self.context.now(), (CallOutcome::Refused, None));
        for at in self.at..self.at + TRIES_MAX {
            let answered =
                connect(at).and_then(|mut web| front_ends::sequence(&mut web, &steps, Some(retry)));
            match answered {
                Ok((CallOutcome::Refused, _)) => {}
                Ok((CallOutcome::Unknown, _)) => last.0 = CallOutcome::Unknown,
                Ok(done) => {
                    last = done;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => last.0 = CallOutcome::Unknown,
            }
            std::thread::sleep(10 * PAUSE);
        }
        if last.0 == CallOutcome::Unknown || last.0 == CallOutcome::Refused {
            // An attempt without an answer may still be in flight.
            (self.session, last.0) = (None, CallOutcome::Unknown);
        }
        let other = self.context.number();
        let mine = std::mem::replace(&mut self.connection, other);
        self.note(steps, Level::Consistent, "http session", began, last);
        self.connection = mine;
        Ok(())
    }

    /// Records a transaction. Fails if this node does not serve the client any more.
    fn answered(
        &mut self,
        steps: Vec<TransactionStep>,
        level: Level,
        front_end: &'static str,
        began: u64,
        answered: front_ends::ProtocolAnswer,
    ) -> io::Result<()> {
        let (answer, end) = match answered {
            Ok((outcome, index)) => {
                let goes_on = matches!(outcome, Acknowledged(Done(_)) | Acknowledged(Failed))
                    || level != Level::Consistent;
                let end = if goes_on { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) };
                ((outcome, index), end)
            }
            Err(error) => ((CallOutcome::Unknown, None), Err(error)),
        };
        self.note(steps, level, front_end, began, answer);
        end
    }

    fn note(
        &mut self,
        steps: Vec<TransactionStep>,
        level: Level,
        front_end: &'static str,
        began: u64,
        (outcome, index): (CallOutcome<TransactionAnswer>, Option<u64>),
    ) {
        self.index = self.index.max(index.unwrap_or(0));
        let (client, ended) = (self.connection, self.context.now());
        let node = self.context.node(self.at + self.at / front_ends::KINDS).0;
        let op = TransactionOp { steps, level, front_end, index };
        self.history.calls.push(WorkloadCall { client, node, op, outcome, began, ended });
    }
}

fn keys(said: &[StepAnswer]) -> Vec<String> {
    match said {
        [StepAnswer::Rows(rows)] => rows.iter().map(|(key, _)| key.clone()).collect(),
        _ => Vec::new(),
    }
}
