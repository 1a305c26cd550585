//! Kept bytes: what was written once is read for ever, so these examples never change.

use super::{definition, hex};
use crate::layout::EntrySpace;
use crate::{
    Continuation, IndexDefinition, IndexEntry, IndexField, IndexNumber, QueryDigest, Term,
    ValueFormat, ValueType,
};
use base::BucketName;

#[test]
fn terms_have_their_kept_bytes() {
    let tag_integer = |text: &str| Term::tag_integer(text.as_bytes()).expect("digits");
    let float = |number| Term::float(number).expect("a number");
    let examples = [
        (tag_integer("0"), "01010000"),
        (tag_integer("42"), "010100023432"),
        (tag_integer("-42"), "0100fffdcbcd"),
        (Term::tag_bytes(b"a\0b").expect("short"), "026100ff620000"),
        (Term::int(1), "038000000000000001"),
        (Term::int(-1), "037fffffffffffffff"),
        (float(1.5), "04bff8000000000000"),
        (float(-1.5), "044007ffffffffffff"),
        (float(-0.0), "048000000000000000"),
        (Term::string("é"), "05c3a90000"),
        (Term::bytes(&[0, 255]), "0600ffff0000"),
        (Term::bool(false), "0700"),
        (Term::bool(true), "0701"),
    ];
    for (term, bytes) in examples {
        assert_eq!(hex(term.as_bytes()), bytes, "{term:?}");
    }
    let cut = Term::string(&"x".repeat(1_025));
    let front = format!("05{}0001", "78".repeat(1_000));
    assert_eq!(hex(cut.as_bytes()), front + "71b7ce25ca2144dcf4d7ed561d8a526b");
}

#[test]
fn keys_have_their_kept_bytes() {
    let tag = IndexEntry {
        field: IndexField::tag(b"a_bin").expect("a field"),
        term: Term::tag_bytes(b"t").expect("short"),
    };
    let declared = IndexEntry { field: IndexField::Declared(IndexNumber(258)), term: Term::int(7) };
    let bucket = BucketName::parse("t/b").expect("a bucket");
    let examples = [
        (EntrySpace::Consistent, &tag, "01615f62696e00027400006b"),
        (EntrySpace::Consistent, &declared, "02000001020380000000000000076b"),
        (EntrySpace::Unique, &declared, "0200000102038000000000000007"),
        (EntrySpace::Available(&bucket), &tag, "0003742f6201615f62696e00027400006b"),
    ];
    for (space, entry, bytes) in examples {
        assert_eq!(hex(&space.key(entry, b"k")), bytes, "{space:?} {entry:?}");
    }
}

#[test]
fn definition_has_its_kept_bytes() {
    let plain = definition(258, "by-c", "$.a.b[*].c", ValueType::String);
    let kept = "01020100000301000400000062792d630a000000242e612e625b2a5d2e63";
    assert_eq!(hex(&plain.encode()), kept);
    let other = IndexDefinition {
        format: ValueFormat::MessagePack,
        is_unique: true,
        is_strict: true,
        ..definition(1, "a", "$", ValueType::Bytes)
    };
    assert_eq!(hex(&other.encode()), "010100000004020301000000610100000024");
}

#[test]
fn continuation_has_its_kept_text() {
    let query = QueryDigest::of(&[b"plain/fruit", b"ripeness_int"]);
    let term = Term::tag_integer(b"7").expect("a number");
    let text = Continuation { query, term, key: "fig".into() }.encode();
    assert_eq!(text, "AXBgrKAmwDEpIm-RgoxMCLcBAQABN2ZpZ5hn7Z4bzR-h");
}
