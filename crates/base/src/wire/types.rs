//! Codec of changes of data types and of their values.

use super::WireResult;
use super::available::take_context;
use super::fields::{FieldReader, FieldWriter};
use crate::available::TypeFound;
use crate::codec::Malformed;
use crate::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use crate::limits::{KEY_BYTES_MAX, TYPE_DEPTH_MAX, TYPE_STEPS_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;

pub(super) fn put_operation<W: FieldWriter>(operation: &TypeOperation, out: &mut W) {
    match operation {
        TypeOperation::Add(increment) => {
            out.u8(0).u64(increment.cast_unsigned());
        }
        TypeOperation::Elements(steps) => {
            out.u8(1).list(steps, |step, out| {
                match step {
                    ElementStep::Add(element) => out.u8(0).bytes(element),
                    ElementStep::Remove(element) => out.u8(1).bytes(element),
                };
            });
        }
        TypeOperation::Assign(value) => {
            out.u8(2).bytes(value);
        }
        TypeOperation::Enable => out.put_u8(3),
        TypeOperation::Disable => out.put_u8(4),
        TypeOperation::Fields(steps) => {
            out.u8(5).list(steps, |step, out| match step {
                FieldStep::Update(field, operation) => {
                    put_field(field, out.u8(0));
                    put_operation(operation, out);
                }
                FieldStep::Remove(field) => put_field(field, out.u8(1)),
            });
        }
    }
}

/// Reads an operation inside `depth` maps.
pub(super) fn take_operation(
    from: &mut FieldReader<'_>,
    depth: usize,
) -> WireResult<TypeOperation> {
    Ok(match from.u8("kind of operation")? {
        0 => TypeOperation::Add(from.u64("increment")?.cast_signed()),
        1 => {
            TypeOperation::Elements(from.list((TYPE_STEPS_MAX, 5), "number of steps", |from| {
                match from.u8("kind of step")? {
                    0 => take_element(from).map(ElementStep::Add),
                    1 => take_element(from).map(ElementStep::Remove),
                    _ => Err(Malformed("kind of step")),
                }
            })?)
        }
        2 => TypeOperation::Assign(from.value()?),
        3 => TypeOperation::Enable,
        4 => TypeOperation::Disable,
        5 if depth >= TYPE_DEPTH_MAX => return Err(Malformed("maps in maps too deep")),
        5 => TypeOperation::Fields(from.list((TYPE_STEPS_MAX, 6), "number of steps", |from| {
            match from.u8("kind of step")? {
                0 => Ok(FieldStep::Update(take_field(from)?, take_operation(from, depth + 1)?)),
                1 => take_field(from).map(FieldStep::Remove),
                _ => Err(Malformed("kind of step")),
            }
        })?),
        _ => return Err(Malformed("kind of operation")),
    })
}

fn take_element(from: &mut FieldReader<'_>) -> WireResult<Bytes> {
    from.bytes(VALUE_BYTES_MAX, "element")
}

fn put_field<W: FieldWriter>(field: &Field, out: &mut W) {
    out.u8(field.kind as u8).bytes(&field.name);
}

fn take_field(from: &mut FieldReader<'_>) -> WireResult<Field> {
    let kind = take_kind(from)?;
    Ok(Field { name: from.bytes(KEY_BYTES_MAX, "field's name")?, kind })
}

fn take_kind(from: &mut FieldReader<'_>) -> WireResult<FieldKind> {
    let number = usize::from(from.u8("data type")?);
    FieldKind::ALL.get(number).copied().ok_or(Malformed("data type"))
}

pub(super) fn put_found<W: FieldWriter>(found: &TypeFound, out: &mut W) {
    let TypeFound { kind, value, context, tombstone } = found;
    out.u8(*kind as u8).bool(value.is_some());
    if let Some(value) = value {
        put_value(value, out);
    }
    out.bytes(&context.0).bool(*tombstone);
}

pub(super) fn take_found(from: &mut FieldReader<'_>) -> WireResult<TypeFound> {
    let kind = take_kind(from)?;
    Ok(TypeFound {
        kind,
        value: from.optional("value or none", |from| take_value(kind, from, 0))?,
        context: take_context(from)?,
        tombstone: from.bool("tombstone")?,
    })
}

/// Appends a value whose kind was written before.
fn put_value<W: FieldWriter>(value: &TypeValue, out: &mut W) {
    match value {
        TypeValue::Counter(sum) => {
            out.u64((sum >> 64) as u64).u64(*sum as u64);
        }
        TypeValue::Set(elements) | TypeValue::Gset(elements) => {
            out.list(elements, |element, out| out.put_string(element));
        }
        TypeValue::Register(value) => {
            out.bytes(value);
        }
        TypeValue::Flag(enabled) => {
            out.bool(*enabled);
        }
        TypeValue::Map(fields) => {
            out.list(fields, |(field, value), out| {
                put_field(field, out);
                put_value(value, out);
            });
        }
        TypeValue::Hll(count) => {
            out.u64(*count);
        }
    }
}

fn take_value(kind: FieldKind, from: &mut FieldReader<'_>, depth: usize) -> WireResult<TypeValue> {
    let elements =
        |from: &mut FieldReader<'_>| from.list((usize::MAX, 4), "number of elements", take_element);
    Ok(match kind {
        FieldKind::Counter => {
            let (high, low) = (from.u64("sum")?, from.u64("sum")?);
            TypeValue::Counter((u128::from(high) << 64 | u128::from(low)).cast_signed())
        }
        FieldKind::Set => TypeValue::Set(elements(from)?),
        FieldKind::Gset => TypeValue::Gset(elements(from)?),
        FieldKind::Register => TypeValue::Register(from.value()?),
        FieldKind::Flag => TypeValue::Flag(from.bool("flag")?),
        FieldKind::Map if depth >= TYPE_DEPTH_MAX => {
            return Err(Malformed("maps in maps too deep"));
        }
        FieldKind::Map => {
            TypeValue::Map(from.list((usize::MAX, 6), "number of fields", |from| {
                let field = take_field(from)?;
                let value = take_value(field.kind, from, depth + 1)?;
                Ok((field, value))
            })?)
        }
        FieldKind::Hll => TypeValue::Hll(from.u64("count")?),
    })
}
