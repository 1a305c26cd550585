//! Laws of the spans that a comparison walks over.

use super::*;
use proptest::prelude::*;

/// Returns a tree key of a group: in any space, and of a bucket if the space has buckets.
fn tree_key() -> impl Strategy<Value = (GroupId, Vec<u8>)> {
    let group = prop::sample::select(vec![0, 7, u32::MAX]);
    let bucket = prop::sample::select(vec![0, 1, 2, 3, 0xFF, 0x100, u32::MAX]);
    (group, 0..18_u8, bucket, prop::collection::vec(any::<u8>(), 0..3)).prop_map(
        |(group, space, bucket, name): (u32, u8, u32, Vec<u8>)| {
            let front = [&group.to_be_bytes()[..], &[space], &bucket.to_be_bytes()].concat();
            (GroupId(group), [front, name].concat())
        },
    )
}

proptest! {
    /// Each key is compared once, unless it is of a bucket that is not in force.
    #[test]
    fn spans_hold_every_key_once_except_those_of_dropped_buckets(
        (group, key) in tree_key(),
        live in prop::collection::btree_set(
            prop::sample::select(vec![0, 1, 3, 0xFF, u32::MAX]).prop_map(BucketId), 0..5,
        ),
    ) {
        let spans = spans(group, &live);
        let holders: Vec<_> =
            spans.iter().filter(|span| span.low <= key[..] && key[..] < span.high).collect();
        let bucket = layout::read_bucket_prefix(&key).map(|(_, bucket)| bucket);
        let is_dropped =
            bucket.is_some_and(|bucket| bucket != BOOKKEEPING_BUCKET && !live.contains(&bucket));
        prop_assert_eq!(holders.len(), usize::from(!is_dropped));
        prop_assert!(holders.iter().all(|span| span.bucket == bucket));
        prop_assert!(spans.is_sorted_by(|one, next| one.high <= next.low));
    }
}
