//! Bytes of queries and pages: one form, kept, and nothing else is read.

use super::*;
use indexes::{IndexNumber, TermKind};

fn query() -> IndexQuery {
    let term = Term::tag_bytes(b"t").expect("short");
    IndexQuery {
        field: IndexField::tag(b"a_bin").expect("a field"),
        terms: TermRange::equality(&term),
        after: Some((term, Bytes::from_static(b"k"))),
        direction: Direction::Descending,
        content: IndexContent::Records,
        rows_max: 9,
    }
}

fn written(query: &IndexQuery) -> Bytes {
    let mut out = Vec::new();
    query.put(&mut out);
    out.into()
}

fn read(bytes: &Bytes) -> Result<IndexQuery, Malformed> {
    let mut from = Reader::new(bytes);
    let query = IndexQuery::take(bytes, &mut from)?;
    from.end("query")?;
    Ok(query)
}

#[test]
fn query_has_its_kept_bytes_and_one_form() {
    let bytes = written(&query());
    let field = b"\x07\0\0\0\x01a_bin\0";
    let terms = b"\x02\x04\0\0\0\x02t\0\0\x04\0\0\0\x02t\0\x01";
    let rest = b"\x01\x04\0\0\0\x02t\0\0\x01\0\0\0k\x03\x09\0\0\0";
    assert_eq!(bytes, [&field[..], terms, rest].concat());
    let declared = IndexQuery {
        field: IndexField::Declared(IndexNumber(7)),
        terms: TermRange::all(TermKind::Int),
        after: None,
        direction: Direction::Ascending,
        content: IndexContent::Entries,
        rows_max: usize::MAX,
    };
    assert_eq!(read(&bytes), Ok(query()));
    let same = IndexQuery { rows_max: u32::MAX as usize, ..declared.clone() };
    assert_eq!(read(&written(&declared)), Ok(same));
    for end in 0..bytes.len() {
        assert!(read(&bytes.slice(..end)).is_err(), "cut at {end}");
    }
    let mut unknown_flag = bytes.to_vec();
    let at = bytes.len() - 5;
    unknown_flag[at] |= 4;
    assert!(read(&unknown_flag.into()).is_err());
}

#[test]
fn answer_has_its_kept_bytes_and_one_form() {
    let term = |text: &[u8]| Term::tag_bytes(text).expect("short");
    let row = |text: &[u8], key: &'static str, row: Option<&'static str>| {
        ((term(text), Bytes::from(key)), row.map(Bytes::from))
    };
    let rows = vec![row(b"t", "a", Some("row")), row(b"t", "b", None), row(b"u", "a", None)];
    let end = PageEnd::Through((term(b"u"), Bytes::from_static(b"a")));
    let page = IndexAnswer::Page(IndexPage { rows, end });
    let mut bytes = Vec::new();
    page.write(&mut bytes);
    let first = b"\x02\x03\0\0\0\x04\0\0\0\x02t\0\0\x01\0\0\0a\x01\x03\0\0\0row";
    let second = b"\0\0\0\0\x01\0\0\0b\0";
    let third = b"\x04\0\0\0\x02u\0\0\x01\0\0\0a\0";
    let end = b"\x01\x04\0\0\0\x02u\0\0\x01\0\0\0a";
    assert_eq!(bytes, [&first[..], second, third, end].concat());
    let bytes = Bytes::from(bytes);
    assert_eq!(IndexAnswer::read(&bytes), Ok(page));
    for end in 0..bytes.len() {
        assert!(IndexAnswer::read(&bytes.slice(..end)).is_err(), "cut at {end}");
    }
    // The term of the second row, written out.
    let longer = [&first[..], b"\x04\0\0\0\x02t\0\0\x01\0\0\0b\0", third, &end[..]].concat();
    assert!(IndexAnswer::read(&longer.into()).is_err());
    for (answer, kept) in [
        (IndexAnswer::Absent, &b"\0"[..]),
        (IndexAnswer::Building(3, 1_024), b"\x01\x03\0\0\0\0\x04\0\0"),
    ] {
        let mut bytes = Vec::new();
        answer.write(&mut bytes);
        assert_eq!(bytes, kept);
        assert_eq!(IndexAnswer::read(&bytes.into()), Ok(answer));
    }
}
