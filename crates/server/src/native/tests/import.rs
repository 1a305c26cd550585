//! Chunks of records that are imported.

use super::target;
use crate::native::translate::{NativePlan, NativeShape, plan};
use base::request::{Call, Expiry, SequenceMode};
use base::{Reason, Update, import_chunk};
use bytes::Bytes;

#[test]
fn import_chunk_becomes_one_sequence_of_writes_in_order() {
    let records = [(&b"a"[..], &b"1"[..]), (b"b", b"2"), (b"a", b"3")];
    let chunk = Bytes::from(import_chunk::encode(records.into_iter(), 0));
    let planned = |query: &str, chunk: &Bytes| {
        let octets = "content-length: 9\ncontent-type: application/octet-stream";
        let request = format!("POST /v1/buckets/a/b/import{query} HTTP/1.1\n{octets}");
        plan(target(&request).expect(query), chunk.clone())
    };
    for (query, mode, expiry) in [
        ("", SequenceMode::Synced, Expiry::Default),
        ("?mode=batch&ttl_ms=9", SequenceMode::Batch, Expiry::After(9)),
        ("?ttl_ms=never&mode=synced", SequenceMode::Synced, Expiry::Never),
    ] {
        let set = |(key, value): (&'static [u8], &'static [u8])| Update::Set {
            key: Bytes::from_static(key),
            value: Bytes::from_static(value),
            expiry,
        };
        let call = Call::Update(Update::Sequence { steps: records.map(set).into(), mode });
        match planned(query, &chunk) {
            Ok(NativePlan::Submit(request, NativeShape::Nothing)) => assert_eq!(request.call, call),
            other => panic!("{query}: {other:?}"),
        }
    }
    let refused = planned("", &chunk.slice(1..)).expect_err("it lacks a byte");
    assert_eq!(refused.reason, Reason::Malformed);
}
