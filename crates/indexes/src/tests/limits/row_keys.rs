//! Longest key of an index row: below what the store accepts.

use crate::layout::{EntrySpace, decode_available};
use crate::limits::{INDEX_FIELD_BYTES_MAX, INDEX_TERM_BYTES_MAX};
use crate::{IndexEntry, IndexField, Term};
use base::BucketName;
use base::limits::{BUCKET_NAME_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX};

/// Longest key of the store, and room for what a row's owner puts in front.
const STORE_KEY_BYTES_MAX: usize = 65_535;
const FRONT_BYTES: usize = 64;

#[test]
fn longest_row_fits_into_a_key_of_the_store() {
    let name = format!("{}_bin", "x".repeat(INDEX_FIELD_BYTES_MAX - 4));
    let entry = IndexEntry {
        field: IndexField::tag(name.as_bytes()).expect("at the limit"),
        term: Term::tag_bytes(&vec![0; INDEX_TERM_BYTES_MAX]).expect("at the limit"),
    };
    let (kind, bucket) = ("t".repeat(NAME_BYTES_MAX), "b".repeat(BUCKET_NAME_BYTES_MAX));
    let bucket = BucketName::new(&kind, &bucket).expect("at the limits");
    let key = vec![0xFF; KEY_BYTES_MAX];
    let bytes = EntrySpace::Available(&bucket).key(&entry, &key);
    assert!(bytes.len() + FRONT_BYTES < STORE_KEY_BYTES_MAX, "{}", bytes.len());
    assert_eq!(decode_available(&bytes), Ok((bucket, entry, key.into())));
    let longer = [&bytes[..], &[0]].concat();
    assert!(decode_available(&longer).is_err(), "no record has such a key");
}
