//! Secondary indexes: keys of their rows, definitions, paths, queries, and values of any bytes.

use crate::input::InputReader;
use base::index::{IndexQuery, TermSelection};
use base::range::Direction;
use base::{Bound, BucketName, Consistency};
use bytes::Bytes;
use indexes::layout::{EntrySpace, decode_available, decode_consistent, decode_unique};
use indexes::{
    Continuation, DefinitionSet, FieldQuery, IndexDefinition, IndexEntry, IndexField, IndexName,
    IndexNumber, JsonPath, LivingValue, QueryDigest, Term, TermKind, TermValue, ValueFormat,
    ValueType, entries, stored_entries,
};
use std::collections::BTreeSet;

/// Terms, fields, keys of rows and definitions, as they are kept.
pub fn rows(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (kind, bytes) = (input.below(6), input.rest());
    match kind {
        0 => {
            let Ok(term) = Term::decode(bytes) else { return };
            assert_eq!(term.as_bytes(), bytes, "a term has one form");
            let is_cut = matches!(term.value(), TermValue::CutString(..) | TermValue::CutBytes(..));
            let again = Term::parse(term.kind(), &term.text());
            assert!(is_cut || again == Ok(term.clone()), "{term:?} reads back as {again:?}");
        }
        1 => {
            let Ok((field, rest)) = IndexField::take(bytes) else { return };
            let mut again = Vec::new();
            field.put(&mut again);
            assert_eq!([&again, rest].concat(), bytes, "a field has one form");
        }
        2 => {
            let Ok((entry, key)) = decode_consistent(bytes) else { return };
            assert_eq!(EntrySpace::Consistent.key(&entry, &key), bytes, "a key has one form");
            assert!(EntrySpace::Consistent.field_span(&entry.field).contains(bytes));
        }
        3 => {
            let Ok(entry) = decode_unique(bytes) else { return };
            assert_eq!(EntrySpace::Unique.key(&entry, b""), bytes, "a key has one form");
        }
        4 => {
            let Ok((bucket, entry, key)) = decode_available(bytes) else { return };
            let space = EntrySpace::Available(&bucket);
            assert_eq!(space.key(&entry, &key), bytes, "a key has one form");
            assert!(space.field_span(&entry.field).contains(bytes));
        }
        _ => {
            let Ok(definition) = IndexDefinition::decode(bytes) else { return };
            assert_eq!(definition.encode(), bytes, "a definition has one form");
            assert_eq!(definition.check(Consistency::Consistent), Ok(()));
            let path = definition.path.to_string();
            assert_eq!(JsonPath::parse(&path), Ok(definition.path));
        }
    }
}

/// Names and paths of operators, and queries of clients with their continuations.
pub fn queries(input: &[u8]) {
    let mut input = InputReader::new(input);
    match input.below(4) {
        0 => {
            let text = String::from_utf8_lossy(input.rest());
            if let Ok(name) = IndexName::parse(&text) {
                assert_eq!(IndexName::parse(name.as_str()), Ok(name));
            }
            if let Ok(path) = JsonPath::parse(&text) {
                assert_eq!(JsonPath::parse(&path.to_string()), Ok(path.clone()));
            }
        }
        1 => {
            let query = QueryDigest::of(&[b"a query"]);
            if let Ok(continuation) = Continuation::decode(input.rest(), query) {
                assert_eq!(
                    Continuation::decode(continuation.encode().as_bytes(), query).ok(),
                    Some(continuation)
                );
            }
        }
        2 => continuation(&mut input),
        _ => query(&mut input),
    }
}

/// A continuation that a node made: it reads back, and nothing that is changed does.
fn continuation(input: &mut InputReader<'_>) {
    let Ok(term) = Term::decode(input.block()) else { return };
    let (at, change) = (usize::from(input.u8()), input.u8());
    let key = Bytes::copy_from_slice(input.rest());
    let query = QueryDigest::of(&[b"a query"]);
    let continuation = Continuation { query, term, key };
    let mut text = continuation.encode().into_bytes();
    assert_eq!(Continuation::decode(&text, query), Ok(continuation));
    assert!(Continuation::decode(&text, QueryDigest::of(&[b"another"])).is_err());
    let at = at % text.len();
    if text[at] != change {
        text[at] = change;
        assert!(Continuation::decode(&text, query).is_err(), "a changed byte is noticed");
    }
}

/// A query of any texts: its range is what its selection says, and its pages continue.
fn query(input: &mut InputReader<'_>) {
    let kind = input.choose(&TermKind::ALL);
    let selection = input.below(5);
    let mut text = || Bytes::copy_from_slice(input.block());
    let terms = match selection {
        0 => TermSelection::Equal(text()),
        1 => TermSelection::Prefix(text()),
        2 => TermSelection::Between(Bound::Included(text()), Bound::Excluded(text())),
        3 => TermSelection::Between(Bound::Excluded(text()), Bound::Included(text())),
        _ => TermSelection::Between(Bound::Open, Bound::Included(text())),
    };
    let direction = if input.bool() { Direction::Ascending } else { Direction::Descending };
    let last = Term::parse(kind, input.block()).ok();
    let query = IndexQuery { terms, direction, ..IndexQuery::default() };
    let (bucket, field) = (BucketName::default(), IndexField::Declared(IndexNumber(7)));
    let read = |query: &IndexQuery| FieldQuery::new(&bucket, field.clone(), kind, query);
    let (Ok(found), Some(last)) = (read(&query), last) else { return };
    assert_eq!(found.terms.kind(), kind);
    if let TermSelection::Equal(text) = &query.terms {
        let term = Term::parse(kind, text).expect("the query was read");
        assert!(found.terms.contains(&term));
    }
    let key = Bytes::from_static(b"key");
    let after = found.continuation(last.clone(), key.clone()).encode();
    let next = IndexQuery { after: Some(after.into()), ..query };
    let next = read(&next).expect("its own continuation");
    assert_eq!(next.after, Some((last, key)));
}

/// Values of any bytes under definitions of any paths: what is refused for a write is left out of
/// what is stored, and no definition depends on another.
pub fn values(input: &[u8]) {
    let mut input = InputReader::new(input);
    let mut definitions = DefinitionSet::default();
    for number in 0..input.below(3) as u32 + 1 {
        let value_type = input.choose(&ValueType::ALL);
        let format = input.choose(&ValueFormat::ALL);
        let is_strict = input.bool();
        let path = String::from_utf8_lossy(input.block());
        let Ok(path) = JsonPath::parse(&path) else { continue };
        let name = IndexName::parse(&format!("i{number}")).expect("a name");
        let number = IndexNumber(number);
        let is_unique = false;
        let definition =
            IndexDefinition { number, name, path, value_type, format, is_unique, is_strict };
        definitions.insert(definition).expect("another name and number");
    }
    let tag = (Bytes::copy_from_slice(input.block()), Bytes::copy_from_slice(input.block()));
    let (tags, bytes) = ([tag], input.rest());
    let value = LivingValue { tags: &tags, bytes };
    let stored = stored_entries(&definitions, &[value]);
    if let Ok(written) = entries(&definitions, &[value]) {
        assert_eq!(written, stored, "a write has the entries of its row");
    }
    assert_eq!(stored_entries(&definitions, &[value, value]).entries, stored.entries);
    let mut apart = BTreeSet::new();
    for definition in definitions.iter() {
        let mut alone = DefinitionSet::default();
        alone.insert(definition.clone()).expect("the first");
        apart.extend(stored_entries(&alone, &[value]).entries);
    }
    if !definitions.is_empty() {
        assert_eq!(apart, stored.entries, "a definition does not depend on others");
    }
    for IndexEntry { field, term } in &stored.entries {
        let expected = match field {
            IndexField::Tag(_) => field.tag_kind(),
            IndexField::Declared(number) => {
                definitions.get(*number).map(|definition| definition.value_type.kind())
            }
        };
        assert_eq!(Some(term.kind()), expected, "{field:?}");
        let key = EntrySpace::Consistent
            .key(&IndexEntry { field: field.clone(), term: term.clone() }, b"k");
        assert!(decode_consistent(&key).is_ok(), "{field:?} {term:?}");
    }
}
