//! Documents that clients write: each is a function of its key and of the number of its write, so a
//! value that is found says which write it is of.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Number of different terms; half of them are negative.
pub const TERMS: i64 = 400;

/// Living values by key. A key without any is absent; only an available bucket has several.
pub type DocumentRows = BTreeMap<String, BTreeSet<String>>;

/// Returns the document of a key's `count`th write.
pub fn document(key: &str, count: u64) -> String {
    format!("{{\"n\":{},\"id\":\"{key}#{count}\"}}", term(key, count))
}

/// Returns the indexed term of that document.
pub fn term(key: &str, count: u64) -> i64 {
    let hash = xxh3_64(format!("{key}#{count}").as_bytes());
    (hash % TERMS as u64) as i64 - TERMS / 2
}

/// Returns the number of the write that a value of this key is of. `None`: nobody writes it.
pub fn write_number(key: &str, value: &str) -> Option<u64> {
    let fields: Value = serde_json::from_str(value).ok()?;
    let count = fields["id"].as_str()?.strip_prefix(key)?.strip_prefix('#')?.parse().ok()?;
    (document(key, count) == value).then_some(count)
}

/// Returns the living values of a record as HTTP shows it: of a row its value, of siblings those
/// that are no deletes. `None`: the object has no record.
pub fn living_values(record: &Value) -> Option<BTreeSet<String>> {
    if let Some(value) = record.get("value") {
        return value.as_str().map(|value| BTreeSet::from([value.to_string()]));
    }
    let siblings = record["siblings"].as_array()?.iter();
    let values = siblings.filter_map(|sibling| sibling["value"].as_str());
    Some(values.map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn document_names_its_write_and_no_other() {
        let value = document("w0-001", 12);
        assert_eq!(write_number("w0-001", &value), Some(12));
        for (key, value) in [
            ("w0-00", value.clone()),
            ("w0-001", value.replace("#12", "#13")),
            ("w0-001", String::from("{}")),
            ("w0-001", String::from("torn")),
        ] {
            assert_eq!(write_number(key, &value), None, "{value}");
        }
    }

    #[test]
    fn living_values_are_those_of_a_row_or_of_siblings() {
        let set = |values: &[&str]| Some(values.iter().map(|value| value.to_string()).collect());
        assert_eq!(living_values(&json!({ "key": "a", "value": "v" })), set(&["v"]));
        let siblings =
            json!({ "siblings": [{ "value": "v" }, { "value": null }, { "value": "w" }] });
        assert_eq!(living_values(&siblings), set(&["v", "w"]));
        assert_eq!(living_values(&json!({ "siblings": [{ "value": null }] })), set(&[]));
        assert_eq!(living_values(&json!({ "key": "a" })), None);
    }
}
