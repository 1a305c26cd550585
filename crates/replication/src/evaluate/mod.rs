//! Evaluation of an update: tests its conditions, writes its effects, returns its outcome.
//!
//! The master evaluates each update once, when it proposes it, on the store and its own undecided
//! entries. The replicas agree on the effects. So a replica that applies them needs no condition,
//! no clock and no evaluation code.
//!
//! Promises: an update that fails leaves no effect; the steps of a sequence see the earlier ones'
//! effects; what an update costs is bounded, all its steps together (`../budget.rs`).
//! Never: fails halfway; reads a clock (the value's group time is the only time).
//! Read next: `rows.rs`, then `tests.rs`.

mod expiry;
mod numbers;
mod rows;
mod weight;

use super::budget::Budget;
use super::overlay::Overlay;
use super::pager::Pager;
use crate::bucket::Bucket;
use base::request::Steps;
use base::{Body, Entry, Error, Outcome, Read, Reason, Result, Row, Update, check, limits};
use bytes::Bytes;

pub use expiry::{Swept, expire_due};
pub use weight::Weight;

/// Evaluates one client update. After an error none of its effects remain.
pub fn evaluate(overlay: &mut Overlay, bucket: &Bucket, update: &Update) -> Result<Outcome> {
    evaluate_within(overlay, bucket, update, Budget::of_update())
}

/// Evaluates an update within a budget of its own.
pub fn evaluate_within(
    overlay: &mut Overlay,
    bucket: &Bucket,
    update: &Update,
    budget: Budget,
) -> Result<Outcome> {
    let savepoint = overlay.open.savepoint();
    let before = std::mem::replace(&mut overlay.budget, budget);
    let outcome = step(overlay, bucket, update);
    let spent = overlay.budget.is_spent().then(|| overlay.budget.check());
    overlay.budget = before;
    let outcome = outcome.and_then(|outcome| spent.unwrap_or(Ok(())).map(|()| outcome));
    if outcome.is_err() {
        overlay.open.undo(savepoint);
    }
    outcome
}

fn step(overlay: &mut Overlay, bucket: &Bucket, update: &Update) -> Result<Outcome> {
    match update {
        Update::Set { key, value, expiry } => rows::set(overlay, bucket, key, value, *expiry),
        Update::SetIf { key, value, expiry, when } => {
            rows::set_if(overlay, bucket, key, value, *expiry, *when)
        }
        Update::Delete { key, missing } => rows::delete(overlay, bucket, key, *missing),
        Update::TestAndSet { key, expected, wanted } => {
            rows::test_and_set(overlay, bucket, key, expected.as_ref(), wanted.as_ref())
        }
        Update::Replace { key, wanted } => rows::replace(overlay, bucket, key, wanted.as_ref()),
        Update::Confirm { key, value } => rows::confirm(overlay, bucket, key, value),
        Update::Assert { key, expected } => rows::assert(overlay, bucket, key, expected.as_ref()),
        Update::AssertExists { key } => rows::assert_exists(overlay, bucket, key),
        Update::AssertRange { prefix, keys } => rows::assert_range(overlay, bucket, prefix, keys),
        Update::AssertVersion { key, version } => {
            rows::assert_version(overlay, bucket, key, *version)
        }
        Update::DeletePrefix { prefix } => rows::delete_prefix(overlay, bucket, prefix),
        Update::Add { key, delta } => numbers::add(overlay, bucket, key, *delta),
        Update::AddFloat { key, delta } => numbers::add_float(overlay, bucket, key, *delta),
        Update::Append { key, value } => rows::append(overlay, bucket, key, value),
        Update::SetRange { key, offset, value } => {
            rows::set_range(overlay, bucket, key, *offset, value)
        }
        Update::Rename { from, to, when } => rows::rename(overlay, bucket, from, to, *when),
        Update::Copy { from, to, when } => rows::copy(overlay, bucket, from, to, *when),
        Update::Expire { key, expiry, when } => {
            expiry::expire(overlay, bucket, key, *expiry, *when)
        }
        Update::Read(read) => Ok(Outcome::Read(Box::new(read_step(overlay, bucket, read)?))),
        Update::Nop => Ok(Outcome::Done),
        Update::Sequence { steps, mode } => sequence(overlay, bucket, steps, *mode),
    }
}

fn sequence(
    overlay: &mut Overlay,
    bucket: &Bucket,
    steps: &[Update],
    mode: Steps,
) -> Result<Outcome> {
    let mut outcomes = Vec::with_capacity(steps.len());
    for update in steps {
        let savepoint = overlay.open.savepoint();
        let outcome = step(overlay, bucket, update);
        overlay.budget.answer(answer_bytes(&outcome))?;
        if overlay.budget.is_spent() {
            overlay.budget.check()?;
        }
        match outcome {
            Ok(outcome) => outcomes.push(Ok(outcome)),
            Err(error) if mode != Steps::EachAlone || undoes_all(update, &error) => {
                return Err(error);
            }
            Err(error) => {
                overlay.open.undo(savepoint);
                outcomes.push(Err(error));
            }
        }
    }
    Ok(Outcome::Steps(outcomes))
}

/// Bytes that a step adds to the answer. Values read were counted when they were read, and a
/// sequence's steps one by one.
fn answer_bytes(outcome: &Result<Outcome>) -> usize {
    let bytes = match outcome {
        Ok(Outcome::Old(old) | Outcome::Swapped { old, .. }) => old.as_ref().map_or(0, Bytes::len),
        Ok(Outcome::Text(text)) => text.len(),
        Ok(_) => 0,
        Err(error) => error.detail.len(),
    };
    bytes + limits::ROW_OVERHEAD_BYTES
}

/// Errors that end a sequence also where steps stand alone: a failed assertion among its own steps,
/// and whatever is not the step's fault. An assertion inside a step undoes that step (`MSETNX` in
/// Redis' `MULTI`).
fn undoes_all(update: &Update, error: &Error) -> bool {
    match error.reason {
        Reason::NotANumber | Reason::NotFound | Reason::TooLarge | Reason::Malformed => false,
        Reason::AssertionFailed | Reason::Changed => !matches!(update, Update::Sequence { .. }),
        _ => true,
    }
}

/// A read among the steps of a sequence.
fn read_step(overlay: &mut Overlay, bucket: &Bucket, read: &Read) -> Result<Body> {
    let now = overlay.open.time;
    let shown = |row: super::layout::StoredRow| Row {
        value: row.value,
        version: row.version,
        expires_in_ms: row.expires.map(|expires| expires - now),
    };
    match read {
        Read::Get(key) => {
            let row = overlay.row(bucket.id, key)?;
            overlay.budget.answer(row.as_ref().map_or(0, |row| row.value.len()))?;
            Ok(Body::Row(row.map(shown)))
        }
        Read::Exists(keys) => {
            let mut count = 0;
            for key in keys {
                count += u64::from(overlay.row(bucket.id, key)?.is_some());
            }
            Ok(Body::Count(count))
        }
        Read::MultiGet(keys) | Read::MultiGetAll(keys) => {
            let mut rows = Vec::with_capacity(keys.len());
            let mut bytes = 0;
            for key in keys {
                let row = overlay.row(bucket.id, key)?;
                let value_bytes = row.as_ref().map_or(0, |row| row.value.len());
                bytes += value_bytes;
                check::values(bytes)?;
                overlay.budget.answer(value_bytes + limits::ROW_OVERHEAD_BYTES)?;
                if row.is_none() && matches!(read, Read::MultiGetAll(_)) {
                    return Err(Error::key(Reason::NotFound, key));
                }
                rows.push(row.map(shown));
            }
            Ok(Body::Rows(rows))
        }
        Read::Range(range) => {
            let mut pager = Pager::new(range);
            overlay.rows(bucket.id, range, |key, row| {
                let row = Row {
                    value: row.value,
                    version: row.version,
                    expires_in_ms: row.expires.map(|expires| expires - now),
                };
                Ok(pager.push(Entry { key, row: Some(row) }))
            })?;
            overlay.budget.answer(pager.bytes())?;
            Ok(Body::Page(pager.page()?))
        }
        Read::Assert { key, expected } => {
            rows::assert(overlay, bucket, key, expected.as_ref()).map(|_| Body::Done)
        }
        Read::AssertExists(key) => rows::assert_exists(overlay, bucket, key).map(|_| Body::Done),
        Read::KeyCount => Err(Error::new(
            Reason::NotSupported,
            "counting keys walks the whole bucket: ask for it outside a sequence",
        )),
    }
}
