//! Codec of updates: number, then fields. A sequence holds its steps, then its mode.

use super::WireResult;
use super::fields::{FieldReader, FieldWriter};
use super::reply::{put_absence, take_absence};
use super::request::{put_read, take_read};
use crate::codec::Malformed;
use crate::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, TaggedSet, Update, When};
use crate::tags::TAGS_BYTES_MAX;
use crate::{Key, Tags, Version};

pub(super) fn put<W: FieldWriter>(update: &Update, out: &mut W) {
    out.u8(number(update));
    match update {
        Update::Set { key, value, expiry } => put_expiry(*expiry, out.bytes(key).bytes(value)),
        Update::SetIf { key, value, expiry, when } => {
            put_expiry(*expiry, out.bytes(key).bytes(value));
            put_when(*when, out);
        }
        Update::SetTagged(set) => {
            let TaggedSet { key, value, expiry, when, tags } = &**set;
            put_expiry(*expiry, out.bytes(key).bytes(value));
            put_when(*when, out);
            out.bytes(&tags.encode());
        }
        Update::Delete { key, missing } => {
            out.bytes(key).u8(match missing {
                OnMissing::Fail => 0,
                OnMissing::Skip => 1,
            });
        }
        Update::TestAndSet { key, expected, wanted } => {
            out.bytes(key).optional_bytes(expected.as_ref()).optional_bytes(wanted.as_ref());
        }
        Update::Replace { key, wanted: value } | Update::Assert { key, expected: value } => {
            out.bytes(key).optional_bytes(value.as_ref());
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
            out.bytes(key).optional_u64(version.map(|version| version.0));
        }
        Update::AssertAbsentSince { key, absence } => put_absence(*absence, out.bytes(key)),
        Update::Add { key, delta } => {
            out.bytes(key).u64(delta.cast_unsigned());
        }
        Update::AddFloat { key, delta } => {
            out.bytes(key).u64(delta.to_bits());
        }
        Update::SetRange { key, offset, value } => {
            out.bytes(key).u64(*offset as u64).bytes(value);
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
            out.list(steps, put).u8(match mode {
                SequenceMode::AllOrNothing => 0,
                SequenceMode::Synced => 1,
                SequenceMode::EachAlone => 2,
                SequenceMode::Batch => 3,
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
        Update::AssertAbsentSince { .. } => 21,
        Update::SetTagged(_) => 22,
    }
}

/// Reads an update inside `depth` sequences.
pub(super) fn take(from: &mut FieldReader<'_>, depth: usize) -> WireResult<Update> {
    let number = from.u8("kind of update")?;
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
            let (expected, wanted) = (from.optional_value()?, from.optional_value()?);
            Update::TestAndSet { key, expected, wanted }
        }
        4 => Update::Replace { key, wanted: from.optional_value()? },
        5 => Update::Confirm { key, value: from.value()? },
        6 => Update::Assert { key, expected: from.optional_value()? },
        7 => Update::AssertExists { key },
        8 => Update::AssertRange { prefix: key, keys: from.keys(usize::MAX)? },
        9 => {
            let version = from.optional("version or none", |from| from.u64("version"))?;
            Update::AssertVersion { key, version: version.map(Version) }
        }
        10 => Update::DeletePrefix { prefix: key },
        11 => Update::Add { key, delta: from.u64("delta")?.cast_signed() },
        12 => Update::AddFloat { key, delta: take_float(from)? },
        13 => Update::Append { key, value: from.value()? },
        14 => Update::SetRange { key, offset: from.usize("offset")?, value: from.value()? },
        15 => Update::Rename { from: key, to: from.key()?, when: take_when(from)? },
        16 => Update::Copy { from: key, to: from.key()?, when: take_when(from)? },
        17 => {
            let expiry = take_expiry(from)?;
            Update::Expire { key, expiry, when: take_expire_when(from)? }
        }
        21 => Update::AssertAbsentSince { key, absence: take_absence(from)? },
        22 => Update::SetTagged(Box::new(take_tagged(key, from)?)),
        _ => return Err(Malformed("kind of update")),
    })
}

fn take_tagged(key: Key, from: &mut FieldReader<'_>) -> WireResult<TaggedSet> {
    let (value, expiry) = (from.value()?, take_expiry(from)?);
    let (when, tags) = (take_when(from)?, take_tags(from)?);
    Ok(TaggedSet { key, value, expiry, when, tags })
}

/// Reads tags, at least one.
pub(super) fn take_tags(from: &mut FieldReader<'_>) -> WireResult<Tags> {
    Tags::decode(&from.bytes(TAGS_BYTES_MAX, "tags")?)
}

/// Reads a finite number: front-ends refuse all others.
fn take_float(from: &mut FieldReader<'_>) -> WireResult<f64> {
    let float = f64::from_bits(from.u64("delta")?);
    if float.is_finite() { Ok(float) } else { Err(Malformed("delta")) }
}

fn put_expiry<W: FieldWriter>(expiry: Expiry, out: &mut W) {
    match expiry {
        Expiry::Default => out.u8(0),
        Expiry::Keep => out.u8(1),
        Expiry::Never => out.u8(2),
        Expiry::After(ms) => out.u8(3).ttl_ms(ms),
    };
}

fn take_expiry(from: &mut FieldReader<'_>) -> WireResult<Expiry> {
    Ok(match from.u8("expiry")? {
        0 => Expiry::Default,
        1 => Expiry::Keep,
        2 => Expiry::Never,
        3 => Expiry::After(from.u64("expiry")?),
        _ => return Err(Malformed("expiry")),
    })
}

fn put_when<W: FieldWriter>(when: When, out: &mut W) {
    match when {
        When::Always => out.u8(0),
        When::Absent => out.u8(1),
        When::Present => out.u8(2),
        When::Unchanged(version) => out.u8(3).u64(version.0),
    };
}

fn take_when(from: &mut FieldReader<'_>) -> WireResult<When> {
    Ok(match from.u8("condition")? {
        0 => When::Always,
        1 => When::Absent,
        2 => When::Present,
        3 => When::Unchanged(Version(from.u64("version")?)),
        _ => return Err(Malformed("condition")),
    })
}

fn put_expire_when<W: FieldWriter>(when: ExpireWhen, out: &mut W) {
    out.u8(match when {
        ExpireWhen::Always => 0,
        ExpireWhen::HasNone => 1,
        ExpireWhen::HasOne => 2,
        ExpireWhen::Later => 3,
        ExpireWhen::Sooner => 4,
        ExpireWhen::HasLater => 5,
    });
}

fn take_expire_when(from: &mut FieldReader<'_>) -> WireResult<ExpireWhen> {
    Ok(match from.u8("condition")? {
        0 => ExpireWhen::Always,
        1 => ExpireWhen::HasNone,
        2 => ExpireWhen::HasOne,
        3 => ExpireWhen::Later,
        4 => ExpireWhen::Sooner,
        5 => ExpireWhen::HasLater,
        _ => return Err(Malformed("condition")),
    })
}

fn take_missing(from: &mut FieldReader<'_>) -> WireResult<OnMissing> {
    Ok(match from.u8("missing")? {
        0 => OnMissing::Fail,
        1 => OnMissing::Skip,
        _ => return Err(Malformed("missing")),
    })
}

fn take_mode(from: &mut FieldReader<'_>) -> WireResult<SequenceMode> {
    Ok(match from.u8("mode")? {
        0 => SequenceMode::AllOrNothing,
        1 => SequenceMode::Synced,
        2 => SequenceMode::EachAlone,
        3 => SequenceMode::Batch,
        _ => return Err(Malformed("mode")),
    })
}
