//! JSON form of data types, for every front-end that speaks it: operations, and values.
//!
//! An operation has the form that Riak's clients use: a number for a counter, `add` and `remove`
//! for sets, `update` and `remove` for maps, whose fields are named `name_type`. Removes take
//! effect before adds, so an add wins over a remove in the same request.

use crate::contexts;
use crate::http::percent::encode_onto;
use base::Context;
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use bytes::Bytes;
use serde_json::{Map, Value};

/// Error message for a body that is not a valid operation.
pub(crate) type WrongBody = String;

/// Parses an operation, and its context if it has one.
pub(crate) fn operation(body: &[u8]) -> Result<(TypeOperation, Option<Context>), WrongBody> {
    let mut value: Value =
        serde_json::from_slice(body).map_err(|error| format!("Couldn't decode JSON: {error}"))?;
    let context = match value.as_object_mut().and_then(|object| object.remove("context")) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => {
            let context = contexts::read(text.as_bytes());
            Some(context.ok_or("the context is not what was given out")?)
        }
        Some(_) => return Err("the context is not what was given out".into()),
    };
    Ok((of_kind(kind(&value), &value)?, context))
}

/// Returns the kind of data type that an operation applies to, judged by its field names.
fn kind(value: &Value) -> FieldKind {
    let Some(object) = value.as_object() else { return FieldKind::Counter };
    let has = |name: &str| object.contains_key(name);
    if has("increment") || has("decrement") {
        FieldKind::Counter
    } else if object.get("update").is_some_and(Value::is_object)
        || object.get("remove").is_some_and(Value::is_array)
    {
        FieldKind::Map
    } else {
        FieldKind::Set
    }
}

fn of_kind(kind: FieldKind, value: &Value) -> Result<TypeOperation, WrongBody> {
    let wrong = || {
        let hint = match kind {
            FieldKind::Set | FieldKind::Gset | FieldKind::Hll => "; elements are strings",
            _ => "",
        };
        format!("Invalid operation on datatype '{}': {value}{hint}", kind.word())
    };
    match kind {
        FieldKind::Counter => counter(value).map(TypeOperation::Add).ok_or_else(wrong),
        FieldKind::Set | FieldKind::Gset | FieldKind::Hll => {
            elements(value).map(TypeOperation::Elements).ok_or_else(wrong)
        }
        FieldKind::Register => {
            let text = value.as_str().or_else(|| only(value.as_object()?, "assign")?.as_str());
            text.map(|text| TypeOperation::Assign(owned(text))).ok_or_else(wrong)
        }
        FieldKind::Flag => match value.as_str() {
            Some("enable") => Ok(TypeOperation::Enable),
            Some("disable") => Ok(TypeOperation::Disable),
            _ => Err(wrong()),
        },
        FieldKind::Map => fields(value.as_object().ok_or_else(wrong)?, wrong),
    }
}

fn owned(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn only<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|_| object.len() == 1)
}

fn counter(value: &Value) -> Option<i64> {
    match value {
        Value::String(word) if word == "increment" => Some(1),
        Value::String(word) if word == "decrement" => Some(-1),
        Value::Number(by) => by.as_i64(),
        Value::Object(object) => match only(object, "increment") {
            Some(by) => by.as_i64(),
            None => only(object, "decrement")?.as_i64()?.checked_neg(),
        },
        _ => None,
    }
}

fn elements(value: &Value) -> Option<Vec<ElementStep>> {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    each_elements(value.as_object()?, (&mut added, &mut removed), true)?;
    let removed = removed.into_iter().map(ElementStep::Remove);
    Some(removed.chain(added.into_iter().map(ElementStep::Add)).collect())
}

fn each_elements(
    object: &Map<String, Value>,
    (added, removed): (&mut Vec<Bytes>, &mut Vec<Bytes>),
    is_outermost: bool,
) -> Option<()> {
    if object.is_empty() {
        return None;
    }
    for (name, value) in object {
        match name.as_str() {
            "add" => added.push(owned(value.as_str()?)),
            "remove" => removed.push(owned(value.as_str()?)),
            "add_all" | "remove_all" => {
                let all = if name == "add_all" { &mut *added } else { &mut *removed };
                for element in value.as_array()? {
                    all.push(owned(element.as_str()?));
                }
            }
            "update" if is_outermost => {
                for step in value.as_array()? {
                    each_elements(step.as_object()?, (added, removed), false)?;
                }
            }
            _ => return None,
        }
    }
    Some(())
}

fn fields(
    object: &Map<String, Value>,
    wrong: impl Fn() -> WrongBody,
) -> Result<TypeOperation, WrongBody> {
    let mut steps = Vec::new();
    if object.is_empty() || object.keys().any(|name| name != "update" && name != "remove") {
        return Err(wrong());
    }
    if let Some(names) = object.get("remove") {
        for name in names.as_array().ok_or_else(&wrong)? {
            steps.push(FieldStep::Remove(field(name.as_str().ok_or_else(&wrong)?)?));
        }
    }
    if let Some(updates) = object.get("update") {
        for (name, value) in updates.as_object().ok_or_else(&wrong)? {
            let field = field(name)?;
            let operation = of_kind(field.kind, value)?;
            steps.push(FieldStep::Update(field, operation));
        }
    }
    Ok(TypeOperation::Fields(steps))
}

fn field(text: &str) -> Result<Field, WrongBody> {
    let parts = text.rsplit_once('_');
    let known = parts.and_then(|(name, kind)| Some((name, FieldKind::parse(kind)?)));
    match known {
        Some((name, kind)) => Ok(Field { name: owned(name), kind }),
        None => {
            let kinds = FieldKind::ALL.map(FieldKind::word).join(", ");
            Err(format!(
                "Invalid map field name '{text}': a field is named NAME_TYPE, TYPE being one of \
                 {kinds}"
            ))
        }
    }
}

/// Appends a data type as JSON. Bytes that are not UTF-8 are percent-encoded.
pub(crate) fn value_onto(out: &mut String, value: &TypeValue) {
    match value {
        TypeValue::Counter(sum) => out.push_str(&sum.to_string()),
        TypeValue::Hll(count) => out.push_str(&count.to_string()),
        TypeValue::Flag(on) => out.push_str(if *on { "true" } else { "false" }),
        TypeValue::Register(value) => text_onto(out, value, ""),
        TypeValue::Set(elements) | TypeValue::Gset(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                text_onto(out, element, "");
            }
            out.push(']');
        }
        TypeValue::Map(fields) => {
            out.push('{');
            for (at, (field, value)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                text_onto(out, &field.name, &format!("_{}", field.kind.word()));
                out.push(':');
                value_onto(out, value);
            }
            out.push('}');
        }
    }
}

fn text_onto(out: &mut String, bytes: &[u8], end: &str) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => {
            let mut text = String::new();
            encode_onto(&mut text, bytes);
            text
        }
    };
    out.push_str(&Value::String(text + end).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<TypeOperation, WrongBody> {
        operation(body.as_bytes()).map(|(operation, _)| operation)
    }

    fn add(text: &str) -> ElementStep {
        ElementStep::Add(owned(text))
    }

    fn remove(text: &str) -> ElementStep {
        ElementStep::Remove(owned(text))
    }

    #[test]
    fn operations_are_told_by_their_words() {
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
        let field = |name: &str, kind| Field { name: owned(name), kind };
        let update = |name: &str, kind, operation| FieldStep::Update(field(name, kind), operation);
        let inner = vec![FieldStep::Remove(field("h", FieldKind::Hll))];
        let steps = vec![
            FieldStep::Remove(field("g", FieldKind::Gset)),
            update("n", FieldKind::Counter, TypeOperation::Add(5)),
            update("a_b", FieldKind::Set, TypeOperation::Elements(vec![add("x")])),
            update("r", FieldKind::Register, TypeOperation::Assign(owned("enable"))),
            update("f", FieldKind::Flag, TypeOperation::Disable),
            update("m", FieldKind::Map, TypeOperation::Fields(inner)),
        ];
        assert_eq!(read(map), Ok(TypeOperation::Fields(steps)));
    }

    #[test]
    fn what_says_nothing_is_refused_in_words() {
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
    fn a_refusal_says_what_is_expected() {
        let said = |body| read(body).expect_err(body);
        assert!(said(r#"{"update":{"name":1}}"#).contains("NAME_TYPE"));
        assert!(said(r#"{"update":{"name":1}}"#).contains("register"));
        assert!(said(r#"{"add":5}"#).contains("elements are strings"));
    }

    #[test]
    fn a_value_is_shown_as_its_clients_read_it() {
        let field = |name: &[u8], kind| Field { name: Bytes::copy_from_slice(name), kind };
        let map = TypeValue::Map(vec![
            (field(b"likes", FieldKind::Counter), TypeValue::Counter(-(1 << 70))),
            (field(b"a\xff", FieldKind::Set), TypeValue::Set(vec![owned("x\""), owned("y")])),
            (field(b"", FieldKind::Map), TypeValue::Map(vec![])),
            (field(b"r", FieldKind::Register), TypeValue::Register(owned("v"))),
            (field(b"f", FieldKind::Flag), TypeValue::Flag(true)),
            (field(b"h", FieldKind::Hll), TypeValue::Hll(7)),
        ]);
        let mut text = String::new();
        value_onto(&mut text, &map);
        let expected = concat!(
            r#"{"likes_counter":-1180591620717411303424,"a%FF_set":["x\"","y"],"_map":{},"#,
            r#""r_register":"v","f_flag":true,"h_hll":7}"#
        );
        assert_eq!(text, expected);
    }
}
