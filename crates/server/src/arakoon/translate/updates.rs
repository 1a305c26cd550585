//! Decoder of a sequence's blob: updates with Arakoon's tags. Pure.

use crate::arakoon::errors::ArakoonRefusal;
use crate::arakoon::words::{Malformed, ValueReader};
use base::limits::{SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX};
use base::request::{Expiry, Missing, Steps};
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

/// Decodes a whole blob, which must be a sequence.
pub fn sequence(blob: Bytes, mode: Steps) -> Result<Update, ArakoonRefusal> {
    let mut reader = ValueReader::new(blob);
    if reader.int()? != SEQUENCE {
        return Err(ArakoonRefusal::failure("should have been a sequence"));
    }
    let mut left = SEQUENCE_STEPS_MAX;
    let steps = steps(&mut reader, 1, &mut left)?;
    reader.end()?;
    Ok(Update::Sequence { steps, mode })
}

/// Decodes the steps of a sequence at nesting depth `depth`. `left` is the number of steps that the
/// whole blob may still have.
fn steps(
    reader: &mut ValueReader,
    depth: usize,
    left: &mut usize,
) -> Result<Vec<Update>, ArakoonRefusal> {
    let count = reader.count()?;
    if depth > SEQUENCE_DEPTH_MAX {
        let text = format!("sequences nest at most {SEQUENCE_DEPTH_MAX} deep (sequence_depth_max)");
        return Err(ArakoonRefusal::bad_input(text));
    }
    *left = left.checked_sub(count).ok_or_else(|| {
        let max = SEQUENCE_STEPS_MAX;
        ArakoonRefusal::bad_input(format!(
            "a sequence has at most {max} steps (sequence_steps_max)"
        ))
    })?;
    // The vector grows with the steps that are there, whatever the count claims.
    let mut steps = Vec::new();
    for _ in 0..count {
        steps.push(step(reader, depth, left)?);
    }
    Ok(steps)
}

fn step(
    reader: &mut ValueReader,
    depth: usize,
    left: &mut usize,
) -> Result<Update, ArakoonRefusal> {
    Ok(match reader.int()? {
        SET => Update::Set { key: reader.text()?, value: reader.text()?, expiry: Expiry::Default },
        DELETE => Update::Delete { key: reader.text()?, missing: Missing::Fails },
        TEST_AND_SET => {
            let (key, expected) = (reader.text()?, reader.maybe()?);
            Update::TestAndSet { key, expected, wanted: reader.maybe()? }
        }
        SEQUENCE => {
            let steps = steps(reader, depth + 1, left)?;
            Update::Sequence { steps, mode: Steps::AllOrNothing }
        }
        NOP => Update::Nop,
        USER_FUNCTION => {
            let (name, _): (Bytes, Option<Value>) = (reader.text()?, reader.maybe()?);
            return Err(ArakoonRefusal::no_such_function(&name));
        }
        ASSERT => Update::Assert { key: reader.text()?, expected: reader.maybe()? },
        DELETE_PREFIX => Update::DeletePrefix { prefix: reader.text()? },
        ASSERT_EXISTS => Update::AssertExists { key: reader.text()? },
        REPLACE => Update::Replace { key: reader.text()?, wanted: reader.maybe()? },
        ASSERT_RANGE => {
            let prefix = reader.text()?;
            if reader.int()? != CONTAINS_EXACTLY {
                return Err(Malformed.into());
            }
            Update::AssertRange { prefix, keys: reader.texts()? }
        }
        // Arakoon accepts these from any client and stores them apart, as its own state.
        tag @ (MASTER_SET | ADMIN_SET | SET_INTERVAL | SET_ROUTING | SET_ROUTING_DELTA
        | SYNCED_SEQUENCE) => {
            let text = format!("update {tag} is internal: clients can't send it");
            return Err(ArakoonRefusal::bad_input(text));
        }
        _ => return Err(Malformed.into()),
    })
}
