//! Changes of a page, as a copy applies them: of each key the last one.

use api::{Blob, FeedEventReply, SiblingReply};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Record that a key is to have.
#[derive(Clone, Debug, PartialEq)]
pub enum NewRecord {
    /// None: the key is deleted.
    Absent,
    /// One value, and the milliseconds until it expires if it does.
    Value(Blob, Option<u64>),
    /// Several values, newest first.
    Siblings(Vec<Blob>),
}

/// Returns the last change of each key in the order of keys. Keys with `reserved` in front are left
/// out: they hold the positions of copies. An event of a put without a record stands before one of
/// a delete, which says the same.
pub fn last_changes(events: Vec<FeedEventReply>, reserved: &[u8]) -> BTreeMap<Bytes, NewRecord> {
    let mut changes = BTreeMap::new();
    for event in events {
        let key = event.key.0.clone();
        if key.starts_with(reserved) {
            continue;
        }
        if let Some(record) = record(event) {
            changes.insert(key, record);
        }
    }
    changes
}

/// Returns the record after an event. `None`: the event does not say it.
fn record(event: FeedEventReply) -> Option<NewRecord> {
    match event {
        FeedEventReply { event, .. } if event == "delete" => Some(NewRecord::Absent),
        FeedEventReply { value: Some(value), expires_in_ms, .. } => {
            Some(NewRecord::Value(value, expires_in_ms))
        }
        FeedEventReply { siblings: Some(siblings), .. } => Some(of_siblings(siblings)),
        _ => None,
    }
}

/// Returns the record with these values; tombstones among them are none.
fn of_siblings(siblings: Vec<SiblingReply>) -> NewRecord {
    let mut values: Vec<_> = siblings.into_iter().filter_map(|sibling| sibling.value).collect();
    match values.len() {
        0 => NewRecord::Absent,
        1 => NewRecord::Value(values.remove(0), None),
        _ => NewRecord::Siblings(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, key: &str, value: Option<&str>) -> FeedEventReply {
        let blob = |text: &str| Blob::from(text.as_bytes());
        let (event, key, value) = (kind.into(), blob(key), value.map(blob));
        FeedEventReply { event, key, value, ..FeedEventReply::default() }
    }

    fn siblings(key: &str, values: &[Option<&str>]) -> FeedEventReply {
        let sibling = |value: &Option<&str>| SiblingReply {
            value: value.map(|text| Blob::from(text.as_bytes())),
            ..SiblingReply::default()
        };
        let siblings = Some(values.iter().map(sibling).collect());
        FeedEventReply { siblings, ..event("put", key, None) }
    }

    #[test]
    fn last_change_of_each_key_counts_and_reserved_keys_are_left_out() {
        let events = vec![
            event("put", "b", Some("1")),
            event("put", "a", Some("1")),
            event("put", "copy/x", Some("1")),
            event("delete", "b", None),
            event("put", "a", Some("2")),
            event("put", "c", None),
        ];
        let value = |text: &str| NewRecord::Value(Blob::from(text.as_bytes()), None);
        let expected = [("a", value("2")), ("b", NewRecord::Absent)];
        let expected = expected.map(|(key, record)| (Bytes::from(key), record));
        assert_eq!(last_changes(events, b"copy/"), BTreeMap::from(expected));
    }

    #[test]
    fn siblings_without_tombstones_are_the_record() {
        let blob = |text: &str| Blob::from(text.as_bytes());
        for (values, expected) in [
            (&[None][..], NewRecord::Absent),
            (&[Some("v"), None], NewRecord::Value(blob("v"), None)),
            (&[Some("v"), Some("w")], NewRecord::Siblings(vec![blob("v"), blob("w")])),
        ] {
            let changes = last_changes(vec![siblings("a", values)], b"copy/");
            assert_eq!(changes.into_values().collect::<Vec<_>>(), [expected]);
        }
    }
}
