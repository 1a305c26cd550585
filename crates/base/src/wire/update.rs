//! Codec of updates: number, then fields. A sequence holds its steps, then its mode.

use super::WireResult;
use super::fields::{Fields, Source};
use super::request::{put_read, take_read};
use crate::Version;
use crate::codec::Malformed;
use crate::request::{ExpireWhen, Expiry, Missing, Steps, Update, When};

pub(super) fn put<W: Fields>(update: &Update, out: &mut W) {
    out.byte(number(update));
    match update {
        Update::Set { key, value, expiry } => put_expiry(*expiry, out.bytes(key).bytes(value)),
        Update::SetIf { key, value, expiry, when } => {
            put_expiry(*expiry, out.bytes(key).bytes(value));
            put_when(*when, out);
        }
        Update::Delete { key, missing } => {
            out.bytes(key).byte(match missing {
                Missing::Fails => 0,
                Missing::Skipped => 1,
            });
        }
        Update::TestAndSet { key, expected, wanted } => {
            out.bytes(key).maybe_bytes(expected.as_ref()).maybe_bytes(wanted.as_ref());
        }
        Update::Replace { key, wanted: value } | Update::Assert { key, expected: value } => {
            out.bytes(key).maybe_bytes(value.as_ref());
        }
        Update::Confirm { key, value } | Update::Append { key, value } => {
            out.bytes(key).bytes(value);
        }
        Update::AssertExists { key } | Update::DeletePrefix { prefix: key } => {
            out.bytes(key);
        }
        Update::AssertRange { prefix, keys } => {
            out.bytes(prefix).keys(keys);
        }
        Update::AssertVersion { key, version } => {
            out.bytes(key).maybe_word(version.map(|version| version.0));
        }
        Update::Add { key, delta } => {
            out.bytes(key).word(delta.cast_unsigned());
        }
        Update::AddFloat { key, delta } => {
            out.bytes(key).word(delta.to_bits());
        }
        Update::SetRange { key, offset, value } => {
            out.bytes(key).word(*offset as u64).bytes(value);
        }
        Update::Rename { from, to, when } | Update::Copy { from, to, when } => {
            put_when(*when, out.bytes(from).bytes(to));
        }
        Update::Expire { key, expiry, when } => {
            put_expiry(*expiry, out.bytes(key));
            put_expire_when(*when, out);
        }
        Update::Read(read) => put_read(read, out),
        Update::Nop => {}
        Update::Sequence { steps, mode } => {
            out.list(steps, put).byte(match mode {
                Steps::AllOrNothing => 0,
                Steps::Synced => 1,
                Steps::EachAlone => 2,
                Steps::Batch => 3,
            });
        }
    }
}

/// Returns the number of the variant; a number is never reused.
fn number(update: &Update) -> u8 {
    match update {
        Update::Set { .. } => 0,
        Update::SetIf { .. } => 1,
        Update::Delete { .. } => 2,
        Update::TestAndSet { .. } => 3,
        Update::Replace { .. } => 4,
        Update::Confirm { .. } => 5,
        Update::Assert { .. } => 6,
        Update::AssertExists { .. } => 7,
        Update::AssertRange { .. } => 8,
        Update::AssertVersion { .. } => 9,
        Update::DeletePrefix { .. } => 10,
        Update::Add { .. } => 11,
        Update::AddFloat { .. } => 12,
        Update::Append { .. } => 13,
        Update::SetRange { .. } => 14,
        Update::Rename { .. } => 15,
        Update::Copy { .. } => 16,
        Update::Expire { .. } => 17,
        Update::Read(_) => 18,
        Update::Nop => 19,
        Update::Sequence { .. } => 20,
    }
}

/// Reads an update inside `depth` sequences.
pub(super) fn take(from: &mut Source<'_>, depth: usize) -> WireResult<Update> {
    let number = from.byte("which update")?;
    if let 18..=20 = number {
        return Ok(match number {
            18 => Update::Read(take_read(from)?),
            19 => Update::Nop,
            _ => Update::Sequence { steps: from.steps(depth, take)?, mode: take_mode(from)? },
        });
    }
    let key = from.key()?;
    Ok(match number {
        0 => Update::Set { key, value: from.value()?, expiry: take_expiry(from)? },
        1 => {
            let (value, expiry) = (from.value()?, take_expiry(from)?);
            Update::SetIf { key, value, expiry, when: take_when(from)? }
        }
        2 => Update::Delete { key, missing: take_missing(from)? },
        3 => {
            let (expected, wanted) = (from.maybe_value()?, from.maybe_value()?);
            Update::TestAndSet { key, expected, wanted }
        }
        4 => Update::Replace { key, wanted: from.maybe_value()? },
        5 => Update::Confirm { key, value: from.value()? },
        6 => Update::Assert { key, expected: from.maybe_value()? },
        7 => Update::AssertExists { key },
        8 => Update::AssertRange { prefix: key, keys: from.keys(usize::MAX)? },
        9 => {
            let version = from.maybe("version or none", |from| from.word("version"))?;
            Update::AssertVersion { key, version: version.map(Version) }
        }
        10 => Update::DeletePrefix { prefix: key },
        11 => Update::Add { key, delta: from.word("delta")?.cast_signed() },
        12 => Update::AddFloat { key, delta: take_float(from)? },
        13 => Update::Append { key, value: from.value()? },
        14 => Update::SetRange { key, offset: from.size("offset")?, value: from.value()? },
        15 => Update::Rename { from: key, to: from.key()?, when: take_when(from)? },
        16 => Update::Copy { from: key, to: from.key()?, when: take_when(from)? },
        17 => {
            let expiry = take_expiry(from)?;
            Update::Expire { key, expiry, when: take_expire_when(from)? }
        }
        _ => return Err(Malformed("which update")),
    })
}

/// Reads a finite number: front-ends refuse all others.
fn take_float(from: &mut Source<'_>) -> WireResult<f64> {
    let float = f64::from_bits(from.word("delta")?);
    if float.is_finite() { Ok(float) } else { Err(Malformed("delta")) }
}

fn put_expiry<W: Fields>(expiry: Expiry, out: &mut W) {
    match expiry {
        Expiry::Default => out.byte(0),
        Expiry::Keep => out.byte(1),
        Expiry::Never => out.byte(2),
        Expiry::After(ms) => out.byte(3).span(ms),
    };
}

fn take_expiry(from: &mut Source<'_>) -> WireResult<Expiry> {
    Ok(match from.byte("expiry")? {
        0 => Expiry::Default,
        1 => Expiry::Keep,
        2 => Expiry::Never,
        3 => Expiry::After(from.word("expiry")?),
        _ => return Err(Malformed("expiry")),
    })
}

fn put_when<W: Fields>(when: When, out: &mut W) {
    match when {
        When::Always => out.byte(0),
        When::Absent => out.byte(1),
        When::Present => out.byte(2),
        When::Unchanged(version) => out.byte(3).word(version.0),
    };
}

fn take_when(from: &mut Source<'_>) -> WireResult<When> {
    Ok(match from.byte("condition")? {
        0 => When::Always,
        1 => When::Absent,
        2 => When::Present,
        3 => When::Unchanged(Version(from.word("version")?)),
        _ => return Err(Malformed("condition")),
    })
}

fn put_expire_when<W: Fields>(when: ExpireWhen, out: &mut W) {
    out.byte(match when {
        ExpireWhen::Always => 0,
        ExpireWhen::HasNone => 1,
        ExpireWhen::HasOne => 2,
        ExpireWhen::Later => 3,
        ExpireWhen::Sooner => 4,
        ExpireWhen::HasLater => 5,
    });
}

fn take_expire_when(from: &mut Source<'_>) -> WireResult<ExpireWhen> {
    Ok(match from.byte("condition")? {
        0 => ExpireWhen::Always,
        1 => ExpireWhen::HasNone,
        2 => ExpireWhen::HasOne,
        3 => ExpireWhen::Later,
        4 => ExpireWhen::Sooner,
        5 => ExpireWhen::HasLater,
        _ => return Err(Malformed("condition")),
    })
}

fn take_missing(from: &mut Source<'_>) -> WireResult<Missing> {
    Ok(match from.byte("missing")? {
        0 => Missing::Fails,
        1 => Missing::Skipped,
        _ => return Err(Malformed("missing")),
    })
}

fn take_mode(from: &mut Source<'_>) -> WireResult<Steps> {
    Ok(match from.byte("mode")? {
        0 => Steps::AllOrNothing,
        1 => Steps::Synced,
        2 => Steps::EachAlone,
        3 => Steps::Batch,
        _ => return Err(Malformed("mode")),
    })
}
