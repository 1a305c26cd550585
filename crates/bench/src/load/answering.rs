//! Handling of an answer: the operation's next call, or its result.

use super::asking::{REMEMBERED_MAX, ThreadState};
use super::causality::Leg;
use super::clients::Flight;
use super::record::{Recorder, Result as Outcome};
use crate::config::Operation;
use crate::drivers::{Answer, Driver, Failure, RowContext};
use crate::generators::sealed_for;
use std::time::{Duration, Instant};

/// Time that a client whose connection is lost waits before it tries again.
const REST: Duration = Duration::from_millis(100);

impl ThreadState<'_> {
    /// Handles the answer of a client's oldest call.
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
        if let Ok(Answer::Row(found)) = &answer {
            flight.context = found.context.map(Box::from);
            recorder.found(flight.operation, found);
        }
        let succeeded = !matches!(result, Outcome::Error(_));
        if let (Operation::Pop, 0, Ok(Answer::Value(Some(first)))) =
            (operation, flight.stage, &answer)
        {
            flight.context = Some(Box::from(*first));
            flight.stage = 1;
            return self.next_calls.push((client, flight));
        }
        if operation == Operation::Update && succeeded {
            let part = if flight.stage == 0 { Leg::Get } else { Leg::Put };
            recorder.leg(flight.operation, part, at - flight.sent);
            if flight.stage == 0 {
                return self.goes_on(client, flight, at);
            }
        }
        // The think time is not the server's, so the latency excludes it.
        let thought = operation == Operation::Update && flight.stage == 1;
        let think = if thought { self.config.think_time } else { Duration::ZERO };
        recorder.record(flight.operation, flight.intended + think, flight.sent, at, &result);
        self.landed(client);
        self.free(client, at);
    }

    /// Schedules an update's put after its get, once the think time has passed.
    fn goes_on(&mut self, client: usize, mut flight: Flight, at: Instant) {
        flight.stage = 1;
        if self.config.think_time.is_zero() {
            return self.next_calls.push((client, flight));
        }
        self.thinking.push_back((at + self.config.think_time, client, flight));
    }

    fn judge(
        &mut self,
        operation: Operation,
        flight: &mut Flight,
        answer: &Answer<'_>,
    ) -> Outcome<'static> {
        match (operation, answer) {
            (Operation::GetExisting, answer) if is_absent(answer) => self.wrong("not_found"),
            (_, answer) if is_absent(answer) => Outcome::Missing,
            // The answer of a pop's first call is a key, not a value that could be verified.
            (Operation::Pop, _) => Outcome::Ok,
            (
                _,
                Answer::Value(Some(value)) | Answer::Row(RowContext { value: Some(value), .. }),
            ) if self.config.verify => {
                self.key.clear();
                self.config.key_generator.write(&flight.key, &mut self.key);
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
                    || self.remembered.contains_key(&flight.key) =>
            {
                self.remembered.insert(flight.key.clone(), value);
            }
            _ => {
                self.remembered.remove(&flight.key);
            }
        }
        if applied { Outcome::Ok } else { Outcome::NotApplied }
    }

    /// Makes a client that has finished an operation ready to begin the next, if it may.
    fn free(&mut self, number: usize, at: Instant) {
        let client = &mut self.clients[number];
        let waits = !self.config.is_open() && client.outstanding > 0;
        if self.note_end(number) || waits {
            return;
        }
        let client = &mut self.clients[number];
        if std::mem::take(&mut client.lost) {
            self.resting.push_back((at + REST, number));
        } else {
            self.ready.push_back(number);
        }
    }

    /// Makes the clients ready whose pause after a lost connection is over.
    pub fn wake(&mut self, now: Instant) {
        while let Some((until, client)) = self.resting.front().copied() {
            if until > now {
                break;
            }
            self.resting.pop_front();
            self.ready.push_back(client);
        }
    }

    /// Fails operations that exceed the time limit, and forgets all calls of their clients, because
    /// answers come in order and later ones could no longer be assigned.
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

/// Returns true if the row is absent.
fn is_absent(answer: &Answer<'_>) -> bool {
    matches!(answer, Answer::Value(None) | Answer::Row(RowContext { values: 0, .. }))
}
