//! Merge against a naive twin that keeps all rows, sorts them and removes duplicates.

use crate::coverage::{MergedRow, PageEnd, StreamError, StreamMerge, StreamPage};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Term and key.
type Position = (u8, u8);
/// Rows of one stream.
type StreamRows = BTreeMap<Position, u8>;

fn page(rows: &[(u8, u8)], end: Option<u8>) -> StreamPage<u8, u8> {
    StreamPage { rows: rows.to_vec(), end: end.map_or(PageEnd::Complete, PageEnd::Through) }
}

/// Takes a page of rows as (position, value, agreed), and true if more may follow.
fn take(merge: &mut StreamMerge<u8, u8>, rows_max: usize) -> (Vec<(u8, u8, bool)>, bool) {
    let page = merge.next_page(rows_max, |_| 2);
    let rows = page.rows.into_iter().map(|row| (row.position, row.value, row.is_agreed));
    (rows.collect(), page.more)
}

#[test]
fn rows_are_returned_up_to_the_slowest_stream() {
    let mut merge = StreamMerge::new(2, None, false);
    assert_eq!(merge.awaited(), [0, 1]);
    merge.push(0, page(&[(1, 10), (3, 30)], Some(3))).expect("in order");
    assert_eq!((take(&mut merge, 9), merge.awaited()), ((vec![], true), vec![1]));
    // Stream 1 has no row 1, another value in row 3, and has looked as far as 5.
    merge.push(1, page(&[(2, 20), (3, 31)], Some(5))).expect("in order");
    assert_eq!(take(&mut merge, 9).0, [(1, 10, false), (2, 20, false), (3, 30, false)]);
    assert_eq!(
        (merge.awaited(), merge.start_of(0), merge.position()),
        (vec![0], Some(&3), Some(&3))
    );
    merge.push(0, page(&[(6, 60)], None)).expect("in order");
    assert_eq!((take(&mut merge, 9), merge.awaited()), ((vec![], true), vec![1]));
    merge.push(1, page(&[(6, 60)], None)).expect("in order");
    assert!(!merge.is_complete());
    assert_eq!(take(&mut merge, 9), (vec![(6, 60, true)], false));
    assert!(merge.is_complete() && merge.awaited().is_empty());
}

#[test]
fn page_of_the_most_rows_says_that_more_follow() {
    let mut merge = StreamMerge::new(2, None, true);
    for stream in 0..2 {
        merge.push(stream, page(&[(3, 0), (2, 0), (1, 0)], None)).expect("in order");
    }
    assert_eq!(take(&mut merge, 2), (vec![(3, 0, true), (2, 0, true)], true));
    assert_eq!(take(&mut merge, 0), (vec![], true));
    assert_eq!(take(&mut merge, 2), (vec![(1, 0, true)], false));
}

#[test]
fn page_that_does_not_continue_its_stream_is_refused() {
    let mut merge = StreamMerge::new(1, Some(10), false);
    assert_eq!(merge.start_of(0), Some(&10));
    let cases = [
        (0, page(&[(12, 0), (11, 0)], None), StreamError::RowOrder),
        (0, page(&[(12, 0), (12, 0)], None), StreamError::RowOrder),
        (0, page(&[(10, 0)], None), StreamError::RowOrder),
        (0, page(&[(12, 0)], Some(11)), StreamError::PageEnd),
        (0, page(&[], Some(10)), StreamError::PageEnd),
        (1, page(&[], None), StreamError::NoStream),
    ];
    for (stream, page, error) in cases {
        assert_eq!(merge.push(stream, page), Err(error));
        assert_eq!(take(&mut merge, 9), (vec![], true), "nothing of it was taken");
    }
    merge.push(0, page(&[], Some(20))).expect("no rows as far as 20");
    assert_eq!(merge.push(0, page(&[(20, 0)], None)), Err(StreamError::RowOrder));
    merge.push(0, page(&[(21, 0)], None)).expect("in order");
    assert_eq!(merge.push(0, page(&[(22, 0)], None)), Err(StreamError::NoStream));
    assert_eq!(merge.replace(0, 1), Err(StreamError::NoStream));
}

#[test]
fn replacements_continue_where_the_lost_stream_ended() {
    let mut merge = StreamMerge::new(2, None, false);
    merge.push(0, page(&[(1, 0), (2, 0)], Some(2))).expect("in order");
    merge.push(1, page(&[(1, 0), (2, 0), (3, 0), (4, 0)], None)).expect("in order");
    assert_eq!(merge.replace(0, 2), Ok(2));
    assert_eq!(merge.push(0, page(&[(3, 0)], None)), Err(StreamError::NoStream), "too late");
    assert_eq!((merge.awaited(), merge.start_of(3)), (vec![2, 3], Some(&2)));
    merge.push(2, page(&[(3, 0)], None)).expect("in order");
    merge.push(3, page(&[(4, 0)], None)).expect("in order");
    let (rows, more) = take(&mut merge, 9);
    assert_eq!((rows.len(), rows.iter().all(|row| row.2), more), (4, true, false));
}

#[test]
fn merge_of_no_streams_is_complete() {
    let mut merge = StreamMerge::<u8, u8>::new(0, None, false);
    assert!(merge.is_complete());
    assert_eq!(take(&mut merge, 9), (vec![], false));
}

fn is_before(reverse: bool, one: &Position, other: &Position) -> bool {
    if reverse { one > other } else { one < other }
}

/// Returns the rows of all streams after a position, in order, each once. A row is agreed if
/// `replicas` streams have it, with one value.
fn merged_naively(
    streams: &[StreamRows],
    (after, reverse): (Option<Position>, bool),
    replicas: usize,
) -> Vec<(Position, Vec<u8>, bool)> {
    let mut rows: Vec<(Position, u8)> =
        streams.iter().flatten().map(|(position, value)| (*position, *value)).collect();
    rows.sort_unstable();
    if reverse {
        rows.reverse();
    }
    rows.retain(|(position, _)| after.is_none_or(|after| is_before(reverse, &after, position)));
    let mut merged: Vec<(Position, Vec<u8>)> = Vec::new();
    for (position, value) in rows {
        match merged.last_mut() {
            Some((last, values)) if *last == position => values.push(value),
            _ => merged.push((position, vec![value])),
        }
    }
    let agreed =
        |values: &[u8]| values.len() >= replicas && values.iter().all(|value| *value == values[0]);
    merged.into_iter().map(|(at, values)| (at, values.clone(), agreed(&values))).collect()
}

/// Returns the next page of a stream: up to `size` rows after a position. `is_scan`: the page ends
/// behind its last row, as one of a replica that skipped rows.
fn next_page(
    rows: &StreamRows,
    after: Option<Position>,
    reverse: bool,
    (size, is_scan): (usize, bool),
) -> StreamPage<Position, u8> {
    let mut all: Vec<_> = rows.iter().map(|(position, value)| (*position, *value)).collect();
    if reverse {
        all.reverse();
    }
    all.retain(|(position, _)| after.is_none_or(|after| is_before(reverse, &after, position)));
    let rest = all.split_off(size.min(all.len()));
    let end = match (all.last(), rest.first()) {
        (_, None) => PageEnd::Complete,
        // Without rows it has to look further: to just before the next row, or through it.
        (last, Some((next, _))) => {
            let before_next = match reverse {
                false if next.1 > 0 => Some((next.0, next.1 - 1)),
                true if next.1 < u8::MAX => Some((next.0, next.1 + 1)),
                _ => None,
            };
            let is_progress =
                |end: &Position| after.is_none_or(|after| is_before(reverse, &after, end));
            let scanned = before_next.filter(|_| is_scan || last.is_none()).filter(is_progress);
            match scanned.or(last.map(|(position, _)| *position)) {
                Some(end) => PageEnd::Through(end),
                None => return next_page(rows, after, reverse, (1, false)),
            }
        }
    };
    StreamPage { rows: all, end }
}

/// Streams with many common rows, and few values.
fn random_streams() -> impl Strategy<Value = Vec<StreamRows>> {
    let rows = proptest::collection::btree_map((0..4_u8, 0..6_u8), 0..2_u8, 0..16);
    proptest::collection::vec(rows, 0..6)
}

/// Random order of events: stream to push, size of its page, and rows to take.
fn random_steps() -> impl Strategy<Value = Vec<(usize, usize, bool, usize)>> {
    proptest::collection::vec((0..6_usize, 0..5_usize, any::<bool>(), 0..6_usize), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(1_000)
    })]

    #[test]
    fn merge_equals_its_naive_twin_in_every_order_of_pages(
        streams in random_streams(),
        steps in random_steps(),
        after in proptest::option::of((0..4_u8, 0..6_u8)),
        reverse in any::<bool>(),
        replicas in 1..4_usize,
    ) {
        let expected = merged_naively(&streams, (after, reverse), replicas);
        let mut merge = StreamMerge::new(streams.len(), after, reverse);
        let mut returned: Vec<MergedRow<Position, u8>> = Vec::new();
        let mut ended = vec![false; streams.len()];
        let finish = (0..400).map(|stream| (stream, 3, false, 4));
        for (stream, size, is_scan, rows_max) in steps.into_iter().chain(finish) {
            let stream = stream % streams.len().max(1);
            if ended.get(stream) == Some(&false) {
                let start = merge.start_of(stream).copied();
                let page = next_page(&streams[stream], start, reverse, (size, is_scan));
                ended[stream] = page.end == PageEnd::Complete;
                prop_assert_eq!(merge.push(stream, page), Ok(()));
            }
            let page = merge.next_page(rows_max, |_| replicas);
            prop_assert!(page.rows.len() <= rows_max);
            prop_assert_eq!(page.more, !merge.is_complete());
            if page.rows.len() < rows_max && page.more {
                prop_assert!(!merge.awaited().is_empty(), "somebody has to say more");
            }
            // A row that is not returned yet lies behind what some stream has reported.
            if let Some(next) = expected.get(returned.len() + page.rows.len())
                && page.rows.len() < rows_max
            {
                let ends: Vec<_> =
                    merge.awaited().into_iter().filter_map(|it| merge.start_of(it)).collect();
                prop_assert!(ends.iter().all(|end| is_before(reverse, end, &next.0)));
            }
            returned.extend(page.rows);
            let last = returned.last().map(|row| row.position);
            prop_assert_eq!(merge.position().copied(), last.or(after));
        }
        prop_assert!(merge.is_complete());
        prop_assert_eq!(returned.len(), expected.len());
        for (row, (position, values, is_agreed)) in returned.iter().zip(&expected) {
            prop_assert_eq!((&row.position, row.is_agreed), (position, *is_agreed));
            prop_assert!(values.contains(&row.value));
        }
    }

    #[test]
    fn merge_continues_after_any_row(
        streams in random_streams(),
        reverse in any::<bool>(),
        rows_max in 1..5_usize,
    ) {
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let mut merge = StreamMerge::new(streams.len(), after, reverse);
            for (stream, rows) in streams.iter().enumerate() {
                let page = next_page(rows, after, reverse, (usize::MAX, false));
                prop_assert_eq!(merge.push(stream, page), Ok(()));
            }
            let page = merge.next_page(rows_max, |_| 1);
            prop_assert!(!page.more || page.rows.len() == rows_max);
            after = merge.position().copied();
            all.extend(page.rows.into_iter().map(|row| row.position));
            if !page.more {
                break;
            }
        }
        let expected = merged_naively(&streams, (None, reverse), 1);
        prop_assert!(all.into_iter().eq(expected.into_iter().map(|(position, ..)| position)));
    }
}
