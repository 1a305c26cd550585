//! Examples of bodies about counted buckets, and the formats that carry them.

use super::examples::{ExampleData, golden_data, place_bodies};
use super::reply_bytes;
use crate::reply::{Body, BucketDescription, MoveDestination, Reply};
use crate::{BucketId, BucketName, GroupId, LogIndex, Properties};
use bytes::Bytes;

/// Counts, and descriptions of counted buckets and types.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers;
    let counted = Properties { counted: true, ..Properties::default() };
    let bucket = |name, properties: &Properties, moving| BucketDescription {
        name: BucketName::from_full(name).expect("a name"),
        id: BucketId(two as u32),
        group: GroupId(one as u32),
        properties: properties.clone(),
        moving,
    };
    let moving = Some(MoveDestination { group: GroupId(two as u32), id: BucketId(one as u32) });
    vec![
        Body::Size { keys: one, bytes: two },
        Body::Buckets(vec![
            bucket("logs/a-1", &counted, None),
            bucket("logs/b", &Properties::default(), moving),
        ]),
        Body::Types(vec![("available".into(), Properties::available()), ("logs".into(), counted)]),
    ]
}

#[test]
fn counted_buckets_use_a_format_of_their_own_and_others_keep_theirs() {
    let data = golden_data();
    let number = |body: Body| reply_bytes(&Reply::new(LogIndex(1), body))[8];
    let numbers: Vec<_> = bodies(&data).into_iter().map(number).collect();
    assert_eq!(numbers, [27, 25, 26]);
    let moving = place_bodies(&data).remove(0);
    assert_eq!(number(moving), 12, "members of older versions understand it");
}

#[test]
fn counted_format_without_a_counted_bucket_is_malformed() {
    for body in bodies(&golden_data()).into_iter().skip(1) {
        let mut bytes = reply_bytes(&Reply::new(LogIndex(1), body)).to_vec();
        // The flags of both stand at the end.
        let end = bytes.len() - 2;
        bytes[end..].fill(0);
        assert!(Reply::read(&Bytes::from(bytes)).is_err());
    }
}
