//! Handling of an answer: the operation's next call, or its result.

use super::causality::UpdateCall;
use super::clients::Flight;
use super::record::{OperationResult, Recorder};
use super::thread_state::{KNOWN_VALUES_MAX, ThreadState};
use crate::config::Operation;
use crate::drivers::{Answer, Driver, Failure, RowContext};
use crate::generators::is_sealed_for;
use std::time::{Duration, Instant};

/// Pause between the loss of a client's connection and its next attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

impl ThreadState<'_> {
    /// Handles the answer of a client's oldest call.
    pub fn on_answer(
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
                self.clients[client].is_lost |= failure.is_lost;
                OperationResult::Error(&failure.kind)
            }
            Ok(answer) => self.outcome_of(operation, &mut flight, answer),
        };
        if let Ok(Answer::Row(row)) = &answer {
            flight.context = row.context.map(Box::from);
            recorder.record_row(flight.operation, row);
        }
        let succeeded = !matches!(result, OperationResult::Error(_));
        if let (Operation::Pop, 0, Ok(Answer::Value(Some(first_key)))) =
            (operation, flight.stage, &answer)
        {
            flight.context = Some(Box::from(*first_key));
            flight.stage = 1;
            return self.next_calls.push((client, flight));
        }
        if operation == Operation::Update && succeeded {
            let call = if flight.stage == 0 { UpdateCall::Get } else { UpdateCall::Put };
            recorder.record_update_call(flight.operation, call, at - flight.sent);
            if flight.stage == 0 {
                return self.schedule_put(client, flight, at);
            }
        }
        // The latency excludes the think time.
        let is_put = operation == Operation::Update && flight.stage == 1;
        let think = if is_put { self.config.think_time } else { Duration::ZERO };
        recorder.record(flight.operation, flight.intended + think, flight.sent, at, &result);
        self.finish_operation(client);
        self.release_client(client, at);
    }

    /// Schedules an update's put after its get, once the think time has passed.
    fn schedule_put(&mut self, client: usize, mut flight: Flight, at: Instant) {
        flight.stage = 1;
        if self.config.think_time.is_zero() {
            return self.next_calls.push((client, flight));
        }
        self.thinking.push_back((at + self.config.think_time, client, flight));
    }

    fn outcome_of(
        &mut self,
        operation: Operation,
        flight: &mut Flight,
        answer: &Answer<'_>,
    ) -> OperationResult<'static> {
        match (operation, answer) {
            (Operation::GetExisting, answer) if is_absent(answer) => {
                self.error_outcome("not_found")
            }
            (_, answer) if is_absent(answer) => OperationResult::Missing,
            // The answer of a pop's first call is a key, not a value that could be verified.
            (Operation::Pop, _) => OperationResult::Ok,
            (
                _,
                Answer::Value(Some(value)) | Answer::Row(RowContext { value: Some(value), .. }),
            ) if self.config.verify => {
                self.key.clear();
                self.config.key_generator.write(&flight.key, &mut self.key);
                if is_sealed_for(&self.key, value) {
                    OperationResult::Ok
                } else {
                    self.error_outcome("wrong_value")
                }
            }
            (Operation::Exists, Answer::Count(0)) => OperationResult::Missing,
            (Operation::TestAndSet, answer) => self.on_swap(flight, answer),
            _ => OperationResult::Ok,
        }
    }

    fn error_outcome(&mut self, kind: &'static str) -> OperationResult<'static> {
        self.failed = true;
        OperationResult::Error(kind)
    }

    fn on_swap(&mut self, flight: &mut Flight, answer: &Answer<'_>) -> OperationResult<'static> {
        let Some(swap) = flight.swap.take() else { return OperationResult::Ok };
        let (is_applied, current) = match answer {
            Answer::Swapped(true) => (true, Some(swap.wanted)),
            Answer::Swapped(false) => (false, None),
            Answer::Old(old) if old.as_deref() == swap.expected.as_deref() => {
                (true, Some(swap.wanted))
            }
            Answer::Old(old) => (false, old.as_deref().map(<[u8]>::to_vec)),
            _ => (true, Some(swap.wanted)),
        };
        match current {
            Some(value)
                if self.known_values.len() < KNOWN_VALUES_MAX
                    || self.known_values.contains_key(&flight.key) =>
            {
                self.known_values.insert(flight.key.clone(), value);
            }
            _ => {
                self.known_values.remove(&flight.key);
            }
        }
        if is_applied { OperationResult::Ok } else { OperationResult::NotApplied }
    }

    /// Makes a client ready to begin its next operation, unless its keys are used up or, in a
    /// closed load, operations are outstanding.
    fn release_client(&mut self, number: usize, at: Instant) {
        let client = &mut self.clients[number];
        let has_outstanding = !self.config.is_open() && client.outstanding > 0;
        if self.check_keys_exhausted(number) || has_outstanding {
            return;
        }
        let client = &mut self.clients[number];
        if std::mem::take(&mut client.is_lost) {
            self.reconnecting.push_back((at + RECONNECT_PAUSE, number));
        } else {
            self.ready.push_back(number);
        }
    }

    /// Makes clients ready whose pause after a lost connection has ended.
    pub fn resume_reconnecting(&mut self, now: Instant) {
        while let Some((until, client)) = self.reconnecting.front().copied() {
            if until > now {
                break;
            }
            self.reconnecting.pop_front();
            self.ready.push_back(client);
        }
    }

    /// Fails operations that exceed the time limit, with all calls of their clients, because
    /// answers arrive in order and later ones could not be assigned.
    pub fn fail_overdue(&mut self, driver: &mut dyn Driver, now: Instant, recorder: &mut Recorder) {
        for client in 0..self.clients.len() {
            let oldest = self.clients[client].flights.front();
            let is_overdue = |flight: &Flight| now - flight.sent > self.config.operation_timeout;
            if !oldest.is_some_and(is_overdue) {
                continue;
            }
            driver.forget(client);
            self.failed = true;
            for flight in std::mem::take(&mut self.clients[client].flights) {
                let result = OperationResult::Error("timeout");
                recorder.record(flight.operation, flight.intended, flight.sent, now, &result);
                self.finish_operation(client);
                self.release_client(client, now);
            }
        }
    }
}

/// Returns true if the row is absent.
fn is_absent(answer: &Answer<'_>) -> bool {
    matches!(answer, Answer::Value(None) | Answer::Row(RowContext { values: 0, .. }))
}
