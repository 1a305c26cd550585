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
const FIRST: u32 = 1 << 31;
const LAST: u32 = u32::MAX;
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
struct HeldCopies {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    hints: usize,
}

/// Contents of all nodes.
#[derive(Clone, Debug)]
pub struct Copies {
    nodes: Vec<HeldCopies>,
    wanted: usize,
}

impl Cluster {
    /// Stops every node cleanly, reads the contents of each, then starts them again. `wanted`:
    /// number of copies that each row must have.
    pub fn copies(&mut self, wanted: usize) -> Copies {
        let nodes: Vec<usize> = self.nodes().collect();
        for node in &nodes {
            assert_eq!(self.stop(*node), Some(0), "node {node} does not stop in good order");
        }
        let held = nodes.iter().map(|node| read(&self.how(*node).data.join("store")));
        let copies = Copies { nodes: held.collect(), wanted };
        self.begin_all();
        self.must_settle();
        copies
    }

    /// Removes rows from the store of a node that was stopped cleanly, without a trace; returns
    /// their number.
    pub fn lose(&mut self, node: usize, place: &str, key: impl Fn(&str) -> bool) -> usize {
        let trees = open(&self.how(node).data.join("store"));
        let front = named(place, "");
        let gone: Vec<_> = all(&trees)
            .filter(|(whole, _)| {
                let name = whole[5..].strip_prefix(&front[..]);
                let text = name.and_then(|name| std::str::from_utf8(name).ok());
                whole[4] == ROW && text.is_some_and(&key)
            })
            .map(|(whole, _)| RowChange::Remove(whole.into()))
            .collect();
        let count = gone.len();
        trees.apply(&mut gone.into_iter()).expect("ours to write");
        trees.rotate().expect("ours to write");
        trees.flush().expect("ours to write");
        count
    }
}

impl Copies {
    /// Returns every copy of a bucket's keys with its values, without tombstones, for the checker.
    pub fn of(&self, place: &str) -> Vec<Copy> {
        let front = named(place, "");
        let mut all = Vec::new();
        for (node, held) in (1..).zip(&self.nodes) {
            for (name, row) in held.rows.iter().filter(|(name, _)| name.starts_with(&front)) {
                let key = String::from_utf8_lossy(&name[front.len()..]).into_owned();
                let values = living(row).unwrap_or_else(|Malformed(field)| {
                    panic!("{key} at n{node} can't be read: {field}")
                });
                all.push(Copy { key, at: format!("n{node}"), values });
            }
        }
        all
    }

    /// Returns the number of distinct rows.
    pub fn rows(&self) -> usize {
        self.nodes.iter().flat_map(|held| held.rows.keys()).collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of hints that are left.
    pub fn hints(&self) -> usize {
        self.nodes.iter().map(|held| held.hints).sum()
    }

    /// Returns the bytes of rows that a node holds, with their names.
    pub fn bytes(&self, node: usize) -> usize {
        self.nodes[node - 1].rows.iter().map(|(name, row)| name.len() + row.len()).sum()
    }

    /// Describes the rows that too few or too many nodes hold, or whose bytes differ.
    pub fn differences(&self) -> Vec<String> {
        let mut holders: BTreeMap<&[u8], Vec<(usize, &[u8])>> = BTreeMap::new();
        for (node, held) in (1..).zip(&self.nodes) {
            for (name, row) in &held.rows {
                holders.entry(name).or_default().push((node, row));
            }
        }
        let mut found = Vec::new();
        for (name, held) in holders {
            let name = String::from_utf8_lossy(&name[2..]).into_owned();
            let nodes: Vec<_> = held.iter().map(|(node, _)| *node).collect();
            // The nodes may forget a row that consists of tombstones at different times.
            let dead = held.iter().all(|(_, row)| living(row).is_ok_and(|it| it.is_empty()));
            if held.len() > self.wanted || held.len() < self.wanted && !dead {
                found.push(format!("{name}: held by {nodes:?}, wanted are {}", self.wanted));
            } else if held.iter().any(|(_, row)| *row != held[0].1) {
                let rows: Vec<_> = held.iter().map(|(_, row)| living(row)).collect();
                found.push(format!("{name}: differs at {nodes:?}: {rows:?}"));
            }
        }
        found
    }
}

fn open(path: &Path) -> LsmTrees {
    let settings = TreeSettings { memory_bytes_max: MEMORY_BYTES, ..TreeSettings::new(path) };
    LsmTrees::open(settings).expect("a node that stopped in good order leaves a whole store")
}

/// Returns all entries of available buckets.
fn all(trees: &LsmTrees) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let bound = |owner: u32| owner.to_be_bytes().to_vec().into();
    let snapshot = trees.snapshot();
    let rows = snapshot.range(Bound::Included(bound(FIRST)), Bound::Excluded(bound(LAST)), false);
    let read = |row: Result<(bytes::Bytes, bytes::Bytes), store::StoreError>| {
        let (key, value) = row.expect("what is on disk can be read");
        (key.to_vec(), value.to_vec())
    };
    rows.map(read).collect::<Vec<_>>().into_iter()
}

fn read(path: &Path) -> HeldCopies {
    let mut held = HeldCopies::default();
    for (whole, value) in all(&open(path)) {
        match whole[4] {
            ROW => drop(held.rows.insert(whole[5..].to_vec(), value)),
            HINT => held.hints += 1,
            _ => {}
        }
    }
    held
}

/// Returns a row's name without its slot.
fn named(place: &str, key: &str) -> Vec<u8> {
    let (kind, bucket) = place.split_once('/').expect("TYPE/BUCKET");
    let name = BucketName::new(kind, bucket).expect("a name");
    let name = name.full().as_bytes();
    [&(name.len() as u16).to_be_bytes()[..], name, key.as_bytes()].concat()
}

/// Returns the values of a row, without tombstones.
fn living(row: &[u8]) -> Result<BTreeSet<String>, Malformed> {
    let clock = logic::causal::decode::<Actor, _>(row, value)?;
    Ok(clock.values().flatten().cloned().collect())
}

/// Returns a value's own bytes. `None`: it is a tombstone.
fn value(bytes: &[u8]) -> Result<Option<String>, Malformed> {
    let mut from = Reader::new(bytes);
    let flags = from.u8("a value's flags")?;
    varint::take(&mut from, "a value's hour")?;
    if flags & HEADERS != 0 {
        varint::take_string(&mut from, usize::MAX, "a value's headers")?;
    }
    let text = String::from_utf8_lossy(from.rest()).into_owned();
    Ok((flags & TOMBSTONE == 0).then_some(text))
}
