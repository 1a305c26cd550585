//! Codec of changes of data types and of their values.

use super::WireResult;
use super::available::take_context;
use super::fields::{Fields, Source};
use crate::available::TypeFound;
use crate::codec::Malformed;
use crate::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use crate::limits::{KEY_BYTES_MAX, TYPE_DEPTH_MAX, TYPE_STEPS_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;

pub(super) fn put_operation<W: Fields>(operation: &TypeOperation, out: &mut W) {
    match operation {
        TypeOperation::Add(by) => {
            out.byte(0).word(by.cast_unsigned());
        }
        TypeOperation::Elements(steps) => {
            out.byte(1).list(steps, |step, out| {
                match step {
                    ElementStep::Add(element) => out.byte(0).bytes(element),
                    ElementStep::Remove(element) => out.byte(1).bytes(element),
                };
            });
        }
        TypeOperation::Assign(value) => {
            out.byte(2).bytes(value);
        }
        TypeOperation::Enable => out.put_u8(3),
        TypeOperation::Disable => out.put_u8(4),
        TypeOperation::Fields(steps) => {
            out.byte(5).list(steps, |step, out| match step {
                FieldStep::Update(field, operation) => {
                    put_field(field, out.byte(0));
                    put_operation(operation, out);
                }
                FieldStep::Remove(field) => put_field(field, out.byte(1)),
            });
        }
    }
}

/// Reads an operation inside `depth` maps.
pub(super) fn take_operation(from: &mut Source<'_>, depth: usize) -> WireResult<TypeOperation> {
    Ok(match from.byte("which operation")? {
        0 => TypeOperation::Add(from.word("what is added")?.cast_signed()),
        1 => TypeOperation::Elements(from.list((TYPE_STEPS_MAX, 5), "how many steps", |from| {
            match from.byte("which step")? {
                0 => take_element(from).map(ElementStep::Add),
                1 => take_element(from).map(ElementStep::Remove),
                _ => Err(Malformed("which step")),
            }
        })?),
        2 => TypeOperation::Assign(from.value()?),
        3 => TypeOperation::Enable,
        4 => TypeOperation::Disable,
        5 if depth >= TYPE_DEPTH_MAX => return Err(Malformed("maps in maps too deep")),
        5 => TypeOperation::Fields(from.list((TYPE_STEPS_MAX, 6), "how many steps", |from| {
            match from.byte("which step")? {
                0 => Ok(FieldStep::Update(take_field(from)?, take_operation(from, depth + 1)?)),
                1 => take_field(from).map(FieldStep::Remove),
                _ => Err(Malformed("which step")),
            }
        })?),
        _ => return Err(Malformed("which operation")),
    })
}

fn take_element(from: &mut Source<'_>) -> WireResult<Bytes> {
    from.bytes(VALUE_BYTES_MAX, "element")
}

fn put_field<W: Fields>(field: &Field, out: &mut W) {
    out.byte(field.kind as u8).bytes(&field.name);
}

fn take_field(from: &mut Source<'_>) -> WireResult<Field> {
    let kind = take_kind(from)?;
    Ok(Field { name: from.bytes(KEY_BYTES_MAX, "field's name")?, kind })
}

fn take_kind(from: &mut Source<'_>) -> WireResult<FieldKind> {
    let number = usize::from(from.byte("which data type")?);
    FieldKind::ALL.get(number).copied().ok_or(Malformed("which data type"))
}

pub(super) fn put_found<W: Fields>(found: &TypeFound, out: &mut W) {
    let TypeFound { kind, value, context, tombstone } = found;
    out.byte(*kind as u8).yes(value.is_some());
    if let Some(value) = value {
        put_value(value, out);
    }
    out.bytes(&context.0).yes(*tombstone);
}

pub(super) fn take_found(from: &mut Source<'_>) -> WireResult<TypeFound> {
    let kind = take_kind(from)?;
    Ok(TypeFound {
        kind,
        value: from.maybe("value or none", |from| take_value(kind, from, 0))?,
        context: take_context(from)?,
        tombstone: from.yes("tombstone")?,
    })
}

/// Appends a value whose kind was written before.
fn put_value<W: Fields>(value: &TypeValue, out: &mut W) {
    match value {
        TypeValue::Counter(sum) => {
            out.word((sum >> 64) as u64).word(*sum as u64);
        }
        TypeValue::Set(elements) | TypeValue::Gset(elements) => {
            out.list(elements, |element, out| out.put_string(element));
        }
        TypeValue::Register(value) => {
            out.bytes(value);
        }
        TypeValue::Flag(on) => {
            out.yes(*on);
        }
        TypeValue::Map(fields) => {
            out.list(fields, |(field, value), out| {
                put_field(field, out);
                put_value(value, out);
            });
        }
        TypeValue::Hll(count) => {
            out.word(*count);
        }
    }
}

fn take_value(kind: FieldKind, from: &mut Source<'_>, depth: usize) -> WireResult<TypeValue> {
    let elements =
        |from: &mut Source<'_>| from.list((usize::MAX, 4), "how many elements", take_element);
    Ok(match kind {
        FieldKind::Counter => {
            let (high, low) = (from.word("sum")?, from.word("sum")?);
            TypeValue::Counter((u128::from(high) << 64 | u128::from(low)).cast_signed())
        }
        FieldKind::Set => TypeValue::Set(elements(from)?),
        FieldKind::Gset => TypeValue::Gset(elements(from)?),
        FieldKind::Register => TypeValue::Register(from.value()?),
        FieldKind::Flag => TypeValue::Flag(from.yes("flag")?),
        FieldKind::Map if depth >= TYPE_DEPTH_MAX => {
            return Err(Malformed("maps in maps too deep"));
        }
        FieldKind::Map => {
            TypeValue::Map(from.list((usize::MAX, 6), "how many fields", |from| {
                let field = take_field(from)?;
                let value = take_value(field.kind, from, depth + 1)?;
                Ok((field, value))
            })?)
        }
        FieldKind::Hll => TypeValue::Hll(from.word("count")?),
    })
}
