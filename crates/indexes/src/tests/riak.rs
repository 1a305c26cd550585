//! Examples of Riak's documents on secondary indexes, answered from sorted rows.

use crate::layout::{EntryQuery, EntrySpace, decode_available};
use crate::{
    Continuation, DefinitionSet, IndexField, LivingValue, QueryDigest, Term, TermRange, entries,
};
use base::BucketName;
use base::range::Direction;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;

type Tag = (&'static str, &'static str);

/// Rows of one bucket's index, as a node keeps them.
struct IndexRows {
    bucket: BucketName,
    keys: BTreeSet<Vec<u8>>,
}

impl IndexRows {
    fn new(bucket: &str, records: &[(&str, &[Tag])]) -> IndexRows {
        let bucket = BucketName::parse(bucket).expect("a bucket");
        let mut keys = BTreeSet::new();
        for (key, tags) in records {
            let bytes = |text: &&'static str| Bytes::from_static(text.as_bytes());
            let tags: Vec<_> = tags.iter().map(|(name, text)| (bytes(name), bytes(text))).collect();
            let value = LivingValue { tags: &tags, bytes: b"any data" };
            let derivation = entries(&DefinitionSet::default(), &[value]).expect("fine");
            for entry in derivation.entries {
                keys.insert(EntrySpace::Available(&bucket).key(&entry, key.as_bytes()));
            }
        }
        IndexRows { bucket, keys }
    }

    /// Returns (term, key) of a closed range, as Riak's `/index/F/V1/V2`.
    fn query(
        &self,
        field: &str,
        range: (&str, &str),
        after: Option<(&Term, &[u8])>,
    ) -> Vec<(String, String)> {
        let field = IndexField::tag(field.as_bytes()).expect("a field");
        let kind = field.tag_kind().expect("a tag");
        let parse = |text: &str| Term::parse(kind, text.as_bytes()).expect("a term");
        let (low, high) = (parse(range.0), parse(range.1));
        let terms =
            TermRange::between(kind, Bound::Included(&low), Bound::Included(&high)).expect("fine");
        let direction = Direction::Ascending;
        let query = EntryQuery { field: &field, terms: &terms, after, direction };
        let span = EntrySpace::Available(&self.bucket).span(&query);
        if span.is_empty() {
            return Vec::new();
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let rows = self.keys.range(span.low..span.high).map(|bytes| {
            let (bucket, entry, key) = decode_available(bytes).expect("a row");
            assert_eq!(bucket, self.bucket);
            (text(&entry.term.text()), text(&key))
        });
        rows.collect()
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(term, key)| ((*term).into(), (*key).into())).collect()
}

#[test]
fn users_are_found_by_twitter_name_and_mail() {
    let tags = [("twitter_bin", "jsmith123"), ("email_bin", "jsmith@basho.com")];
    let rows = IndexRows::new("available/users", &[("john_smith", &tags)]);
    let expected = pairs(&[("jsmith123", "john_smith")]);
    assert_eq!(rows.query("twitter_bin", ("jsmith123", "jsmith123"), None), expected);
    assert_eq!(rows.query("email_bin", ("jsmith123", "jsmith123"), None), []);
}

#[test]
fn four_people_are_found_by_exact_match_and_range() {
    let rows = IndexRows::new(
        "indexes/people",
        &[
            ("larry", &[("field1_bin", "val1"), ("field2_int", "1001")]),
            ("moe", &[("Field1_bin", "val2"), ("Field2_int", "1002")]),
            ("curly", &[("FIELD1_BIN", "val3"), ("FIELD2_INT", "1003")]),
            (
                "veronica",
                &[
                    ("field1_bin", "val4"),
                    ("field1_bin", "val4"),
                    ("field2_int", "1004"),
                    ("field2_int", "1005"),
                    ("field2_int", "1006"),
                    ("field2_int", "1004"),
                    ("field2_int", "1004"),
                    ("field2_int", "1007"),
                ],
            ),
        ],
    );
    assert_eq!(rows.query("field1_bin", ("val1", "val1"), None), pairs(&[("val1", "larry")]));
    let expected = pairs(&[("val2", "moe"), ("val3", "curly"), ("val4", "veronica")]);
    assert_eq!(rows.query("field1_bin", ("val2", "val4"), None), expected);
    let expected = pairs(&[
        ("1002", "moe"),
        ("1003", "curly"),
        ("1004", "veronica"),
        ("1005", "veronica"),
        ("1006", "veronica"),
        ("1007", "veronica"),
    ]);
    assert_eq!(rows.query("field2_int", ("1002", "1020"), None), expected);
    assert_eq!(rows.query("field2_int", ("1020", "1002"), None), [], "an end before the start");
}

#[test]
fn integers_are_compared_as_numbers_and_pages_continue_behind_the_last_row() {
    let rows = IndexRows::new(
        "plain/fruit",
        &[
            ("fig", &[("ripeness_int", "7")]),
            ("kiwi", &[("ripeness_int", "9")]),
            ("lime", &[("ripeness_int", "10")]),
            ("unripe", &[("ripeness_int", "-3")]),
        ],
    );
    let all = pairs(&[("-3", "unripe"), ("7", "fig"), ("9", "kiwi"), ("10", "lime")]);
    assert_eq!(rows.query("ripeness_int", ("-10", "10"), None), all);
    let query = QueryDigest::of(&[b"plain/fruit", b"ripeness_int", b"-10", b"10"]);
    let term = Term::tag_integer(b"7").expect("a number");
    let text = Continuation { query, term, key: "fig".into() }.encode();
    let place = Continuation::decode(text.as_bytes(), query).expect("its own");
    let after = Some((&place.term, &place.key[..]));
    assert_eq!(rows.query("ripeness_int", ("-10", "10"), after), all[2..]);
}
