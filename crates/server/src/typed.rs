//! JSON form of data types, for every front-end that uses it: operations, and values.
//!
//! An operation has the form that Riak's clients use: a number for a counter, `add` and `remove`
//! for sets, `update` and `remove` for maps, whose fields are named `name_type`. Removes take
//! effect before adds, so an add wins over a remove in the same request.

use crate::contexts;
use crate::http::percent::append_encoded;
use crate::strict_json;
use base::Context;
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use bytes::Bytes;
use serde_json::{Map, Value};

/// Error message for a body that is not a valid operation.
pub(crate) type InvalidBody = String;

/// Parses an operation, and its context if it has one.
pub(crate) fn operation(body: &[u8]) -> Result<(TypeOperation, Option<Context>), InvalidBody> {
    let mut value: Value =
        strict_json::parse(body).map_err(|error| format!("Couldn't decode JSON: {error}"))?;
    let context = match value.as_object_mut().and_then(|object| object.remove("context")) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => {
            let context = contexts::read(text.as_bytes());
            Some(context.ok_or("the context is not one that this server returned")?)
        }
        Some(_) => return Err("the context is not one that this server returned".into()),
    };
    Ok((parse_as(guess_kind(&value), &value)?, context))
}

/// Returns the kind of data type that an operation applies to, judged by its field names.
fn guess_kind(value: &Value) -> FieldKind {
    let Some(object) = value.as_object() else { return FieldKind::Counter };
    let contains = |name: &str| object.contains_key(name);
    if contains("increment") || contains("decrement") {
        FieldKind::Counter
    } else if object.get("update").is_some_and(Value::is_object)
        || object.get("remove").is_some_and(Value::is_array)
    {
        FieldKind::Map
    } else {
        FieldKind::Set
    }
}

fn parse_as(kind: FieldKind, value: &Value) -> Result<TypeOperation, InvalidBody> {
    let invalid = || {
        let hint = match kind {
            FieldKind::Set | FieldKind::Gset | FieldKind::Hll => "; elements must be strings",
            _ => "",
        };
        format!("Invalid operation on datatype '{}': {value}{hint}", kind.name())
    };
    match kind {
        FieldKind::Counter => counter(value).map(TypeOperation::Add).ok_or_else(invalid),
        FieldKind::Set | FieldKind::Gset | FieldKind::Hll => {
            elements(value).map(TypeOperation::Elements).ok_or_else(invalid)
        }
        FieldKind::Register => {
            let text =
                value.as_str().or_else(|| sole_field(value.as_object()?, "assign")?.as_str());
            text.map(|text| TypeOperation::Assign(to_bytes(text))).ok_or_else(invalid)
        }
        FieldKind::Flag => match value.as_str() {
            Some("enable") => Ok(TypeOperation::Enable),
            Some("disable") => Ok(TypeOperation::Disable),
            _ => Err(invalid()),
        },
        FieldKind::Map => fields(value.as_object().ok_or_else(invalid)?, invalid),
    }
}

fn to_bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn sole_field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|_| object.len() == 1)
}

fn counter(value: &Value) -> Option<i64> {
    match value {
        Value::String(step) if step == "increment" => Some(1),
        Value::String(step) if step == "decrement" => Some(-1),
        Value::Number(delta) => delta.as_i64(),
        Value::Object(object) => match sole_field(object, "increment") {
            Some(delta) => delta.as_i64(),
            None => sole_field(object, "decrement")?.as_i64()?.checked_neg(),
        },
        _ => None,
    }
}

fn elements(value: &Value) -> Option<Vec<ElementStep>> {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    collect_elements(value.as_object()?, (&mut added, &mut removed), true)?;
    let removed = removed.into_iter().map(ElementStep::Remove);
    Some(removed.chain(added.into_iter().map(ElementStep::Add)).collect())
}

fn collect_elements(
    object: &Map<String, Value>,
    (added, removed): (&mut Vec<Bytes>, &mut Vec<Bytes>),
    is_outermost: bool,
) -> Option<()> {
    if object.is_empty() {
        return None;
    }
    for (name, value) in object {
        match name.as_str() {
            "add" => added.push(to_bytes(value.as_str()?)),
            "remove" => removed.push(to_bytes(value.as_str()?)),
            "add_all" | "remove_all" => {
                let list = if name == "add_all" { &mut *added } else { &mut *removed };
                for element in value.as_array()? {
                    list.push(to_bytes(element.as_str()?));
                }
            }
            "update" if is_outermost => {
                for step in value.as_array()? {
                    collect_elements(step.as_object()?, (added, removed), false)?;
                }
            }
            _ => return None,
        }
    }
    Some(())
}

fn fields(
    object: &Map<String, Value>,
    invalid: impl Fn() -> InvalidBody,
) -> Result<TypeOperation, InvalidBody> {
    let mut steps = Vec::new();
    if object.is_empty() || object.keys().any(|name| name != "update" && name != "remove") {
        return Err(invalid());
    }
    if let Some(names) = object.get("remove") {
        for name in names.as_array().ok_or_else(&invalid)? {
            steps.push(FieldStep::Remove(field(name.as_str().ok_or_else(&invalid)?)?));
        }
    }
    if let Some(updates) = object.get("update") {
        for (name, value) in updates.as_object().ok_or_else(&invalid)? {
            let field = field(name)?;
            let operation = parse_as(field.kind, value)?;
            steps.push(FieldStep::Update(field, operation));
        }
    }
    Ok(TypeOperation::Fields(steps))
}

fn field(text: &str) -> Result<Field, InvalidBody> {
    let parts = text.rsplit_once('_');
    let parsed = parts.and_then(|(name, kind)| Some((name, FieldKind::parse(kind)?)));
    match parsed {
        Some((name, kind)) => Ok(Field { name: to_bytes(name), kind }),
        None => {
            let kinds = FieldKind::ALL.map(FieldKind::name).join(", ");
            Err(format!(
                "Invalid map field name '{text}': a field name must be NAME_TYPE, where TYPE is \
                 one of {kinds}"
            ))
        }
    }
}

/// Appends a data type as JSON. Bytes that are not UTF-8 are percent-encoded.
pub(crate) fn append_value(out: &mut String, value: &TypeValue) {
    match value {
        TypeValue::Counter(sum) => out.push_str(&sum.to_string()),
        TypeValue::Hll(count) => out.push_str(&count.to_string()),
        TypeValue::Flag(on) => out.push_str(if *on { "true" } else { "false" }),
        TypeValue::Register(value) => write_text(out, value, ""),
        TypeValue::Set(elements) | TypeValue::Gset(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write_text(out, element, "");
            }
            out.push(']');
        }
        TypeValue::Map(fields) => {
            out.push('{');
            for (at, (field, value)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write_text(out, &field.name, &format!("_{}", field.kind.name()));
                out.push(':');
                append_value(out, value);
            }
            out.push('}');
        }
    }
}

fn write_text(out: &mut String, bytes: &[u8], end: &str) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => {
            let mut text = String::new();
            append_encoded(&mut text, bytes);
            text
        }
    };
    out.push_str(&Value::String(text + end).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<TypeOperation, InvalidBody> {
        operation(body.as_bytes()).map(|(operation, _)| operation)
    }

    fn add(text: &str) -> ElementStep {
        ElementStep::Add(to_bytes(text))
    }

    fn remove(text: &str) -> ElementStep {
        ElementStep::Remove(to_bytes(text))
    }

    #[test]
    fn data_type_operations_are_parsed_from_json() {
        for (body, by) in [
            ("5", 5),
            ("-2", -2),
            ("\"increment\"", 1),
            ("\"decrement\"", -1),
            ("{\"increment\":5}", 5),
            ("{\"decrement\":5}", -5),
        ] {
            assert_eq!(read(body), Ok(TypeOperation::Add(by)), "{body}");
        }
        for (body, steps) in [
            (r#"{"add":"x"}"#, vec![add("x")]),
            (r#"{"add_all":["x","y"],"remove":"x"}"#, vec![remove("x"), add("x"), add("y")]),
            (r#"{"update":[{"add":"x"},{"remove":"y"}]}"#, vec![remove("y"), add("x")]),
        ] {
            assert_eq!(read(body), Ok(TypeOperation::Elements(steps)), "{body}");
        }
        let map = r#"{"update":{"n_counter":5,"a_b_set":{"add":"x"},"r_register":"enable",
            "f_flag":"disable","m_map":{"remove":["h_hll"]}},"remove":["g_gset"]}"#;
        let field = |name: &str, kind| Field { name: to_bytes(name), kind };
        let update = |name: &str, kind, operation| FieldStep::Update(field(name, kind), operation);
        let inner = vec![FieldStep::Remove(field("h", FieldKind::Hll))];
        let steps = vec![
            FieldStep::Remove(field("g", FieldKind::Gset)),
            update("n", FieldKind::Counter, TypeOperation::Add(5)),
            update("a_b", FieldKind::Set, TypeOperation::Elements(vec![add("x")])),
            update("r", FieldKind::Register, TypeOperation::Assign(to_bytes("enable"))),
            update("f", FieldKind::Flag, TypeOperation::Disable),
            update("m", FieldKind::Map, TypeOperation::Fields(inner)),
        ];
        assert_eq!(read(map), Ok(TypeOperation::Fields(steps)));
    }

    #[test]
    fn operation_that_holds_a_name_twice_is_refused() {
        for body in [
            r#"{"increment":5,"increment":500}"#,
            r#"{"update":{"n_counter":1,"n_counter":-1}}"#,
            r#"{"add":"x","context":"a","context":"b"}"#,
        ] {
            let refused = read(body).expect_err("refused");
            assert!(refused.contains("stands twice"), "{body}: {refused}");
        }
    }

    #[test]
    fn malformed_data_type_operation_is_refused() {
        for body in [
            "",
            "{",
            "1.5",
            "true",
            "{}",
            "[]",
            "null",
            r#"{"add":5}"#,
            r#"{"add_all":"x"}"#,
            r#"{"update":[{"update":[]}]}"#,
            r#"{"update":{"n":1}}"#,
            r#"{"update":{"f_flag":1}}"#,
            r#"{"remove":["x"]}"#,
            r#"{"add":"x","colour":"red"}"#,
            r#"{"add":"x","context":1}"#,
            r#"{"add":"x","context":"?"}"#,
            r#"{"increment":1,"add":"x"}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
        let deep = format!("{}1{}", r#"{"update":{"m_map":"#.repeat(200), "}}".repeat(200));
        assert!(read(&deep).is_err());
    }

    #[test]
    fn data_type_error_states_the_expected_form() {
        let error_of = |body| read(body).expect_err(body);
        assert!(error_of(r#"{"update":{"name":1}}"#).contains("NAME_TYPE"));
        assert!(error_of(r#"{"update":{"name":1}}"#).contains("register"));
        assert!(error_of(r#"{"add":5}"#).contains("elements must be strings"));
    }

    #[test]
    fn data_type_value_is_encoded_as_json() {
        let field = |name: &[u8], kind| Field { name: Bytes::copy_from_slice(name), kind };
        let map = TypeValue::Map(vec![
            (field(b"likes", FieldKind::Counter), TypeValue::Counter(-(1 << 70))),
            (field(b"a\xff", FieldKind::Set), TypeValue::Set(vec![to_bytes("x\""), to_bytes("y")])),
            (field(b"", FieldKind::Map), TypeValue::Map(vec![])),
            (field(b"r", FieldKind::Register), TypeValue::Register(to_bytes("v"))),
            (field(b"f", FieldKind::Flag), TypeValue::Flag(true)),
            (field(b"h", FieldKind::Hll), TypeValue::Hll(7)),
        ]);
        let mut text = String::new();
        append_value(&mut text, &map);
        let expected = concat!(
            r#"{"likes_counter":-1180591620717411303424,"a%FF_set":["x\"","y"],"_map":{},"#,
            r#""r_register":"v","f_flag":true,"h_hll":7}"#
        );
        assert_eq!(text, expected);
    }
}
