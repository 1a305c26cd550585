//! Data types, between messages and `base`.

use crate::messages::*;
use base::available::TypeFound;
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use bytes::Bytes;

/// Kinds of the fields of maps, by their number less 1. The schema has no other.
const FIELD_KINDS: [FieldKind; 5] =
    [FieldKind::Counter, FieldKind::Set, FieldKind::Register, FieldKind::Flag, FieldKind::Map];
/// Kinds of values, by their number less 1.
const VALUE_KINDS: [FieldKind; 5] =
    [FieldKind::Counter, FieldKind::Set, FieldKind::Map, FieldKind::Hll, FieldKind::Gset];
const FLAG_ENABLE: i32 = 1;
const FLAG_DISABLE: i32 = 2;

/// Text of the refusal of an operation.
pub type InvalidOperation = &'static str;

/// Returns the operation of a message: exactly one. Removes take effect before adds, so an add wins
/// over a remove in the same request.
pub fn to_operation(op: DtOp) -> Result<TypeOperation, InvalidOperation> {
    let DtOp { counter_op, set_op, map_op, hll_op, gset_op } = op;
    let grow_only = hll_op.map(|op| op.adds).or(gset_op.map(|op| op.adds));
    match (counter_op, set_op, map_op, grow_only) {
        (Some(op), None, None, None) => Ok(add(op)),
        (None, Some(op), None, None) => Ok(elements(op)),
        (None, None, Some(op), None) => fields(op),
        (None, None, None, Some(adds)) => Ok(elements(SetOp { adds, removes: Vec::new() })),
        _ => Err("Invalid operation on datatype: the request must have exactly one operation"),
    }
}

fn add(op: CounterOp) -> TypeOperation {
    TypeOperation::Add(op.increment.unwrap_or(1))
}

fn elements(op: SetOp) -> TypeOperation {
    let removes = op.removes.into_iter().map(ElementStep::Remove);
    TypeOperation::Elements(removes.chain(op.adds.into_iter().map(ElementStep::Add)).collect())
}

fn fields(op: MapOp) -> Result<TypeOperation, InvalidOperation> {
    let mut steps = Vec::with_capacity(op.removes.len() + op.updates.len());
    for removed in op.removes {
        steps.push(FieldStep::Remove(field(removed)?));
    }
    for update in op.updates {
        let field = field(update.field)?;
        let operation = match field.kind {
            FieldKind::Counter => update.counter_op.map(add),
            FieldKind::Set => update.set_op.map(elements),
            FieldKind::Register => update.register_op.map(TypeOperation::Assign),
            FieldKind::Flag => match update.flag_op {
                Some(FLAG_ENABLE) => Some(TypeOperation::Enable),
                Some(FLAG_DISABLE) => Some(TypeOperation::Disable),
                _ => None,
            },
            FieldKind::Map => update.map_op.map(fields).transpose()?,
            FieldKind::Gset | FieldKind::Hll => None,
        };
        let operation = operation
            .ok_or("Invalid operation on datatype 'map': an update must fit its field's type")?;
        steps.push(FieldStep::Update(field, operation));
    }
    Ok(TypeOperation::Fields(steps))
}

fn field(field: MapField) -> Result<Field, InvalidOperation> {
    let position = field.r#type.checked_sub(1).and_then(|at| usize::try_from(at).ok());
    let kind = position.and_then(|position| FIELD_KINDS.get(position));
    let kind = kind.ok_or("Invalid map field: its type must be 1 to 5")?;
    Ok(Field { name: field.name, kind: *kind })
}

fn number(kinds: &[FieldKind], kind: FieldKind) -> Option<i32> {
    let position = kinds.iter().position(|known| *known == kind)?;
    i32::try_from(position + 1).ok()
}

/// Returns the context that the client needs for its next change. `None`: it asked for none, or
/// removes nothing from values of this kind.
fn context(found: &TypeFound, includes_context: bool) -> Option<Bytes> {
    let has_removals = matches!(found.kind, FieldKind::Set | FieldKind::Map);
    (includes_context && has_removals).then(|| found.context.0.clone())
}

/// Returns a counter's sum; one beyond 64 bits is the nearest number that the message has.
pub fn counter_sum(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

/// Returns a map's fields. Those whose kind the schema lacks (`gset`, `hll`) are left out.
fn entries(fields: Vec<(Field, TypeValue)>) -> Vec<MapEntry> {
    fields.into_iter().filter_map(|(field, value)| entry(field, value)).collect()
}

fn entry(field: Field, value: TypeValue) -> Option<MapEntry> {
    let r#type = number(&FIELD_KINDS, field.kind)?;
    let mut entry =
        MapEntry { field: MapField { name: field.name, r#type }, ..MapEntry::default() };
    match value {
        TypeValue::Counter(value) => entry.counter_value = Some(counter_sum(value)),
        TypeValue::Set(elements) => entry.set_value = elements,
        TypeValue::Register(value) => entry.register_value = Some(value),
        TypeValue::Flag(on) => entry.flag_value = Some(on),
        TypeValue::Map(fields) => entry.map_value = entries(fields),
        TypeValue::Gset(_) | TypeValue::Hll(_) => return None,
    }
    Some(entry)
}

fn to_value(value: TypeValue) -> DtValue {
    let mut found = DtValue::default();
    match value {
        TypeValue::Counter(value) => found.counter_value = Some(counter_sum(value)),
        TypeValue::Set(elements) => found.set_value = elements,
        TypeValue::Gset(elements) => found.gset_value = elements,
        TypeValue::Hll(count) => found.hll_value = Some(count),
        TypeValue::Map(fields) => found.map_value = entries(fields),
        // No bucket has values of these kinds.
        TypeValue::Register(_) | TypeValue::Flag(_) => {}
    }
    found
}

/// Returns the answer to a read.
pub fn to_dt_fetch_resp(found: TypeFound, includes_context: bool) -> DtFetchResp {
    let context = found.value.as_ref().and_then(|_| context(&found, includes_context));
    let r#type = number(&VALUE_KINDS, found.kind).unwrap_or_default();
    DtFetchResp { context, r#type, value: found.value.map(to_value) }
}

/// Returns the answer to a change. `key`: the key that the server generated. `found`: the value, if
/// the client asked for it.
pub fn to_dt_update_resp(
    key: Option<Bytes>,
    found: Option<TypeFound>,
    includes_context: bool,
) -> DtUpdateResp {
    let context = found.as_ref().and_then(|found| context(found, includes_context));
    let value = found.and_then(|found| found.value).map(to_value).unwrap_or_default();
    DtUpdateResp {
        key,
        context,
        counter_value: value.counter_value,
        set_value: value.set_value,
        map_value: value.map_value,
        hll_value: value.hll_value,
        gset_value: value.gset_value,
    }
}
