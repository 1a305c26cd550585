//! Whole queries: a plan, streams of its nodes, their merge, and nodes that are lost meanwhile.

use super::{random_nodes, random_ring};
use crate::coverage::{
    CoveragePlan, CoverageRequest, CoverageShare, PageEnd, StreamMerge, StreamPage,
};
use crate::ring::Ring;
use base::{NodeId, Partition};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Partition of a key of the test.
fn partition_of(ring: &Ring, key: u32) -> Partition {
    Partition(key * 7 % ring.partitions())
}

/// Query in progress.
struct CoverageQuery<'a> {
    request: CoverageRequest<'a>,
    plan: CoveragePlan,
    merge: StreamMerge<u32, ()>,
    /// Node and partitions of each stream; `None` after its node was lost.
    streams: Vec<Option<(NodeId, CoverageShare)>>,
    down: BTreeSet<NodeId>,
}

impl CoverageQuery<'_> {
    fn begin(request: CoverageRequest<'_>, down: BTreeSet<NodeId>) -> CoverageQuery<'_> {
        let plan = request.plan(|node| down.contains(&node));
        let shares = plan.shares().iter().map(|(node, share)| Some((*node, share.clone())));
        let streams: Vec<_> = shares.collect();
        let merge = StreamMerge::new(streams.len(), None, false);
        CoverageQuery { request, plan, merge, streams, down }
    }

    /// Answers the awaited streams with a page of up to two keys. Keys in `missed` are at one of
    /// their replicas only.
    fn answer(&mut self, keys: &BTreeSet<u32>, missed: &BTreeMap<u32, NodeId>) {
        for number in self.merge.awaited() {
            let (node, share) = self.streams[number].as_ref().expect("not lost");
            let start = self.merge.start_of(number).map_or(0, |key| key + 1);
            let has = |key: &&u32| {
                let is_missed = missed.get(key).is_some_and(|at| at == node);
                share.contains(partition_of(self.request.ring, **key)) && !is_missed
            };
            let mut rest = keys.range(start..).filter(has).map(|key| (*key, ()));
            let rows: Vec<_> = rest.by_ref().take(2).collect();
            let end = match (rows.last(), rest.next()) {
                (Some((last, ())), Some(_)) => PageEnd::Through(*last),
                _ => PageEnd::Complete,
            };
            self.merge.push(number, StreamPage { rows, end }).expect("in order");
        }
    }

    /// Ends a node in the middle of the query; its streams are replaced by those of others.
    fn lose(&mut self, lost: NodeId) {
        let down = &self.down;
        let replaced = self.plan.replace(lost, &self.request, |node| down.contains(&node));
        let shares = replaced.expect("the same ring");
        self.down.insert(lost);
        let open: Vec<_> = (0..self.streams.len())
            .filter(|at| self.streams[*at].as_ref().is_some_and(|(node, _)| *node == lost))
            .collect();
        for at in open {
            let (_, lost_share) = self.streams[at].take().expect("open");
            // Of a node with two streams, each replacement answers for the part of one.
            let part = |partitions: &crate::coverage::PartitionRuns| {
                partitions.iter().filter(|it| lost_share.contains(*it)).collect()
            };
            let parts: Vec<_> = shares
                .iter()
                .map(|(node, share)| {
                    let (owned, as_fallback) = (part(&share.owned), part(&share.as_fallback));
                    Some((*node, CoverageShare { owned, as_fallback }))
                })
                .collect();
            if self.merge.replace(at, parts.len()).is_ok() {
                self.streams.extend(parts);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(500)
    })]

    #[test]
    fn query_finds_each_key_once_and_names_those_that_a_replica_missed(
        ring in random_ring(),
        replicas in 1..4_usize,
        keys in proptest::collection::btree_set(0..100_u32, 0..40),
        missed in proptest::collection::btree_map(0..100_u32, (1..10_u64).prop_map(NodeId), 0..10),
        down in random_nodes(2),
        losses in proptest::collection::vec((0..12_usize, 2..10_u64), 0..3),
        rows_max in 1..6_usize,
    ) {
        let (copies, local) = (ring.n(), NodeId(1));
        let request =
            CoverageRequest { ring: &ring, copies, replicas, local, use_fallbacks: true };
        let mut query = CoverageQuery::begin(request, down);
        let (mut found, mut certain) = (BTreeMap::new(), BTreeSet::new());
        for turn in 0..400 {
            for (_, lost) in losses.iter().filter(|(at, _)| *at == turn) {
                query.lose(NodeId(*lost));
            }
            query.answer(&keys, &missed);
            let plan = &query.plan;
            let page = query.merge.next_page(rows_max, |key| {
                plan.answers(partition_of(&ring, *key))
            });
            for row in page.rows {
                prop_assert_eq!(found.insert(row.position, row.is_agreed), None, "once");
            }
            if !page.more {
                break;
            }
        }
        prop_assert!(query.merge.is_complete());
        prop_assert!(found.keys().all(|key| keys.contains(key)));
        let incomplete = query.plan.incomplete();
        for key in &keys {
            let partition = partition_of(&ring, *key);
            if incomplete.contains(partition) {
                continue;
            }
            let needed = query.plan.answers(partition);
            if !missed.contains_key(key) {
                certain.insert(*key);
                prop_assert_eq!(found.get(key), Some(&true), "{} nodes have it", needed);
            } else if needed > 1 {
                prop_assert!(found.contains_key(key), "one node of several missed it");
            }
        }
    }
}
