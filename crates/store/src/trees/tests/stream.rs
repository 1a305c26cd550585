//! Chunks of a prefix: the rows at one moment, despite concurrent writes.

use super::super::{Chunk, MemoryTrees, Snapshot, TreeRow, Trees};
use super::{Scratch, apply, open_narrow, put, remove};
use bytes::Bytes;

const PREFIX: &[u8] = &[7, 0xFF];

fn key(number: u32) -> Vec<u8> {
    [PREFIX, &number.to_be_bytes()].concat()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; (number * 37 % 400) as usize]
}

/// Writes rows under the prefix to memory and disk, overwrites some, removes some, and writes
/// neighbours. Returns the rows.
fn fill(trees: &dyn Trees) -> Vec<TreeRow> {
    for part in 0..4 {
        let rows = (0..200).filter(|number| number % 4 == part);
        apply(trees, rows.map(|number| put(key(number), value(number + part))));
        apply(trees, [put([7, 0xFE, 0xFF], "before"), put([8], "behind"), put([7], "above")]);
        if part < 3 {
            trees.rotate().unwrap();
            trees.flush().unwrap();
        }
    }
    apply(trees, (0..200).step_by(10).map(|number| remove(key(number))));
    apply(trees, [put(PREFIX, "the prefix itself")]);
    let left = (0..200).filter(|number| number % 10 != 0);
    let rows = left.map(|number| (key(number).into(), value(number + number % 4).into()));
    let first = (PREFIX.into(), Bytes::from_static(b"the prefix itself"));
    std::iter::once(first).chain(rows).collect()
}

/// Reads the whole stream, every chunk twice; `between` runs between the two.
fn stream(
    snapshot: &dyn Snapshot,
    bytes_max: usize,
    mut between: impl FnMut(usize),
) -> Vec<TreeRow> {
    let (mut rows, mut after, mut chunks) = (Vec::new(), None, 0);
    loop {
        let chunk = Chunk::read(snapshot, PREFIX, after.as_ref(), bytes_max).unwrap();
        between(chunks);
        let repeated = Chunk::read(snapshot, PREFIX, after.as_ref(), bytes_max).unwrap();
        assert_eq!(chunk, repeated, "whoever lost a chunk gets the same one");
        let bytes: usize = chunk.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes <= bytes_max || chunk.rows.len() == 1, "{bytes} of {bytes_max}");
        let last = chunk.rows.last().map(|(key, _)| key);
        assert!(chunk.more_after.is_none() || chunk.more_after.as_ref() == last);
        rows.extend(chunk.rows);
        chunks += 1;
        match chunk.more_after {
            Some(last) => after = Some(last),
            None => return rows,
        }
    }
}

fn check_all_sizes(trees: &dyn Trees) {
    let expected = fill(trees);
    for bytes_max in [1, 100, 500, 4_000, 1 << 20] {
        assert_eq!(stream(&*trees.snapshot(), bytes_max, |_| {}), expected, "{bytes_max}");
    }
    let chunk = Chunk::read(&*trees.snapshot(), &[9], None, 100).unwrap();
    assert_eq!(chunk, Chunk::default());
}

#[test]
fn prefix_read_in_chunks_of_any_size_is_complete() {
    let scratch = Scratch::new();
    check_all_sizes(&open_narrow(&scratch));
    check_all_sizes(&MemoryTrees::new(1 << 20));
}

#[test]
fn chunked_prefix_read_ignores_later_writes_merges_and_drops() {
    let scratch = Scratch::new();
    let trees = open_narrow(&scratch);
    let expected = fill(&trees);
    let snapshot = trees.snapshot();
    let found = stream(&*snapshot, 900, |chunk| {
        let number = chunk as u32;
        apply(&trees, (0..300).step_by(7).map(|other| put(key(other + number), "later")));
        apply(&trees, (0..200).step_by(9).map(|other| remove(key(other + number))));
        trees.rotate().unwrap();
        trees.flush().unwrap();
        trees.compact().unwrap();
        if chunk == 5 {
            trees.drop_prefix(PREFIX).unwrap();
        }
    });
    assert_eq!(found, expected);
    assert_ne!(stream(&*trees.snapshot(), 900, |_| {}), expected, "a new one sees what changed");
}
