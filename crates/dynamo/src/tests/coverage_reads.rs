//! Coverage reads: each row once, whatever happens meanwhile.

use super::list_model::{ModelCluster, ReadEvent, block_on, keys};
use super::test_node::{HERE, bucket, ring_of};
use crate::coverage_plans::CoverageNeeds;
use base::mutants::MutantList as _;
use base::{Key, NodeId, Reason, Result};
use logic::coverage::PartitionRuns;
use proptest::prelude::*;
use runtime::mutants::Mutant;
use std::collections::BTreeMap;
use vnode_rows::slots::SlotSpan;

const ONE: CoverageNeeds = CoverageNeeds { copies: 3, replicas: 1, use_fallbacks: false };
const TWO: CoverageNeeds = CoverageNeeds { copies: 3, replicas: 2, use_fallbacks: true };

fn random_event() -> impl Strategy<Value = (usize, ReadEvent)> {
    let change = ((0..5_u8, 1..7_u64), any::<bool>());
    let change = change.prop_map(|(change, is_known)| ReadEvent::Change { change, is_known });
    (0..40_usize, change)
}

/// Reads all keys at node 1 of 5 while these events happen.
fn read_during(
    (count, missed): (usize, BTreeMap<usize, u64>),
    events: Vec<(usize, ReadEvent)>,
    (needs, rows_max): (CoverageNeeds, usize),
) -> Result<Vec<(Key, bool)>> {
    block_on(async {
        let mut cluster = ModelCluster::start(5, keys(count));
        let key = |number: usize| cluster.keys.iter().nth(number).cloned();
        let missed = missed.iter().filter_map(|(number, node)| Some((key(*number)?, *node)));
        cluster.missed = missed.map(|(key, node)| (key, NodeId(node))).collect();
        cluster.store_local(true);
        cluster.events = events;
        cluster.read(needs, rows_max).await
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn read_finds_each_key_once_while_the_ring_changes_and_a_node_is_lost(
        count in 0..40_usize,
        missed in proptest::collection::btree_map(0..40_usize, 1..7_u64, 0..6),
        mut events in proptest::collection::vec(random_event(), 0..3),
        lost in proptest::option::of((0..40_usize, 2..7_u64)),
        two in any::<bool>(),
        rows_max in 1..6_usize,
    ) {
        events.extend(lost.map(|(at, node)| (at, ReadEvent::Lose(node))));
        let needs = if two { TWO } else { ONE };
        // One replica alone may lack a key.
        let missed = if two { missed } else { BTreeMap::new() };
        let is_missed = !missed.is_empty();
        let found = read_during((count, missed), events, (needs, rows_max)).expect("enough are up");
        prop_assert!(found.iter().map(|(key, _)| key).eq(&keys(count)));
        prop_assert!(is_missed || found.iter().all(|(_, is_agreed)| *is_agreed));
    }
}

#[test]
fn key_that_one_of_two_replicas_lacks_is_returned_as_not_agreed() {
    let all = |missed| read_during((40, missed), Vec::new(), (TWO, 7)).expect("all are up");
    assert!(all(BTreeMap::new()).iter().all(|(_, is_agreed)| *is_agreed));
    let missed: BTreeMap<_, _> = (0..40).map(|number| (number, 1)).collect();
    let found = all(missed);
    let disagreed = found.iter().filter(|(_, is_agreed)| !is_agreed).count();
    assert_eq!((found.len(), disagreed > 10 && disagreed < 40), (40, true), "{disagreed}");
}

#[test]
fn read_planned_without_its_epoch_misses_keys_of_former_owners() {
    let read_while = |node| {
        let event = ReadEvent::Change { change: (1, node), is_known: true };
        read_during((40, BTreeMap::new()), vec![(1, event)], (ONE, 1)).expect("all are up").len()
    };
    let leave_each = || (1..6).map(read_while).collect::<Vec<_>>();
    assert_eq!(leave_each(), [40; 5]);
    let found = Mutant::SendNewestRingEpoch.while_active(leave_each);
    assert!(found.iter().any(|count| *count < 40), "the rule is what makes the difference");
}

#[test]
fn read_without_enough_replicas_names_the_partitions() {
    block_on(async {
        let mut cluster = ModelCluster::start(5, keys(10));
        let ring = ring_of(5);
        let reached = |span: &SlotSpan| {
            let owners = ring.owners(span.partition, 3);
            owners.iter().filter(|node| ![3, 4].contains(&node.0)).count()
        };
        let short: Vec<_> = SlotSpan::all(&ring).filter(|span| reached(span) < 2).collect();
        assert!(!short.is_empty() && SlotSpan::all(&ring).all(|span| reached(&span) > 0));
        [3, 4].into_iter().for_each(|node| cluster.node.unlink(node));
        let needs = CoverageNeeds { use_fallbacks: false, ..TWO };
        let error = cluster.read(needs, 9).await.expect_err("one owner of three is up");
        let named: PartitionRuns = short.iter().map(|span| span.partition).collect();
        assert_eq!(error.reason, Reason::ReadQuorumUnmet);
        let noun = if named.len() == 1 { "partition" } else { "partitions" };
        let expected = format!(
            "r 1/2: too few replicas of {noun} {named} are reached: start the nodes that are down"
        );
        assert_eq!(error.text(), expected);
        // One replica each is reached, and fallbacks answer in place of the others.
        assert_eq!(cluster.read(ONE, 9).await.expect("one owner each").len(), 10);
        cluster.asks_fallbacks = true;
        assert_eq!(cluster.read(TWO, 9).await.expect("with fallbacks").len(), 10);
    });
}

#[test]
fn list_without_any_owner_of_a_partition_fails_though_fallbacks_are_up() {
    block_on(async {
        let mut cluster = ModelCluster::start(5, keys(10));
        let ring = ring_of(5);
        let mut owners = SlotSpan::all(&ring).map(|span| ring.owners(span.partition, 3));
        let foreign = owners.find(|owners| !owners.contains(&HERE)).expect("one");
        foreign.iter().for_each(|node| cluster.node.unlink(node.0));
        let available = cluster.node.available.clone();
        let listed = cluster.drive(available.list_keys(&bucket(), None, 100)).await;
        let error = listed.expect_err("nobody has the rows of that partition");
        assert_eq!(error.reason, Reason::ReadQuorumUnmet, "{}", error.text());
    });
}
