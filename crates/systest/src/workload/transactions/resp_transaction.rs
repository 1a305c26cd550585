//! Transactions of Redis' protocol: `WATCH`, reads of the watched keys, then `MULTI` to `EXEC`.
//!
//! `EXEC` does nothing if a watched key has changed since `WATCH`. So one that did something proves
//! that each watched key still had the value that was read: an assertion of that value, which the
//! log must confirm.

use super::front_ends::{ProtocolAnswer, invalid_answer, read_resp_outcome, resp_bytes};
use super::{StepAnswer, TransactionAnswer, TransactionStep};
use crate::client::{CallOutcome, Resp, RespReply, encode_command};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::KeyValue;
use crate::workload::transactions::TransactionAnswer::{Done, Failed};
use std::io;

/// Runs steps as a transaction that watches keys. Returns an assertion for each watched key and the
/// steps, as the transaction that was asked for, and its answer.
pub(super) fn run(
    resp: &mut Resp,
    watched: &[String],
    steps: Vec<TransactionStep>,
) -> (Vec<TransactionStep>, ProtocolAnswer) {
    let (values, answer) = match watch(resp, watched) {
        Ok(Some(values)) => (values, execute(resp, watched.len(), &steps)),
        // What is refused before `EXEC` has no effect.
        Ok(None) => (Vec::new(), Ok((CallOutcome::Refused, None))),
        Err(error) => (Vec::new(), Err(error)),
    };
    let assertion = |(key, value): (&String, KeyValue)| TransactionStep::Assert(key.clone(), value);
    let assertions = watched.iter().zip(values).map(assertion);
    (assertions.chain(steps).collect(), answer)
}

/// Watches keys, and reads them. `None`: one of the requests was refused.
fn watch(resp: &mut Resp, keys: &[String]) -> io::Result<Option<Vec<KeyValue>>> {
    // Earlier requests of the connection may have asked for another level.
    let level = resp.call_line("CREDENZA.CONSISTENCY CONSISTENT")?;
    let watch = resp.call_line(&format!("WATCH {}", keys.join(" ")))?;
    if level.error().is_some() || watch.error().is_some() {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        match resp.call_line(&format!("GET {key}"))? {
            RespReply::Bulk(value) => values.push(value),
            RespReply::Error(_) => return Ok(None),
            other => return Err(invalid_answer(format!("GET was answered {other:?}"))),
        }
    }
    Ok(Some(values))
}

/// Sends a transaction in one batch. Its answers begin with those of this many assertions.
fn execute(resp: &mut Resp, assertions: usize, steps: &[TransactionStep]) -> ProtocolAnswer {
    let commands = steps.iter().flat_map(resp_bytes);
    let mut bytes = encode_command(&[b"MULTI"]);
    bytes.extend(commands);
    bytes.extend(encode_command(&[b"EXEC"]));
    resp.send(&bytes)?;
    for _ in 0..=steps.len() {
        // If a command is not queued, `EXEC` is refused.
        resp.receive()?;
    }
    let reply = resp.receive()?;
    let outcome = match (&reply, reply.outcome()) {
        (RespReply::List(None), _) => Acknowledged(Failed),
        (RespReply::List(Some(replies)), _) if replies.len() == steps.len() => {
            let mut answers = vec![StepAnswer::Done; assertions];
            for (step, reply) in steps.iter().zip(replies) {
                answers.extend(step_answer(step, reply)?);
            }
            Acknowledged(Done(answers))
        }
        (_, CallOutcome::Unknown) => CallOutcome::Unknown,
        (_, CallOutcome::Refused) => CallOutcome::Refused,
        _ => return Err(invalid_answer(format!("EXEC was answered {reply:?}"))),
    };
    Ok((outcome, None))
}

/// Returns the answer to a step. An error is none: no step of these transactions fails alone.
fn step_answer(step: &TransactionStep, reply: &RespReply) -> io::Result<Vec<StepAnswer>> {
    let outcome: CallOutcome<TransactionAnswer> = read_resp_outcome(step, reply.clone())?;
    match outcome {
        Acknowledged(Done(answers)) => Ok(answers),
        _ => Err(invalid_answer(format!("{step:?} of a transaction was answered {reply:?}"))),
    }
}
