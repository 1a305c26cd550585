//! Decoder of a sequence's blob: updates with Arakoon's tags. Pure.

use crate::arakoon::errors::ArakoonRefusal;
use crate::arakoon::values::{Malformed, ValueReader};
use base::limits::{SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX};
use base::request::{Expiry, OnMissing, SequenceMode};
use base::{Update, Value};
use bytes::Bytes;

const SET: i32 = 1;
const DELETE: i32 = 2;
const TEST_AND_SET: i32 = 3;
const MASTER_SET: i32 = 4;
const SEQUENCE: i32 = 5;
const NOP: i32 = 6;
const USER_FUNCTION: i32 = 7;
const ASSERT: i32 = 8;
const ADMIN_SET: i32 = 9;
const SET_INTERVAL: i32 = 10;
const SET_ROUTING: i32 = 11;
const SET_ROUTING_DELTA: i32 = 12;
const SYNCED_SEQUENCE: i32 = 13;
const DELETE_PREFIX: i32 = 14;
const ASSERT_EXISTS: i32 = 15;
const REPLACE: i32 = 16;
const ASSERT_RANGE: i32 = 17;

/// The only kind of range assertion: the range holds exactly these keys.
const CONTAINS_EXACTLY: i32 = 1;

/// Decodes a complete blob, which must be a sequence.
pub fn sequence(blob: Bytes, mode: SequenceMode) -> Result<Update, ArakoonRefusal> {
    let mut reader = ValueReader::new(blob);
    if reader.int()? != SEQUENCE {
        return Err(ArakoonRefusal::fatal("should have been a sequence"));
    }
    let mut remaining = SEQUENCE_STEPS_MAX;
    let steps = steps(&mut reader, 1, &mut remaining)?;
    reader.end()?;
    Ok(Update::Sequence { steps, mode })
}

/// Decodes the steps of a sequence at nesting depth `depth`. `remaining` is the number of steps
/// that the rest of the blob may have.
fn steps(
    reader: &mut ValueReader,
    depth: usize,
    remaining: &mut usize,
) -> Result<Vec<Update>, ArakoonRefusal> {
    let count = reader.count()?;
    if depth > SEQUENCE_DEPTH_MAX {
        let text = format!("sequences nest at most {SEQUENCE_DEPTH_MAX} deep (sequence_depth_max)");
        return Err(ArakoonRefusal::bad_input(text));
    }
    *remaining = remaining.checked_sub(count).ok_or_else(|| {
        let max = SEQUENCE_STEPS_MAX;
        ArakoonRefusal::bad_input(format!(
            "a sequence has at most {max} steps (sequence_steps_max)"
        ))
    })?;
    // The vector grows with the decoded steps, not with the claimed count.
    let mut steps = Vec::new();
    for _ in 0..count {
        steps.push(step(reader, depth, remaining)?);
    }
    Ok(steps)
}

fn step(
    reader: &mut ValueReader,
    depth: usize,
    remaining: &mut usize,
) -> Result<Update, ArakoonRefusal> {
    Ok(match reader.int()? {
        SET => Update::Set { key: reader.text()?, value: reader.text()?, expiry: Expiry::Default },
        DELETE => Update::Delete { key: reader.text()?, missing: OnMissing::Fail },
        TEST_AND_SET => {
            let (key, expected) = (reader.text()?, reader.option()?);
            Update::TestAndSet { key, expected, wanted: reader.option()? }
        }
        SEQUENCE => {
            let steps = steps(reader, depth + 1, remaining)?;
            Update::Sequence { steps, mode: SequenceMode::AllOrNothing }
        }
        NOP => Update::Nop,
        USER_FUNCTION => {
            let (name, _): (Bytes, Option<Value>) = (reader.text()?, reader.option()?);
            return Err(ArakoonRefusal::no_such_function(&name));
        }
        ASSERT => Update::Assert { key: reader.text()?, expected: reader.option()? },
        DELETE_PREFIX => Update::DeletePrefix { prefix: reader.text()? },
        ASSERT_EXISTS => Update::AssertExists { key: reader.text()? },
        REPLACE => Update::Replace { key: reader.text()?, wanted: reader.option()? },
        ASSERT_RANGE => {
            let prefix = reader.text()?;
            if reader.int()? != CONTAINS_EXACTLY {
                return Err(Malformed.into());
            }
            Update::AssertRange { prefix, keys: reader.texts()? }
        }
        // Arakoon accepts these from any client and stores them as internal state.
        tag @ (MASTER_SET | ADMIN_SET | SET_INTERVAL | SET_ROUTING | SET_ROUTING_DELTA
        | SYNCED_SEQUENCE) => {
            let text = format!("update {tag} is internal: clients can't send it");
            return Err(ArakoonRefusal::bad_input(text));
        }
        _ => return Err(Malformed.into()),
    })
}
