//! Hostile frames and messages: each is refused within bounds.

use super::{frame, text};
use crate::structure::FIELDS_MAX;
use crate::*;
use base::limits::{FRAME_BYTES_MAX, TYPE_DEPTH_MAX};
use bytes::Bytes;
use proptest::prelude::*;

const REQUEST_CODES: [u8; 23] =
    [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 29, 31, 32, 33, 50, 52, 80, 82, 253, 255];

#[test]
fn frame_of_no_length_or_too_great_a_length_is_invalid() {
    assert_eq!(next_frame(&[0, 0, 0, 0]), Framed::Invalid(0));
    assert_eq!(next_frame(&[0xff; 9]), Framed::Invalid(u32::MAX));
    let longest = (FRAME_BYTES_MAX - 4) as u32;
    let head = longest.to_be_bytes();
    assert_eq!(next_frame(&head), Framed::Incomplete(FRAME_BYTES_MAX));
    let head = (longest + 1).to_be_bytes();
    assert_eq!(next_frame(&head), Framed::Invalid(longest + 1));
    assert_eq!(next_frame(&[0, 0]), Framed::Incomplete(FRAME_HEAD_BYTES));
}

#[test]
fn codes_without_request_are_unknown() {
    for code in 0..=255 {
        let decoded = PbcRequest::decode(code, Bytes::new());
        let is_unknown = decoded == Err(DecodeError::UnknownCode(code));
        assert_eq!(is_unknown, !REQUEST_CODES.contains(&code), "{code}: {decoded:?}");
    }
    let text = DecodeError::UnknownCode(70).to_string();
    assert_eq!(text, "Unknown message code: 70");
}

#[test]
fn message_of_too_many_fields_is_refused_before_it_is_decoded() {
    // A repeated field takes two bytes, and in memory far more.
    let adds = |count: usize| SetOp { adds: vec![Bytes::new(); count], removes: Vec::new() };
    let update = |count| DtUpdateReq {
        op: Some(DtOp { set_op: Some(adds(count)), ..DtOp::default() }),
        ..DtUpdateReq::default()
    };
    let decode = |count| {
        let frame = frame(82, &update(count));
        PbcRequest::decode(82, Bytes::copy_from_slice(&frame[FRAME_HEAD_BYTES..]))
    };
    assert!(decode(FIELDS_MAX - 4).is_ok());
    assert_eq!(decode(FIELDS_MAX + 1), Err(DecodeError::TooLarge));
}

#[test]
fn map_nested_too_deeply_is_refused() {
    let nested = |depth: usize| {
        let mut op = MapOp::default();
        for _ in 0..depth {
            let field = MapField { name: text("m"), r#type: 5 };
            let update = MapUpdate { field, map_op: Some(op), ..MapUpdate::default() };
            op = MapOp { removes: Vec::new(), updates: vec![update] };
        }
        let op = Some(DtOp { map_op: Some(op), ..DtOp::default() });
        let frame = frame(82, &DtUpdateReq { op, ..DtUpdateReq::default() });
        PbcRequest::decode(82, Bytes::copy_from_slice(&frame[FRAME_HEAD_BYTES..]))
    };
    let PbcRequest::DtUpdate(update) = nested(TYPE_DEPTH_MAX).expect("as deep as maps may be")
    else {
        panic!("an update")
    };
    assert!(to_operation(update.op.expect("an operation")).is_ok());
    assert_eq!(nested(1_000), Err(DecodeError::TooLarge));
}

#[test]
fn cut_messages_and_groups_are_malformed() {
    for (code, body) in [
        (9, &b"\x0a"[..]),
        (9, b"\x0a\x05b"),
        (11, b"\x22\x02\x0a\x05"),
        (9, b"\x0b\x0c"),
        (9, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (9, b"\x0d\x01"),
    ] {
        let decoded = PbcRequest::decode(code, Bytes::from_static(body));
        assert_eq!(decoded, Err(DecodeError::Malformed(code)), "{body:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(
        at in 0..REQUEST_CODES.len(),
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = PbcRequest::decode(REQUEST_CODES[at], body.clone().into());
        let _ = next_frame(&body);
    }

    #[test]
    fn damaged_message_decodes_or_is_refused(at in 0_usize..60, byte in any::<u8>()) {
        let update = MapUpdate {
            field: MapField { name: text("f"), r#type: 5 },
            map_op: Some(MapOp::default()),
            ..MapUpdate::default()
        };
        let map_op = Some(MapOp { removes: Vec::new(), updates: vec![update; 3] });
        let op = Some(DtOp { map_op, ..DtOp::default() });
        let update = DtUpdateReq { bucket: text("b"), op, ..DtUpdateReq::default() };
        let mut body = frame(82, &update).split_off(FRAME_HEAD_BYTES);
        let length = body.len();
        body[at % length] = byte;
        if let Ok(PbcRequest::DtUpdate(update)) = PbcRequest::decode(82, body.into()) {
            let _ = update.op.map(to_operation);
        }
    }
}
