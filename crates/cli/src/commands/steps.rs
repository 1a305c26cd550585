//! Steps of a sequence in the form that people type.

use crate::args::Encoding;
use api::Blob;
use record_files::unescape;
use serde_json::{Map, Value, json};

/// Kind of a step's argument.
#[derive(Clone, Copy)]
enum ArgumentKind {
    Bytes,
    BytesOrNull,
    Number,
    NumberOrNull,
}
use ArgumentKind::*;

/// All steps: the name of each, and the names and kinds of its fields.
const STEPS: [(&str, &[(&str, ArgumentKind)]); 16] = [
    ("set", &[("key", Bytes), ("value", Bytes)]),
    ("delete", &[("key", Bytes)]),
    ("assert", &[("key", Bytes), ("expected", BytesOrNull)]),
    ("assert_exists", &[("key", Bytes)]),
    ("assert_version", &[("key", Bytes), ("version", NumberOrNull)]),
    ("test_and_set", &[("key", Bytes), ("expected", BytesOrNull), ("wanted", BytesOrNull)]),
    ("replace", &[("key", Bytes), ("wanted", BytesOrNull)]),
    ("confirm", &[("key", Bytes), ("value", Bytes)]),
    ("delete_prefix", &[("prefix", Bytes)]),
    ("add", &[("key", Bytes), ("delta", Number)]),
    ("append", &[("key", Bytes), ("value", Bytes)]),
    ("rename", &[("from", Bytes), ("to", Bytes)]),
    ("copy", &[("from", Bytes), ("to", Bytes)]),
    ("expire", &[("key", Bytes), ("ttl_ms", Number)]),
    ("get", &[("key", Bytes)]),
    ("nop", &[]),
];

/// A word of a line, with its quoting.
struct QuotedWord {
    bytes: Vec<u8>,
    quoted: bool,
}

/// Parses a line. `None`: it is empty or a comment.
pub fn read(line: &str, encoding: Encoding) -> Result<Option<Value>, String> {
    let words = split_words(line)?;
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    let name = String::from_utf8_lossy(&first.bytes);
    let known = STEPS.iter().find(|(step, _)| *step == name);
    let (step, fields) = known.ok_or_else(|| {
        let names: Vec<_> = STEPS.iter().map(|(step, _)| *step).collect();
        format!("`{name}` is no step; there are {}", names.join(", "))
    })?;
    if rest.len() != fields.len() {
        let names: Vec<_> = fields.iter().map(|(field, _)| field.to_uppercase()).collect();
        return Err(format!("`{step} {}` is wanted", names.join(" ")));
    }
    let mut object = Map::new();
    object.insert("op".into(), json!(step));
    for ((field, kind), word) in fields.iter().zip(rest) {
        object.insert((*field).into(), value(*kind, word, encoding)?);
    }
    Ok(Some(Value::Object(object)))
}

fn value(kind: ArgumentKind, word: &QuotedWord, encoding: Encoding) -> Result<Value, String> {
    let is_null = !word.quoted && word.bytes == b"null";
    match kind {
        BytesOrNull | NumberOrNull if is_null => Ok(Value::Null),
        Bytes | BytesOrNull if word.quoted => Ok(json!(Blob::from(&word.bytes[..]))),
        Bytes | BytesOrNull => {
            let text = String::from_utf8_lossy(&word.bytes);
            let bytes = encoding.bytes(&text).map_err(|failure| failure.to_string())?;
            Ok(json!(Blob(bytes)))
        }
        Number | NumberOrNull => {
            let text = String::from_utf8_lossy(&word.bytes);
            let number = text.parse::<i64>().map_err(|_| format!("`{text}` is no whole number"))?;
            Ok(json!(number))
        }
    }
}

/// Splits a line at blanks outside quotes; `#` where a word could begin ends it.
fn split_words(line: &str) -> Result<Vec<QuotedWord>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted_text) => {
                let end = closing_quote(quoted_text).ok_or("a quote is not closed")?;
                let mut bytes = Vec::new();
                let text = quoted_text[..end].replace("\\\"", "\\x22");
                unescape(text.as_bytes(), &mut bytes)?;
                (QuotedWord { bytes, quoted: true }, &quoted_text[end + 1..])
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (QuotedWord { bytes: rest[..end].into(), quoted: false }, &rest[end..])
            }
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err("a blank must follow a closing quote".into());
        }
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Returns the offset of the closing quote, which no backslash escapes. `None`: there is none.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return Some(at),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Formats the result of a step as one line.
pub fn format_result(step: &Value) -> String {
    let outcome = step["outcome"].as_str().unwrap_or("done");
    let rest: Map<String, Value> = step
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "outcome")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    match (outcome, rest.get(outcome)) {
        ("done", _) => "done".into(),
        (_, Some(Value::String(text))) => {
            format!("{outcome} {}", base::codec::printable(text.as_bytes()))
        }
        (_, Some(value)) if rest.len() == 1 => format!("{outcome} {value}"),
        _ => format!("{outcome} {}", Value::Object(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: &str) -> Result<Value, String> {
        read(line, Encoding::default()).map(|step| step.unwrap_or(Value::Null))
    }

    #[test]
    fn sequence_steps_are_parsed_into_json_operations() {
        let expected = json!({"op": "set", "key": "a", "value": "two words\t\"x\""});
        assert_eq!(step(r#"set a "two words\t\"x\"" # why"#), Ok(expected));
        let expected =
            json!({"op": "test_and_set", "key": "k", "expected": null, "wanted": "null"});
        assert_eq!(step(r#"test_and_set k null "null""#), Ok(expected));
        let expected = json!({"op": "append", "key": {"base64": "/w=="}, "value": ""});
        assert_eq!(step(r#"append "\xff" """#), Ok(expected));
        assert_eq!(step("add n -3"), Ok(json!({"op": "add", "key": "n", "delta": -3})));
        assert_eq!(step("  # nothing"), Ok(Value::Null));
    }

    #[test]
    fn malformed_step_error_states_expected_syntax() {
        let error_of = |line| step(line).expect_err("wrong");
        assert!(error_of("put a b").contains("there are set, delete"));
        assert!(error_of("set a").contains("`set KEY VALUE`"));
        assert!(error_of("set \"a b").contains("not closed"));
        assert!(error_of("set \"a\"b c").contains("blank"));
        assert!(error_of("add n many").contains("whole number"));
    }

    #[test]
    fn step_outcome_is_rendered_on_a_single_line() {
        assert_eq!(format_result(&json!({"outcome": "done"})), "done");
        assert_eq!(format_result(&json!({"outcome": "existed", "existed": true})), "existed true");
        assert_eq!(format_result(&json!({"outcome": "old", "old": "a\nb"})), "old a\\x0ab");
    }
}
