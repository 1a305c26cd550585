//! Size of a reply as JSON, before it is written: an upper bound, close to the size for replies
//! with large values.
//!
//! JSON may be six times as long as its bytes, for example for control characters. A connection
//! reserves memory by this bound, so it never builds an answer that does not fit.

use base::datatype::TypeValue;
use base::reply::IndexRecord;
use base::wire::answer_bytes;
use base::{Body, Entry, Error, FeedEvent, Headers, IndexRow, Outcome, Reply, Row, Siblings};

/// Bound of the names and numbers beside the bytes of a row, key, sibling or step.
const ELEMENT_BYTES: usize = 192;
/// Most bytes that one byte takes in JSON, as in `\u0001`.
const ESCAPED_BYTES_MAX: usize = 6;
/// Size of a reply on the wire up to which its JSON needs no closer look.
const SMALL_BYTES: usize = 8 * 1024;

/// Returns an upper bound of a reply's size as JSON, or 0 for a small one. It is 0 also for replies
/// about the cluster, which no client can make large.
pub fn json_bytes_max(result: &Result<Reply, Error>) -> usize {
    match result {
        Ok(reply) if answer_bytes(result) > SMALL_BYTES => body_bytes(&reply.body),
        _ => 0,
    }
}

fn body_bytes(body: &Body) -> usize {
    ELEMENT_BYTES
        + match body {
            Body::Row(row) => row_bytes(row.as_ref()),
            Body::Rows(rows) => rows.iter().map(|row| row_bytes(row.as_ref())).sum(),
            // The last key is written once more, for the next page.
            Body::Page(page) => {
                let last = page.entries.last().map_or(0, |last| text_bytes(&last.key));
                last + page.entries.iter().map(entry_bytes).sum::<usize>()
            }
            Body::Updated(outcome) => outcome_bytes(outcome),
            Body::Siblings(siblings) => siblings_bytes(siblings),
            Body::Stored(context) => 2 * context.0.len(),
            Body::Keys(keys) => {
                let last = keys.keys.last().map_or(0, |last| text_bytes(last));
                last + keys.keys.iter().map(|key| 1 + text_bytes(key)).sum::<usize>()
            }
            Body::BucketNames(names) => {
                names.names.iter().map(|name| 3 + ESCAPED_BYTES_MAX * name.full().len()).sum()
            }
            Body::Typed(found) => {
                2 * found.context.0.len() + found.value.as_ref().map_or(0, type_bytes)
            }
            Body::IndexPage(page) => {
                let after = page.after.as_ref().map_or(0, |after| text_bytes(after));
                after + page.rows.iter().map(index_row_bytes).sum::<usize>()
            }
            Body::FeedPage(page) => {
                text_bytes(&page.next) + page.events.iter().map(event_bytes).sum::<usize>()
            }
            _ => 0,
        }
}

/// Returns an upper bound of a row's size in a range as JSON.
pub fn entry_bytes(entry: &Entry) -> usize {
    text_bytes(&entry.key) + row_bytes(entry.row.as_ref())
}

/// Returns an upper bound of the size of an index's row as JSON.
pub fn index_row_bytes(row: &IndexRow) -> usize {
    let term = row.term.as_ref().map_or(0, |term| text_bytes(term));
    text_bytes(&row.key) + term + record_bytes(row.record.as_ref())
}

/// Returns an upper bound of the size of an event of a feed as JSON.
pub fn event_bytes(event: &FeedEvent) -> usize {
    text_bytes(&event.key) + record_bytes(event.record.as_ref())
}

fn record_bytes(record: Option<&IndexRecord>) -> usize {
    match record {
        None => ELEMENT_BYTES,
        Some(IndexRecord::Row(row)) => row_bytes(Some(row)),
        Some(IndexRecord::Siblings(siblings)) => ELEMENT_BYTES + siblings_bytes(siblings),
    }
}

fn row_bytes(row: Option<&Row>) -> usize {
    ELEMENT_BYTES + row.map_or(0, |row| text_bytes(&row.value))
}

fn outcome_bytes(outcome: &Outcome) -> usize {
    ELEMENT_BYTES
        + match outcome {
            Outcome::Old(old) | Outcome::Swapped { old, .. } => {
                old.as_ref().map_or(0, |old| text_bytes(old))
            }
            Outcome::Text(text) => text_bytes(text),
            Outcome::Read(body) => body_bytes(body),
            Outcome::Steps(steps) => steps.iter().map(step_bytes).sum(),
            _ => 0,
        }
}

fn step_bytes(step: &Result<Outcome, Error>) -> usize {
    match step {
        Ok(outcome) => outcome_bytes(outcome),
        Err(error) => ELEMENT_BYTES + text_bytes(&error.detail),
    }
}

fn siblings_bytes(siblings: &Siblings) -> usize {
    let values = siblings.values.iter().map(|sibling| {
        let content = &sibling.content;
        ELEMENT_BYTES + text_bytes(&content.value) + headers_bytes(&content.headers)
    });
    2 * siblings.context.0.len() + values.sum::<usize>()
}

fn headers_bytes(headers: &Headers) -> usize {
    let Headers { content_type, charset, encoding, meta, links, indexes } = headers;
    let own = [content_type, charset, encoding].map(|text| text_bytes(text)).iter().sum::<usize>();
    let pairs = meta.iter().chain(indexes);
    let pairs = pairs.map(|(name, text)| 4 + text_bytes(name) + text_bytes(text));
    let links = links
        .iter()
        .map(|link| 5 + text_bytes(&link.bucket) + text_bytes(&link.key) + text_bytes(&link.tag));
    own + pairs.sum::<usize>() + links.sum::<usize>()
}

/// A text that is not UTF-8 is percent-encoded in a data type.
fn type_bytes(value: &TypeValue) -> usize {
    let text = |bytes: &[u8]| text_bytes(bytes).max(3 * bytes.len()) + 16;
    match value {
        TypeValue::Counter(_) | TypeValue::Hll(_) | TypeValue::Flag(_) => 48,
        TypeValue::Register(value) => text(value),
        TypeValue::Set(elements) | TypeValue::Gset(elements) => {
            2 + elements.iter().map(|element| text(element)).sum::<usize>()
        }
        TypeValue::Map(fields) => {
            let fields = fields.iter().map(|(field, value)| text(&field.name) + type_bytes(value));
            2 + fields.sum::<usize>()
        }
    }
}

/// Returns an upper bound of the size of bytes as JSON: a string, or base 64 if they are not UTF-8.
fn text_bytes(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(text) => 2 + text.bytes().map(escaped_bytes).sum::<usize>(),
        Err(_) => 16 + bytes.len().div_ceil(3) * 4,
    }
}

fn escaped_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' => 2,
        0..0x20 => ESCAPED_BYTES_MAX,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::json::write::append_body;
    use base::feed::FeedEventKind;
    use base::{
        Content, Context, FeedPage, IndexPage, Key, LogIndex, Page, Sibling, Value, Version, Vtag,
    };
    use bytes::Bytes;

    fn row(value: &[u8]) -> Row {
        let value = Value::copy_from_slice(value);
        Row { value, version: Version(u64::MAX), expires_in_ms: Some(u64::MAX), tags: None }
    }

    /// Checks that the bound of a body's size holds, and is close to the size.
    fn check(body: Body) {
        let mut json = Vec::new();
        append_body(&mut json, &body);
        let result = Ok(Reply::new(LogIndex(1), body));
        let bound = json_bytes_max(&result);
        assert!(bound >= json.len(), "{bound} for {}: {result:?}", json.len());
        assert!(bound < json.len() + json.len() / 2, "{bound} for {}", json.len());
    }

    #[test]
    fn json_size_bound_holds_for_text_control_characters_and_binary_values() {
        for value in [[b'x'; 9_000], [1; 9_000], [b'"'; 9_000], [0xFF; 9_000]] {
            let entry = Entry { key: Key::copy_from_slice(&value), row: Some(row(&value)) };
            let old = Some(Value::copy_from_slice(&value));
            let key = Key::copy_from_slice(&value);
            check(Body::Row(Some(row(&value))));
            check(Body::Rows(vec![Some(row(&value)), None, Some(row(&value))]));
            check(Body::Page(Page { entries: vec![entry.clone(), entry], more: true }));
            let read = Outcome::Read(Box::new(Body::Row(Some(row(&value)))));
            let failed = Error::key(base::Reason::NotFound, &Key::copy_from_slice(&value));
            let steps = vec![Ok(Outcome::Old(old.clone())), Ok(read), Err(failed)];
            check(Body::Updated(Outcome::Steps(steps)));
            check(Body::Updated(Outcome::Swapped { written: true, old }));
            let mut content = Content::plain(Value::copy_from_slice(&value));
            content.headers.meta = vec![(Bytes::from_static(b"a"), content.value.clone())];
            let (vtag, written_ms, tombstone) = (Vtag(1), u64::MAX, false);
            let sibling = Sibling { vtag, content, written_ms, tombstone };
            let context = Context(Bytes::from(vec![1; 100]));
            let siblings = Siblings { context, values: vec![sibling] };
            check(Body::Siblings(siblings.clone()));
            let index_row = |record| IndexRow { key: key.clone(), term: Some(key.clone()), record };
            let rows = vec![
                index_row(None),
                index_row(Some(IndexRecord::Row(row(&value)))),
                index_row(Some(IndexRecord::Siblings(siblings))),
            ];
            let (after, is_partial) = (Some(Value::from_static(b"AX-")), false);
            check(Body::IndexPage(Box::new(IndexPage { rows, after, is_partial })));
            let record = Some(IndexRecord::Row(row(&value)));
            let (kind, version, again) = (FeedEventKind::Put, None, true);
            let event = FeedEvent { kind, key, version, record, again };
            let (events, next) = (vec![event.clone(), event], Value::from_static(b"AX-"));
            check(Body::FeedPage(Box::new(FeedPage { events, next, level: true, restart: true })));
        }
        let small = Ok(Reply::new(LogIndex(1), Body::Row(Some(row(b"x")))));
        assert_eq!(json_bytes_max(&small), 0);
    }
}
