//! What comes of an answer: the next call of the operation, or its result.

use super::asking::{REMEMBERED_MAX, State};
use super::clients::Flight;
use super::record::{Recorder, Result as Outcome};
use crate::config::Operation;
use crate::drivers::{Answer, Driver, Failure};
use crate::generators::sealed_for;
use std::time::{Duration, Instant};

/// How long a client whose connection is lost waits before it tries again.
const REST: Duration = Duration::from_millis(100);

impl State<'_> {
    /// Takes the answer of a client's oldest call.
    pub fn answered(
        &mut self,
        client: usize,
        at: Instant,
        answer: Result<Answer<'_>, Failure>,
        recorder: &mut Recorder,
    ) {
        let Some(mut flight) = self.clients[client].flights.pop_front() else { return };
        let operation = self.config.operations[flight.operation].operation;
        let result = match &answer {
            Err(failure) => {
                self.failed = true;
                self.clients[client].lost |= failure.lost;
                Outcome::Error(&failure.kind)
            }
            Ok(answer) => self.judge(operation, &mut flight, answer),
        };
        let goes_on = operation == Operation::Update && flight.stage == 0;
        if goes_on && !matches!(result, Outcome::Error(_)) {
            flight.stage = 1;
            return self.next_calls.push((client, flight));
        }
        recorder.record(flight.operation, flight.intended, flight.sent, at, &result);
        self.landed(client);
        self.free(client, at);
    }

    fn judge(
        &mut self,
        operation: Operation,
        flight: &mut Flight,
        answer: &Answer<'_>,
    ) -> Outcome<'static> {
        match (operation, answer) {
            (Operation::GetExisting, Answer::Value(None)) => self.wrong("not_found"),
            (_, Answer::Value(None)) => Outcome::Missing,
            (_, Answer::Value(Some(value))) if self.config.verify => {
                self.key.clear();
                self.config.key_generator.shape.write(flight.number, &mut self.key);
                if sealed_for(&self.key, value) { Outcome::Ok } else { self.wrong("wrong_value") }
            }
            (Operation::Exists, Answer::Count(0)) => Outcome::Missing,
            (Operation::TestAndSet, answer) => self.swapped(flight, answer),
            _ => Outcome::Ok,
        }
    }

    fn wrong(&mut self, kind: &'static str) -> Outcome<'static> {
        self.failed = true;
        Outcome::Error(kind)
    }

    fn swapped(&mut self, flight: &mut Flight, answer: &Answer<'_>) -> Outcome<'static> {
        let Some(swap) = flight.swap.take() else { return Outcome::Ok };
        let (applied, now) = match answer {
            Answer::Swapped(true) => (true, Some(swap.wanted)),
            Answer::Swapped(false) => (false, None),
            Answer::Old(old) if old.as_deref() == swap.expected.as_deref() => {
                (true, Some(swap.wanted))
            }
            Answer::Old(old) => (false, old.as_deref().map(<[u8]>::to_vec)),
            _ => (true, Some(swap.wanted)),
        };
        match now {
            Some(value)
                if self.remembered.len() < REMEMBERED_MAX
                    || self.remembered.contains_key(&flight.number) =>
            {
                self.remembered.insert(flight.number, value);
            }
            _ => {
                self.remembered.remove(&flight.number);
            }
        }
        if applied { Outcome::Ok } else { Outcome::NotApplied }
    }

    /// Lets a client begin again that has finished an operation, if it may.
    fn free(&mut self, number: usize, at: Instant) {
        let client = &mut self.clients[number];
        if client.keys.left() == Some(0) || (!self.config.is_open() && client.outstanding > 0) {
            return;
        }
        if std::mem::take(&mut client.lost) {
            self.resting.push_back((at + REST, number));
        } else {
            self.ready.push_back(number);
        }
    }

    /// Lets those begin again that have rested.
    pub fn wake(&mut self, now: Instant) {
        while let Some((until, client)) = self.resting.front().copied() {
            if until > now {
                break;
            }
            self.resting.pop_front();
            self.ready.push_back(client);
        }
    }

    /// Gives up operations that take too long; their clients are cut off, since answers would come
    /// out of order.
    pub fn time_out(&mut self, driver: &mut dyn Driver, now: Instant, recorder: &mut Recorder) {
        for client in 0..self.clients.len() {
            let oldest = self.clients[client].flights.front();
            let late = |flight: &Flight| now - flight.sent > self.config.operation_timeout;
            if !oldest.is_some_and(late) {
                continue;
            }
            driver.forget(client);
            self.failed = true;
            for flight in std::mem::take(&mut self.clients[client].flights) {
                let result = Outcome::Error("timeout");
                recorder.record(flight.operation, flight.intended, flight.sent, now, &result);
                self.landed(client);
                self.free(client, now);
            }
        }
    }
}
