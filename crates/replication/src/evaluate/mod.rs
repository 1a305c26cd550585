//! Evaluation of an update: tests its conditions, writes its effects, returns its outcome.
//!
//! The master evaluates each update once, when it proposes it, on the store and its own undecided
//! entries. The replicas agree on the effects. So a replica applies them without conditions, clock
//! or evaluation code.
//!
//! Promises: an update that fails leaves no effect; the steps of a sequence see the earlier ones'
//! effects; the cost of an update is bounded, all its steps together (`../budget.rs`).
//! Never: fails halfway; reads a clock (the entry's group time is the only time).
//! Read next: `rows.rs`, then `tests.rs`.

mod expiry;
mod numbers;
mod rows;
mod weight;

use super::budget::Budget;
use super::overlay::Overlay;
use crate::bucket::Bucket;
use base::request::{Expiry, SequenceMode};
use base::{
    Absence, Body, Entry, Error, Key, KeyVersion, Outcome, Read, Reason, Result, Update, check,
    limits,
};
use bytes::Bytes;
use replica_state::pager::Pager;

pub use expiry::{SweepResult, expire_due};
pub use weight::Weight;

/// Evaluates one client update. After an error none of its effects remain.
pub fn evaluate(overlay: &mut Overlay, bucket: &Bucket, update: &Update) -> Result<Outcome> {
    evaluate_with_budget(overlay, bucket, update, Budget::for_update())
}

/// Evaluates an update within a budget of its own.
pub fn evaluate_with_budget(
    overlay: &mut Overlay,
    bucket: &Bucket,
    update: &Update,
    budget: Budget,
) -> Result<Outcome> {
    within_budget(overlay, budget, |overlay| {
        let before = overlay.bounded_bytes(bucket);
        let outcome = step(overlay, bucket, update)?;
        // Of the update as a whole: one that deletes more than it writes passes in a full bucket.
        overlay.check_bytes_max(bucket, before).map(|()| outcome)
    })
}

/// Evaluates a set with the bucket's default expiry, like the update of that kind.
pub fn evaluate_set(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &[u8],
    value: &[u8],
) -> Result<Outcome> {
    within_budget(overlay, Budget::for_update(), |overlay| {
        rows::set(overlay, bucket, key, value, Expiry::Default)
    })
}

/// Runs an evaluation within a budget of its own, and undoes its effects after an error.
fn within_budget<'a>(
    overlay: &mut Overlay<'a>,
    budget: Budget,
    evaluation: impl FnOnce(&mut Overlay<'a>) -> Result<Outcome>,
) -> Result<Outcome> {
    let savepoint = overlay.savepoint();
    let outer_budget = std::mem::replace(&mut overlay.budget, budget);
    let outcome = evaluation(overlay);
    let exceeded = overlay.budget.is_exhausted().then(|| overlay.budget.check());
    overlay.budget = outer_budget;
    let outcome = outcome.and_then(|outcome| exceeded.unwrap_or(Ok(())).map(|()| outcome));
    if outcome.is_err() {
        overlay.undo(savepoint);
    }
    outcome
}

fn step(overlay: &mut Overlay, bucket: &Bucket, update: &Update) -> Result<Outcome> {
    match update {
        Update::Set { key, value, expiry } => rows::set(overlay, bucket, key, value, *expiry),
        Update::SetIf { key, value, expiry, when } => {
            rows::set_if(overlay, bucket, key, value, *expiry, *when)
        }
        Update::SetTagged(set) => rows::set_tagged(overlay, bucket, set),
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
        Update::AssertAbsentSince { key, absence } => {
            rows::assert_absent_since(overlay, bucket, key, *absence)
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
    mode: SequenceMode,
) -> Result<Outcome> {
    let mut outcomes = Vec::with_capacity(steps.len());
    for update in steps {
        let savepoint = overlay.savepoint();
        let outcome = step(overlay, bucket, update);
        overlay.budget.count_answer(answer_bytes(&outcome))?;
        if overlay.budget.is_exhausted() {
            overlay.budget.check()?;
        }
        match outcome {
            Ok(outcome) => outcomes.push(Ok(outcome)),
            Err(error) if mode != SequenceMode::EachAlone || aborts_sequence(update, &error) => {
                return Err(error);
            }
            Err(error) => {
                overlay.undo(savepoint);
                outcomes.push(Err(error));
            }
        }
    }
    Ok(Outcome::Steps(outcomes))
}

/// Returns the bytes that a step adds to the answer. Values of reads were counted when they were
/// read, and a sequence's steps one by one.
fn answer_bytes(outcome: &Result<Outcome>) -> usize {
    let bytes = match outcome {
        Ok(Outcome::Old(old) | Outcome::Swapped { old, .. }) => old.as_ref().map_or(0, Bytes::len),
        Ok(Outcome::Text(text)) => text.len(),
        Ok(_) => 0,
        Err(error) => error.detail.len(),
    };
    bytes + limits::ROW_OVERHEAD_BYTES
}

/// Returns true if an error aborts a sequence whose steps may fail one by one: a failed assertion
/// among its own steps, and errors that no step caused. (A term of a unique index that another key
/// has is the fault of its step.) A failed assertion inside a nested sequence
/// undoes that step only (`MSETNX` in Redis' `MULTI`).
fn aborts_sequence(update: &Update, error: &Error) -> bool {
    match error.reason {
        Reason::NotANumber
        | Reason::NotFound
        | Reason::TooLarge
        | Reason::Malformed
        | Reason::AlreadyExists => false,
        Reason::AssertionFailed | Reason::Changed => !matches!(update, Update::Sequence { .. }),
        _ => true,
    }
}

/// Evaluates a read among the steps of a sequence.
fn read_step(overlay: &mut Overlay, bucket: &Bucket, read: &Read) -> Result<Body> {
    let now = overlay.open.time;
    match read {
        Read::Get(key) => {
            let row = overlay.row(bucket.id, key)?;
            overlay.budget.count_answer(row.as_ref().map_or(0, |row| row.value.len()))?;
            Ok(Body::Row(row.map(|row| row.into_row(now))))
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
                overlay.budget.count_answer(value_bytes + limits::ROW_OVERHEAD_BYTES)?;
                if row.is_none() && matches!(read, Read::MultiGetAll(_)) {
                    return Err(Error::key(Reason::NotFound, key));
                }
                rows.push(row.map(|row| row.into_row(now)));
            }
            Ok(Body::Rows(rows))
        }
        Read::Range(range) => {
            let mut pager = Pager::new(range);
            overlay.rows(bucket.id, range, |key, row| {
                Ok(pager.push(Entry { key, row: Some(row.into_row(now)) }))
            })?;
            overlay.budget.count_answer(pager.bytes())?;
            Ok(Body::Page(pager.page()?))
        }
        Read::Assert { key, expected } => {
            rows::assert(overlay, bucket, key, expected.as_ref()).map(|_| Body::Done)
        }
        Read::AssertExists(key) => rows::assert_exists(overlay, bucket, key).map(|_| Body::Done),
        Read::KeyVersions(keys) => key_versions(overlay, bucket, keys).map(Body::KeyVersions),
        Read::KeyCount => Err(Error::new(
            Reason::NotSupported,
            "key_count scans the whole bucket and is not allowed in a sequence: request it alone",
        )),
        Read::Index(_) => Err(Error::new(
            Reason::NotSupported,
            "a query of an index is not allowed in a sequence: request it alone",
        )),
        Read::Feed(_) => Err(Error::new(
            Reason::NotSupported,
            "a page of a feed is not allowed in a sequence: request it alone",
        )),
    }
}

/// Returns the versions of keys. The next update has the version that an absent key is read with.
fn key_versions(overlay: &mut Overlay, bucket: &Bucket, keys: &[Key]) -> Result<Vec<KeyVersion>> {
    let absence = Absence { group: overlay.group, bucket: bucket.id, since: overlay.version() };
    overlay.budget.count_answer(keys.len() * size_of::<KeyVersion>())?;
    let mut versions = Vec::with_capacity(keys.len());
    for key in keys {
        versions.push(match overlay.row(bucket.id, key)? {
            Some(row) => KeyVersion::Present(row.version),
            None => KeyVersion::Absent(absence),
        });
    }
    Ok(versions)
}
