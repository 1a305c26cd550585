//! Tests of JSON parsing and writing: every valid form has its meaning, and others are refused.

use super::bodies;
use super::fields::StepField;
use super::operations::OPERATIONS;
use super::write::{append_body, append_bytes, append_outcome};
use base::limits::{KEYS_PER_READ_MAX, SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX};
use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, When};
use base::{
    Absence, Body, BucketId, Error, GroupId, KeyVersion, Kind, Outcome, Page, Read, Reason, Row,
    Update, Version,
};
use bytes::Bytes;
use proptest::prelude::*;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn update(json: &str) -> Result<Update, Reason> {
    bodies::update(json.as_bytes()).map_err(|error| error.reason)
}

#[test]
fn update_is_parsed_from_its_json_fields() {
    let (key, value) = (bytes("k"), bytes("v"));
    let set = |expiry| Update::Set { key: key.clone(), value: value.clone(), expiry };
    let set_if = |when| Update::SetIf {
        key: key.clone(),
        value: value.clone(),
        expiry: Expiry::Default,
        when,
    };
    let cases = [
        (r#"{"op":"set","key":"k","value":"v"}"#, set(Expiry::Default)),
        (r#"{"ttl_ms":5,"value":"v","key":"k","op":"set"}"#, set(Expiry::After(5))),
        (r#"{"op":"set","key":"k","value":"v","ttl_ms":"keep"}"#, set(Expiry::Keep)),
        (r#"{"op":"set","key":{"base64":"aw=="},"value":"\u0076"}"#, set(Expiry::Default)),
        (r#"{"op":"set_if","key":"k","value":"v","when":"absent"}"#, set_if(When::Absent)),
        (
            r#"{"op":"set_if_version","key":"k","value":"v","version":7}"#,
            set_if(When::Unchanged(Version(7))),
        ),
        (
            r#"{"op":"delete","key":"k"}"#,
            Update::Delete { key: key.clone(), missing: OnMissing::Skip },
        ),
        (
            r#"{"op":"test_and_set","key":"k","expected":null,"wanted":"v"}"#,
            Update::TestAndSet { key: key.clone(), expected: None, wanted: Some(value.clone()) },
        ),
        (
            r#"{"op":"assert_version","key":"k","version":null}"#,
            Update::AssertVersion { key: key.clone(), version: None },
        ),
        (
            r#"{"op":"add","key":"k","delta":-9223372036854775808}"#,
            Update::Add { key: key.clone(), delta: i64::MIN },
        ),
        (
            r#"{"op":"add_float","key":"k","delta":1}"#,
            Update::AddFloat { key: key.clone(), delta: 1.0 },
        ),
        (
            r#"{"op":"set_range","key":"k","offset":3,"value":"v"}"#,
            Update::SetRange { key: key.clone(), offset: 3, value: value.clone() },
        ),
        (
            r#"{"op":"rename","from":"k","to":"v","when":"absent"}"#,
            Update::Rename { from: key.clone(), to: value.clone(), when: When::Absent },
        ),
        (
            r#"{"op":"expire","key":"k","ttl_ms":"never","only_when":"has_one"}"#,
            Update::Expire { key: key.clone(), expiry: Expiry::Never, when: ExpireWhen::HasOne },
        ),
        (
            r#"{"op":"assert_range","prefix":"p","keys":["k","v"]}"#,
            Update::AssertRange { prefix: bytes("p"), keys: vec![key.clone(), value.clone()] },
        ),
        (r#"{"op":"get","key":"k"}"#, Update::Read(Read::Get(key.clone()))),
        (
            r#"{"op":"sequence","mode":"each_alone","steps":[{"op":"nop"}]}"#,
            Update::Sequence { steps: vec![Update::Nop], mode: SequenceMode::EachAlone },
        ),
    ];
    for (json, expected) in cases {
        assert_eq!(update(json), Ok(expected), "{json}");
    }
}

#[test]
fn operation_with_missing_or_extra_field_is_refused() {
    let text = |field: StepField| match field {
        StepField::Op => panic!("every operation has it"),
        StepField::Ttl
        | StepField::Version
        | StepField::Offset
        | StepField::Limit
        | StepField::Delta => "1",
        StepField::Keys => r#"["k"]"#,
        StepField::Steps => r#"[{"op":"nop"}]"#,
        StepField::RequireAll
        | StepField::FromExclusive
        | StepField::ToInclusive
        | StepField::Reverse => "true",
        StepField::When | StepField::OnlyWhen => r#""always""#,
        StepField::Missing => r#""fails""#,
        StepField::Mode => r#""each_alone""#,
        StepField::Want => r#""keys""#,
        _ => r#""x""#,
    };
    for operation in &OPERATIONS {
        let read = |fields: &[StepField]| {
            let mut json = format!(r#"{{"op":"{}""#, operation.op);
            for field in fields {
                json.push_str(&format!(r#","{}":{}"#, field.name(), text(*field)));
            }
            json.push('}');
            match operation.allowed_in {
                super::operations::AllowedIn::Reads => {
                    bodies::read_operation(json.as_bytes()).map(|_| ())
                }
                _ => bodies::update(json.as_bytes()).map(|_| ()),
            }
        };
        let all: Vec<StepField> =
            operation.required.iter().chain(operation.optional).copied().collect();
        assert_eq!(read(operation.required), Ok(()), "{}", operation.op);
        assert_eq!(read(&all), Ok(()), "{}", operation.op);
        for place in 0..operation.required.len() {
            let mut fields = operation.required.to_vec();
            fields.remove(place);
            assert!(read(&fields).is_err(), "{} without {place}", operation.op);
        }
        for (field, name) in StepField::ALL {
            let mut fields = all.clone();
            fields.push(field);
            // A field of the operation itself then occurs twice; any other is not allowed in it.
            assert!(field == StepField::Op || read(&fields).is_err(), "{} {name}", operation.op);
        }
    }
}

#[test]
fn ambiguous_or_malformed_json_is_refused() {
    for json in [
        r#"{"op":"set","key":"k","key":"l","value":"v"}"#,
        r#"{"op":"set","op":"delete","key":"k","value":"v"}"#,
        r#"{"op":"set","key":"k","value":"v","colour":"red"}"#,
        r#"{"op":"set","key":"k","value":"v"} {}"#,
        r#"{"op":"set","key":"k","value":"v"},"#,
        r#"{"op":"set","key":"k","value":"v",}"#,
        r#"{"op":"set","key":{"base64":"aw==","base64":"aw=="},"value":"v"}"#,
        r#"{"op":"set","key":{"base64":"aw"},"value":"v"}"#,
        r#"{"op":"set","key":{"base64":"ax=="},"value":"v"}"#,
        r#"{"op":"set","key":{"base64":7},"value":"v"}"#,
        r#"{"op":"set","key":{"hex":"00"},"value":"v"}"#,
        r#"{"op":"set","key":{},"value":"v"}"#,
        r#"{"op":"set","key":null,"value":"v"}"#,
        r#"{"op":"set","key":7,"value":"v"}"#,
        r#"{"op":"set","key":["k"],"value":"v"}"#,
        r#"{"op":"set","key":"\ud800","value":"v"}"#,
        "{\"op\":\"set\",\"key\":\"\u{1}\",\"value\":\"v\"}",
        r#"{"op":"set","key":"k","value":"v","ttl_ms":-1}"#,
        r#"{"op":"set","key":"k","value":"v","ttl_ms":9007199254740993}"#,
        r#"{"op":"set","key":"k","value":"v","ttl_ms":"soon"}"#,
        r#"{"op":"add","key":"k","delta":1.5}"#,
        r#"{"op":"add","key":"k","delta":9223372036854775808}"#,
        r#"{"op":"add_float","key":"k","delta":1e999}"#,
        r#"{"op":"set_range","key":"k","offset":-1,"value":"v"}"#,
        r#"{"op":"rename","from":"k","to":"l","when":"present"}"#,
        r#"{"op":"key_count"}"#,
        r#"{"OP":"nop"}"#,
        r#"{"op":"NOP"}"#,
        r#"["op","nop"]"#,
        "null",
        "",
        "\u{feff}{\"op\":\"nop\"}",
    ] {
        assert_eq!(update(json), Err(Reason::Malformed), "{json}");
    }
    assert_eq!(bodies::update(b"{\"op\":\"nop\"}\xff").map_err(|e| e.kind()), Err(Kind::Invalid));
    assert!(bodies::changes(br#"{"sync":"interval","sync":"sync"}"#).is_err());
    assert!(bodies::changes(br#"{"sync":["interval"]}"#).is_err());
    assert!(bodies::changes(br#"{"sync":null}"#).is_err());
    let flag = vec![("allow_mult".to_string(), "true".to_string())];
    assert_eq!(bodies::changes(br#"{"allow_mult":true}"#), Ok(flag));
    assert!(bodies::multi_get(br#"{"keys":["k"],"keys":["l"]}"#).is_err());
    assert!(bodies::sequence(br#"{"steps":[],"steps":[]}"#).is_err());
    assert!(bodies::sequence(br#"{"mode":"each_alone"}"#).is_err());
    assert!(bodies::prefix(br#"{"prefix":"a","prefix":"b"}"#).is_err());
}

#[test]
fn json_error_text_never_contains_request_bytes() {
    for json in [
        r#"{"op":"add","key":"k","delta":"canary"}"#,
        r#"{"op":"canary"}"#,
        r#"{"canary":1}"#,
        r#"{"op":"set","key":"k","value":"v","ttl_ms":"canary"}"#,
        r#"{"op":"set_range","key":"k","offset":"canary","value":"v"}"#,
        r#"{"op":"sequence","steps":"canary"}"#,
        r#"{"op":"set_if","key":"k","value":"v","when":"canary"}"#,
        r#"canary"#,
        r#""canary"#,
    ] {
        let error = bodies::update(json.as_bytes()).expect_err(json);
        assert!(!error.text().contains("canary"), "{json}: {error}");
    }
    let error = bodies::prefix(br#"{"prefix":7777777}"#).expect_err("a number");
    assert!(!error.text().contains("7777777"), "{error}");
}

#[test]
fn sequence_or_multi_get_beyond_its_limits_is_refused() {
    let steps = |count: usize| format!("[{}]", vec![r#"{"op":"nop"}"#; count].join(","));
    let read = |json: &str| bodies::sequence(json.as_bytes()).map_err(|error| error.reason);
    assert!(read(&steps(SEQUENCE_STEPS_MAX)).is_ok());
    assert_eq!(read(&steps(SEQUENCE_STEPS_MAX + 1)), Err(Reason::TooLarge));
    let halves = format!(
        r#"[{{"op":"sequence","steps":{}}},{{"op":"sequence","steps":{}}}]"#,
        steps(SEQUENCE_STEPS_MAX / 2),
        steps(SEQUENCE_STEPS_MAX / 2)
    );
    assert_eq!(read(&halves), Err(Reason::TooLarge), "nested steps count");

    let nested = |levels: usize| {
        let open =
            r#"{"steps":["#.to_string() + &r#"{"op":"sequence","steps":["#.repeat(levels - 1);
        let leaf = r#"{"op":"append","key":{"base64":"aw=="},"value":{"base64":"aw=="}}"#;
        format!("{open}{leaf}{}", "]}".repeat(levels))
    };
    assert!(read(&nested(SEQUENCE_DEPTH_MAX)).is_ok());
    assert_eq!(read(&nested(SEQUENCE_DEPTH_MAX + 1)), Err(Reason::Malformed));

    let keys = |count: usize| format!(r#"{{"keys":[{}]}}"#, vec![r#""""#; count].join(","));
    let multi_get = |json: String| bodies::multi_get(json.as_bytes()).map_err(|e| e.reason);
    assert!(multi_get(keys(KEYS_PER_READ_MAX)).is_ok());
    assert_eq!(multi_get(keys(KEYS_PER_READ_MAX + 1)), Err(Reason::TooLarge));
}

#[test]
fn deeply_nested_json_is_refused_without_stack_overflow() {
    for depth in [1_000, 100_000] {
        for (open, close) in
            [("[", "]"), (r#"{"a":"#, "}"), (r#"{"op":"sequence","steps":["#, "]}")]
        {
            let json = format!("{}{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(update(&json), Err(Reason::Malformed));
            assert!(bodies::sequence(json.as_bytes()).is_err());
            assert!(bodies::changes(json.as_bytes()).is_err());
            assert!(update(&open.repeat(depth)).is_err());
        }
    }
}

fn written(body: &Body) -> String {
    let mut out = vec![b'{'];
    append_body(&mut out, body);
    out.push(b'}');
    String::from_utf8(out).expect("JSON is text")
}

#[test]
fn reply_bodies_and_outcomes_are_encoded_as_json() {
    let row = Row { value: bytes("v\n"), version: Version(3), expires_in_ms: Some(9), tags: None };
    let entry = base::Entry { key: Bytes::from_static(b"\xff"), row: Some(row.clone()) };
    let key_alone = base::Entry { key: bytes("k"), row: None };
    let absence = Absence { group: GroupId(1), bucket: BucketId(1), since: Version(9) };
    let versions = vec![KeyVersion::Present(Version(3)), KeyVersion::Absent(absence)];
    let page = |entries: Vec<base::Entry>, more| Body::Page(Page { entries, more });
    let cases = [
        (Body::Done, r#"{"done":true}"#),
        (Body::Row(None), r#"{"row":null}"#),
        (
            Body::Rows(vec![Some(row), None]),
            r#"{"rows":[{"value":"v\n","version":3,"expires_in_ms":9},null]}"#,
        ),
        (
            page(vec![entry.clone()], true),
            concat!(
                r#"{"entries":[{"key":{"base64":"/w=="},"value":"v\n","version":3,"#,
                r#""expires_in_ms":9}],"more":true,"continue":{"base64":"/w=="}}"#
            ),
        ),
        (page(vec![key_alone], false), r#"{"entries":[{"key":"k"}],"more":false,"continue":null}"#),
        (Body::Count(7), r#"{"count":7}"#),
        (Body::KeyVersions(versions), r#"{"versions":[3,null]}"#),
        (Body::Size { keys: 7, bytes: 9 }, r#"{"count":7,"bytes":9}"#),
    ];
    for (body, json) in cases {
        assert_eq!(written(&body), json);
    }
    let steps = Outcome::Steps(vec![
        Ok(Outcome::Swapped { written: false, old: Some(bytes("o")) }),
        Ok(Outcome::Read(Box::new(Body::Row(None)))),
        Err(Error::key(Reason::NotFound, &bytes("k"))),
    ]);
    let mut out = Vec::new();
    append_outcome(&mut out, &steps);
    assert_eq!(
        String::from_utf8_lossy(&out),
        concat!(
            r#""outcome":"steps","steps":[{"outcome":"swapped","written":false,"old":"o"},"#,
            r#"{"outcome":"read","read":{"row":null}},{"outcome":"error","#,
            r#""error":{"reason":"not_found","kind":"conflict","detail":"k"}}]"#
        )
    );
}

proptest! {
    #[test]
    fn key_bytes_round_trip_through_json(key: Vec<u8>) {
        let mut json = br#"{"op":"get","key":"#.to_vec();
        append_bytes(&mut json, &key);
        json.push(b'}');
        let read = bodies::read_operation(&json);
        prop_assert_eq!(read, Ok(Read::Get(key.into())));
    }

    #[test]
    fn arbitrary_bytes_never_panic_the_json_reader(bytes: Vec<u8>) {
        let _ = bodies::update(&bytes);
        let _ = bodies::sequence(&bytes);
        let _ = bodies::multi_get(&bytes);
        let _ = bodies::changes(&bytes);
    }
}

#[test]
fn integer_with_zero_fraction_is_accepted() {
    let set = |number: &str| {
        let body = format!(r#"{{"op":"set","key":"k","value":"v","ttl_ms":{number}}}"#);
        bodies::update(body.as_bytes())
    };
    let add = |number: &str| {
        bodies::update(format!(r#"{{"op":"add","key":"k","delta":{number}}}"#).as_bytes())
    };
    assert_eq!(set("7.0"), set("7"));
    assert_eq!(add("-7.0"), add("-7"));
    for bad in ["7.5", "-1.0", "1e300"] {
        assert!(set(bad).is_err(), "{bad}");
    }
    assert!(add("7.5").is_err() && add("1e300").is_err());
    let changed = bodies::changes(br#"{"ttl_ms":5.0}"#);
    assert_eq!(changed, Ok(vec![("ttl_ms".to_string(), "5".to_string())]));
    assert!(bodies::changes(br#"{"ttl_ms":5.5}"#).is_err());
}

#[test]
fn property_changes_beyond_64_are_refused() {
    for (count, is_accepted) in [(63, true), (64, true), (65, false)] {
        let names: Vec<_> = (0..count).map(|n| format!("\"p{n}\":{n}")).collect();
        let body = format!("{{{}}}", names.join(","));
        let read = bodies::changes(body.as_bytes());
        assert_eq!(read.map(|changes| changes.len()).ok(), is_accepted.then_some(count), "{count}");
    }
}

/// Found by schema fuzzing: `[null, null]` created a group.
#[test]
fn json_array_in_place_of_an_object_is_refused() {
    for body in [&b"[null, null]"[..], b" [3]", b"\n[]"] {
        let error = super::cluster::create_group(body).expect_err("it is a list");
        assert_eq!(error.reason, base::Reason::Malformed);
    }
    assert!(super::cluster::create_group(b"{}").is_ok());
    let quorum = |body: &[u8]| super::cluster::set_quorum(body, base::GroupId(1));
    assert!(quorum(br#"{"quorum":null}"#).is_ok() && quorum(br#"{"quorum":2}"#).is_ok());
    for body in ["{}", r#"{"quorum":0}"#, r#"{"quorum":256}"#, r#"{"quorum":"2"}"#] {
        assert!(quorum(body.as_bytes()).is_err(), "{body}");
    }
}
