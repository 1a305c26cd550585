//! Copies of available buckets in each node's store, read from its files while the node is down, so
//! that no read path of the product lies between the copies and their checker.

use super::Cluster;
use crate::checkers::causal::Copy;
use base::codec::{Malformed, Reader};
use base::{Actor, BucketName, varint};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use store::{LsmTrees, RowChange, TreeSettings, Trees};

/// First owner number of rows of available buckets; the vnodes' mark lies above them.
const FIRST_AVAILABLE_OWNER: u32 = 1 << 31;
const LAST_OWNER: u32 = u32::MAX;
/// Kinds of tree keys, after a slot's four bytes.
const ROW: u8 = 4;
const HINT: u8 = 5;
/// Flags of a value.
const TOMBSTONE: u8 = 1;
const HEADERS: u8 = 2;
/// Memory for reading a store.
const MEMORY_BYTES: u64 = 32 << 20;

/// Contents of one node: rows and hints, by their names without the slot.
#[derive(Clone, Debug, Default)]
struct NodeContents {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    hints: usize,
}

/// Contents of all nodes.
#[derive(Clone, Debug)]
pub struct Copies {
    nodes: Vec<NodeContents>,
    replicas: usize,
}

impl Cluster {
    /// Stops every node cleanly, reads the contents of each, then starts them again. `replicas`:
    /// the number of copies that each row must have.
    pub fn copies(&mut self, replicas: usize) -> Copies {
        let nodes: Vec<usize> = self.nodes().collect();
        for node in &nodes {
            assert_eq!(self.stop(*node), Some(0), "node {node} does not stop in good order");
        }
        let contents =
            nodes.iter().map(|node| read_store(&self.setup_mut(*node).data.join("store")));
        let copies = Copies { nodes: contents.collect(), replicas };
        self.start_all();
        self.must_converge();
        copies
    }

    /// Removes rows from the store of a node that was stopped cleanly, without a trace; returns
    /// their number.
    pub fn remove_rows(
        &mut self,
        node: usize,
        bucket_path: &str,
        key: impl Fn(&str) -> bool,
    ) -> usize {
        let trees = open_store(&self.setup_mut(node).data.join("store"));
        let prefix = row_name(bucket_path, "");
        let removals: Vec<_> = available_entries(&trees)
            .filter(|(tree_key, _)| {
                let name = tree_key[5..].strip_prefix(&prefix[..]);
                let row_key = name.and_then(|name| std::str::from_utf8(name).ok());
                tree_key[4] == ROW && row_key.is_some_and(&key)
            })
            .map(|(tree_key, _)| RowChange::Remove(tree_key.into()))
            .collect();
        let count = removals.len();
        trees.apply(&mut removals.into_iter()).expect("ours to write");
        trees.rotate().expect("ours to write");
        trees.flush().expect("ours to write");
        count
    }
}

impl Copies {
    /// Returns every copy of a bucket's keys with its values, without tombstones, for the checker.
    pub fn of_bucket(&self, bucket_path: &str) -> Vec<Copy> {
        let prefix = row_name(bucket_path, "");
        let mut all = Vec::new();
        for (node, contents) in (1..).zip(&self.nodes) {
            for (name, row) in contents.rows.iter().filter(|(name, _)| name.starts_with(&prefix)) {
                let key = String::from_utf8_lossy(&name[prefix.len()..]).into_owned();
                let values = live_values(row).unwrap_or_else(|Malformed(field)| {
                    panic!("{key} at n{node} can't be read: {field}")
                });
                all.push(Copy { key, location: format!("n{node}"), values });
            }
        }
        all
    }

    /// Returns the number of distinct rows.
    pub fn rows(&self) -> usize {
        self.nodes.iter().flat_map(|contents| contents.rows.keys()).collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of hints that are left.
    pub fn hints(&self) -> usize {
        self.nodes.iter().map(|contents| contents.hints).sum()
    }

    /// Returns the bytes of rows that a node holds, with their names.
    pub fn bytes(&self, node: usize) -> usize {
        self.nodes[node - 1].rows.iter().map(|(name, row)| name.len() + row.len()).sum()
    }

    /// Describes the rows that too few or too many nodes hold, or whose bytes differ.
    pub fn differences(&self) -> Vec<String> {
        let mut holders: BTreeMap<&[u8], Vec<(usize, &[u8])>> = BTreeMap::new();
        for (node, contents) in (1..).zip(&self.nodes) {
            for (name, row) in &contents.rows {
                holders.entry(name).or_default().push((node, row));
            }
        }
        let mut differences = Vec::new();
        for (name, copies) in holders {
            let name = String::from_utf8_lossy(&name[2..]).into_owned();
            let nodes: Vec<_> = copies.iter().map(|(node, _)| *node).collect();
            // The nodes may reap a row that consists of tombstones at different times.
            let is_dead = copies
                .iter()
                .all(|(_, row)| live_values(row).is_ok_and(|values| values.is_empty()));
            if copies.len() > self.replicas || copies.len() < self.replicas && !is_dead {
                differences
                    .push(format!("{name}: held by {nodes:?}, wanted are {}", self.replicas));
            } else if copies.iter().any(|(_, row)| *row != copies[0].1) {
                let rows: Vec<_> = copies.iter().map(|(_, row)| live_values(row)).collect();
                differences.push(format!("{name}: differs at {nodes:?}: {rows:?}"));
            }
        }
        differences
    }
}

fn open_store(path: &Path) -> LsmTrees {
    let settings = TreeSettings { memory_bytes_max: MEMORY_BYTES, ..TreeSettings::new(path) };
    LsmTrees::open(settings).expect("a node that stopped in good order leaves a whole store")
}

/// Returns all entries of available buckets.
fn available_entries(trees: &LsmTrees) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let bound = |owner: u32| owner.to_be_bytes().to_vec().into();
    let snapshot = trees.snapshot();
    let rows = snapshot.range(
        Bound::Included(bound(FIRST_AVAILABLE_OWNER)),
        Bound::Excluded(bound(LAST_OWNER)),
        false,
    );
    let read = |row: Result<(bytes::Bytes, bytes::Bytes), store::StoreError>| {
        let (key, value) = row.expect("what is on disk can be read");
        (key.to_vec(), value.to_vec())
    };
    rows.map(read).collect::<Vec<_>>().into_iter()
}

fn read_store(path: &Path) -> NodeContents {
    let mut contents = NodeContents::default();
    for (tree_key, value) in available_entries(&open_store(path)) {
        match tree_key[4] {
            ROW => drop(contents.rows.insert(tree_key[5..].to_vec(), value)),
            HINT => contents.hints += 1,
            _ => {}
        }
    }
    contents
}

/// Returns a row's name without its slot.
fn row_name(bucket_path: &str, key: &str) -> Vec<u8> {
    let (kind, bucket) = bucket_path.split_once('/').expect("TYPE/BUCKET");
    let name = BucketName::new(kind, bucket).expect("a name");
    let name = name.full().as_bytes();
    [&(name.len() as u16).to_be_bytes()[..], name, key.as_bytes()].concat()
}

/// Returns the values of a row, without tombstones.
fn live_values(row: &[u8]) -> Result<BTreeSet<String>, Malformed> {
    let clock = logic::causal::decode::<Actor, _>(row, decode_value)?;
    Ok(clock.values().flatten().cloned().collect())
}

/// Returns a value's own bytes. `None`: it is a tombstone.
fn decode_value(bytes: &[u8]) -> Result<Option<String>, Malformed> {
    let mut reader = Reader::new(bytes);
    let flags = reader.u8("a value's flags")?;
    varint::take(&mut reader, "a value's hour")?;
    if flags & HEADERS != 0 {
        varint::take_string(&mut reader, usize::MAX, "a value's headers")?;
    }
    let text = String::from_utf8_lossy(reader.rest()).into_owned();
    Ok((flags & TOMBSTONE == 0).then_some(text))
}
