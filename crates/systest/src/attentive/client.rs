//! One client: what it calls, and what it makes of the answers.

use super::{AttentivePlan, AttentiveShared, Moment, Witnessed};
use crate::checkers::causal::{Act, CallAnswer, Deed};
use crate::client::{HttpResponse, Riak, RiakObject, RiakOutcome};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a client rests before it connects again.
const REST: Duration = Duration::from_millis(10);
/// How long one thinks between reading and writing what came of it.
const THINKING: Duration = Duration::from_millis(3);

/// A context, and the values it was given out with.
#[derive(Clone, Debug, Default)]
struct GivenContext {
    context: Option<String>,
    values: BTreeSet<String>,
}

pub(super) struct AttentiveClient {
    shared: Arc<AttentiveShared>,
    plan: AttentivePlan,
    dice: StdRng,
    /// The node it calls, counted round and round.
    at: usize,
    number: u32,
    written: u32,
    /// What it was last shown of each key.
    known: BTreeMap<String, GivenContext>,
    pub(super) history: Witnessed,
}

impl AttentiveClient {
    pub(super) fn new(
        shared: Arc<AttentiveShared>,
        plan: AttentivePlan,
        at: usize,
    ) -> AttentiveClient {
        let dice = StdRng::seed_from_u64(plan.seed.wrapping_mul(1009) ^ at as u64);
        let number = shared.numbers.fetch_add(1, Ordering::Relaxed);
        let (known, history) = (BTreeMap::new(), Witnessed::default());
        AttentiveClient { shared, plan, dice, at, number, written: 0, known, history }
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    /// Calls until told to stop; goes to the next node whenever one does not serve it.
    pub(super) fn work(&mut self) {
        let (home, after, clock) = (self.at, self.plan.returns, self.shared.clock);
        let returns = |left: Option<Duration>| match (left, after) {
            (Some(left), Some(after)) => clock.elapsed() >= left + after,
            _ => false,
        };
        // Since when it is away.
        let mut left = None;
        while !self.stopped() {
            if returns(left) {
                (self.at, left) = (home, None);
            }
            let address = self.shared.nodes[self.at % self.shared.nodes.len()];
            if let Ok(mut client) = Riak::with_patience(address, self.plan.patience) {
                while !self.stopped() && !returns(left) && self.choose(&mut client).is_ok() {
                    std::thread::sleep(self.plan.pause);
                }
            }
            self.at += 1;
            left = left.or(Some(clock.elapsed()));
            std::thread::sleep(REST);
        }
    }

    /// Does one thing; an error means that the client is not served here.
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
            // With whatever it knows, which others may have replaced long ago.
            _ => self.write(client, &key),
        }
    }

    fn read(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        let began = self.shared.clock.elapsed();
        let answer = client.fetch(&self.plan.place, key, "");
        let (told, found, ended) = match answer {
            Ok(RiakOutcome::Done(shown) | RiakOutcome::Absent(shown)) => {
                (CallAnswer::Done, Some(shown), Ok(()))
            }
            Ok(RiakOutcome::Other(answer)) => (self.says(&answer), None, Err(refused())),
            Err(error) => (CallAnswer::Unknown, None, Err(error)),
        };
        self.note(began, told);
        if let Some(shown) = found {
            let values = self.learn(key, shown);
            self.did(key, Act::Read(values), BTreeSet::new(), told);
        }
        ended
    }

    fn write(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        self.written += 1;
        let value = format!("{}.{}", self.number, self.written);
        let known = self.known.get(key).cloned().unwrap_or_default();
        let options = if self.dice.random_bool(0.25) { "returnbody=true" } else { "" };
        let how = (known.context.as_deref(), options);
        let began = self.shared.clock.elapsed();
        let answer = client.store(&self.plan.place, key, value.as_bytes(), how);
        let (told, shown, ended) = self.outcome(answer);
        self.note(began, told);
        self.did(key, Act::Write(value), known.values, told);
        if let Some(shown) = shown.filter(|shown| shown.context.is_some()) {
            let values = self.learn(key, shown);
            self.did(key, Act::Read(values), BTreeSet::new(), told);
        }
        ended
    }

    fn delete(&mut self, client: &mut Riak, key: &str) -> io::Result<()> {
        let Some(known) = self.known.get(key).cloned() else { return self.read(client, key) };
        if known.context.is_none() {
            return self.read(client, key);
        }
        let began = self.shared.clock.elapsed();
        let answer = client.remove(&self.plan.place, key, (known.context.as_deref(), ""));
        let (told, _, ended) = self.outcome(answer);
        self.note(began, told);
        self.did(key, Act::Delete, known.values, told);
        ended
    }

    /// What a change was told; one that found nothing to delete did nothing.
    fn outcome(
        &mut self,
        answer: io::Result<RiakOutcome>,
    ) -> (CallAnswer, Option<RiakObject>, io::Result<()>) {
        match answer {
            Ok(RiakOutcome::Done(shown)) => (CallAnswer::Done, Some(shown), Ok(())),
            Ok(RiakOutcome::Absent(_)) => (CallAnswer::Refused, None, Ok(())),
            Ok(RiakOutcome::Other(answer)) => (self.says(&answer), None, Err(refused())),
            Err(error) => (CallAnswer::Unknown, None, Err(error)),
        }
    }

    /// A client's mistake did nothing; what the server could not do may have been done in part.
    fn says(&mut self, answer: &HttpResponse) -> CallAnswer {
        let words: String = answer.text().lines().next().unwrap_or("").chars().take(90).collect();
        *self.history.words.entry(format!("{} {words}", answer.status)).or_default() += 1;
        if answer.status < 500 { CallAnswer::Refused } else { CallAnswer::Unknown }
    }

    fn learn(&mut self, key: &str, shown: RiakObject) -> BTreeSet<String> {
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
        let values: BTreeSet<_> = shown.values.iter().map(text).collect();
        let known = GivenContext { context: shown.context, values: values.clone() };
        self.known.insert(key.into(), known);
        values
    }

    fn did(&mut self, key: &str, act: Act, seen: BTreeSet<String>, told: CallAnswer) {
        self.history.deeds.push(Deed { key: key.into(), act, seen, told });
    }

    fn note(&mut self, began: Duration, told: CallAnswer) {
        let took = self.shared.clock.elapsed() - began;
        let at = self.at % self.shared.nodes.len();
        self.history.moments.push(Moment { began, took, at, told });
    }
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}
