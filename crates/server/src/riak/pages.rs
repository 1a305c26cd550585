//! Pages of a list: the memory of their names, and their parts in a stream.

use base::{Body, BucketName, BucketNames, IndexPage, IndexRow, Key, Keys};

/// Size in bytes of the names in one document of a stream. A whole page would be in memory three
/// times: as names, as a document and as a chunk.
const PART_BYTES: usize = 64 * 1024;
/// Memory of a name in bytes, in addition to its own bytes.
const NAME_OVERHEAD_BYTES: usize = 32;

/// Returns the memory of a page's names in bytes.
pub(super) fn names_bytes(page: &Body) -> usize {
    match page {
        Body::Keys(page) => page.keys.iter().map(key_bytes).sum(),
        Body::BucketNames(page) => page.names.iter().map(name_bytes).sum(),
        Body::IndexPage(page) => page.rows.iter().map(row_bytes).sum(),
        _ => 0,
    }
}

fn key_bytes(key: &Key) -> usize {
    key.len() + NAME_OVERHEAD_BYTES
}

fn row_bytes(row: &IndexRow) -> usize {
    row.term.as_ref().map_or(0, key_bytes) + key_bytes(&row.key)
}

fn name_bytes(name: &BucketName) -> usize {
    name.to_string().len() + NAME_OVERHEAD_BYTES
}

/// Splits a page into parts of one document each, in order; at least one.
pub(super) fn split_page(page: Body) -> Vec<Body> {
    match page {
        Body::Keys(Keys { keys, more }) => {
            let parts = split_names(keys, key_bytes).into_iter();
            parts.map(|keys| Body::Keys(Keys { keys, more })).collect()
        }
        Body::BucketNames(BucketNames { names, more }) => {
            let parts = split_names(names, name_bytes).into_iter();
            parts.map(|names| Body::BucketNames(BucketNames { names, more })).collect()
        }
        Body::IndexPage(page) => {
            let IndexPage { rows, after, is_partial } = *page;
            let parts = split_names(rows, row_bytes).into_iter();
            let part = |rows| IndexPage { rows, after: after.clone(), is_partial };
            parts.map(|rows| Body::IndexPage(Box::new(part(rows)))).collect()
        }
        page => vec![page],
    }
}

/// Splits names into parts. Each but the last has `PART_BYTES`, exceeded by at most one name.
fn split_names<N>(names: Vec<N>, bytes_of: impl Fn(&N) -> usize) -> Vec<Vec<N>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for name in names {
        if bytes >= PART_BYTES {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += bytes_of(&name);
        if let Some(part) = parts.last_mut() {
            part.push(name);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_split_yields_small_parts_with_all_names_in_order() {
        let keys: Vec<_> = (0..500_u32).map(|key| Key::from(format!("{key:01000}"))).collect();
        let page = Body::Keys(Keys { keys: keys.clone(), more: true });
        let found = split_page(page);
        assert!(found.len() > 7 && found.iter().all(|part| names_bytes(part) < 2 * PART_BYTES));
        let found = found.into_iter().flat_map(|part| match part {
            Body::Keys(Keys { keys, more: true }) => keys,
            other => panic!("a part of keys, not {other:?}"),
        });
        assert_eq!(found.collect::<Vec<_>>(), keys);
        let nothing = Body::BucketNames(BucketNames::default());
        assert_eq!(split_page(nothing.clone()), [nothing]);
    }
}
