//! End of a history: copies become equal, fallbacks keep nothing, and no repair changes rows any
//! more.

use super::clients;
use super::judge::{Dot, Write};
use super::world::World;
use crate::Node;
use base::{BucketName, NodeId, Partition};
use bytes::Bytes;
use logic::ring::point;
use sim::Counts;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use vnode_rows::layout::{Row, read_hint_key, read_row, read_row_key, row_key, slot_of};

/// Time limit for copies to become equal, in microseconds.
const BOUND_US: u64 = 120_000_000;

impl World {
    /// Waits for equal copies, and lets the judge check their contents.
    pub(super) fn finish_and_check(self: Rc<World>) -> (u64, Counts) {
        let begin = self.scheduler.now();
        while let Some(why) = self.difference() {
            assert!(self.scheduler.now() < begin + BOUND_US, "copies do not come together: {why}");
            self.scheduler.run(1_000_000);
        }
        let took = (self.scheduler.now() - begin) / 1_000_000;
        self.journal.add("seconds to come together", took);
        for number in 0..self.keys {
            let row = self.rows_of(number).into_iter().next().and_then(|(_, row)| row);
            let remaining = row.map(|row| left(&read_row(&row).expect("it reads")));
            self.journal.add("rows that are gone", remaining.is_none().into());
            self.judge.borrow().judge(number, &remaining.unwrap_or_default());
        }
        self.judge_settled_queries();
        self.judge_settled_feeds();
        self.check_quiescent();
        self.scheduler.uninstall();
        self.journal.outcome()
    }

    /// Asserts that a round of comparisons changes no row.
    fn check_quiescent(&self) {
        let rows: Vec<_> = (0..self.keys).map(|number| self.rows_of(number)).collect();
        let before = self.journal.count_of("bytes sent");
        self.scheduler.run(12_000_000);
        let bytes = self.journal.count_of("bytes sent") - before;
        self.journal.add("bytes of a quiet round", bytes);
        let after: Vec<_> = (0..self.keys).map(|number| self.rows_of(number)).collect();
        assert!(rows == after, "rows change though nobody writes");
    }

    /// Returns the rows of a key at all nodes, owners first; `true`: the node is an owner.
    fn rows_of(&self, number: usize) -> Vec<(bool, Option<Bytes>)> {
        let (bucket, key) = self.place(number);
        let ring = self.decision().ring;
        let partition = ring.partition(&point(bucket.full().as_bytes(), &key));
        let owners = ring.owners(partition, self.copies(&bucket));
        let row_key = row_key(&bucket, &key);
        let nodes = self.nodes.borrow();
        let mut rows: Vec<_> = nodes
            .iter()
            .map(|node| {
                let running = node.running().expect("everyone lives");
                (owners.contains(&node.id), stored_row(running, &row_key))
            })
            .collect();
        rows.sort_by_key(|(owns, _)| !owns);
        rows
    }

    /// Returns, for each node, the owners for which it keeps hints.
    fn hints(&self) -> Vec<Vec<NodeId>> {
        let nodes = self.nodes.borrow();
        let hints = nodes.iter().map(|node| {
            let snapshot = node.running().expect("everyone lives").status.trees.snapshot();
            let all = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
            let hints = all.filter_map(|row| read_hint_key(&row.expect("memory").0));
            hints.map(|(primary, ..)| primary).collect()
        });
        hints.collect()
    }

    /// Returns a description of a row at a node that must not keep it. `None`: there is none.
    fn stray(&self) -> Option<String> {
        let ring = self.decision().ring;
        let nodes = self.nodes.borrow();
        nodes.iter().find_map(|node| {
            let snapshot = node.running().expect("everyone lives").status.trees.snapshot();
            let all = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
            let mut rows = all.filter_map(|row| {
                let (key, _) = row.expect("memory");
                let (bucket, _) = read_row_key(&key).filter(|_| slot_of(&key).is_some())?;
                Some((slot_of(&key)?.partition(&ring), bucket))
            });
            let strays = |(partition, bucket): &(Partition, BucketName)| {
                !ring.owners(*partition, self.copies(bucket)).contains(&node.id)
            };
            let (stray, bucket) = rows.find(strays)?;
            Some(format!(
                "node {} keeps rows of {bucket} in partition {stray}, and hints {:?}",
                node.id,
                self.hints()
            ))
        })
    }

    /// Returns a difference between the copies. `None`: they are equal.
    fn difference(&self) -> Option<String> {
        if let Some(why) = self.ring_work() {
            return Some(format!("the ring is not settled: {why}"));
        }
        for number in 0..self.keys {
            let rows = self.rows_of(number);
            let first = rows.first().map(|(_, row)| row);
            for (owns, row) in rows.iter().filter(|(owns, _)| *owns) {
                if *owns && Some(row) != first {
                    let told = rows.iter().map(|(_, row)| row.as_ref().map(read_row));
                    return Some(format!("key {number}: {:?}", told.collect::<Vec<_>>()));
                }
                let bare = |row: &Bytes| left(&read_row(row).expect("it reads")).is_empty();
                let mortal = self.judge.borrow().has_ttl;
                if row.as_ref().is_some_and(|row| mortal || bare(row)) {
                    return Some(format!("key {number} holds nothing, and is not gone"));
                }
            }
        }
        self.stray().or_else(|| self.lacks_index())
    }

    /// Returns the living values of a key at its owners, which have the same.
    pub(super) fn values_of(&self, number: usize) -> Vec<Write> {
        let row = self.rows_of(number).into_iter().next().and_then(|(_, row)| row);
        let remaining = row.map(|row| left(&read_row(&row).expect("it reads")));
        remaining.unwrap_or_default().into_values().collect()
    }
}

fn stored_row(node: &Node, row_key: &Bytes) -> Option<Bytes> {
    node.status.trees.get(row_key).expect("memory")
}

/// Returns the living values by their dots.
fn left(row: &Row) -> BTreeMap<Dot, Write> {
    let value = |dot: Option<(&base::Actor, u64)>, bytes: &vnode_rows::layout::StoredValue| {
        let (id, count) = dot.expect("every value here has a dot");
        let sibling = bytes.sibling(dot).expect("it reads");
        let living = !sibling.tombstone;
        living.then(|| ((*id, count), clients::number(&sibling.content.value)))
    };
    row.siblings().filter_map(|(dot, bytes)| value(dot, bytes)).collect()
}
