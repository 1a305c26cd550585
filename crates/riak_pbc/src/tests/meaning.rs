//! Meaning of messages in the types of `base`.

use super::text;
use crate::options::{confirms, quorum};
use crate::*;
use base::available::TypeFound;
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use base::{Context, Quorum};
use serde_json::json;

#[test]
fn quorum_numbers_stand_for_words() {
    for (number, expected) in [
        (4_294_967_294, Some(Quorum::One)),
        (4_294_967_293, Some(Quorum::Quorum)),
        (4_294_967_292, Some(Quorum::All)),
        (4_294_967_291, None),
        (2, Some(Quorum::Number(2))),
        (256, Some(Quorum::Number(255))),
    ] {
        assert_eq!(quorum(Some(number)), expected, "{number}");
    }
    assert_eq!(quorum(None), None);
    assert_eq!(confirms(Some(u32::MAX - 1)), Ok(Some(1)));
    assert!(confirms(Some(u32::MAX - 2)).is_err());
}

#[test]
fn properties_survive_the_way_to_a_message_and_back() {
    let document = json!({
        "n_val": 3, "allow_mult": true, "last_write_wins": false, "r": "quorum", "w": 2,
        "pr": 0, "basic_quorum": false, "datatype": "hll", "hll_precision": 14,
        "chash_keyfun": {"mod": "riak_core_util", "fun": "chash_std_keyfun"},
        "precommit": [], "postcommit": [],
    });
    let props = to_rpb_props(&document);
    assert_eq!((props.r, props.w), (Some(u32::MAX - 2), Some(2)));
    let again = serde_json::Value::Object(to_json(&props));
    for (name, value) in document.as_object().expect("an object") {
        assert_eq!(again.get(name), Some(value), "{name}");
    }
    let hook = RpbCommitHook { modfun: None, name: Some(text("h")) };
    let props = RpbBucketProps { precommit: vec![hook], repl: Some(1), ..<_>::default() };
    let expected = json!({ "precommit": [{ "name": "h" }], "repl": "realtime" });
    assert_eq!(serde_json::Value::Object(to_json(&props)), expected);
}

#[test]
fn operations_are_those_of_the_message() {
    let counter_op = Some(CounterOp { increment: None });
    let only_counter = DtOp { counter_op: counter_op.clone(), ..DtOp::default() };
    assert_eq!(to_operation(only_counter), Ok(TypeOperation::Add(1)));
    assert!(to_operation(DtOp::default()).is_err());
    let set_op = Some(SetOp { adds: vec![text("a")], removes: vec![text("r")] });
    assert!(to_operation(DtOp { counter_op, set_op: set_op.clone(), ..<_>::default() }).is_err());
    let steps = vec![ElementStep::Remove(text("r")), ElementStep::Add(text("a"))];
    let only_set = DtOp { set_op, ..DtOp::default() };
    assert_eq!(to_operation(only_set), Ok(TypeOperation::Elements(steps)));
    let map = |update: MapUpdate| {
        let removes = vec![MapField { name: text("s"), r#type: 2 }];
        let map_op = Some(MapOp { removes, updates: vec![update] });
        to_operation(DtOp { map_op, ..DtOp::default() })
    };
    let flag = MapField { name: text("f"), r#type: 4 };
    let disable = MapUpdate { field: flag.clone(), flag_op: Some(2), ..<_>::default() };
    let field = |name, kind| Field { name: text(name), kind };
    let steps = vec![
        FieldStep::Remove(field("s", FieldKind::Set)),
        FieldStep::Update(field("f", FieldKind::Flag), TypeOperation::Disable),
    ];
    assert_eq!(map(disable), Ok(TypeOperation::Fields(steps)));
    for update in [
        MapUpdate { field: flag, register_op: Some(text("x")), ..<_>::default() },
        MapUpdate { field: MapField { name: text("x"), r#type: 0 }, ..<_>::default() },
        MapUpdate { field: MapField { name: text("x"), r#type: i32::MIN }, ..<_>::default() },
    ] {
        assert!(map(update.clone()).is_err(), "{update:?}");
    }
}

#[test]
fn absent_data_type_has_its_kind_and_no_value() {
    let found =
        |kind, value| TypeFound { kind, value, context: Context(text("c")), tombstone: false };
    let absent = to_dt_fetch_resp(found(FieldKind::Set, None), true);
    assert_eq!(absent, DtFetchResp { context: None, r#type: 2, value: None });
    let counter = to_dt_fetch_resp(found(FieldKind::Counter, Some(TypeValue::Counter(1))), true);
    assert_eq!((counter.context, counter.r#type), (None, 1));
    let huge = TypeValue::Counter(i128::MIN);
    let answer =
        to_dt_update_resp(Some(text("k")), Some(found(FieldKind::Counter, Some(huge))), true);
    assert_eq!(answer.counter_value, Some(i64::MIN));
    let inner = |kind, value| (Field { name: text("x"), kind }, value);
    let map = TypeValue::Map(vec![
        inner(FieldKind::Flag, TypeValue::Flag(true)),
        inner(FieldKind::Gset, TypeValue::Gset(Vec::new())),
    ]);
    let answer = to_dt_fetch_resp(found(FieldKind::Map, Some(map)), true);
    assert_eq!(answer.context, Some(text("c")));
    let fields = answer.value.expect("a value").map_value;
    assert_eq!(fields.len(), 1, "the schema has no gset in a map");
}
