//! Fixed bytes of frames.

use super::{frame, text};
use crate::*;
use prost::Message;

/// Frames with a name each, as `golden/frames.txt` has them.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let mut frames = requests();
    let mut answer = |name, write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        frames.push((name, out));
    };
    answer("error", &|out| append_error(out, "notfound"));
    answer("ping answer", &|out| append_empty(out, code::PING));
    answer("no object", &|out| append_answer(out, &RpbGetResp::default()));
    answer("object", &|out| {
        let content = RpbContent {
            value: text("v"),
            content_type: Some(text("text/plain")),
            vtag: Some(text("0")),
            links: vec![RpbLink { bucket: Some(text("b")), key: Some(text("k")), tag: None }],
            last_mod: Some(1_795_252_102),
            last_mod_usecs: Some(5_000),
            usermeta: vec![RpbPair { key: text("m"), value: Some(text("n")) }],
            indexes: vec![RpbPair { key: text("i_int"), value: Some(text("7")) }],
            ..RpbContent::default()
        };
        let (content, vclock) = (vec![content], Some(text("seen")));
        append_answer(out, &RpbGetResp { content, vclock, unchanged: None });
    });
    answer("last keys", &|out| {
        append_answer(out, &RpbListKeysResp { keys: vec![text("k")], done: Some(true) });
    });
    answer("index rows", &|out| {
        let results = vec![RpbPair { key: text("7"), value: Some(text("k")) }];
        let continuation = Some(text("next"));
        append_answer(out, &RpbIndexResp { results, continuation, ..RpbIndexResp::default() });
    });
    answer("counter", &|out| append_answer(out, &RpbCounterGetResp { value: Some(-3) }));
    answer("map", &|out| {
        let field = MapField { name: text("n"), r#type: 1 };
        let entry = MapEntry { field, counter_value: Some(2), ..MapEntry::default() };
        let value = Some(DtValue { map_value: vec![entry], ..DtValue::default() });
        append_answer(out, &DtFetchResp { context: Some(text("seen")), r#type: 3, value });
    });
    answer("preference list", &|out| {
        let node = text("riak@127.0.0.1");
        let item = RpbBucketKeyPreflistItem { partition: 52, node, primary: true };
        append_answer(out, &RpbGetBucketKeyPreflistResp { preflist: vec![item] });
    });
    frames
}

fn requests() -> Vec<(&'static str, Vec<u8>)> {
    fn named(name: &'static str, code: u8, message: &impl Message) -> (&'static str, Vec<u8>) {
        (name, frame(code, message))
    }
    let (bucket, key) = (text("b"), text("k"));
    let get = RpbGetReq { bucket: bucket.clone(), key: key.clone(), r: Some(2), ..<_>::default() };
    let content = RpbContent { value: text("v"), ..RpbContent::default() };
    let put = RpbPutReq {
        bucket: bucket.clone(),
        content: Some(content),
        w: Some(u32::MAX - 2),
        return_body: Some(true),
        r#type: Some(text("t")),
        ..RpbPutReq::default()
    };
    let props = RpbBucketProps { n_val: Some(3), hll_precision: Some(14), ..<_>::default() };
    let set = RpbSetBucketReq { bucket: bucket.clone(), props: Some(props), r#type: None };
    let index = RpbIndexReq {
        bucket: bucket.clone(),
        index: text("i_int"),
        qtype: Some(1),
        range_min: Some(text("1")),
        range_max: Some(text("9")),
        stream: Some(true),
        ..RpbIndexReq::default()
    };
    let add = RpbCounterUpdateReq {
        bucket: bucket.clone(),
        key: key.clone(),
        amount: Some(-1),
        ..RpbCounterUpdateReq::default()
    };
    let update = MapUpdate {
        field: MapField { name: text("f"), r#type: 4 },
        flag_op: Some(1),
        ..MapUpdate::default()
    };
    let map_op = Some(MapOp { removes: Vec::new(), updates: vec![update] });
    let change = DtUpdateReq {
        bucket,
        key: Some(key),
        r#type: text("maps"),
        op: Some(DtOp { map_op, ..DtOp::default() }),
        ..DtUpdateReq::default()
    };
    let auth = RpbAuthReq { user: text("ann"), password: text("secret") };
    vec![
        named("ping", 1, &()),
        named("get", 9, &get),
        named("put", 11, &put),
        named("set properties", 21, &set),
        named("index", 25, &index),
        named("counter update", 50, &add),
        named("map update", 82, &change),
        named("auth", 253, &auth),
        named("start TLS", 255, &()),
    ]
}

#[test]
fn frames_have_golden_bytes() {
    let mut found = String::new();
    for (name, bytes) in frames() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        found.push_str(&format!("{name}: {hex}\n"));
    }
    let golden = include_str!("../golden/frames.txt");
    assert!(found == golden, "frames are no longer those of golden/frames.txt:\n{found}");
}

#[test]
fn golden_requests_decode() {
    for (name, bytes) in requests() {
        let request = super::request(&bytes);
        assert_ne!(format!("{request:?}"), "", "{name}");
    }
    let PbcRequest::Get(get) = super::request(&requests()[1].1) else { panic!("a get") };
    assert_eq!((&get.bucket[..], &get.key[..], get.r), (&b"b"[..], &b"k"[..], Some(2)));
}
