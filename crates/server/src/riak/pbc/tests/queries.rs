//! Lists, properties, counters and index queries.

use super::{PbcClient, put, server, text};
use riak_pbc::*;

#[test]
fn keys_and_buckets_are_listed() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    for key in ["a", "b"] {
        let _: RpbPutResp = client.ask(11, &put(key, "v"));
    }
    client.send(17, &RpbListKeysReq { bucket: text("fruit"), ..<_>::default() });
    let mut keys = Vec::new();
    loop {
        let page: RpbListKeysResp = client.answer();
        keys.extend(page.keys);
        if page.done == Some(true) {
            break;
        }
    }
    assert_eq!(keys, [text("a"), text("b")]);
    let once: RpbListBucketsResp = client.ask(15, &RpbListBucketsReq::default());
    assert_eq!((once.buckets, once.done), (vec![text("fruit")], None));
}

#[test]
fn properties_are_read_changed_and_reset() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    let bucket = text("fruit");
    let read = RpbGetBucketReq { bucket: bucket.clone(), r#type: None };
    let found: RpbGetBucketResp = client.ask(19, &read);
    assert_eq!((found.props.allow_mult, found.props.r), (Some(true), Some(u32::MAX - 2)));
    let set = |props| RpbSetBucketReq { bucket: bucket.clone(), props: Some(props), r#type: None };
    // What was read may be sent back.
    client.ask_empty(21, &set(found.props.clone()), code::SET_BUCKET);
    let single = RpbBucketProps { allow_mult: Some(false), ..RpbBucketProps::default() };
    client.ask_empty(21, &set(single), code::SET_BUCKET);
    let changed: RpbGetBucketResp = client.ask(19, &read);
    assert_eq!(changed.props.allow_mult, Some(false));
    let reset = RpbResetBucketReq { bucket: bucket.clone(), r#type: None };
    client.ask_empty(29, &reset, code::RESET_BUCKET);
    assert_eq!(client.ask::<RpbGetBucketResp>(19, &read), found);
    let hook = RpbCommitHook { modfun: None, name: Some(text("h")) };
    let hooked = RpbBucketProps { precommit: vec![hook], ..RpbBucketProps::default() };
    let refused = client.refused(21, &set(hooked));
    assert!(refused.contains("\"precommit\":\"not_supported\""), "{refused}");
    let kind = client.refused(31, &RpbGetBucketTypeReq { r#type: text("none") });
    assert_eq!(kind, "No bucket-type named 'none'");
}

#[test]
fn legacy_counter_adds_and_is_refused_where_one_value_is_kept() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    let (bucket, key) = (text("hits"), text("home"));
    let read = RpbCounterGetReq { bucket: bucket.clone(), key: key.clone(), ..<_>::default() };
    assert_eq!(client.ask::<RpbCounterGetResp>(52, &read).value, None);
    let add =
        RpbCounterUpdateReq { bucket: bucket.clone(), key, amount: Some(5), ..<_>::default() };
    assert_eq!(client.ask::<RpbCounterUpdateResp>(50, &add).value, None);
    let add = RpbCounterUpdateReq { amount: Some(-2), returnvalue: Some(true), ..add };
    assert_eq!(client.ask::<RpbCounterUpdateResp>(50, &add).value, Some(3));
    assert_eq!(client.ask::<RpbCounterGetResp>(52, &read).value, Some(3));
    let props = Some(RpbBucketProps { allow_mult: Some(false), ..RpbBucketProps::default() });
    let set = RpbSetBucketReq { bucket, props, r#type: None };
    client.ask_empty(21, &set, code::SET_BUCKET);
    let refused = client.refused(50, &add);
    assert_eq!(refused, "Counters require bucket property 'allow_mult=true'");
}

#[test]
fn invalid_index_queries_are_refused_as_over_http() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    let query = |index, qtype| RpbIndexReq {
        bucket: text("fruit"),
        index: text(index),
        qtype,
        key: Some(text("x")),
        ..RpbIndexReq::default()
    };
    let refused = client.refused(25, &query("age", Some(QUERY_EQUAL)));
    assert_eq!(refused, "Invalid query: {unknown_field_type,<<\"age\">>}");
    let refused = client.refused(25, &query("age_int", Some(QUERY_EQUAL)));
    assert!(refused.starts_with("Invalid query: {field_parsing_failed"), "{refused}");
    assert!(client.refused(25, &query("age_int", Some(QUERY_RANGE))).contains("range_min"));
    assert!(client.refused(25, &query("age_int", None)).contains("qtype"));
}
