//! Examples of bodies about counted, bounded and audited buckets, and the formats that carry them.

use super::examples::{ExampleData, golden_data, place_bodies};
use super::reply_bytes;
use crate::reply::{Body, BucketDescription, MoveDestination, Reply};
use crate::{BucketAudit, BucketId, BucketName, GroupId, LogIndex, Properties};
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

/// Descriptions of later properties: a bound on bytes, and what is audited.
pub fn later_bodies(data: &ExampleData) -> Vec<Body> {
    [bounded_bodies(data), audited_bodies(data)].concat()
}

/// Descriptions of buckets and types with a bound on their bytes.
pub fn bounded_bodies(data: &ExampleData) -> Vec<Body> {
    let bound = |properties: &mut Properties| {
        if properties.counted {
            properties.bytes_max = data.numbers[0].clamp(1, 1 << 53);
        }
    };
    let mut bodies = bodies(data);
    bodies.remove(0);
    for body in &mut bodies {
        match body {
            Body::Buckets(all) => all.iter_mut().for_each(|bucket| bound(&mut bucket.properties)),
            Body::Types(all) => all.iter_mut().for_each(|(_, properties)| bound(properties)),
            _ => {}
        }
    }
    bodies
}

/// Descriptions of buckets and types of which some are audited: none of them needs counts.
pub fn audited_bodies(data: &ExampleData) -> Vec<Body> {
    let audited = Properties { audit: BucketAudit::Writes, ..Properties::default() };
    let all = Properties { audit: BucketAudit::All, ..Properties::available() };
    let mut bodies = bounded_bodies(data);
    for body in &mut bodies {
        match body {
            Body::Buckets(buckets) => buckets[1].properties = audited.clone(),
            Body::Types(types) => types[0].1 = all.clone(),
            _ => {}
        }
    }
    bodies
}

#[test]
fn audited_format_without_an_audited_bucket_or_with_an_unknown_value_is_malformed() {
    for body in audited_bodies(&golden_data()) {
        let bytes = reply_bytes(&Reply::new(LogIndex(1), body)).to_vec();
        let end = bytes.len() - 2;
        for last in [[0, 0], [3, 0], [0, 3]] {
            let mut changed = bytes.clone();
            changed[end..].copy_from_slice(&last);
            assert!(Reply::read(&Bytes::from(changed)).is_err(), "{last:?}");
        }
        let mut other = bytes;
        other[end..].copy_from_slice(&[2, 1]);
        assert!(Reply::read(&Bytes::from(other)).is_ok(), "other values are sound");
    }
}

#[test]
fn bounded_format_without_a_bound_or_a_count_is_malformed() {
    for body in bounded_bodies(&golden_data()) {
        let is_types = matches!(body, Body::Types(_));
        let bytes = reply_bytes(&Reply::new(LogIndex(1), body)).to_vec();
        // Flags and bounds of both stand at the end; the counted one is the first bucket and the
        // last type.
        let end = bytes.len() - 16;
        let mut none = bytes.clone();
        none[end..].fill(0);
        assert!(Reply::read(&Bytes::from(none)).is_err());
        let mut uncounted = bytes.clone();
        uncounted[end - 2..end].copy_from_slice(if is_types { &[0, 0] } else { &[0, 1] });
        assert!(Reply::read(&Bytes::from(uncounted)).is_err());
        let mut beyond = bytes;
        beyond[end..].fill(0xff);
        assert!(Reply::read(&Bytes::from(beyond)).is_err());
    }
}

#[test]
fn counted_buckets_use_a_format_of_their_own_and_others_keep_theirs() {
    let data = golden_data();
    let number = |body: Body| reply_bytes(&Reply::new(LogIndex(1), body))[8];
    let numbers: Vec<_> = bodies(&data).into_iter().map(number).collect();
    assert_eq!(numbers, [27, 25, 26]);
    let numbers: Vec<_> = bounded_bodies(&data).into_iter().map(number).collect();
    assert_eq!(numbers, [30, 31]);
    let numbers: Vec<_> = audited_bodies(&data).into_iter().map(number).collect();
    assert_eq!(numbers, [32, 33]);
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
