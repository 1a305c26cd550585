//! Laws of encoding and decoding.

use super::{frame, request};
use crate::*;
use base::{Content, Headers, Link, Sibling, Vtag};
use bytes::Bytes;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn pairs() -> impl Strategy<Value = Vec<(Bytes, Bytes)>> {
    proptest::collection::vec((bytes(), bytes()), 0..4)
}

prop_compose! {
    fn content()(
        value in bytes(),
        texts in (bytes(), bytes(), bytes()),
        meta in pairs(),
        indexes in pairs(),
        links in proptest::collection::vec((bytes(), bytes(), bytes()), 0..4),
    ) -> Content {
        let link = |(bucket, key, tag)| Link { bucket, key, tag };
        let links = links.into_iter().map(link).collect();
        let (content_type, charset, encoding) = texts;
        let headers = Headers { content_type, charset, encoding, meta, links, indexes };
        Content { value, headers }
    }
}

prop_compose! {
    fn put()(
        bucket in bytes(),
        texts in (proptest::option::of(bytes()), proptest::option::of(bytes())),
        content in content(),
        numbers in proptest::array::uniform4(any::<Option<u32>>()),
        flags in proptest::array::uniform4(any::<Option<bool>>()),
    ) -> RpbPutReq {
        let sibling = sibling(content);
        let [w, dw, pw, timeout] = numbers;
        let [return_body, if_not_modified, if_none_match, return_head] = flags;
        RpbPutReq {
            bucket,
            key: texts.0,
            vclock: texts.1,
            content: Some(to_rpb_content(&sibling, false)),
            w, dw, pw, timeout, return_body, if_not_modified, if_none_match, return_head,
            ..RpbPutReq::default()
        }
    }
}

fn sibling(content: Content) -> Sibling {
    Sibling { content, written_ms: 1_795_252_102_003, vtag: Vtag(7), tombstone: false }
}

proptest! {
    #[test]
    fn put_decodes_to_what_was_encoded(put in put()) {
        let decoded = request(&frame(11, &put));
        prop_assert_eq!(decoded, PbcRequest::Put(Box::new(put)));
    }

    #[test]
    fn content_survives_the_way_to_a_message_and_back(content in content()) {
        let message = to_rpb_content(&sibling(content.clone()), false);
        prop_assert_eq!(message.last_mod_usecs, Some(3_000));
        prop_assert_eq!(to_content(message), content.clone());
        prop_assert!(to_rpb_content(&sibling(content), true).value.is_empty());
    }

    #[test]
    fn frames_are_found_one_after_another(first in put(), second in put(), cut in 0_usize..40) {
        let (first, second) = (frame(11, &first), frame(11, &second));
        let both = [&first[..], &second[..]].concat();
        prop_assert_eq!(next_frame(&both), Framed::Complete { code: 11, bytes: first.len() });
        let cut = cut.min(first.len() - 1);
        prop_assert!(matches!(next_frame(&both[..cut]), Framed::Incomplete(bytes) if bytes > cut));
    }
}
